// SPDX-License-Identifier: BSD-2-Clause
// The destination of polled completions: a reader's buffer while it has room and no error occurred, otherwise the
// queue.
#pragma once

#include <rdma/fi_eq.h>

#include <cstddef>

#include "objects/completion_queue.h"

namespace weft::verbs {

struct CompletionSink {
  CompletionQueueCore* queue = nullptr;
  std::byte* out = nullptr;  // next entry in the reader's buffer
  size_t entry_size = 0;
  size_t limit = 0;              // entries that the reader has room for
  size_t count = 0;              // entries given to the reader
  fi_addr_t* sources = nullptr;  // the reader's array of sources; may be null

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
  // The same for a completion without further fields.
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
  // Entries after an error must not overtake it.
  void put_error(const CompletionError& error) noexcept {
    limit = count;
    if (queue != nullptr) queue->write_error(error);
  }

 private:
  [[gnu::noinline]] void put_in_queue(Completion completion) noexcept {
    if (queue != nullptr) queue->write(completion);
  }
};

}  // namespace weft::verbs
