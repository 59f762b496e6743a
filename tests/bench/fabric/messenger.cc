// SPDX-License-Identifier: BSD-2-Clause
// Messages over one endpoint; see messenger.h.
#include "fabric/messenger.h"

#include <rdma/fi_tagged.h>

#include "process/process_pair.h"

namespace bench {
namespace {

constexpr std::uint64_t kTag = 17;
constexpr int kWaitMs = 1000;      // the time-out of one fi_cq_sread, which is repeated
constexpr std::size_t kLine = 64;  // messages up to a cache line may be injected

}  // namespace

Messenger::Messenger(const FabricNode& node, fid_ep* endpoint, std::size_t size, std::size_t depth, fi_addr_t peer)
    : node_(node),
      endpoint_(endpoint),
      peer_(peer),
      out_prefix_(node.sent_prefix()),
      in_prefix_(node.received_prefix()),
      out_size_(out_prefix_ + size),
      in_size_(in_prefix_ + size),
      depth_(depth),
      completion_every_(node.completion_every()),
      tagged_(node.tagged()),
      inject_(size <= kLine && out_size_ <= node.info()->tx_attr->inject_size),
      outgoing_(node, out_size_, depth, FI_SEND),
      incoming_(node, in_size_, depth, FI_RECV) {
  for (std::size_t slot = 0; slot < depth; ++slot) post_receive(slot);
}

void Messenger::retry(ssize_t result, const char* what) {
  if (result != -FI_EAGAIN) node_.check(what, result);
  reap();
}

void Messenger::post_receive(std::size_t slot) {
  // The context is the slot itself; sends have none, which distinguishes their completions.
  for (std::byte* buffer = incoming_.slot(slot);;) {
    void* const descriptor = incoming_.descriptor();
    const ssize_t result = tagged_ ? fi_trecv(endpoint_, buffer, in_size_, descriptor, FI_ADDR_UNSPEC, kTag, 0, buffer)
                                   : fi_recv(endpoint_, buffer, in_size_, descriptor, FI_ADDR_UNSPEC, buffer);
    if (result == 0) return;
    retry(result, "fi_recv");
  }
}

// With a completion, unless those of selected sends stand for all before them.
ssize_t Messenger::post_send(std::size_t slot) {
  std::byte* const buffer = outgoing_.slot(slot);
  if (tagged_) return fi_tsend(endpoint_, buffer, out_size_, outgoing_.descriptor(), peer_, kTag, nullptr);
  if (!node_.selective() || (sent_ + 1) % completion_every_ != 0)
    return fi_send(endpoint_, buffer, out_size_, outgoing_.descriptor(), peer_, nullptr);
  const iovec piece{buffer, out_size_};
  void* descriptor = outgoing_.descriptor();
  const fi_msg message{&piece, &descriptor, 1, peer_, nullptr, 0};
  return fi_sendmsg(endpoint_, &message, FI_COMPLETION);
}

void Messenger::send(std::uint64_t word) {
  while (sent_ - completed_ == depth_) reap();
  const std::size_t slot = sent_ % depth_;  // free: sends of one endpoint complete in order
  outgoing_.set_word(slot, word, out_prefix_);
  for (;;) {
    const ssize_t result = post_send(slot);
    if (result == 0) break;
    retry(result, "fi_send");
  }
  ++sent_;
}

void Messenger::send_alone(std::uint64_t word) {
  if (!inject_) {
    send(word);
    return;
  }
  outgoing_.set_word(0, word, out_prefix_);
  for (;;) {
    const ssize_t result = tagged_ ? fi_tinject(endpoint_, outgoing_.slot(0), out_size_, peer_, kTag)
                                   : fi_inject(endpoint_, outgoing_.slot(0), out_size_, peer_);
    if (result == 0) return;
    retry(result, "fi_inject");
  }
}

std::uint64_t Messenger::receive() {
  while (arrived_ == taken_) reap();
  return incoming_.word(taken_++ % depth_, in_prefix_);
}

std::optional<std::uint64_t> Messenger::try_receive() {
  if (arrived_ == taken_) reap();
  if (arrived_ == taken_) return std::nullopt;
  return incoming_.word(taken_++ % depth_, in_prefix_);
}

void Messenger::drain() {
  while (completed_ != sent_ - sent_ % completion_every_) reap();
}

void Messenger::reap() {
  fi_cq_entry entries[kBatch];
  const ssize_t n = node_.wait() == Wait::kSpin ? fi_cq_read(node_.cq(), entries, kBatch)
                                                : fi_cq_sread(node_.cq(), entries, kBatch, nullptr, kWaitMs);
  if (n == -FI_EAGAIN) return yield_if_shared();
  if (n == -FI_EAVAIL) node_.fail_with_completion_error();
  node_.check("fi_cq_read", n);
  for (ssize_t i = 0; i < n; ++i) {
    if (entries[i].op_context == nullptr)
      completed_ += completion_every_;
    else if (entries[i].op_context != incoming_.slot(arrived_++ % depth_))
      fail("receives completed out of order");
  }
}

}  // namespace bench
