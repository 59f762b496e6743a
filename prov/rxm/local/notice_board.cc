// SPDX-License-Identifier: BSD-2-Clause
// Notices and acknowledgements in shared memory; see notice_board.h.
#include "rxm/local/notice_board.h"

#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <new>

namespace weft::rxm {
namespace {

constexpr std::size_t kLine = 64;  // bytes of a cache line
constexpr std::size_t kNotices = NoticeBoard::kNotices;
constexpr std::size_t kDone = NoticeBoard::kDone;
constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
constexpr unsigned kNotExecutable = 0x0008;  // MFD_NOEXEC_SEAL, since Linux 6.3; some systems require it
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;

enum class PlaceState : std::uint32_t { kFree, kBeingWritten, kWritten };

struct alignas(kLine) Posted {
  std::atomic<PlaceState> state;
  std::uint64_t number;
  Proof proof;
  RendezvousPacket notice;
};

using Words = std::array<std::uint64_t, 2>;
static_assert(sizeof(Words) == sizeof(Proof));

struct alignas(kLine) Slot {
  std::atomic<std::uint64_t> received;
  std::atomic<std::uint64_t> mark[2];
  std::atomic<bool> used;
  alignas(kLine) std::atomic<std::uint64_t> done[kDone];  // numbers of messages; 0: free
  Posted notices[kNotices];
};

static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<PlaceState>::is_always_lock_free &&
              std::atomic<bool>::is_always_lock_free);

}  // namespace

struct BoardMemory {
  alignas(kLine) std::atomic<std::uint64_t> news;  // a bit for each slot
  std::atomic<bool> sleepers;
  Slot slots[NoticeBoard::kSlots];

  // A reader that sees the bit sees all that was written before. This and owner_sleeps() are sequentially consistent,
  // as are expect_sleepers() and has_news(): the writer sees the sleeper, or the owner sees the news.
  void tell(std::uint8_t slot) noexcept { news.fetch_or(std::uint64_t{1} << slot); }
};

namespace {

void set_mark(Slot& slot, const Proof& proof) noexcept {
  const auto words = std::bit_cast<Words>(proof);
  for (std::size_t i = 0; i < words.size(); ++i) slot.mark[i].store(words[i], std::memory_order_release);
}
bool has_mark(const Slot& slot, const Proof& proof) noexcept {
  const auto words = std::bit_cast<Words>(proof);
  return slot.mark[0].load(std::memory_order_acquire) == words[0] &&
         slot.mark[1].load(std::memory_order_acquire) == words[1] && proof != Proof{};
}

}  // namespace

SharedPages::~SharedPages() {
  if (memory_ != nullptr) ::munmap(memory_, size_);
}

Status SharedPages::map(int fd, std::size_t size) noexcept {
  void* const memory = ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return Status::last_errno();
  memory_ = memory;
  size_ = size;
  return {};
}

Status NoticeBoard::open() noexcept {
  UniqueFd fd(::memfd_create("weft-notices", kFlags | kNotExecutable));
  if (!fd && errno == EINVAL) fd.reset(::memfd_create("weft-notices", kFlags));
  if (!fd) return Status::last_errno();
  if (::ftruncate(fd.get(), sizeof(BoardMemory)) != 0 || ::fcntl(fd.get(), F_ADD_SEALS, kSeals) != 0)
    return Status::last_errno();
  if (Status status = pages_.map(fd.get(), sizeof(BoardMemory)); !status.ok()) return status;
  memory_ = std::launder(static_cast<BoardMemory*>(pages_.get()));  // all zeros, the initial state
  news_ = &memory_->news;
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
  Slot& left = memory_->slots[slot];
  set_mark(left, {});
  left.used.store(false);
  left.received.store(0);
  for (auto& each : left.done) each.store(0);
  bool busy = false;
  for (Posted& each : left.notices) busy |= each.state.exchange(PlaceState::kFree) == PlaceState::kBeingWritten;
  if (!busy) free_slots_ |= std::uint64_t{1} << slot;
}

void NoticeBoard::mark(std::uint8_t slot, const Proof& kept) noexcept {
  set_mark(memory_->slots[slot], kept);
}

std::uint64_t NoticeBoard::take_news() noexcept {
  return memory_->news.exchange(0);
}

bool NoticeBoard::take_notice(std::uint8_t slot, std::uint64_t number, RendezvousPacket& notice) noexcept {
  Slot& from = memory_->slots[slot];
  Posted& posted = from.notices[number % kNotices];
  if (posted.state.load(std::memory_order_acquire) != PlaceState::kWritten) return false;
  const bool wanted = has_mark(from, posted.proof) && posted.number == number;
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

void NoticeBoard::publish_received(std::uint8_t slot, std::uint64_t packets) noexcept {
  memory_->slots[slot].received.store(packets, std::memory_order_release);
}

bool NoticeBoard::is_used(std::uint8_t slot) const noexcept {
  return memory_->slots[slot].used.load(std::memory_order_acquire);
}

void NoticeBoard::expect_sleepers() noexcept {
  sleepers_ = true;
  if (opened()) memory_->sleepers.store(true);
}

Status PeerBoard::open(pid_t process, int descriptor, std::uint8_t slot) noexcept {
  if (slot >= NoticeBoard::kSlots) return Status(-FI_EINVAL);
  const UniqueFd owner(static_cast<int>(::syscall(SYS_pidfd_open, process, 0)));
  if (!owner) return Status::last_errno();
  const UniqueFd fd(static_cast<int>(::syscall(SYS_pidfd_getfd, owner.get(), descriptor, 0)));
  if (!fd) return Status::last_errno();
  struct stat about {};
  if (::fstat(fd.get(), &about) != 0) return Status::last_errno();
  // Access to a file that is truncated later would raise SIGBUS.
  const int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || about.st_size != sizeof(BoardMemory)) return Status(-FI_EINVAL);
  if (Status status = pages_.map(fd.get(), sizeof(BoardMemory)); !status.ok()) return status;
  memory_ = std::launder(static_cast<BoardMemory*>(pages_.get()));
  slot_ = slot;
  return {};
}

bool PeerBoard::is_ours(const Proof& expected) const noexcept {
  return memory_ != nullptr && has_mark(memory_->slots[slot_], expected);
}

void PeerBoard::use() noexcept {
  auto& used = memory_->slots[slot_].used;
  if (!used.load(std::memory_order_relaxed)) used.store(true, std::memory_order_release);
}

std::uint64_t PeerBoard::received() const noexcept {
  return memory_->slots[slot_].received.load(std::memory_order_acquire);
}

bool PeerBoard::put_notice(std::uint64_t number, const Proof& expected, const RendezvousPacket& notice) noexcept {
  Posted& place = memory_->slots[slot_].notices[number % kNotices];
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
  for (auto& each : memory_->slots[slot_].done) {
    std::uint64_t free = 0;
    if (each.load(std::memory_order_relaxed) != 0 || !each.compare_exchange_strong(free, message)) continue;
    memory_->tell(slot_);
    return true;
  }
  return false;
}

bool PeerBoard::owner_sleeps() const noexcept {
  return memory_->sleepers.load();
}

}  // namespace weft::rxm
