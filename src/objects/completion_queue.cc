// SPDX-License-Identifier: BSD-2-Clause
// Completion queues: the ring of entries and the list of errors; fi_cq(3).
#include "objects/completion_queue.h"

#include <algorithm>
#include <bit>
#include <new>

#include "objects/sentence.h"

namespace weft {

namespace {

constexpr size_t kDefaultSize = 1024;
constexpr uint64_t kFirstCapacity = 64;  // entries; an empty queue stays small

// The layouts that the ring relies on: each format is a prefix of Completion.
static_assert(sizeof(fi_cq_entry) == offsetof(Completion, flags));
static_assert(sizeof(fi_cq_msg_entry) == offsetof(Completion, buf));
static_assert(sizeof(fi_cq_data_entry) == offsetof(Completion, tag));
static_assert(sizeof(fi_cq_tagged_entry) == offsetof(Completion, src_addr));
static_assert(offsetof(fi_cq_tagged_entry, len) == offsetof(Completion, len));
static_assert(offsetof(fi_cq_tagged_entry, buf) == offsetof(Completion, buf));
static_assert(offsetof(fi_cq_tagged_entry, data) == offsetof(Completion, data));
static_assert(offsetof(fi_cq_tagged_entry, tag) == offsetof(Completion, tag));

// Bytes of the fi_cq_err_entry of programs written for `api_version`.
size_t error_entry_size(uint32_t api_version) noexcept {
  if (FI_VERSION_LT(api_version, FI_VERSION(1, 5))) return offsetof(fi_cq_err_entry, err_data_size);
  if (FI_VERSION_LT(api_version, FI_VERSION(1, 20))) return offsetof(fi_cq_err_entry, src_addr);
  return sizeof(fi_cq_err_entry);
}
static_assert(offsetof(fi_cq_err_entry, err_data_size) == 72 && offsetof(fi_cq_err_entry, src_addr) == 80 &&
              sizeof(fi_cq_err_entry) == 88);

// Bytes of an entry, by fi_cq_format.
constexpr size_t kEntrySizes[] = {sizeof(fi_cq_entry), sizeof(fi_cq_entry), sizeof(fi_cq_msg_entry),
                                  sizeof(fi_cq_data_entry), sizeof(fi_cq_tagged_entry)};
static_assert(FI_CQ_FORMAT_UNSPEC == 0 && FI_CQ_FORMAT_MSG == 2 && FI_CQ_FORMAT_TAGGED == 4);

}  // namespace

CompletionQueueCore::CompletionQueueCore(Ref<RefCounted> parent, const fi_cq_attr& attr, uint32_t api_version,
                                         bool locking, StrerrorFn error_text)
    : parent_(std::move(parent)),
      entry_size_(kEntrySizes[attr.format]),
      size_(attr.size != 0 ? attr.size : kDefaultSize),
      api_version_(api_version),
      signaling_vector_((attr.flags & FI_AFFINITY) != 0 ? std::optional(attr.signaling_vector) : std::nullopt),
      threshold_wait_(attr.wait_obj != FI_WAIT_NONE && attr.wait_cond == FI_CQ_COND_THRESHOLD),
      error_text_(error_text),
      mutex_(locking) {}

Status CompletionQueueCore::check(const fi_cq_attr* attr, bool locking) {
  if (attr == nullptr) return Status(-FI_EINVAL);
  if ((attr->flags & ~uint64_t{FI_AFFINITY}) != 0) return Status(-FI_EBADFLAGS);
  const bool conditional = attr->wait_obj != FI_WAIT_NONE;  // else wait_cond has no meaning
  if (attr->format > FI_CQ_FORMAT_TAGGED || (conditional && attr->wait_cond > FI_CQ_COND_THRESHOLD))
    return Status(-FI_EINVAL);
  // Its thread would race with calls that take no lock.
  if (attr->wait_obj == FI_WAIT_MUTEX_COND && !locking) return Status(-FI_ENOSYS);
  return {};
}

// A queue that is half full grows, so that memory may be scarce for as long as the other half lasts.
void CompletionQueueCore::write(const Completion& completion) noexcept {
  {
    Lock lock(mutex_);
    if (tail_ - head_ >= grow_at_) [[unlikely]]
      if (!grow_locked() && tail_ - head_ == capacity_) return overrun_locked();
    if (sources_ != nullptr || completion.src_addr != FI_ADDR_NOTAVAIL) [[unlikely]]
      if (!store_source_locked(completion.src_addr)) return overrun_locked();
    copy_entry(slot(tail_), &completion, entry_size_);
    ++tail_;
    unread_.store(unread_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  wait_.signal();
}

void CompletionQueueCore::write_error(const CompletionError& error) noexcept {
  {
    Lock lock(mutex_);
    StoredError stored{.position = tail_, .entry = {}, .data = {}, .sentence = {}};
    try {
      const auto* data = static_cast<const std::byte*>(error.err_data);
      stored.sentence = error.sentence;
      if (stored.sentence.empty() && error.prov_errno == 0) stored.sentence = fi_strerror(error.err);  // not "Success"
      if (data != nullptr) stored.data.assign(data, data + error.err_data_size);
    } catch (const std::bad_alloc&) {
      // The error is reported without its details.
    }
    try {
      std::memcpy(&stored.entry, static_cast<const Completion*>(&error), sizeof(fi_cq_tagged_entry));
      stored.entry.olen = error.olen;
      stored.entry.err = error.err;
      stored.entry.prov_errno = error.prov_errno;
      stored.entry.src_addr = error.src_addr;
      errors_.push_back(std::move(stored));
    } catch (const std::bad_alloc&) {
      return overrun_locked();
    }
    unread_.store(unread_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  }
  wait_.signal();
}

// The -FI_EOVERRUN after the last entry counts as one more unread entry, for ever.
void CompletionQueueCore::overrun_locked() noexcept {
  if (!overrun_) unread_.store(unread_.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  overrun_ = true;
  wait_.signal();
}

// False when memory runs out.
bool CompletionQueueCore::grow_locked() noexcept {
  const uint64_t bigger = capacity_ == 0 ? std::bit_ceil(std::min(kFirstCapacity, uint64_t{size_})) : capacity_ * 2;
  std::unique_ptr<std::byte[]> entries(new (std::nothrow) std::byte[bigger * entry_size_]);
  std::unique_ptr<fi_addr_t[]> sources(sources_ != nullptr ? new (std::nothrow) fi_addr_t[bigger] : nullptr);
  if (entries == nullptr || (sources == nullptr && sources_ != nullptr)) return false;
  for (uint64_t i = head_; i != tail_; ++i) {
    std::memcpy(&entries[(i & (bigger - 1)) * entry_size_], slot(i), entry_size_);
    if (sources != nullptr) sources[i & (bigger - 1)] = sources_[i & (capacity_ - 1)];
  }
  entries_ = std::move(entries);
  sources_ = std::move(sources);
  capacity_ = bigger;
  grow_at_ = bigger / 2;
  return true;
}

bool CompletionQueueCore::store_source_locked(fi_addr_t source) noexcept {
  if (sources_ == nullptr) {
    sources_.reset(new (std::nothrow) fi_addr_t[capacity_]);
    if (sources_ == nullptr) return false;
    std::fill_n(sources_.get(), capacity_, FI_ADDR_NOTAVAIL);
  }
  sources_[tail_ & (capacity_ - 1)] = source;
  return true;
}

ssize_t CompletionQueueCore::take(void* buf, size_t count, fi_addr_t* sources) noexcept {
  Lock lock(mutex_);
  if (tail_ - head_ != 1 || !errors_.empty() || sources != nullptr || count == 0)
    return take_locked(buf, count, sources);
  copy_entry(static_cast<std::byte*>(buf), slot(head_), entry_size_);
  ++head_;
  unread_.store(unread_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  return 1;
}

ssize_t CompletionQueueCore::take_locked(void* buf, size_t count, fi_addr_t* sources) noexcept {
  const uint64_t limit = errors_.empty() ? tail_ : errors_.front().position;
  if (limit == head_) {
    if (!errors_.empty()) return -FI_EAVAIL;
    return overrun_ ? -FI_EOVERRUN : -FI_EAGAIN;
  }
  const uint64_t taken = std::min<uint64_t>(count, limit - head_);
  auto* out = static_cast<std::byte*>(buf);
  for (uint64_t done = 0; done != taken;) {  // once, or twice at the end of the buffer
    const uint64_t at = (head_ + done) & (capacity_ - 1);
    const uint64_t batch = std::min(taken - done, capacity_ - at);
    std::memcpy(out + done * entry_size_, entries_.get() + at * entry_size_, batch * entry_size_);
    if (sources != nullptr && sources_ != nullptr)
      std::memcpy(sources + done, sources_.get() + at, batch * sizeof *sources);
    done += batch;
  }
  if (sources != nullptr && sources_ == nullptr) std::fill_n(sources, taken, FI_ADDR_NOTAVAIL);
  head_ += taken;
  unread_.store(unread_.load(std::memory_order_relaxed) - taken, std::memory_order_relaxed);
  return static_cast<ssize_t>(taken);
}

ssize_t CompletionQueueCore::take_error(fi_cq_err_entry* out) noexcept {
  if (out == nullptr) return -FI_EINVAL;
  Lock lock(mutex_);
  if (errors_.empty()) return -FI_EAGAIN;
  StoredError& stored = errors_.front();
  last_error_data_ = std::move(stored.data);
  last_sentence_ = std::move(stored.sentence);
  last_prov_errno_ = stored.entry.prov_errno;
  fi_cq_err_entry entry = stored.entry;

  const size_t size = error_entry_size(api_version_);
  const bool has_size = size > offsetof(fi_cq_err_entry, err_data_size);
  if (has_size && out->err_data_size != 0 && out->err_data != nullptr) {
    entry.err_data = out->err_data;
    entry.err_data_size = std::min(out->err_data_size, last_error_data_.size());
    if (entry.err_data_size != 0) std::memcpy(entry.err_data, last_error_data_.data(), entry.err_data_size);
  } else {
    entry.err_data = last_error_data_.empty() ? nullptr : last_error_data_.data();
    entry.err_data_size = last_error_data_.size();
  }
  std::memcpy(out, &entry, size);
  errors_.pop_front();
  unread_.store(unread_.load(std::memory_order_relaxed) - 1, std::memory_order_relaxed);
  return 1;
}

// As with event queues, a sentence from the time of the error belongs to the error read last.
const char* CompletionQueueCore::text_of(int prov_errno, const void* err_data, char* buf, size_t len) noexcept {
  Lock lock(mutex_);
  const bool known = !last_sentence_.empty() && prov_errno == last_prov_errno_;
  if (!known && error_text_ != nullptr) return error_text_(prov_errno, err_data, buf, len);
  return copy_text(known ? last_sentence_.c_str() : fi_strerror(prov_errno), buf, len);
}

}  // namespace weft
