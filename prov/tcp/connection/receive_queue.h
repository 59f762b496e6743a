// SPDX-License-Identifier: BSD-2-Clause
// Posted receives and unexpected messages of a connected endpoint or of a shared receive context: fi_msg(3),
// fi_tagged(3). The engine's mutex guards it.
#pragma once

#include <cstddef>
#include <memory>

#include "base/list.h"
#include "messages/receive_side.h"
#include "tcp/limits.h"
#include "tcp/stream/acknowledgements.h"

namespace weft::tcp {

class EndpointReceiver;
struct BlockedTag;

using Receive = messages::TagList::Receive;

// A message without a receive. Its payload may still be arriving.
struct Unexpected : messages::UnexpectedMessage {
  bool complete = false;
  bool taken = false;  // before it was complete: by `taker`, or discarded if that is empty
  bool wants_ack = false;
  Acknowledgement ack;  // if wants_ack
  std::unique_ptr<std::byte[]> payload;
  iovec place{};  // `payload`, while it arrives
  messages::Delivery taker;
};

class ReceiveQueue : public messages::ReceiveSide<messages::TagList> {
 public:
  using ReceiveSide::ReceiveSide;

  // Posts a receive, or with FI_PEEK or FI_CLAIM searches the unexpected messages, and resumes blocked streams.
  // 0; -FI_EAGAIN when the queue is full; -FI_EINVAL. `routes`: for FI_ENOMSG.
  ssize_t post(const messages::ReceiveRequest& request, CompletionRoutes& routes) noexcept;

  // Whether receives for tagged messages were ever posted: one may wait for a message behind untagged ones.
  bool receives_tagged() const noexcept { return receives_tagged_; }
  // The receiver's stream cannot continue before something is posted or leaves the queue.
  void block(EndpointReceiver& receiver) noexcept;
  void resume_blocked() noexcept;

 private:
  bool receives_tagged_ = false;
  List<EndpointReceiver, BlockedTag> blocked_;
};

}  // namespace weft::tcp
