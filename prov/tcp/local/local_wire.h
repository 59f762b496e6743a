// SPDX-License-Identifier: BSD-2-Clause
// Two rings in memory that the two ends of a connection share: the bytes of the connection, one ring a direction;
// docs/decisions/0012-local-wire.md.
//
// A ring is a queue of bytes with one writer and one reader, which publish how many bytes they have written and read.
// Long pieces of messages do not go through the ring: their writer offers their addresses and lengths, behind the bytes
// of the ring, and the reader fetches them from the writer's process, process_vm_readv(2). Until it has fetched all,
// everything is offered, and nothing is written to the ring. A fetch ends with a proof: sixty-four bits that the reader
// chose and the writer keeps until its end is closed. If they are right, the bytes before them are those of an open
// connection.
//
// A reader that makes no progress does not stop its writer at once: as over a socket, the writer may go on
// in an overflow until the reader has read everything.
//
// An end sets a flag in the memory before it sleeps. The other end then wakes it over the connection (transport.h).
//
// The other process may write anything at any time: each number is read once and checked before it is used.
//
// Thread-safety: the engine's mutex guards the object; the other process accesses the memory at the same time.
#pragma once

#include <sys/mman.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>

#include "base/status.h"
#include "base/unique_fd.h"

namespace weft::tcp {

// The layout of the memory, which is all zeros at first. End 0 attaches to the memory that end 1 creates.
struct LocalMemory {
  static constexpr std::size_t kLine = 64;  // bytes of a cache line
  static constexpr std::size_t kRing = 15'616;
  static constexpr std::size_t kOverflow = std::size_t{8} << 20;
  static constexpr std::size_t kPage = 4096;
  static constexpr std::size_t kOffers = 16;
  using Flag = std::atomic<std::uint32_t>;  // a bool must not have other values than two, and the peer writes any
  static constexpr std::uint32_t kAwaitsInput = 1, kAwaitsRoom = 2;

  struct alignas(kLine) Direction {
    // The writer's. Positions count all bytes since the beginning.
    std::atomic<std::uint64_t> written;
    std::atomic<std::uint64_t> offers;  // pieces offered so far
    // The bytes at the positions from overflows_from to overflows_until are in the overflow, from its beginning;
    // overflows_until is kOpen while the writer still adds bytes.
    std::atomic<std::uint64_t> overflows_from, overflows_until;
    // The reader's.
    alignas(kLine) std::atomic<std::uint64_t> read;
    std::atomic<std::uint64_t> fetched;  // bytes of all offers so far
    Flag refuses;                        // the reader fetches nothing more
    // The writer's. Piece number n is in offered[n % kOffers].
    struct Offer {
      std::atomic<std::uint64_t> at, len;
    };
    alignas(kLine) Offer offered[kOffers];
  };
  struct alignas(kLine) End {
    std::atomic<std::uint32_t> asleep;    // kAwaits...: this end sleeps, and must be woken for these
    Flag fetches;                         // the end can read the other one's memory
    Flag closed;                          // the end closed in order: the end of the socket is no error
    std::atomic<std::uint64_t> proof;     // to be kept by this end; chosen by the other
    std::atomic<std::uint64_t> proof_at;  // the address at which this end keeps it
  };
  static_assert(std::atomic<std::uint64_t>::is_always_lock_free && Flag::is_always_lock_free);

  Direction directions[2];  // directions[i] is written by end i
  End ends[2];
  alignas(kLine) std::byte rings[2][kRing];
  alignas(kPage) std::byte overflows[2][kOverflow];  // takes no memory before it is used, nor once it was read
};
inline constexpr std::size_t kLocalMemorySize = sizeof(LocalMemory);
static_assert(offsetof(LocalMemory, overflows) == 32 * 1024, "bytes that two peers usually share");

// One end. Owner: the transport. Must not move.
class LocalWire {
 public:
  // Longer pieces of messages are offered to an end that can fetch them.
  static constexpr std::size_t kLeastOffered = 16 * 1024;

  // End 1, and the descriptor of the memory for the other end.
  static Result<std::unique_ptr<LocalWire>> create(UniqueFd& memory) noexcept;
  // End 0. -FI_EINVAL if the memory is not of this kind, or may be truncated.
  static Result<std::unique_ptr<LocalWire>> attach(const UniqueFd& memory) noexcept;
  LocalWire(const LocalWire&) = delete;
  LocalWire& operator=(const LocalWire&) = delete;
  ~LocalWire() { close(); }

  // Sets the process of the other end (0: it has no number in this namespace) and tests whether its memory can be read.
  // On an error long messages are copied twice. Called once the other end's proof_at is set.
  Status test_peer_access(pid_t peer) noexcept;
  // Keeps the proof that the other end chose.
  void keep_proof() noexcept;

  // Returns how many bytes were taken, at least 1; -EPROTO: impossible values there; -EAGAIN: no room, or pieces
  // are offered. After -EAGAIN the call is repeated with at least the same bytes, less those that settle() reports as
  // fetched. `may_offer`: the bytes stay where they are until the call is repeated.
  ssize_t write(std::span<const iovec> pieces, bool may_offer = true) noexcept;
  // Pieces are offered, and the other end has not fetched all of them.
  bool has_offers() const noexcept { return offered_len_ != 0; }
  // Revokes the offers: copies by the other end fail from now on, even one under way. Then the rest of the pieces,
  // and all later ones, go through the ring.
  void revoke_offers() noexcept;
  // Pieces are offered, and write() can offer more.
  bool may_offer() const noexcept { return has_offers() && pieces_offered_ < LocalMemory::kOffers; }
  // The other end has fetched something. What it sends afterwards may refer to that, so settle() comes before such
  // bytes are handled.
  bool is_settled() const noexcept {
    return offered_len_ != 0 && (out_.fetched.load(std::memory_order_relaxed) != settled_ ||
                                 out_.refuses.load(std::memory_order_relaxed) != 0);
  }
  // Returns how many bytes the other end has fetched; -EPROTO.
  ssize_t settle() noexcept;
  // Returns how many bytes were read, at least 1; -EAGAIN, -EPROTO.
  ssize_t read(std::span<const iovec> pieces) noexcept;
  // Reads the memory of the other process apart from the rings; PeerMemoryOps.
  Status read_peer(std::span<const iovec> to, std::uint64_t from, std::size_t len) noexcept;
  // Whether the other end may read this process.
  bool is_readable() const noexcept { return other_.fetches.load(std::memory_order_relaxed) != 0 && in_its_process(); }

  bool has_input() const noexcept {
    return in_.written.load(std::memory_order_relaxed) != read_ ||
           (in_.offers.load(std::memory_order_relaxed) != offers_taken_ && !refuses_);
  }
  // After -EAGAIN or a short write(): whether to try again.
  bool has_room() const noexcept {
    if (offered_len_ != 0) return is_settled();
    const std::uint64_t unread = written_ - out_.read.load(std::memory_order_relaxed);
    return overflow_.allowed ? unread == 0 || overflow_room() != 0 : unread <= kRing / 2;
  }
  // write() may not use the overflow yet, and could: offered pieces wait for the reader in any case.
  bool lacks_overflow() const noexcept { return offered_len_ == 0 && !overflow_.allowed; }
  // The reader has made no room for a long time: write() may use the overflow until everything is read.
  void allow_overflow() noexcept { overflow_.allowed |= lacks_overflow(); }

  // Requests a wake-up. From then on until awake() the caller checks for input or room once more before it sleeps.
  void fall_asleep(bool input, bool room) noexcept {
    const std::uint32_t what = (input ? LocalMemory::kAwaitsInput : 0) | (room ? LocalMemory::kAwaitsRoom : 0);
    own_.asleep.store(what, std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_seq_cst);
  }
  void awake() noexcept {
    if (own_.asleep.load(std::memory_order_relaxed) != 0) own_.asleep.store(0, std::memory_order_relaxed);
  }
  // After write() or read(). True: the other end sleeps, and the caller must wake it.
  bool must_wake_reader() noexcept { return must_wake(LocalMemory::kAwaitsInput); }
  bool must_wake_writer() noexcept {
    if (!must_check_writer_) return false;
    must_check_writer_ = false;
    checked_ = read_;
    return must_wake(LocalMemory::kAwaitsRoom);
  }
  bool peer_closed() const noexcept { return other_.closed.load(std::memory_order_acquire) != 0; }

  // From now on the other end fetches nothing more, and a fetch under way fails.
  void close() noexcept;

 private:
  static constexpr std::size_t kRing = LocalMemory::kRing, kOverflow = LocalMemory::kOverflow;
  static constexpr std::uint64_t kOpen = ~std::uint64_t{0};  // overflows_until
  struct Unmap {
    void operator()(LocalMemory* memory) const noexcept { ::munmap(memory, kLocalMemorySize); }
  };
  using Mapping = std::unique_ptr<LocalMemory, Unmap>;
  // The destination of one call to process_vm_readv(2).
  struct Pieces {
    static constexpr std::size_t kMost = 15;
    Pieces() noexcept = default;
    // The first of these, at most `most` bytes.
    Pieces(std::span<const iovec> pieces, std::size_t most) noexcept;
    iovec to[kMost];
    std::size_t count = 0, len = 0;
  };

  LocalWire(Mapping&& memory, std::size_t end) noexcept;
  static Result<std::unique_ptr<LocalWire>> map(int fd, std::size_t end) noexcept;

  // The other end may have woken and fallen asleep for something else in between: all that is cleared is answered.
  bool must_wake(std::uint32_t for_what) noexcept {
    std::atomic_thread_fence(std::memory_order_seq_cst);
    return (other_.asleep.load(std::memory_order_relaxed) & for_what) != 0 && other_.asleep.exchange(0) != 0;
  }
  std::size_t overflow_room() const noexcept {
    return kOverflow - (overflow_.open ? static_cast<std::size_t>(written_ - overflow_.from) : 0);
  }
  bool enter_overflow() noexcept;
  ssize_t write_overflow(std::span<const iovec> pieces) noexcept;
  ssize_t read_overflow(std::span<const iovec> pieces, std::uint64_t left, std::uint64_t begin) noexcept;
  std::size_t room() const noexcept { return kRing - static_cast<std::size_t>(written_ - read_behind_); }
  bool in_its_process() const noexcept;
  bool look_for_room() noexcept;
  void publish_written() noexcept;
  void publish_read() noexcept;
  void offer(std::span<const iovec> pieces, std::size_t skip) noexcept;
  ssize_t fetch(std::span<const iovec> pieces) noexcept;
  Status read_memory(const Pieces& to, std::uint64_t from) noexcept;

  const Mapping memory_;
  LocalMemory::Direction& out_;
  LocalMemory::Direction& in_;
  LocalMemory::End& own_;
  LocalMemory::End& other_;
  std::byte* const out_ring_;
  const std::byte* const in_ring_;
  const std::size_t end_;
  const pid_t process_;  // that made this end
  // Copies of what this end publishes, which the other end cannot change.
  std::uint64_t written_ = 0, read_ = 0;
  std::uint64_t published_ = 0;    // the part of written_ that the other end can read
  std::uint64_t read_behind_ = 0;  // the other end's read, when this end last needed room
  std::uint64_t checked_ = 0;      // read_ when this end last checked whether the writer sleeps
  std::uint64_t offers_made_ = 0, offers_taken_ = 0;
  std::uint64_t offered_len_ = 0, settled_ = 0;  // bytes that the other end is fetching, and has fetched so far
  std::size_t pieces_offered_ = 0;               // since offered_len_ was 0
  std::uint64_t fetch_at_ = 0, fetch_len_ = 0;   // the rest of the piece that this end is fetching; 0 long: none
  std::uint64_t fetched_ = 0;
  struct {
    std::uint64_t from = 0;
    bool allowed = false, open = false;
  } overflow_;
  bool refuses_ = false;            // this end fetches nothing more
  bool must_check_writer_ = false;  // the writer may be asleep
  pid_t peer_ = 0;
  std::uint64_t proof_ = 0;     // the other end keeps it
  std::uint64_t proof_at_ = 0;  // at this address of the other end
  std::uint64_t kept_ = 0;      // the proof that the other end chose and reads here
};

}  // namespace weft::tcp
