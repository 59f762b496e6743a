// SPDX-License-Identifier: BSD-2-Clause
// Messages over one queue pair; see verbs_link.h.
#include "verbs/verbs_link.h"

#include <fmt/format.h>

#include <algorithm>

namespace bench {
namespace {

constexpr unsigned kSignalAlone = 32;

}  // namespace

SendPolicy lone_messages(const Measurement& m) {
  return m.size <= kInlineBytes ? SendPolicy{kQueueDepth, kSignalAlone} : SendPolicy{m.window, 1};
}

SendPolicy many_messages(const Measurement& m) {
  return {m.window, m.selective ? completion_every(m) : 1};
}

void fail_with_completion(const ibv_wc& completion) {
  fail(fmt::format("work completion: {}", ibv_wc_status_str(completion.status)));
}

SendQueue::SendQueue(const DeviceNode& node, ibv_wr_opcode opcode, std::size_t size, SendPolicy policy)
    : qp_(node.qp(0)), policy_(policy) {
  piece_.length = static_cast<std::uint32_t>(size);
  request_.sg_list = &piece_;
  request_.num_sge = 1;
  request_.opcode = opcode;
  node.address(request_);
  if (size <= kInlineBytes && opcode != IBV_WR_RDMA_READ) request_.send_flags = IBV_SEND_INLINE;
}

void SendQueue::post(std::uint64_t address, std::uint32_t lkey) {
  piece_.addr = address;
  piece_.lkey = lkey;
  request_.wr_id = ++posted_;
  request_.send_flags &= ~unsigned{IBV_SEND_SIGNALED};
  if (posted_ - signalled_ == policy_.signal_every) {
    request_.send_flags |= IBV_SEND_SIGNALED;
    signalled_ = posted_;
  }
  ibv_send_wr* bad = nullptr;
  check_verbs("ibv_post_send", ibv_post_send(qp_, &request_, &bad));
}

VerbsLink::VerbsLink(const DeviceNode& node, std::size_t size, unsigned depth, SendPolicy policy)
    : node_(node),
      depth_(depth),
      outgoing_(node, size, depth, 0),
      incoming_(node, node.header() + size, depth, IBV_ACCESS_LOCAL_WRITE),
      sends_(node, IBV_WR_SEND, size, policy) {
  piece_.length = static_cast<std::uint32_t>(node.header() + size);
  piece_.lkey = incoming_.lkey();
  request_.sg_list = &piece_;
  request_.num_sge = 1;
  for (unsigned slot = 0; slot < depth; ++slot) post_receive(slot);
}

void VerbsLink::post_receive(std::size_t slot) {
  piece_.addr = incoming_.address(slot);
  request_.wr_id = slot;
  ibv_recv_wr* bad = nullptr;
  check_verbs("ibv_post_recv", ibv_post_recv(node_.qp(0), &request_, &bad));
}

void VerbsLink::send(std::uint64_t word) {
  while (sends_.full()) reap();
  const std::size_t slot = sends_.posted() % depth_;
  outgoing_.set_word(slot, word);
  sends_.post(outgoing_.address(slot), outgoing_.lkey());
}

std::uint64_t VerbsLink::receive() {
  while (arrived_ == taken_) reap();
  return incoming_.word(taken_++ % depth_, node_.header());
}

void VerbsLink::drain() {
  while (!sends_.idle()) reap();
}

void VerbsLink::reap() {
  ibv_wc completions[kBatch];
  const int n = ibv_poll_cq(node_.cq(), kBatch, completions);
  if (n < 0) fail("ibv_poll_cq failed");
  if (n == 0) yield_if_shared();
  for (int i = 0; i < n; ++i) {
    if (completions[i].status != IBV_WC_SUCCESS) fail_with_completion(completions[i]);
    if ((completions[i].opcode & IBV_WC_RECV) == 0)
      sends_.on_completion(completions[i]);
    else if (completions[i].wr_id != arrived_++ % depth_)
      fail("receives completed out of order");
  }
}

}  // namespace bench
