// SPDX-License-Identifier: BSD-2-Clause
// The matcher of datagrams: every message goes to the oldest receive; fi_msg(3).
#pragma once

#include "base/list.h"
#include "messages/matcher.h"

namespace weft::messages {

class Fifo {
 public:
  struct Receive : ListHook<Receive>, PostedReceive {
    static std::uint64_t tag() noexcept { return 0; }
  };

  void post(Receive& receive, const Wanted&) noexcept { posted_.push_back(receive); }
  Receive* match(const Envelope&) noexcept { return first(); }
  void remove(Receive& receive) noexcept { receive.unlink(); }
  Receive* first() noexcept { return posted_.empty() ? nullptr : &posted_.front(); }
  Receive* find_context(void* context) noexcept {
    for (Receive& receive : posted_)
      if (receive.context == context) return &receive;
    return nullptr;
  }

 private:
  List<Receive> posted_;
};

}  // namespace weft::messages
