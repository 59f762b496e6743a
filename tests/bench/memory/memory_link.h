// SPDX-License-Identifier: BSD-2-Clause
// Messages between two processes of one host, as an expert would write them for speed: a ring of cache lines in shared
// memory for each direction, polled without pause. A message that does not fit into its line is read out of the
// sender's memory, one copy; see process_vm_readv(2).
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "process/measurement.h"

namespace bench {

class Channel;

class MemoryLink {
 public:
  static constexpr std::size_t kMostDepth = 256;

  // Called before the pair is forked, which inherits the memory.
  static void share_memory();
  // The ends exchange the addresses of their messages over the channel. `depth` messages may be under way.
  MemoryLink(Role role, std::size_t size, std::size_t depth, Channel& channel);

  // The interface that message_workloads.h requires.
  void send(std::uint64_t word);
  void send_alone(std::uint64_t word) { send(word); }
  std::uint64_t receive();
  void release();
  void drain();

 private:
  static constexpr std::size_t kInLine = 48;  // payload bytes

  struct alignas(64) Line {
    std::atomic<std::uint64_t> number;  // the number, from 1 on, makes the message visible
    std::byte payload[kInLine];
  };
  struct Lane {
    alignas(64) std::atomic<std::uint64_t> released;
    Line lines[kMostDepth];
  };
  static Lane* lanes_;

  Lane& out_;
  Lane& in_;
  const std::size_t size_;
  const std::size_t depth_;
  pid_t peer_;
  std::uintptr_t theirs_;            // the peer's outgoing messages
  std::vector<std::byte> outgoing_;  // depth_ slots
  std::vector<std::byte> incoming_;
  std::uint64_t sent_ = 0, free_ = 0, taken_ = 0, released_ = 0;
};

}  // namespace bench
