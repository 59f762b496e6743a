// SPDX-License-Identifier: BSD-2-Clause
// Messages of one burst until the kernel accepts them: many with one system call (sendmmsg), and runs of equal length
// to one destination as one packet that the kernel or the network card segments (UDP_SEGMENT); udp(7).
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "objects/address.h"
#include "objects/completion_routes.h"
#include "udp/limits.h"

namespace weft::udp {

// A message in the application's memory.
struct Outgoing {
  Address destination;
  iovec iov[kIovLimit];
  std::uint32_t iov_count = 0;
  std::uint32_t len = 0;
  void* context = nullptr;
  std::uint64_t flags = FI_SEND | FI_MSG;  // flags of the completion
  bool report = true;                      // write a completion on success; failures are always reported
};

// The kernel has no room at present: the call is repeated later, this is not an error.
constexpr bool is_back_pressure(ssize_t result) noexcept {
  return result == -EAGAIN || result == -ENOBUFS || result == -ENOMEM;
}

// Guarded by the engine's mutex.
class TransmitBatch {
 public:
  // Memory for kSendBatch messages. `segment_limit`: the longest message that may be part of a packet, 0: none.
  Status allocate(std::size_t segment_limit) noexcept;

  bool empty() const noexcept { return head_ == tail_; }
  bool full() const noexcept { return size() == kSendBatch; }
  std::size_t size() const noexcept { return tail_ - head_; }
  Outgoing& push() noexcept { return slot(tail_++); }

  // Passes messages to the kernel and reports each. false: it accepts no more at present.
  bool flush(int fd, CompletionRoutes& routes) noexcept {
    while (!empty())
      if (is_back_pressure(send_some(fd, routes))) return false;
    return true;
  }
  // Reports the rest as cancelled.
  void cancel(CompletionRoutes& routes) noexcept { finish(size(), FI_ECANCELED, routes); }

  // The number of messages from `position` (0: the oldest) on that fit into one packet; at least 1.
  std::size_t run_at(std::size_t position) const noexcept;

 private:
  static_assert((kSendBatch & (kSendBatch - 1)) == 0, "positions are free-running");
  Outgoing& slot(std::size_t position) const noexcept { return slots_[position & (kSendBatch - 1)]; }
  void finish(std::size_t count, int error, CompletionRoutes& routes) noexcept;
  ssize_t send_some(int fd, CompletionRoutes& routes) noexcept;

  std::unique_ptr<Outgoing[]> slots_;
  std::size_t head_ = 0;
  std::size_t tail_ = 0;
  std::size_t segment_limit_ = 0;
};

}  // namespace weft::udp
