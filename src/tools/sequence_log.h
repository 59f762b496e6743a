// SPDX-License-Identifier: BSD-2-Clause
// Statistics of numbered messages at a receiver: arrived, missing, repeated and late ones, and their latencies.
// fi_mcast(1).
#pragma once

#include <bitset>
#include <cstddef>
#include <cstdint>

#include "histogram.h"

namespace weft::tools {

// The start of every message of fi_mcast; the rest is filling. Little-endian on the wire.
struct Stamp {
  uint64_t run = 0;       // identifies a sender's run
  uint64_t sequence = 0;  // from 0
  uint64_t sent_ns = 0;   // CLOCK_REALTIME; latencies between hosts include the difference of their clocks
  uint64_t total = 0;     // messages that the sender is going to send; 0: no limit

  static constexpr uint64_t kMagic = 0x7473'616c'6374'6677;
  static constexpr std::size_t kSize = 40;

  void store(std::byte* out) const noexcept;
  // False if `in` is not a message of fi_mcast.
  bool load(const std::byte* in, std::size_t len) noexcept;
};

// Statistics of one sender. Not thread-safe.
class SequenceLog {
 public:
  void record(const Stamp& stamp, std::size_t len, uint64_t now_ns);

  uint64_t received() const noexcept { return received_; }  // without repetitions
  uint64_t repeated() const noexcept { return repeated_; }
  uint64_t reordered() const noexcept { return reordered_; }  // came after one with a higher number
  // Missing numbers between the first and the last one seen, once `finished` up to the sender's total.
  uint64_t lost(bool finished) const noexcept;
  uint64_t bytes() const noexcept { return bytes_; }
  // True when the last message has arrived.
  bool complete() const noexcept { return total_ != 0 && received_ != 0 && next_ == total_; }
  // Between the first and the last message, by the receiver's clock.
  double seconds() const noexcept { return static_cast<double>(last_ns_ - first_ns_) / 1e9; }
  const Histogram& latencies() const noexcept { return latencies_; }

 private:
  // The last kWindow numbers, to distinguish repeated from late messages; older numbers count as late.
  static constexpr uint64_t kWindow = 1 << 16;

  uint64_t received_ = 0, repeated_ = 0, reordered_ = 0, bytes_ = 0;
  uint64_t first_ = 0;  // number
  uint64_t next_ = 0;   // one above the highest number
  uint64_t total_ = 0;
  uint64_t first_ns_ = 0, last_ns_ = 0;
  std::bitset<kWindow> seen_;
  Histogram latencies_;  // nanoseconds
};

}  // namespace weft::tools
