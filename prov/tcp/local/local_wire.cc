// SPDX-License-Identifier: BSD-2-Clause
// The rings in shared memory; see local_wire.h.
#include "tcp/local/local_wire.h"

#include <fcntl.h>
#include <rdma/fi_errno.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <new>
#include <utility>

#include "base/standard_descriptors.h"
#include "base/thread_sanitizer.h"
#include "objects/message_buffers.h"
#include "tcp/this_process.h"

#if defined(WEFT_THREAD_SANITIZER)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
#endif

namespace weft::tcp {
namespace {

constexpr unsigned kFlags = MFD_CLOEXEC | MFD_ALLOW_SEALING;
constexpr unsigned kNotExecutable = 0x0008;  // MFD_NOEXEC_SEAL, since Linux 6.3; some systems require it
constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
constexpr std::size_t kSlice = std::size_t{1} << 20;   // bytes of one fetch, so that peers take turns
constexpr std::size_t kStep = LocalMemory::kRing / 2;  // bytes after which the other end may begin to copy

// ThreadSanitizer identifies memory by its address, and the two ends of a test in one process have two addresses for
// it.
#if defined(WEFT_THREAD_SANITIZER)
char the_memory;
void published() noexcept {
  __tsan_release(&the_memory);
}
void observed() noexcept {
  __tsan_acquire(&the_memory);
}
#else
void published() noexcept {}
void observed() noexcept {}
#endif

// How many of `left` bytes the next copy moves to or from a ring, at a position.
std::size_t step(std::uint64_t position, std::size_t left) noexcept {
  return std::min({left, kStep, LocalMemory::kRing - static_cast<std::size_t>(position % LocalMemory::kRing)});
}

}  // namespace

LocalWire::LocalWire(Mapping&& memory, std::size_t end) noexcept
    : memory_(std::move(memory)),
      out_(memory_->directions[end]),
      in_(memory_->directions[1 - end]),
      own_(memory_->ends[end]),
      other_(memory_->ends[1 - end]),
      out_ring_(memory_->rings[end]),
      in_ring_(memory_->rings[1 - end]),
      end_(end),
      process_(this_process()) {}

Result<std::unique_ptr<LocalWire>> LocalWire::map(int fd, std::size_t end) noexcept {
  std::uint64_t proof = 0;
  if (::getrandom(&proof, sizeof proof, GRND_NONBLOCK) != sizeof proof) return failure(Status::last_errno());
  void* const memory = ::mmap(nullptr, kLocalMemorySize, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (memory == MAP_FAILED) return failure(Status::last_errno());
  Mapping mapping(std::launder(static_cast<LocalMemory*>(memory)));
  std::unique_ptr<LocalWire> wire(new (std::nothrow) LocalWire(std::move(mapping), end));
  if (wire == nullptr) return failure(FI_ENOMEM);
  wire->proof_ = proof;
  wire->other_.proof.store(proof, std::memory_order_release);
  return wire;
}

Result<std::unique_ptr<LocalWire>> LocalWire::create(UniqueFd& memory) noexcept {
  // Beyond that limit ftruncate(2) does not only fail: it raises SIGXFSZ.
  rlimit longest{};
  if (::getrlimit(RLIMIT_FSIZE, &longest) != 0 || longest.rlim_cur < kLocalMemorySize) return failure(EFBIG);
  memory.reset(above_standard(::memfd_create("weft-wire", kFlags | kNotExecutable)));
  if (!memory && errno == EINVAL) memory.reset(above_standard(::memfd_create("weft-wire", kFlags)));
  if (!memory || ::ftruncate(memory.get(), kLocalMemorySize) != 0 || ::fcntl(memory.get(), F_ADD_SEALS, kSeals) != 0)
    return failure(Status::last_errno());
  return map(memory.get(), 1);
}

Result<std::unique_ptr<LocalWire>> LocalWire::attach(const UniqueFd& memory) noexcept {
  struct stat about {};
  if (::fstat(memory.get(), &about) != 0) return failure(Status::last_errno());
  // Access to a file that is truncated later would raise SIGBUS.
  const int seals = ::fcntl(memory.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals || about.st_size != kLocalMemorySize) return failure(FI_EINVAL);
  return map(memory.get(), 0);
}

// The other end fetches from the process that made this end. A forked child has another copy of the memory.
bool LocalWire::in_its_process() const noexcept {
  return process_ == this_process();
}

void LocalWire::keep_proof() noexcept {
  kept_ = own_.proof.load(std::memory_order_acquire);
  own_.proof_at.store(reinterpret_cast<std::uintptr_t>(&kept_), std::memory_order_release);
}

Status LocalWire::test_peer_access(pid_t peer) noexcept {
  peer_ = peer;
  proof_at_ = other_.proof_at.load(std::memory_order_acquire);
  const Status status = peer != 0 && proof_at_ != 0 ? read_memory({}, proof_at_) : Status(-FI_EPERM);
  if (status.ok()) own_.fetches.store(1, std::memory_order_release);
  return status;
}

void LocalWire::revoke_offers() noexcept {
  ::explicit_bzero(&kept_, sizeof kept_);
  std::atomic_thread_fence(std::memory_order_seq_cst);  // before memory is reused that the other end may be reading
}

void LocalWire::close() noexcept {
  revoke_offers();
  own_.closed.store(1, std::memory_order_release);
}

// ---- Writing ----

ssize_t LocalWire::write(std::span<const iovec> pieces, bool may_offer) noexcept {
  if (offered_len_ != 0) {
    if (may_offer && in_its_process()) offer(pieces, offered_len_);
    return -EAGAIN;
  }
  if (overflow_.allowed) [[unlikely]] {
    if (!enter_overflow()) return -EPROTO;
    if (overflow_.open) return write_overflow(pieces);
  }
  const bool fetches = may_offer && other_.fetches.load(std::memory_order_relaxed) != 0;
  const std::uint64_t before = written_;
  for (std::size_t i = 0; i < pieces.size(); ++i) {
    const iovec& piece = pieces[i];
    if (fetches && piece.iov_len >= kLeastOffered && in_its_process()) {
      publish_written();
      pieces_offered_ = 0;
      offer(pieces.subspan(i), 0);
      break;
    }
    const auto* from = static_cast<const std::byte*>(piece.iov_base);
    if (piece.iov_len > room() && !look_for_room()) return -EPROTO;
    const std::size_t len = std::min(piece.iov_len, room());
    for (std::size_t left = len; left != 0;) {
      const std::size_t part = step(written_, left);
      std::memcpy(out_ring_ + written_ % kRing, from, part);
      from += part;
      left -= part;
      written_ += part;
      if (written_ - published_ >= kStep) publish_written();
    }
    if (len != piece.iov_len) {
      // Short messages go whole or not at all, so that injected ones are never left half sent.
      if (total_length(pieces) < kStep) written_ = before;
      break;
    }
  }
  publish_written();
  return written_ != before ? static_cast<ssize_t>(written_ - before) : -EAGAIN;
}

// Once everything is read, bytes go through the ring again. False if the memory contains impossible values.
bool LocalWire::enter_overflow() noexcept {
  const std::uint64_t read = out_.read.load(std::memory_order_acquire);
  if (written_ - read > kRing + kOverflow) return false;
  if (read == written_) {
    if (overflow_.open) out_.overflows_until.store(written_, std::memory_order_release);
    read_behind_ = read;
    overflow_.allowed = overflow_.open = false;
  } else if (!overflow_.open) {
    overflow_.from = written_;
    overflow_.open = true;
    out_.overflows_from.store(written_, std::memory_order_release);
    out_.overflows_until.store(kOpen, std::memory_order_release);
  }
  return true;
}

ssize_t LocalWire::write_overflow(std::span<const iovec> pieces) noexcept {
  const std::uint64_t before = written_;
  for (const iovec& piece : pieces) {
    const std::size_t len = std::min(piece.iov_len, overflow_room());
    std::memcpy(memory_->overflows[end_] + (written_ - overflow_.from), piece.iov_base, len);
    written_ += len;
    if (len != piece.iov_len) break;
  }
  publish_written();
  return written_ != before ? static_cast<ssize_t>(written_ - before) : -EAGAIN;
}

// Read only when room is missing, because the reader's processor has that cache line.
bool LocalWire::look_for_room() noexcept {
  const std::uint64_t read = out_.read.load(std::memory_order_acquire);
  if (written_ - read > kRing) return false;
  read_behind_ = read;
  return true;
}

void LocalWire::publish_written() noexcept {
  if (published_ == written_) return;
  published_ = written_;
  published();
  out_.written.store(written_, std::memory_order_release);
}

// Offers the pieces behind the first `skip` bytes, which are offered.
void LocalWire::offer(std::span<const iovec> pieces, std::size_t skip) noexcept {
  for (const iovec& piece : pieces) {
    if (skip >= piece.iov_len) {
      skip -= piece.iov_len;
      continue;
    }
    if (pieces_offered_ == LocalMemory::kOffers) break;
    LocalMemory::Direction::Offer& place = out_.offered[offers_made_++ % LocalMemory::kOffers];
    place.at.store(reinterpret_cast<std::uintptr_t>(piece.iov_base) + skip, std::memory_order_relaxed);
    place.len.store(piece.iov_len - skip, std::memory_order_relaxed);
    offered_len_ += piece.iov_len - skip;
    skip = 0;
    ++pieces_offered_;
  }
  published();
  out_.offers.store(offers_made_, std::memory_order_release);
}

// An end that refuses never fetches again, so the rest goes through the ring.
ssize_t LocalWire::settle() noexcept {
  const bool refused = out_.refuses.load(std::memory_order_acquire) != 0;
  const std::uint64_t fetched = out_.fetched.load(std::memory_order_acquire) - settled_;
  observed();
  if (fetched > offered_len_) return -EPROTO;
  settled_ += fetched;
  offered_len_ = refused ? 0 : offered_len_ - fetched;
  return static_cast<ssize_t>(fetched);
}

// ---- Reading ----

ssize_t LocalWire::read(std::span<const iovec> pieces) noexcept {
  // An offered piece follows the bytes that were written before it was offered.
  const std::uint64_t offers = in_.offers.load(std::memory_order_acquire);
  const std::uint64_t written = in_.written.load(std::memory_order_acquire);
  std::uint64_t left = written - read_;
  if (left == 0) return offers != offers_taken_ && !refuses_ ? fetch(pieces) : -EAGAIN;
  if (read_ < in_.overflows_until.load(std::memory_order_acquire)) [[unlikely]] {
    const std::uint64_t from = in_.overflows_from.load(std::memory_order_acquire);
    if (read_ >= from) return read_overflow(pieces, left, read_ - from);
    left = std::min(left, from - read_);
  }
  if (left > kRing) return -EPROTO;
  observed();
  const std::uint64_t before = read_;
  for (const iovec& piece : pieces) {
    auto* to = static_cast<std::byte*>(piece.iov_base);
    for (std::size_t room = std::min<std::uint64_t>(piece.iov_len, left); room != 0;) {
      const std::size_t part = step(read_, room);
      std::memcpy(to, in_ring_ + read_ % kRing, part);
      to += part;
      room -= part;
      left -= part;
      read_ += part;
      if (part == kStep) publish_read();
    }
    if (left == 0) break;
  }
  // A writer sleeps for room only while it finds more than half of the ring unread, and it finds at least what was read
  // at the last check. So the writer is checked once in half a ring, which saves a fence for each message.
  must_check_writer_ |= written - checked_ > kRing / 2 && written - read_ <= kRing / 2;
  publish_read();
  return static_cast<ssize_t>(read_ - before);
}

// Whole pages that were read are given back before the writer may use them again.
ssize_t LocalWire::read_overflow(std::span<const iovec> pieces, std::uint64_t left, std::uint64_t begin) noexcept {
  if (begin > kOverflow || left > kOverflow - begin) return -EPROTO;
  observed();
  std::byte* const overflow = memory_->overflows[1 - end_];
  std::uint64_t at = begin;
  for (const iovec& piece : pieces) {
    const std::size_t len = std::min<std::uint64_t>(piece.iov_len, left);
    std::memcpy(piece.iov_base, overflow + at, len);
    at += len;
    left -= len;
  }
  const std::size_t first = begin / LocalMemory::kPage * LocalMemory::kPage;
  const std::size_t last = at / LocalMemory::kPage * LocalMemory::kPage;
  if (last != first) (void)::madvise(overflow + first, last - first, MADV_REMOVE);
  must_check_writer_ = true;
  read_ += at - begin;
  publish_read();
  return static_cast<ssize_t>(at - begin);
}

void LocalWire::publish_read() noexcept {
  published();
  in_.read.store(read_, std::memory_order_release);
}

ssize_t LocalWire::fetch(std::span<const iovec> pieces) noexcept {
  observed();
  must_check_writer_ = true;
  if (fetch_len_ == 0) {
    const LocalMemory::Direction::Offer& place = in_.offered[offers_taken_ % LocalMemory::kOffers];
    fetch_at_ = place.at.load(std::memory_order_relaxed);
    fetch_len_ = place.len.load(std::memory_order_relaxed);
    if (fetch_len_ == 0 || own_.fetches.load(std::memory_order_relaxed) == 0) return -EPROTO;
  }
  const Pieces to(pieces, std::min<std::uint64_t>(kSlice, fetch_len_));
  if (!read_memory(to, fetch_at_).ok()) {
    refuses_ = true;
    own_.fetches.store(0, std::memory_order_relaxed);
    in_.refuses.store(1, std::memory_order_release);
    return -EAGAIN;
  }
  fetch_at_ += to.len;
  fetch_len_ -= to.len;
  if (fetch_len_ == 0) ++offers_taken_;
  published();
  in_.fetched.store(fetched_ += to.len, std::memory_order_release);
  return static_cast<ssize_t>(to.len);
}

Status LocalWire::read_peer(std::span<const iovec> to, std::uint64_t from, std::size_t len) noexcept {
  if (own_.fetches.load(std::memory_order_relaxed) == 0 || len > kSlice) return Status(-FI_EOPNOTSUPP);
  const Pieces pieces(to, len);
  return pieces.len == len ? read_memory(pieces, from) : Status(-FI_EOPNOTSUPP);
}

LocalWire::Pieces::Pieces(std::span<const iovec> pieces, std::size_t most) noexcept {
  for (const iovec& piece : pieces) {
    if (len == most || count == kMost) break;
    to[count] = {piece.iov_base, std::min(piece.iov_len, most - len)};
    len += to[count++].iov_len;
  }
}

// The proof is read last.
Status LocalWire::read_memory(const Pieces& to, std::uint64_t from) noexcept {
  if (peer_closed()) return Status(-FI_ECONNRESET);
  std::uint64_t found = 0;
  iovec local[Pieces::kMost + 1];
  *std::copy_n(to.to, to.count, local) = {&found, sizeof found};
  iovec remote[] = {{reinterpret_cast<void*>(static_cast<std::uintptr_t>(from)), to.len},
                    {reinterpret_cast<void*>(static_cast<std::uintptr_t>(proof_at_)), sizeof found}};
  const ssize_t got = ::process_vm_readv(peer_, local, to.count + 1, remote, 2, 0);
  if (got < 0) return Status::last_errno();
  if (static_cast<std::size_t>(got) != to.len + sizeof found) return Status(-FI_EFAULT);
  return Status(found == proof_ ? 0 : -FI_ECONNRESET);
}

}  // namespace weft::tcp
