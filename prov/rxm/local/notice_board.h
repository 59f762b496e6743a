// SPDX-License-Identifier: BSD-2-Clause
// Memory that an endpoint shares with its peers on the same host: they post notices of long messages there, and
// acknowledge those that they have read, without a system call; docs/decisions/0012-direct-reads.md.
//
// A board has slots, one for each connection. A slot has places for notices and for acknowledgements, and the number of
// packets of the connection that the owner has received: a notice may be posted when no packet is under way that it
// could overtake. Polling reads one word, in which each slot has a bit.
//
// The memory is a sealed file, memfd_create(2), whose size cannot change. A peer opens it with pidfd_getfd(2), which
// the system permits if the peer may trace the owner, as for direct reads. Its contents are checked like those of
// packets, and may change while they are read.
//
// Thread-safety: the engine's mutex guards the objects; other processes access the memory at the same time.
#pragma once

#include <sys/mman.h>
#include <sys/types.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/status.h"
#include "base/unique_fd.h"
#include "rxm/messages/packet.h"

namespace weft::rxm {

inline constexpr std::uint8_t kNoSlot = 0xff;

// The layout of the memory, which is all zeros at first.
struct BoardMemory {
  static constexpr std::size_t kLine = 64;  // bytes of a cache line
  static constexpr std::size_t kSlots = 64;
  // Places in a slot.
  static constexpr std::size_t kNotices = 3;
  static constexpr std::size_t kDone = 16;

  enum class PlaceState : std::uint32_t { kFree, kBeingWritten, kWritten };
  struct alignas(kLine) Posted {
    std::atomic<PlaceState> state;
    std::uint64_t number;
    Proof proof;
    RendezvousPacket notice;
  };
  struct alignas(kLine) Slot {
    std::atomic<std::uint64_t> received;
    std::atomic<std::uint64_t> mark[2];
    std::atomic<bool> used;
    alignas(kLine) std::atomic<std::uint64_t> done[kDone];  // numbers of messages; 0: free
    Posted notices[kNotices];

    void set_mark(const Proof& proof) noexcept;
    bool has_mark(const Proof& proof) const noexcept;
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<PlaceState>::is_always_lock_free &&
                std::atomic<bool>::is_always_lock_free);

  alignas(kLine) std::atomic<std::uint64_t> news;  // a bit for each slot
  std::atomic<bool> sleepers;
  Slot slots[kSlots];

  // A reader that sees the bit sees all that was written before. This and owner_sleeps() are sequentially consistent,
  // as are expect_sleepers() and has_news(): the writer sees the sleeper, or the owner sees the news.
  void tell(std::uint8_t slot) noexcept { news.fetch_or(std::uint64_t{1} << slot); }

  struct Unmap {
    void operator()(BoardMemory* memory) const noexcept { ::munmap(memory, sizeof *memory); }
  };
  using Mapping = std::unique_ptr<BoardMemory, Unmap>;
};

// An endpoint's own board. Owner: the endpoint.
class NoticeBoard {
 public:
  static constexpr std::size_t kSlots = BoardMemory::kSlots;
  static constexpr std::size_t kNotices = BoardMemory::kNotices;
  static constexpr std::size_t kDone = BoardMemory::kDone;

  Status open() noexcept;
  bool opened() const noexcept { return memory_ != nullptr; }
  int descriptor() const noexcept { return fd_.get(); }

  // An empty slot, or kNoSlot.
  std::uint8_t take_slot() noexcept;
  void give_back(std::uint8_t slot) noexcept;
  // The peer recognises its slot by the proof that it gave us to keep. Zeros, before that and after give_back(), match
  // no peer.
  void mark(std::uint8_t slot, const Proof& kept) noexcept { memory_->slots[slot].set_mark(kept); }

  // A slot has a new entry. Called by every poll.
  bool has_news() const noexcept { return memory_ != nullptr && memory_->news.load() != 0; }
  // Returns and clears the bits of the slots with new entries.
  std::uint64_t take_news() noexcept { return memory_->news.exchange(0); }
  // The notice with that number, counted from 0 in each slot, if it has the slot's mark.
  bool take_notice(std::uint8_t slot, std::uint64_t number, RendezvousPacket& notice) noexcept;
  // The number of a message that was read; 0: none.
  std::uint64_t take_done(std::uint8_t slot) noexcept;
  // Publishes how many packets of the slot's connection were received.
  void publish_received(std::uint8_t slot, std::uint64_t packets) noexcept {
    memory_->slots[slot].received.store(packets, std::memory_order_release);
  }
  // The peer posts its acknowledgements here only.
  bool is_used(std::uint8_t slot) const noexcept { return memory_->slots[slot].used.load(std::memory_order_acquire); }

  // From now on peers send a wakeup (mailbox.h) after each entry; has_news() reports those before. May be called before
  // open().
  void expect_sleepers() noexcept {
    sleepers_ = true;
    if (opened()) memory_->sleepers.store(true);
  }
  bool sleepers() const noexcept { return sleepers_; }

 private:
  UniqueFd fd_;
  BoardMemory::Mapping memory_;
  std::uint64_t free_slots_ = ~std::uint64_t{0};
  bool sleepers_ = false;
};

// A peer's board, and our slot on it. Owner: the connection.
class PeerBoard {
 public:
  // `descriptor`: the process's.
  Status open(pid_t process, int descriptor, std::uint8_t slot) noexcept;
  // Whether the slot has the mark of our connection.
  bool is_ours(const Proof& expected) const noexcept { return memory_ != nullptr && slot().has_mark(expected); }
  // is_used() there.
  void use() noexcept {
    if (!slot().used.load(std::memory_order_relaxed)) slot().used.store(true, std::memory_order_release);
  }

  std::uint64_t received() const noexcept { return slot().received.load(std::memory_order_acquire); }
  // False if the slot is full.
  bool put_notice(std::uint64_t number, const Proof& expected, const RendezvousPacket& notice) noexcept;
  bool put_done(std::uint64_t message) noexcept;
  // Called after one of these: whether the owner needs a wakeup.
  bool owner_sleeps() const noexcept { return memory_->sleepers.load(); }

 private:
  BoardMemory::Slot& slot() const noexcept { return memory_->slots[slot_]; }

  BoardMemory::Mapping memory_;
  std::uint8_t slot_ = kNoSlot;
};

}  // namespace weft::rxm
