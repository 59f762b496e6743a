// SPDX-License-Identifier: BSD-2-Clause
// The cost of a message of a ping-pong in this library: its injection, a read of the completion queue that finds
// nothing, the read that finds the answer, and the receive that replaces the answer's; see cost_main.cc. Another part
// measures remote writes and reads, which complete one by one.
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <utility>

#include "cost.h"
#include "two_ends.h"

namespace {

using namespace cost;

constexpr size_t kSize = 8;
constexpr size_t kEntries = 64;  // most entries of a read

bool found(fid_cq* cq, void* context) {
  fi_cq_msg_entry entries[kEntries];
  return fi_cq_read(cq, entries, kEntries) == 1 && entries[0].op_context == context;
}
bool found_nothing(fid_cq* cq) {
  fi_cq_msg_entry entries[kEntries];
  return fi_cq_read(cq, entries, kEntries) == -FI_EAGAIN;
}

bool receive(ends::End& end, void* context) {
  return fi_recv(end.ep, end.memory(), kSize, fi_mr_desc(end.mr), FI_ADDR_UNSPEC, context) == 0;
}

}  // namespace

extern "C" {

// Both perform kBatch operations.
__attribute__((noinline)) int measured_ping(ends::End* from, ends::End* to, void* context) {
  for (int i = 0; i < kBatch; ++i) {
    if (fi_inject(from->ep, from->memory(), kSize, FI_ADDR_UNSPEC) != 0) return -1;
    if (!found_nothing(from->cq) || !found(to->cq, context) || !receive(*to, context)) return -1;
    std::swap(from, to);
  }
  return kBatch;
}

__attribute__((noinline)) int measured_access(ends::End* from, ends::End* to, void* context) {
  const auto address = reinterpret_cast<uint64_t>(to->memory());
  for (int i = 0; i < kBatch; ++i) {
    void* const desc = fi_mr_desc(from->mr);
    const uint64_t key = fi_mr_key(to->mr);
    const ssize_t result = i % 2 == 0
                               ? fi_write(from->ep, from->memory(), kSize, desc, FI_ADDR_UNSPEC, address, key, context)
                               : fi_read(from->ep, from->memory(), kSize, desc, FI_ADDR_UNSPEC, address, key, context);
    if (result != 0 || !found(from->cq, context)) return -1;
  }
  return kBatch;
}

}  // extern "C"

namespace cost {
namespace {

int run(const char* what, int (*measured)(ends::End*, ends::End*, void*)) {
  ends::TwoEnds both({.connect_timeout_ms = 60000});
  const auto ready = [&] { return both.client.established() && both.server.established(); };
  if (!both.open() || !both.connect() || !both.wait(ready, 60000)) return 1;
  for (ends::End* end : {&both.client, &both.server}) {  // the receives that TwoEnds posts by itself
    const size_t before = both.client.completed + both.server.completed;
    size_t messages = 0;
    for (; messages < 4; ++messages) end->post_send();
    both.wait([&] { return both.client.completed + both.server.completed == before + 2 * messages; });
  }
  fi_context2 context;
  bool complete = receive(both.client, &context) && receive(both.server, &context);
  complete &= measured(&both.client, &both.server, &context) == kBatch;  // the first batch allocates the queues
  const long before = allocations;
  for (int batch = 0; batch < kBatches; ++batch) complete &= measured(&both.client, &both.server, &context) == kBatch;
  return report(what, before, complete);
}

}  // namespace

int run_pings() {
  return run("ping", measured_ping);
}
int run_accesses() {
  return run("access", measured_access);
}

}  // namespace cost
