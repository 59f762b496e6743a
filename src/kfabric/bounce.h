// SPDX-License-Identifier: BSD-2-Clause
// Memory in pieces: the client's lists in libfabric's form, and operations whose pieces are more than the provider
// takes at once. Those go through one buffer: gathered before a transmission, scattered at the completion of a receive
// or read.
#pragma once

#include <kfi/kfi_eq.h>

#include <array>
#include <atomic>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "kfabric/object.h"

namespace weft::kfabric {

inline constexpr size_t kMaxPieces = 256;

// A list of the client with neighbours merged.
class Pieces {
 public:
  Pieces(kfi_iov_type type, const void* list, void* const* desc, size_t count);
  Pieces(const kvec* list, void* const* desc, size_t count) : Pieces(KFI_KVEC, list, desc, count) {}
  Pieces(const bio_vec* list, void* const* desc, size_t count) : Pieces(KFI_BVEC, list, desc, count) {}
  // Mapped lists only, as in a kernel.
  Pieces(const scatterlist* list, void* const* desc, size_t count) : Pieces(KFI_SGL, list, desc, count) {}

  bool valid() const { return valid_; }
  size_t count() const { return count_; }
  const iovec* iov() const { return iov_.data(); }
  // NULL if the client gave none.
  void** desc() { return has_desc_ ? desc_.data() : nullptr; }
  size_t bytes() const;

 private:
  void add(void* base, size_t len, void* desc);

  std::array<iovec, kMaxPieces> iov_;
  std::array<void*, kMaxPieces> desc_;
  size_t count_ = 0;
  bool has_desc_ = false;
  bool valid_ = true;
};

// Memory that takes the place of pieces.
struct Buffer {
  std::unique_ptr<char[]> memory;
  size_t size = 0;               // bytes
  fid_mr* region = nullptr;      // where the provider requires registration
  std::unique_ptr<Buffer> next;  // in the pool

  ~Buffer();
};

// The buffers of a domain that no operation uses. They stay registered, because a registration takes longer than a
// message. Thread-safe.
class BufferPool {
 public:
  BufferPool() = default;
  BufferPool(const BufferPool&) = delete;
  BufferPool& operator=(const BufferPool&) = delete;
  ~BufferPool() { clear(); }
  // `registering`: the domain to register new memory with; NULL: none.
  int take(size_t bytes, fid_domain* registering, std::unique_ptr<Buffer>& buffer);
  void give(std::unique_ptr<Buffer> buffer) noexcept;
  // Before the domain closes, which the registrations would keep open.
  void clear() noexcept;

 private:
  static constexpr size_t kSmallest = 1 << 12, kLargest = 1 << 20;  // bytes of a buffer that stays, a power of two
  static constexpr size_t kMost = 1 << 24;                          // bytes of all of them

  std::unique_ptr<Buffer>& stack(size_t size);

  std::mutex mutex_;
  std::array<std::unique_ptr<Buffer>, 9> stacks_;  // for each size
  size_t bytes_ = 0;
};

// One operation through a buffer. Its address is the context beneath.
struct Bounce {
  BufferPool& pool;
  void* context = nullptr;    // the client's
  bool silent = false;        // the client gets no completion
  bool scatters = false;      // a receive or read
  std::vector<iovec> pieces;  // the client's memory
  std::unique_ptr<Buffer> buffer;
  size_t bytes = 0;

  explicit Bounce(BufferPool& from) : pool(from) {}
  Bounce(const Bounce&) = delete;
  Bounce& operator=(const Bounce&) = delete;
  ~Bounce();
};

// The operations of a completion queue that go through buffers. Thread-safe.
class Bounces {
 public:
  bool any() const { return outstanding_.load(std::memory_order_relaxed) != 0; }
  void add(std::unique_ptr<Bounce> bounce);
  // Ends the one with this context beneath; NULL: none.
  std::unique_ptr<Bounce> take(void* context_below);
  // The context beneath for an operation of the client, or the client's own.
  void* context_below(void* context);

 private:
  std::mutex mutex_;
  std::unordered_map<void*, std::unique_ptr<Bounce>> map_;
  std::atomic<size_t> outstanding_{0};
};

// Copies received bytes to their pieces.
void scatter(const Bounce& bounce, size_t bytes);

}  // namespace weft::kfabric
