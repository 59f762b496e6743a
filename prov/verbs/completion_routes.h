// SPDX-License-Identifier: BSD-2-Clause
// Where an endpoint's completions go: the channels and counters bound to it (fi_endpoint(3), fi_ep_bind).
#pragma once

#include "objects/completion_queue.h"
#include "objects/counter.h"

namespace weft::verbs {

class CompletionChannel;

struct CompletionRoutes {
  Ref<CompletionQueueCore> transmit_queue;  // null: counters only
  Ref<CompletionQueueCore> receive_queue;
  CompletionChannel* transmit_channel = nullptr;
  CompletionChannel* receive_channel = nullptr;
  bool transmit_selective = false;
  bool receive_selective = false;
  Ref<CounterCore> send, receive, read, write, remote_read, remote_write;

  // `flags` tell the operation as completions do.
  CounterCore* transmit_counter(uint64_t flags) const noexcept {
    if (flags & FI_SEND) return send.get();
    return flags & FI_READ ? read.get() : write.get();
  }
};

}  // namespace weft::verbs
