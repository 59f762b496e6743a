// SPDX-License-Identifier: BSD-2-Clause
// Posted receives and unexpected messages; see receive_queue.h.
#include "tcp/receive_queue.h"

#include "tcp/stream.h"

namespace weft::tcp {
namespace {

constexpr bool matches(std::uint64_t tag, std::uint64_t wanted, std::uint64_t ignore) noexcept {
  return ((tag ^ wanted) & ~ignore) == 0;
}

}  // namespace

Receive* ReceiveQueue::find(bool tagged, std::uint64_t tag) noexcept {
  if (!tagged) return untagged_.empty() ? nullptr : &untagged_.front();
  for (Receive& receive : tagged_)
    if (matches(tag, receive.tag, receive.ignore)) return &receive;
  return nullptr;
}

void ReceiveQueue::append(Receive& receive) noexcept {
  posted(receive.tagged).push_back(receive);
  ++posted_count_;
}

void ReceiveQueue::remove(Receive& receive) noexcept {
  receive.unlink();
  --posted_count_;
}

Receive* ReceiveQueue::find_context(void* context) noexcept {
  for (List<Receive>* list : {&untagged_, &tagged_})
    for (Receive& receive : *list)
      if (receive.context == context) return &receive;
  return nullptr;
}

Receive* ReceiveQueue::first() noexcept {
  if (!untagged_.empty()) return &untagged_.front();
  return tagged_.empty() ? nullptr : &tagged_.front();
}

Unexpected* ReceiveQueue::find_unexpected(bool tagged, std::uint64_t tag, std::uint64_t ignore) noexcept {
  for (Unexpected& message : unexpected_) {
    if (message.taker.receive != nullptr || message.discard_on_arrival || message.tagged != tagged) continue;
    if (!tagged || matches(message.tag, tag, ignore)) return &message;
  }
  return nullptr;
}

Unexpected* ReceiveQueue::find_claimed(void* context) noexcept {
  for (Unexpected& message : claimed_)
    if (message.claimer == context) return &message;
  return nullptr;
}

bool ReceiveQueue::may_keep(bool tagged, std::size_t len) const noexcept {
  const std::size_t limit = tagged ? kMaxUnexpectedBytes : kMaxUnexpectedUntagged;
  // The length is what the peer says: adding to it may not be possible.
  const std::size_t overhead = kept_bytes_ + sizeof(Unexpected);
  return overhead <= limit && len <= limit - overhead;
}

void ReceiveQueue::keep(Unexpected& message) noexcept {
  unexpected_.push_back(message);
  kept_bytes_ += message.len + sizeof message;
}

void ReceiveQueue::claim(Unexpected& message, void* context) noexcept {
  message.unlink();
  message.claimer = context;
  claimed_.push_back(message);
}

void ReceiveQueue::drop(Unexpected& message) noexcept {
  message.unlink();
  kept_bytes_ -= message.len + sizeof message;
}

void ReceiveQueue::drop_stream(Stream& stream) noexcept {
  for (List<Unexpected>* list : {&unexpected_, &claimed_}) {
    for (auto it = list->begin(); it != list->end();) {
      Unexpected& message = *it;
      ++it;
      if (message.stream != &stream) continue;
      drop(message);
      delete &message;
    }
  }
}

bool ReceiveQueue::keeps_from(const Stream& stream) noexcept {
  for (List<Unexpected>* list : {&unexpected_, &claimed_})
    for (Unexpected& message : *list)
      if (message.stream == &stream) return true;
  return false;
}

void ReceiveQueue::block(Stream& stream) noexcept {
  if (!stream.ListHook<BlockedTag>::linked()) blocked_.push_back(stream);
}

void ReceiveQueue::wake_blocked() noexcept {
  while (!blocked_.empty()) blocked_.pop_front().resume();
}

}  // namespace weft::tcp
