// SPDX-License-Identifier: BSD-2-Clause
// The cost of a message in this library, on the fakes: over connections here and in cost_pings.cc, as datagrams in
// cost_datagrams.cc. The program counts allocations itself; cost.sh counts the instructions of the measured functions
// with callgrind.
#include <malloc.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "cost.h"
#include "two_ends.h"

extern "C" {
fi_provider* fi_prov_ini(void);
fi_provider* weft_verbs_ini(void);
fi_provider* weft_verbs_ini(void) {
  return fi_prov_ini();
}

void* __libc_malloc(size_t size);
void* __libc_calloc(size_t count, size_t size);
void* __libc_realloc(void* block, size_t size);
void* __libc_memalign(size_t alignment, size_t size);
}

namespace cost {

std::atomic<long> allocations{0};

int report(const char* what, long before, bool complete) {
  const long spent = allocations - before;
  std::printf("%s: %d operations, %ld allocations\n", what, kBatch * kBatches, spent);
  if (!complete) std::printf("%s: something was lost\n", what);
  return complete && !spent ? 0 : 1;
}

}  // namespace cost

using namespace cost;

extern "C" {

// All forms of operator new end in these.
void* malloc(size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_malloc(size);
}
void* calloc(size_t count, size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_calloc(count, size);
}
void* realloc(void* block, size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_realloc(block, size);
}
void* aligned_alloc(size_t alignment, size_t size) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  return __libc_memalign(alignment, size);
}

// The measured part: kBatch times a message of 8 bytes and its completion.
__attribute__((noinline)) int measured_message(fid_ep* ep, fid_cq* cq, const void* data, void* desc, void* context) {
  int done = 0;
  for (int i = 0; i < kBatch; ++i) {
    if (fi_send(ep, data, 8, desc, FI_ADDR_UNSPEC, context)) return -1;
    fi_cq_msg_entry entry;
    done += fi_cq_read(cq, &entry, 1) == 1;
  }
  return done;
}

}  // extern "C"

namespace {

int run_messages() {
  ends::TwoEnds both({.connect_timeout_ms = 60000});
  const auto ready = [&] { return both.client.established() && both.server.established(); };
  if (!both.open() || !both.connect() || !both.wait(ready, 60000)) return 1;
  for (int i = 0; i < 4; ++i) {  // the receives that TwoEnds posts by itself
    both.client.post_send();
    both.wait([&] { return both.client.completed > static_cast<size_t>(i); });
  }
  fi_context2 context;
  void* desc = fi_mr_desc(both.client.mr);
  const void* registered = both.client.memory();
  const long before = allocations;
  bool complete = true;
  for (int batch = 0; batch < kBatches; ++batch) {
    fi_cq_msg_entry received[kBatch];
    for (int i = 0; i < kBatch; ++i)
      complete &=
          !fi_recv(both.server.ep, both.server.memory(), 8, fi_mr_desc(both.server.mr), FI_ADDR_UNSPEC, &context);
    complete &= measured_message(both.client.ep, both.client.cq, registered, desc, &context) == kBatch;
    complete &= fi_cq_read(both.server.cq, received, kBatch) == kBatch;
  }
  return report("message", before, complete);
}

}  // namespace

int main(int argc, char** argv) {
  setenv("FI_PROVIDER_PATH", "/nonexistent", 1);
  constexpr struct {
    const char* name;
    int (*run)();
  } kParts[] = {{"message", run_messages}, {"datagram", run_datagrams}, {"ping", run_pings},
                {"access", run_accesses},  {"reliable", run_reliable},  {"rendezvous", run_rendezvous}};
  int result = 0;
  for (const auto& part : kParts)
    if (argc < 2 || !std::strcmp(argv[1], part.name)) result |= part.run();
  return result;
}
