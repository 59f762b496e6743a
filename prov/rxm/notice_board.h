// SPDX-License-Identifier: BSD-2-Clause
// Memory that an endpoint shares with its peers on the same host: they put up notices of long messages there, and
// acknowledge those that they have read, without a system call; docs/decisions/0012-direct-reads.md.
//
// A board has lanes, one for each connection. In a lane there are places for notices and for acknowledgements, and
// the owner says how many packets of the connection it has taken: a notice may be put up when there is none on its way
// that it could overtake. Whoever polls looks at one word, in which each lane has a bit.
//
// The memory is a sealed file, memfd_create(2), whose size nobody can change. A peer gets at it with pidfd_getfd(2),
// which the system allows to those who may trace the owner, as it does with direct reads. Still what is found in it is
// believed no more than what comes over a connection, and may change while it is looked at.
//
// Thread-safety: the engine's mutex guards the objects; the memory is others' at the same time.
#pragma once

#include <sys/types.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "base/unique_fd.h"
#include "rxm/packet.h"

namespace weft::rxm {

// A file's pages in our memory.
class SharedPages {
 public:
  SharedPages() noexcept = default;
  SharedPages(const SharedPages&) = delete;
  SharedPages& operator=(const SharedPages&) = delete;
  ~SharedPages();

  Status map(int fd, std::size_t size) noexcept;
  void* get() const noexcept { return memory_; }

 private:
  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

struct BoardMemory;

inline constexpr std::uint8_t kNoLane = 0xff;

// Ours. Owner: the endpoint.
class NoticeBoard {
 public:
  static constexpr std::size_t kLanes = 64;
  // What there is room for in a lane.
  static constexpr std::size_t kNotices = 3;
  static constexpr std::size_t kDone = 16;

  Status open() noexcept;
  bool opened() const noexcept { return memory_ != nullptr; }
  int descriptor() const noexcept { return fd_.get(); }

  // An empty lane, or kNoLane.
  std::uint8_t take_lane() noexcept;
  void give_back(std::uint8_t lane) noexcept;
  // The peer shall recognise its lane by what it gave us to keep. Zeros, before that and after give_back(), are
  // nobody's.
  void mark(std::uint8_t lane, const Proof& kept) noexcept;

  // Something is new in one of the lanes. Whoever polls asks all the time.
  bool has_news() const noexcept { return news_ != nullptr && news_->load() != 0; }
  // The lanes where, a bit for each; they are not news any more.
  std::uint64_t take_news() noexcept;
  // The notice with that number, counted from 0 in each lane, if its author knows the lane's mark.
  bool take_notice(std::uint8_t lane, std::uint64_t number, RendezvousPacket& notice) noexcept;
  // The number of a message that was read; 0: there is none.
  std::uint64_t take_done(std::uint8_t lane) noexcept;
  // How many packets of the lane's connection have been taken.
  void tell_received(std::uint8_t lane, std::uint64_t packets) noexcept;
  // The peer puts its acknowledgements here, and nowhere else.
  bool is_used(std::uint8_t lane) const noexcept;

  // From now on whoever puts something up sends a letter as well, mailbox.h. has_news() tells what was there before.
  // Before open(), too.
  void expect_sleepers() noexcept;
  bool sleepers() const noexcept { return sleepers_; }

 private:
  UniqueFd fd_;
  SharedPages pages_;
  BoardMemory* memory_ = nullptr;
  std::atomic<std::uint64_t>* news_ = nullptr;
  std::uint64_t free_lanes_ = ~std::uint64_t{0};
  bool sleepers_ = false;
};

// A peer's, and our lane on it. Owner: the connection.
class PeerBoard {
 public:
  // `descriptor` is the process's.
  Status open(pid_t process, int descriptor, std::uint8_t lane) noexcept;
  bool opened() const noexcept { return memory_ != nullptr; }
  // Whether it is the lane of the end of the connection that keeps our proof, which is what it tells us by.
  bool is_ours(const Proof& expected) const noexcept;
  // is_used() there.
  void use() noexcept;

  std::uint64_t received() const noexcept;
  // False if there is no room.
  bool put_notice(std::uint64_t number, const Proof& expected, const RendezvousPacket& notice) noexcept;
  bool put_done(std::uint64_t message) noexcept;
  // Asked after one of these: the owner needs a letter.
  bool owner_sleeps() const noexcept;

 private:
  SharedPages pages_;
  BoardMemory* memory_ = nullptr;
  std::uint8_t lane_ = kNoLane;
};

}  // namespace weft::rxm
