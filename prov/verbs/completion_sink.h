// SPDX-License-Identifier: BSD-2-Clause
// Where a channel puts what it polls: into a reader's buffer while there is room and no error came, else into the
// queue. Included by the channel's two sources only.
#pragma once

#include <rdma/fi_errno.h>

#include <algorithm>

#include "objects/completion_queue.h"
#include "verbs/completion_channel.h"
#include "verbs/completion_status.h"

namespace weft::verbs {

struct CompletionChannel::Sink {
  CompletionQueueCore* queue = nullptr;
  std::byte* out = nullptr;  // next entry in the reader's buffer
  size_t entry_size = 0;
  size_t limit = 0;              // entries that the reader has room for
  size_t count = 0;              // entries given to the reader
  fi_addr_t* sources = nullptr;  // where the reader wants their sources, if at all

  void put(const Completion& completion) noexcept {
    // A reader's buffer has no place for sources.
    if (completion.src_addr != FI_ADDR_NOTAVAIL) [[unlikely]]
      limit = count;
    if (count != limit) [[likely]] {
      store_entry(out, completion, entry_size);
      out += entry_size;
      ++count;
    } else {
      put_in_queue(completion);
    }
  }
  // The same for a completion that has no more to say.
  void put_plain(void* context, uint64_t flags, size_t len) noexcept {
    if (count == limit) [[unlikely]]
      return put_in_queue({.context = context, .flags = flags, .len = len});
    store_plain(out, entry_size, context, flags, len);
    out += entry_size;
    ++count;
  }
  [[gnu::always_inline]] static void store_plain(std::byte* entry, size_t size, void* context, uint64_t flags,
                                                 size_t len) noexcept {
    auto* const to = reinterpret_cast<fi_cq_tagged_entry*>(entry);
    to->op_context = context;
    if (size <= sizeof(fi_cq_entry)) return;
    to->flags = flags;
    to->len = len;
    if (size <= sizeof(fi_cq_msg_entry)) return;
    to->buf = nullptr;
    to->data = 0;
    if (size > sizeof(fi_cq_data_entry)) to->tag = 0;
  }
  // What comes behind an error must not overtake it.
  void put_error(const CompletionError& error) noexcept {
    limit = count;
    if (queue != nullptr) queue->write_error(error);
  }

 private:
  [[gnu::noinline]] void put_in_queue(Completion completion) noexcept {
    if (queue != nullptr) queue->write(completion);
  }
};

// A call of a reader, and what was polled for it.
struct CompletionChannel::Reading {
  static constexpr size_t kBatch = 16;
  size_t room;  // as the reader said it
  Sink sink;
  ibv_wc completions[kBatch];
  int batch() const noexcept { return static_cast<int>(std::min(sink.limit - sink.count, kBatch)); }
};

}  // namespace weft::verbs
