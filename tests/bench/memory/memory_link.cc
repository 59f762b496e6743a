// SPDX-License-Identifier: BSD-2-Clause
// Messages through shared memory; see memory_link.h.
#include "memory/memory_link.h"

#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <cstring>

#include "process/process_pair.h"

namespace bench {

MemoryLink::Lane* MemoryLink::lanes_ = nullptr;

void MemoryLink::share_memory() {
  void* const memory =
      mmap(nullptr, 2 * sizeof(Lane), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  if (memory == MAP_FAILED) fail("mmap");
  lanes_ = static_cast<Lane*>(memory);
}

MemoryLink::MemoryLink(Role role, std::size_t size, std::size_t depth, Channel& channel)
    : out_(lanes_[role == Role::kServer ? 0 : 1]),
      in_(lanes_[role == Role::kServer ? 1 : 0]),
      size_(size),
      depth_(depth),
      outgoing_(size * depth),
      incoming_(size * depth) {
  prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
  channel.put(static_cast<std::uint64_t>(getpid()));
  channel.put(reinterpret_cast<std::uintptr_t>(outgoing_.data()));
  peer_ = static_cast<pid_t>(channel.get());
  theirs_ = channel.get();
}

void MemoryLink::send(std::uint64_t word) {
  while (sent_ - free_ == depth_) free_ = out_.released.load(std::memory_order_acquire);
  const std::size_t slot = sent_ % depth_;
  Line& line = out_.lines[slot];
  std::byte* const message = outgoing_.data() + slot * size_;
  std::memcpy(message, &word, sizeof word);
  if (size_ <= kInLine) std::memcpy(line.payload, message, size_);
  line.number.store(++sent_, std::memory_order_release);
}

std::uint64_t MemoryLink::receive() {
  const std::size_t slot = taken_ % depth_;
  Line& line = in_.lines[slot];
  while (line.number.load(std::memory_order_acquire) != taken_ + 1) yield_if_shared();
  ++taken_;
  std::byte* const message = incoming_.data() + slot * size_;
  if (size_ <= kInLine) {
    std::memcpy(message, line.payload, size_);
  } else {
    const iovec here{message, size_};
    const iovec there{reinterpret_cast<void*>(theirs_ + slot * size_), size_};
    check("process_vm_readv", process_vm_readv(peer_, &here, 1, &there, 1, 0));
  }
  std::uint64_t word;
  std::memcpy(&word, message, sizeof word);
  return word;
}

void MemoryLink::release() {
  in_.released.store(++released_, std::memory_order_release);
}

void MemoryLink::drain() {
  while (free_ != sent_) free_ = out_.released.load(std::memory_order_acquire);
}

}  // namespace bench
