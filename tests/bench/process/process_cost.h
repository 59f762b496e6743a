// SPDX-License-Identifier: BSD-2-Clause
// The resources that this process has used so far: processor time, memory, heap calls, instructions. Costs are
// differences of two reads.
#pragma once

#include <cstdint>
#include <optional>

namespace bench {

// User and system time of all threads.
std::uint64_t cpu_time_ns();

// Pages that belong to this process alone and were written to (Private_Dirty of /proc/self/smaps_rollup), in bytes.
// Memory that the kernel holds for sockets is not in it.
std::uint64_t private_bytes();

// The memory that the machine could still give to programs (MemAvailable of /proc/meminfo), in bytes: all memory of the
// kernel is missing from it.
std::uint64_t available_bytes();

// Bytes allocated by malloc and not yet freed, over all arenas and mappings.
std::uint64_t heap_bytes();

// Calls of malloc and its relatives by anything in the process; empty where a sanitizer owns malloc.
std::optional<std::uint64_t> allocation_count();

// User-space instructions of the calling thread; get() is empty where the machine has no counter.
class InstructionCounter {
 public:
  InstructionCounter();
  ~InstructionCounter();
  InstructionCounter(const InstructionCounter&) = delete;
  InstructionCounter& operator=(const InstructionCounter&) = delete;
  std::optional<std::uint64_t> get() const;

 private:
  int fd_;
};

// Reports the costs of the data path between construction and finish(): heap calls and instructions per operation.
class OperationCost {
 public:
  OperationCost() : allocations_(allocation_count()), instructions_(counter_.get()) {}
  void finish(std::uint64_t operations) const;

 private:
  InstructionCounter counter_;
  std::optional<std::uint64_t> allocations_;
  std::optional<std::uint64_t> instructions_;
};

}  // namespace bench
