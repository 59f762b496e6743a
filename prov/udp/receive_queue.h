// SPDX-License-Identifier: BSD-2-Clause
// The receives that an endpoint has posted, and the few datagrams that were read together with others and found none;
// fi_msg(3).
#pragma once

#include <rdma/fabric.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/list.h"
#include "base/pool.h"
#include "objects/address.h"
#include "objects/completion_routes.h"
#include "udp/limits.h"

namespace weft::udp {

struct Receive : ListHook<Receive> {
  iovec iov[kIovLimit];
  std::size_t iov_count = 0;
  std::size_t len = 0;   // room in all of iov
  std::size_t used = 0;  // FI_MULTI_RECV: bytes that messages have taken
  void* context = nullptr;
  std::uint64_t flags = 0;  // FI_COMPLETION, FI_MULTI_RECV
};

using ReceivePool = Pool<Receive>;

// Guarded by the engine's mutex.
class ReceiveQueue {
 public:
  ReceiveQueue(ReceivePool& pool, std::size_t size) noexcept : pool_(pool), size_(size) {}
  ~ReceiveQueue();

  // 0; -FI_EAGAIN when the queue is full; -FI_EINVAL.
  ssize_t post(std::span<const iovec> iov, void* context, std::uint64_t flags) noexcept;
  bool empty() noexcept { return posted_.empty(); }
  // How many datagrams may be read at once: as many as find a receive, probably.
  std::size_t appetite() noexcept {
    if (count_ != 0 && (posted_.front().flags & FI_MULTI_RECV)) return kReceiveBatch;
    return std::min(count_, kReceiveBatch);
  }
  std::size_t size() const noexcept { return size_; }
  std::size_t room() const noexcept { return size_ - count_; }
  void set_size(std::size_t size) noexcept { size_ = size; }

  // Fills the first receive with a datagram and reports it. There must be one.
  void deliver(std::span<const std::byte> datagram, fi_addr_t source, CompletionRoutes& routes) noexcept;

  // Reports the receive with that context as cancelled; false if there is none.
  bool cancel(void* context, CompletionRoutes& routes) noexcept;
  void cancel_all(CompletionRoutes& routes) noexcept;

  std::size_t min_multi_receive = kDefaultMinMultiReceive;

 private:
  void report_cancelled(Receive& receive, CompletionRoutes& routes) noexcept;
  void release(Receive& receive) noexcept;

  ReceivePool& pool_;
  std::size_t size_;
  std::size_t count_ = 0;
  List<Receive> posted_;
};

// Datagrams in one buffer, oldest first. What one reading can bring bounds it; it grows to that once. Guarded by the
// engine's mutex.
class KeptDatagrams {
 public:
  // `origin`: the socket it came from. Out of memory: it is lost, like datagrams are.
  void push(std::span<const std::byte> datagram, const Address& source, const void* origin) noexcept;
  bool empty() const noexcept { return next_ == bytes_.size(); }
  struct Kept {
    std::span<const std::byte> datagram;
    Address source;
  };
  // The oldest one; good until the next call of any kind but drop_first().
  Kept first() const noexcept;
  void drop_first() noexcept;
  // Forgets what came from a socket that goes away.
  void drop_from(const void* origin) noexcept;

 private:
  struct Header {
    Address source;
    const void* origin;
    std::size_t len;
  };
  Header header_at(std::size_t position) const noexcept;

  std::vector<std::byte> bytes_;
  std::size_t next_ = 0;  // position of the oldest one
};

}  // namespace weft::udp
