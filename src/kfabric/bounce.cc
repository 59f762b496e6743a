// SPDX-License-Identifier: BSD-2-Clause
// Lists of memory in libfabric's form, and operations through one buffer.
#include "kfabric/bounce.h"

#include <algorithm>
#include <bit>
#include <cstring>

namespace weft::kfabric {
namespace {

// Bits of scatterlist::page_link.
constexpr unsigned long kLink = 1;
constexpr unsigned long kLast = 2;
constexpr unsigned long kMarks = 3;

}  // namespace

Pieces::Pieces(kfi_iov_type type, const void* list, void* const* desc, size_t count) {
  has_desc_ = desc != nullptr;
  valid_ = count <= kMaxPieces && (list != nullptr || count == 0);
  const auto* entry = static_cast<const scatterlist*>(list);
  for (size_t i = 0; i < count && valid_; i++) {
    void* base = nullptr;
    size_t len = 0;
    switch (type) {
      case KFI_KVEC:
        base = static_cast<const kvec*>(list)[i].iov_base;
        len = static_cast<const kvec*>(list)[i].iov_len;
        break;
      case KFI_BVEC: {
        const bio_vec& piece = static_cast<const bio_vec*>(list)[i];
        valid_ = piece.bv_page != nullptr;
        base = reinterpret_cast<char*>(piece.bv_page) + piece.bv_offset;
        len = piece.bv_len;
        break;
      }
      case KFI_SGL:
        if (entry->page_link & kLink) entry = reinterpret_cast<const scatterlist*>(entry->page_link & ~kMarks);
        // The entries may end before the count.
        valid_ = entry->dma_address != 0 && (i + 1 == count || (entry->page_link & kLast) == 0);
        base = reinterpret_cast<void*>(entry->dma_address);
        len = entry->dma_length;
        entry++;
        break;
      default:
        valid_ = false;
    }
    if (valid_) add(base, len, has_desc_ ? desc[i] : nullptr);
  }
  if (type < KFI_KVEC || type > KFI_SGL) valid_ = false;
}

void Pieces::add(void* base, size_t len, void* desc) {
  if (count_ > 0 && desc_[count_ - 1] == desc) {
    iovec& last = iov_[count_ - 1];
    if (static_cast<char*>(last.iov_base) + last.iov_len == base) {
      last.iov_len += len;
      return;
    }
  }
  iov_[count_] = {base, len};
  desc_[count_++] = desc;
}

size_t Pieces::bytes() const {
  size_t sum = 0;
  for (size_t i = 0; i < count_; i++) sum += iov_[i].iov_len;
  return sum;
}

Buffer::~Buffer() {
  if (region != nullptr) fi_close(&region->fid);
}

std::unique_ptr<Buffer>& BufferPool::stack(size_t size) {
  return stacks_[std::bit_width(size) - std::bit_width(kSmallest)];
}

int BufferPool::take(size_t bytes, fid_domain* registering, std::unique_ptr<Buffer>& buffer) {
  const size_t size = bytes > kLargest ? bytes : std::bit_ceil(std::max(bytes, kSmallest));
  if (size <= kLargest) {
    std::lock_guard lock(mutex_);
    if (std::unique_ptr<Buffer>& top = stack(size)) {
      buffer = std::move(top);
      top = std::move(buffer->next);
      bytes_ -= size;
      return 0;
    }
  }
  auto made = std::make_unique<Buffer>();
  made->memory.reset(new char[size]);
  made->size = size;
  if (registering != nullptr) {
    const int result = fi_mr_reg(registering, made->memory.get(), size, FI_SEND | FI_RECV | FI_READ | FI_WRITE, 0,
                                 reinterpret_cast<uintptr_t>(made.get()), 0, &made->region, nullptr);
    if (result != 0) return result;
  }
  buffer = std::move(made);
  return 0;
}

void BufferPool::give(std::unique_ptr<Buffer> buffer) noexcept {
  std::lock_guard lock(mutex_);
  if (buffer->size > kLargest || bytes_ + buffer->size > kMost) return;
  std::unique_ptr<Buffer>& top = stack(buffer->size);
  bytes_ += buffer->size;
  buffer->next = std::move(top);
  top = std::move(buffer);
}

void BufferPool::clear() noexcept {
  std::lock_guard lock(mutex_);
  for (std::unique_ptr<Buffer>& top : stacks_) {
    while (top) top = std::move(top->next);
  }
  bytes_ = 0;
}

Bounce::~Bounce() {
  if (buffer) pool.give(std::move(buffer));
}

void Bounces::add(std::unique_ptr<Bounce> bounce) {
  std::lock_guard lock(mutex_);
  void* key = bounce.get();
  map_.emplace(key, std::move(bounce));
  outstanding_++;
}

std::unique_ptr<Bounce> Bounces::take(void* context_below) {
  std::lock_guard lock(mutex_);
  auto found = map_.find(context_below);
  if (found == map_.end()) return nullptr;
  std::unique_ptr<Bounce> bounce = std::move(found->second);
  map_.erase(found);
  outstanding_--;
  return bounce;
}

void* Bounces::context_below(void* context) {
  std::lock_guard lock(mutex_);
  for (const auto& [below, bounce] : map_) {
    if (bounce->context == context) return below;
  }
  return context;
}

void scatter(const Bounce& bounce, size_t bytes) {
  const char* from = bounce.buffer->memory.get();
  bytes = std::min(bytes, bounce.bytes);
  for (const iovec& piece : bounce.pieces) {
    const size_t part = std::min(bytes, piece.iov_len);
    if (part != 0) std::memcpy(piece.iov_base, from, part);
    from += part;
    bytes -= part;
  }
}

}  // namespace weft::kfabric
