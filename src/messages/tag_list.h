// SPDX-License-Identifier: BSD-2-Clause
// The matcher of connections: messages of one source, with tags or without; fi_msg(3), fi_tagged(3). Every connected
// endpoint embeds one, so it is three lists and no table: the search for a tag is linear.
#pragma once

#include "base/list.h"
#include "messages/matcher.h"

namespace weft::messages {

class TagList {
 public:
  struct Receive : ListHook<Receive>, PostedReceive {
    std::uint64_t wanted_tag = 0;
    std::uint64_t ignore = 0;
    std::uint64_t tag() const noexcept { return wanted_tag; }
  };

  void post(Receive& receive, const Wanted& wanted) noexcept {
    receive.wanted_tag = wanted.tag;
    receive.ignore = wanted.ignore;
    (receive.tagged ? tagged_ : untagged_).push_back(receive);
  }
  Receive* match(const Envelope& envelope) noexcept {
    if (!envelope.matches_by_tag()) return untagged_.empty() ? nullptr : &untagged_.front();
    for (Receive& receive : tagged_)
      if (matches(envelope.tag, receive.wanted_tag, receive.ignore)) return &receive;
    return nullptr;
  }
  void remove(Receive& receive) noexcept { receive.unlink(); }
  Receive* first() noexcept {
    if (!untagged_.empty()) return &untagged_.front();
    return tagged_.empty() ? nullptr : &tagged_.front();
  }
  Receive* find_context(void* context) noexcept {
    for (List<Receive>* list : {&untagged_, &tagged_})
      for (Receive& receive : *list)
        if (receive.context == context) return &receive;
    return nullptr;
  }

  void keep(UnexpectedMessage& message) noexcept { messages_.push_back(message); }
  UnexpectedMessage* find(bool tagged, const Wanted& wanted) noexcept {
    for (UnexpectedMessage& message : messages_)
      if (message.envelope.matches_by_tag() == tagged &&
          (!tagged || matches(message.envelope.tag, wanted.tag, wanted.ignore)))
        return &message;
    return nullptr;
  }
  void remove(UnexpectedMessage& message) noexcept { messages_.unlink(message); }
  bool has_messages(bool) noexcept { return !messages_.empty(); }
  template <class Visit>
  void for_each_message(Visit&& visit) noexcept {
    messages_.for_each(visit);
  }

 private:
  static constexpr bool matches(std::uint64_t tag, std::uint64_t wanted, std::uint64_t ignore) noexcept {
    return ((tag ^ wanted) & ~ignore) == 0;
  }

  List<Receive> untagged_, tagged_;
  List<UnexpectedMessage, PlaceTag> messages_;  // in the order of arrival
};

}  // namespace weft::messages
