// SPDX-License-Identifier: BSD-2-Clause
// Posted receives and the messages that came before theirs: fi_msg(3), fi_tagged(3), FI_MULTI_RECV, FI_PEEK. One queue
// belongs to an endpoint or to a shared receive context; the engine's mutex guards it.
#pragma once

#include <sys/uio.h>

#include <cstdint>
#include <memory>

#include "base/list.h"
#include "base/pool.h"
#include "tcp/limits.h"

namespace weft::tcp {

class Stream;

// A posted receive buffer.
struct Receive : ListHook<Receive> {
  iovec iov[kIovLimit];
  std::size_t iov_count = 0;
  std::size_t len = 0;  // of all of iov
  void* context = nullptr;
  std::uint64_t flags = 0;  // FI_COMPLETION, FI_MULTI_RECV
  std::uint64_t tag = 0;
  std::uint64_t ignore = 0;
  bool tagged = false;
  std::size_t used = 0;   // FI_MULTI_RECV: bytes given to messages so far
  unsigned arriving = 0;  // messages that hold a piece of it
  bool retired = false;   // FI_MULTI_RECV: takes no further message
};

// What one message gets of a posted receive: all of it, or for FI_MULTI_RECV the next part.
struct Piece {
  Receive* receive = nullptr;
  void* buf = nullptr;  // FI_MULTI_RECV only: where the message starts
  std::size_t capacity = 0;
};

// A message without a receive. Its payload may still be arriving.
struct Unexpected : ListHook<Unexpected> {
  Stream* stream = nullptr;
  bool tagged = false;   // goes to a receive with a tag
  bool has_tag = false;  // differs where the endpoint has no FI_TAGGED
  bool has_cq_data = false;
  bool wants_ack = false;
  std::uint64_t tag = 0;
  std::uint64_t cq_data = 0;
  std::uint64_t ack_sequence = 0;
  std::size_t len = 0;
  std::size_t arrived = 0;
  std::unique_ptr<std::byte[]> payload;
  Piece taker;                      // matched while the payload was arriving
  void* claimer = nullptr;          // FI_CLAIM: the context that owns it
  bool discard_on_arrival = false;  // FI_DISCARD while the payload was arriving

  bool complete() const noexcept { return arrived == len; }
};

struct BlockedTag;

class ReceiveQueue {
 public:
  explicit ReceiveQueue(std::size_t size) noexcept : size_(size) {}

  std::size_t room() const noexcept { return size_ > posted_count_ ? size_ - posted_count_ : 0; }
  std::size_t size() const noexcept { return size_; }
  void set_size(std::size_t size) noexcept { size_ = size; }

  // The first posted receive that a message with this tag fits, still in the queue; nullptr: none.
  Receive* find(bool tagged, std::uint64_t tag) noexcept;
  void append(Receive& receive) noexcept;
  void remove(Receive& receive) noexcept;
  Receive* find_context(void* context) noexcept;
  Receive* first() noexcept;

  // The oldest unexpected, unclaimed message that a receive with this tag and mask takes.
  Unexpected* find_unexpected(bool tagged, std::uint64_t tag, std::uint64_t ignore) noexcept;
  Unexpected* find_claimed(void* context) noexcept;
  // Whether a message of `len` bytes may be kept.
  bool may_keep(bool tagged, std::size_t len) const noexcept;
  void keep(Unexpected& message) noexcept;
  void claim(Unexpected& message, void* context) noexcept;
  void drop(Unexpected& message) noexcept;    // leaves the lists; the caller deletes it
  void drop_stream(Stream& stream) noexcept;  // deletes all that came from it
  bool keeps_from(const Stream& stream) noexcept;

  // Streams that could not go on because nothing was posted; they are run when something is.
  void block(Stream& stream) noexcept;
  void wake_blocked() noexcept;
  bool idle() noexcept { return unexpected_.empty() && blocked_.empty(); }

  std::size_t min_multi_receive = kDefaultMinMultiReceive;

 private:
  List<Receive>& posted(bool tagged) noexcept { return tagged ? tagged_ : untagged_; }

  std::size_t size_;
  std::size_t posted_count_ = 0;
  std::size_t kept_bytes_ = 0;
  List<Receive> untagged_;
  List<Receive> tagged_;
  List<Unexpected> unexpected_;
  List<Unexpected> claimed_;
  List<Stream, BlockedTag> blocked_;
};

}  // namespace weft::tcp
