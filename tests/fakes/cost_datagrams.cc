// SPDX-License-Identifier: BSD-2-Clause
// The cost of a datagram, from its post to the receive that replaces the one it used; see cost_main.cc. An endpoint
// sends to itself and requests a completion of the last message of a batch only.
#include "cost.h"
#include "datagram_world.h"

namespace {

using namespace cost;

constexpr std::uint32_t kSize = 8;

}  // namespace

extern "C" {

// Takes kBatch messages; their receives are posted.
__attribute__((noinline)) int measured_datagram(Member* member, fi_addr_t self, const fi_msg* last) {
  for (int i = 0; i + 1 < kBatch; ++i)
    if (fi_send(member->ep, member->out, kSize, nullptr, self, nullptr)) return -1;
  if (fi_sendmsg(member->ep, last, FI_COMPLETION)) return -1;
  fi_cq_msg_entry entries[kBatch + 1];
  const ssize_t count = fi_cq_read(member->cq, entries, kBatch + 1);
  int taken = 0;
  for (ssize_t i = 0; i < count; ++i) {
    if ((entries[i].flags & FI_RECV) == 0) continue;
    if (fi_recv(member->ep, member->in, kSize, nullptr, FI_ADDR_UNSPEC, member)) return -1;
    ++taken;
  }
  return taken;
}

}  // extern "C"

namespace cost {

int run_datagrams() {
  World world;
  world.sender.selective = FI_SELECTIVE_COMPLETION;
  if (!world.open()) return 1;
  Member& member = world.sender;
  fi_addr_t self = FI_ADDR_NOTAVAIL;
  if (fi_av_insert(member.av, &member.name, 1, &self, 0, nullptr) != 1) return 1;
  const iovec piece{member.out, kSize};
  const fi_msg last{&piece, nullptr, 1, self, nullptr, 0};
  bool complete = true;
  for (int i = 0; i < kBatch; ++i) complete &= member.post_receive();
  complete &= measured_datagram(&member, self, &last) == kBatch;  // the first batch allocates the queues
  const long before = allocations;
  for (int batch = 0; batch < kBatches; ++batch) complete &= measured_datagram(&member, self, &last) == kBatch;
  return report("datagram", before, complete);
}

}  // namespace cost
