// SPDX-License-Identifier: BSD-2-Clause
// Where a channel puts what it polls: into a reader's buffer while there is room and no error came, else into the
// queue. Included by the channel's two sources only.
#pragma once

#include <rdma/fi_errno.h>

#include "objects/completion_queue.h"
#include "verbs/completion_channel.h"
#include "verbs/completion_status.h"

namespace weft::verbs {

struct CompletionChannel::Sink {
  CompletionQueueCore* queue = nullptr;
  std::byte* out = nullptr;  // next entry in the reader's buffer
  size_t entry_size = 0;
  size_t room = 0;   // entries
  size_t count = 0;  // entries given to the reader

  void put(const Completion& completion) noexcept {
    // A reader's buffer has no place for sources.
    if (completion.src_addr != FI_ADDR_NOTAVAIL) [[unlikely]]
      room = 0;
    if (room != 0) [[likely]] {
      store_entry(out, completion, entry_size);
      out += entry_size;
      --room;
      ++count;
    } else if (queue != nullptr) {
      const Completion copy = completion;  // so that `completion` itself need not be in memory
      queue->write(copy);
    }
  }
  // What comes behind an error must not overtake it.
  void put_error(const CompletionError& error) noexcept {
    room = 0;
    if (queue != nullptr) queue->write_error(error);
  }
};

}  // namespace weft::verbs
