// SPDX-License-Identifier: BSD-2-Clause
// Notices and acknowledgements in shared memory; see notice_board.h.
#include "rxm/local/notice_board.h"

#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

namespace weft::rxm {
namespace {

using PlaceState = BoardMemory::PlaceState;

constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
constexpr unsigned kNotExecutable = 0x0008;  // MFD_NOEXEC_SEAL, since Linux 6.3; some systems require it
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

using Words = std::array<std::uint64_t, 2>;
static_assert(sizeof(Words) == sizeof(Proof));

Status map(int fd, BoardMemory::Mapping& mapping) noexcept {
  void* const memory = ::mmap(nullptr, sizeof(BoardMemory), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return Status::last_errno();
  mapping.reset(std::launder(static_cast<BoardMemory*>(memory)));
  return {};
}

}  // namespace

void BoardMemory::Slot::set_mark(const Proof& proof) noexcept {
  const auto words = std::bit_cast<Words>(proof);
  for (std::size_t i = 0; i < words.size(); ++i) mark[i].store(words[i], std::memory_order_release);
}

bool BoardMemory::Slot::has_mark(const Proof& proof) const noexcept {
  const auto words = std::bit_cast<Words>(proof);
  return mark[0].load(std::memory_order_acquire) == words[0] && mark[1].load(std::memory_order_acquire) == words[1] &&
         proof != Proof{};
}

Status NoticeBoard::open() noexcept {
  UniqueFd fd(::memfd_create("weft-notices", kFlags | kNotExecutable));
  if (!fd && errno == EINVAL) fd.reset(::memfd_create("weft-notices", kFlags));
  if (!fd) return Status::last_errno();
  if (::ftruncate(fd.get(), sizeof(BoardMemory)) != 0 || ::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0)
    return Status::last_errno();
  if (Status status = map(fd.get(), memory_); !status.ok()) return status;
  memory_->sleepers.store(sleepers_);
  fd_ = std::move(fd);
  return {};
}

std::uint8_t NoticeBoard::take_slot() noexcept {
  if (!opened() || free_slots_ == 0) return kNoSlot;
  const auto slot = static_cast<std::uint8_t>(std::countr_zero(free_slots_));
  free_slots_ &= free_slots_ - 1;
  return slot;
}

// The slot's last peer may still write to it: its entries have the wrong mark, or the number of an unknown message. If
// it is writing right now, it could overwrite entries of the next peer, so the slot is not used again.
void NoticeBoard::give_back(std::uint8_t slot) noexcept {
  BoardMemory::Slot& left = memory_->slots[slot];
  left.set_mark({});
  left.used.store(false);
  left.received.store(0);
  for (auto& each : left.done) each.store(0);
  bool busy = false;
  for (auto& each : left.notices) busy |= each.state.exchange(PlaceState::kFree) == PlaceState::kBeingWritten;
  if (!busy) free_slots_ |= std::uint64_t{1} << slot;
}

bool NoticeBoard::take_notice(std::uint8_t slot, std::uint64_t number, RendezvousPacket& notice) noexcept {
  BoardMemory::Slot& from = memory_->slots[slot];
  BoardMemory::Posted& posted = from.notices[number % kNotices];
  if (posted.state.load(std::memory_order_acquire) != PlaceState::kWritten) return false;
  const bool wanted = from.has_mark(posted.proof) && posted.number == number;
  if (wanted) std::memcpy(&notice, &posted.notice, sizeof notice);
  posted.state.store(PlaceState::kFree, std::memory_order_release);
  return wanted;
}

std::uint64_t NoticeBoard::take_done(std::uint8_t slot) noexcept {
  for (auto& each : memory_->slots[slot].done) {
    const std::uint64_t message = each.load(std::memory_order_acquire);
    if (message == 0) continue;
    each.store(0, std::memory_order_release);
    return message;
  }
  return 0;
}

Status PeerBoard::open(pid_t process, int descriptor, std::uint8_t slot) noexcept {
  if (slot >= BoardMemory::kSlots) return Status(-FI_EINVAL);
  const UniqueFd owner(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  if (!owner) return Status::last_errno();
  const UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_getfd, owner.get(), descriptor, 0)));
  if (!fd) return Status::last_errno();
  struct stat about {};
  if (::fstat(fd.get(), &about) != 0) return Status::last_errno();
  // Access to a file that is truncated later would raise SIGBUS.
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || about.st_size != sizeof(BoardMemory)) return Status(-FI_EINVAL);
  slot_ = slot;
  return map(fd.get(), memory_);
}

bool PeerBoard::put_notice(std::uint64_t number, const Proof& expected, const RendezvousPacket& notice) noexcept {
  BoardMemory::Posted& place = slot().notices[number % BoardMemory::kNotices];
  PlaceState state = PlaceState::kFree;
  if (!place.state.compare_exchange_strong(state, PlaceState::kBeingWritten, std::memory_order_acquire)) return false;
  place.number = number;
  place.proof = expected;
  std::memcpy(&place.notice, &notice, sizeof notice);
  place.state.store(PlaceState::kWritten, std::memory_order_release);
  memory_->tell(slot_);
  return true;
}

bool PeerBoard::put_done(std::uint64_t message) noexcept {
  for (auto& each : slot().done) {
    std::uint64_t free = 0;
    if (each.load(std::memory_order_relaxed) != 0 || !each.compare_exchange_strong(free, message)) continue;
    memory_->tell(slot_);
    return true;
  }
  return false;
}

}  // namespace weft::rxm
