// SPDX-License-Identifier: BSD-2-Clause
// One end of a conversation between reliable datagrams that reach for each other's memory (fi_rma(3)). The program is
// linked with the distribution's libfabric; LD_LIBRARY_PATH decides which library each end really uses.
//   rma_peer server         prints its name, writes to the client's memory and reads it back
//   rma_peer client NAME    has the memory
// The first deviation ends the program with a sentence and code 1.
#include <algorithm>

#include "reliable_end.h"

namespace {

constexpr size_t kRegion = 1'000'000;
constexpr uint64_t kIntroduction = 1, kOver = 2;

struct Introduction {
  char name[160];
  uint64_t address, key;
};

std::vector<char> pattern() {
  std::vector<char> bytes(kRegion);
  for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 7 + (i >> 9));
  return bytes;
}

void check(int error, const char* what) {
  if (error != 0) fail(what, -error);
}

int serve() {
  ReliableEnd end(FI_TAGGED | FI_RMA, 0);
  std::printf("%s\n", end.name().c_str());
  std::fflush(stdout);
  Introduction said{};
  check(end.run([&] {
    return fi_trecv(end.ep, &said, sizeof said, nullptr, FI_ADDR_UNSPEC, kIntroduction, 0, &end.context);
  }),
        "hearing");
  const fi_addr_t peer = end.insert(said.name);
  const std::vector<char> out = pattern();
  std::vector<char> in(kRegion);
  for (const size_t length : {size_t{1}, size_t{100}, size_t{5000}, size_t{70'000}, kRegion}) {
    std::fill(in.begin(), in.end(), 0);
    check(end.run([&] {
      return fi_write(end.ep, out.data(), length, nullptr, peer, said.address, said.key, &end.context);
    }),
          "fi_write");
    check(end.run(
              [&] { return fi_read(end.ep, in.data(), length, nullptr, peer, said.address, said.key, &end.context); }),
          "fi_read");
    if (!std::equal(in.begin(), in.begin() + static_cast<ptrdiff_t>(length), out.begin()))
      fail("what was read is not what was written", -FI_EIO);
  }
  // The client answers, so that this end has nothing outstanding when this process ends.
  check(end.run([&] { return fi_tsend(end.ep, "over", 4, nullptr, peer, kOver, &end.context); }), "telling");
  check(end.run([&] { return fi_trecv(end.ep, &said, 1, nullptr, FI_ADDR_UNSPEC, kOver, 0, &end.context); }),
        "the end");
  return 0;
}

int offer(const char* name) {
  ReliableEnd end(FI_TAGGED | FI_RMA, kRegion);
  const fi_addr_t peer = end.insert(name);
  Introduction said{};
  std::snprintf(said.name, sizeof said.name, "%s", end.name().c_str());
  said.address = end.virtual_addresses ? reinterpret_cast<uint64_t>(end.region.data()) : 0;
  said.key = fi_mr_key(end.mr);
  check(end.run([&] { return fi_tsend(end.ep, &said, sizeof said, nullptr, peer, kIntroduction, &end.context); }),
        "introducing");
  char over[4];
  check(end.run([&] { return fi_trecv(end.ep, over, sizeof over, nullptr, FI_ADDR_UNSPEC, kOver, 0, &end.context); }),
        "waiting");
  if (end.region != pattern()) fail("the memory does not hold what was written", -FI_EIO);
  check(end.run([&] { return fi_tsend(end.ep, over, 1, nullptr, peer, kOver, &end.context); }), "answering");
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "server") == 0) return serve();
  if (argc == 3 && std::strcmp(argv[1], "client") == 0) return offer(argv[2]);
  std::fprintf(stderr, "usage: rma_peer server | client NAME\n");
  return 2;
}
