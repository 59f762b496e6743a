// SPDX-License-Identifier: BSD-2-Clause
// Posted receives together with the messages that arrived before theirs: FI_PEEK, FI_CLAIM and FI_DISCARD of
// fi_tagged(3). An endpoint or a receive context has one; several endpoints may bring messages to the same one.
#pragma once

#include "messages/receive_queue.h"
#include "messages/tag_list.h"
#include "messages/tag_table.h"
#include "objects/completion_routes.h"

namespace weft::messages {

template <class M>
class ReceiveSide : public ReceiveQueue<M> {
  static_assert(MessageMatcher<M>);

 public:
  using typename ReceiveQueue<M>::Receive;
  using ReceiveQueue<M>::ReceiveQueue;

  // As ReceiveQueue::post(); the receive then takes the message that waits for it, or several with FI_MULTI_RECV.
  ssize_t post(const ReceiveRequest& request) noexcept;
  // FI_PEEK, FI_CLAIM, FI_DISCARD. 0; -FI_EAGAIN when memory runs out; -FI_EINVAL. The outcome of a search is an entry
  // in the receive queue: the description of the message, or FI_ENOMSG in `routes`.
  ssize_t peek_or_claim(const ReceiveRequest& request, CompletionRoutes& routes) noexcept;

  // Keeps a message that match() found no receive for; its envelope is set. `routes`: where it will complete. False
  // when memory runs out.
  bool keep(UnexpectedMessage& message, Protocol& protocol, CompletionRoutes& routes) noexcept;
  // The messages of `protocol`, or of all with nullptr, are discarded.
  void discard_all(const Protocol* protocol) noexcept;
  // The message leaves without a receive: its payload will not arrive.
  void drop(UnexpectedMessage& message) noexcept;

 private:
  void meet_messages(Receive& receive, const ReceiveRequest& request) noexcept;
  UnexpectedMessage* claimed_by(void* context) noexcept;
  void discard(UnexpectedMessage& message) noexcept;

  List<UnexpectedMessage, PlaceTag> claimed_;
};

extern template class ReceiveSide<TagList>;
extern template class ReceiveSide<TagTable>;

}  // namespace weft::messages
