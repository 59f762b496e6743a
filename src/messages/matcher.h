// SPDX-License-Identifier: BSD-2-Clause
// The requirements of a matcher: the rule that finds the receive of a message and the message of a receive, fi_msg(3)
// and fi_tagged(3). Fifo: no tags; TagList: tags of one source, in lists; TagTable: tags of many sources, hashed.
//
// In all of them messages of one source match in the order of their arrival, receives in the order of posting. Not
// thread-safe: the lock of the receive side's owner guards a matcher.
#pragma once

#include <concepts>

#include "messages/message.h"
#include "messages/posted_receive.h"

namespace weft::messages {

template <class M>
concept Matcher = std::derived_from<typename M::Receive, PostedReceive> &&
    requires(M& matcher, typename M::Receive& receive, const Wanted& wanted, const Envelope& envelope, void* context) {
  { receive.tag() } -> std::same_as<std::uint64_t>;  // for the completion of a cancelled receive
  {matcher.post(receive, wanted)};
  { matcher.match(envelope) } -> std::same_as<typename M::Receive*>;  // the oldest that matches; it stays posted
  {matcher.remove(receive)};                                          // takes a posted receive out
  { matcher.first() } -> std::same_as<typename M::Receive*>;          // any posted receive; nullptr: none
  { matcher.find_context(context) } -> std::same_as<typename M::Receive*>;
};

// A matcher that also keeps unexpected messages.
template <class M>
concept MessageMatcher = Matcher<M> && requires(M& matcher, UnexpectedMessage& message, const Wanted& wanted,
                                                bool tagged, void (&visit)(UnexpectedMessage&)) {
  {matcher.keep(message)};
  { matcher.find(tagged, wanted) } -> std::same_as<UnexpectedMessage*>;  // the oldest that matches; it stays kept
  {matcher.remove(message)};
  { matcher.has_messages(tagged) } -> std::same_as<bool>;
  {matcher.for_each_message(visit)};  // `visit` may remove the message
};

}  // namespace weft::messages
