// SPDX-License-Identifier: BSD-2-Clause
// A connected pair for the tests of half shutdown.
#ifndef KFI_TESTS_HALF_SHUTDOWN_H
#define KFI_TESTS_HALF_SHUTDOWN_H

#include <cstring>
#include <vector>

#include "connected.h"

// Whether both halves can be shut down, and the peer is told: over weft's tcp.
inline bool has_all() {
  const char* halves = getenv("KFI_HALVES");
  return halves == nullptr || strcmp(halves, "write") != 0;
}

// A connected pair with registered memory, half for each end.
class HalfShutdown : public testing::Test {
 protected:
  explicit HalfShutdown(size_t bytes = 1 << 17) : memory(bytes) {
    EXPECT_EQ(kfi_mr_reg(pair.both.domain, memory.data(), memory.size(),
                         KFI_SEND | KFI_RECV | KFI_READ | KFI_WRITE | KFI_REMOTE_READ | KFI_REMOTE_WRITE, 0, 1, 0,
                         &region, nullptr),
              0);
  }
  ~HalfShutdown() override {
    for (int i : {0, 1}) kfi_shutdown(pair.ep(i), 0);
    EXPECT_EQ(kfi_close(&region->fid), 0);
  }
  char* room(int end, size_t at = 0) { return &memory[end * memory.size() / 2 + at]; }
  ssize_t send(int from, size_t len, void* context = nullptr, size_t at = 0) {
    return kfi_send(pair.ep(from), room(from, at), len, kfi_mr_desc(region), 0, context);
  }
  ssize_t receive(int at_end, size_t len, void* context = nullptr, size_t at = 0) {
    return kfi_recv(pair.ep(at_end), room(at_end, at), len, kfi_mr_desc(region), 0, context);
  }
  // No event follows, while both ends make progress.
  void expect_no_event(int end) {
    uint32_t event;
    char entry[256];
    for (int i = 0; i < 5; i++) {
      EXPECT_EQ(kfi_eq_sread(pair.eq(end), &event, entry, sizeof entry, 2, 0), -KFI_ETIMEDOUT);
      progress();
    }
  }
  void expect_shutdown(int end) { expect_event(pair.eq(end), KFI_SHUTDOWN, &pair.ep(end)->fid, nullptr); }

  Connected pair;
  std::vector<char> memory;
  kfid_mr* region = nullptr;
};

#endif  // KFI_TESTS_HALF_SHUTDOWN_H
