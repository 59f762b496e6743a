// SPDX-License-Identifier: BSD-2-Clause
// Completion queues; fi_cq(3) governs. Entries are kept in the queue's own format, so a read is one copy of a whole
// batch into the caller's buffer; a write is one short lock, one copy and, unless a waiter is armed, no system call.
//
// Order: a failed operation keeps its place. Reads return the completions before it, then -FI_EAVAIL until
// fi_cq_readerr has taken it. The queue grows instead of losing entries; its size attribute only limits full().
#pragma once

#include <rdma/fi_eq.h>

#include <atomic>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "abi/ops.h"
#include "base/deadline.h"
#include "base/mutex.h"
#include "base/ref.h"
#include "base/status.h"
#include "objects/progress.h"
#include "objects/wait_object.h"
#include "objects/wait_set.h"

namespace weft {

// One finished operation. The members down to `tag` have the layout of fi_cq_tagged_entry; every smaller format is a
// prefix of it.
struct Completion {
  void* context = nullptr;
  uint64_t flags = 0;
  size_t len = 0;
  void* buf = nullptr;
  uint64_t data = 0;
  uint64_t tag = 0;
  fi_addr_t src_addr = FI_ADDR_NOTAVAIL;
};

struct CompletionError : Completion {
  size_t olen = 0;  // bytes that did not fit
  int err = 0;      // positive fi_errno
  int prov_errno = 0;
  const void* err_data = nullptr;  // copied
  size_t err_data_size = 0;
  std::string_view sentence = {};  // copied, for fi_cq_strerror; empty: the text of prov_errno, or of err
};

// Copies an entry, or a completion: every format is a prefix of it. `size` is the size of an entry format: the switch
// makes each copy a few moves.
inline void copy_entry(void* to, const void* from, size_t size) noexcept {
  switch (size) {
    case sizeof(fi_cq_entry):
      std::memcpy(to, from, sizeof(fi_cq_entry));
      break;
    case sizeof(fi_cq_msg_entry):
      std::memcpy(to, from, sizeof(fi_cq_msg_entry));
      break;
    case sizeof(fi_cq_data_entry):
      std::memcpy(to, from, sizeof(fi_cq_data_entry));
      break;
    default:
      std::memcpy(to, from, sizeof(fi_cq_tagged_entry));
  }
}

// Fills `buf` (if any) with the meaning of a provider's error number and returns it, or a static string.
using StrerrorFn = const char* (*)(int prov_errno, const void* err_data, char* buf, size_t len);

// The part that does not depend on the engine; endpoints hold a Ref to it. Thread-safe when opened with locking.
class CompletionQueueCore : public RefCounted {
 public:
  // Memory for the first entries; before an endpoint is bound. -FI_ENOMEM.
  Status reserve() noexcept {
    Lock lock(mutex_);
    return Status(capacity_ != 0 || grow_locked() ? 0 : -FI_ENOMEM);
  }
  // Any thread, also under an engine's lock. If memory runs out the queue is overrun: -FI_EOVERRUN once it has been
  // read empty.
  void write(const Completion& completion) noexcept;
  void write_error(const CompletionError& error) noexcept;
  // Completions were lost before they reached the queue.
  void overrun() noexcept {
    Lock lock(mutex_);
    overrun_locked();
  }

  // An entry or an error can be read. A hint, because it takes no lock: not for the decision to sleep.
  bool ready() const noexcept { return unread_.load(std::memory_order_relaxed) != 0; }
  // As many entries are unread as the application requested as size: time for back-pressure.
  bool full() const noexcept { return unread_.load(std::memory_order_relaxed) >= size_; }

  // A read without progress: a positive count, -FI_EAGAIN, -FI_EAVAIL or -FI_EOVERRUN. `sources` may be null.
  ssize_t take_ready(void* buf, size_t count, fi_addr_t* sources) noexcept {
    return ready() ? take(buf, count, sources) : -FI_EAGAIN;
  }

  // FI_AFFINITY: the interrupt that the queue was opened for.
  std::optional<int> signaling_vector() const noexcept { return signaling_vector_; }
  size_t entry_size() const noexcept { return entry_size_; }
  WaitObject& wait_object() noexcept { return wait_; }

 protected:
  CompletionQueueCore(Ref<RefCounted> parent, const fi_cq_attr& attr, uint32_t api_version, bool locking,
                      StrerrorFn error_text);
  ~CompletionQueueCore() = default;

  static Status check(const fi_cq_attr* attr, bool locking);

  ssize_t take(void* buf, size_t count, fi_addr_t* sources) noexcept;
  // At least `threshold` entries, or an error: a blocked reader returns.
  bool satisfies(size_t threshold) noexcept {
    Lock lock(mutex_);
    return !errors_.empty() || overrun_ || tail_ - head_ >= threshold;
  }
  ssize_t take_error(fi_cq_err_entry* out) noexcept;
  const char* text_of(int prov_errno, const void* err_data, char* buf, size_t len) noexcept;
  size_t threshold_of(const void* cond) const noexcept {
    return threshold_wait_ ? std::max<size_t>(reinterpret_cast<uintptr_t>(cond), 1) : 1;
  }
  Mutex& lock() noexcept { return mutex_; }

  WaitObject wait_;

 private:
  struct StoredError {
    uint64_t position;  // entries written before it
    fi_cq_err_entry entry;
    std::vector<std::byte> data;
    std::string sentence;
  };

  ssize_t take_locked(void* buf, size_t count, fi_addr_t* sources) noexcept;
  bool grow_locked() noexcept;
  void overrun_locked() noexcept;
  bool store_source_locked(fi_addr_t source) noexcept;
  std::byte* slot(uint64_t position) noexcept { return entries_.get() + (position & (capacity_ - 1)) * entry_size_; }

  const Ref<RefCounted> parent_;
  const size_t entry_size_;  // bytes
  const size_t size_;
  const uint32_t api_version_;
  const std::optional<int> signaling_vector_;
  const bool threshold_wait_;  // sread's cond counts
  const StrerrorFn error_text_;

  std::atomic<size_t> unread_{0};  // entries and errors; written under the lock, so that empty reads need none
  Mutex mutex_;                    // guards the rest
  std::unique_ptr<std::byte[]> entries_;
  std::unique_ptr<fi_addr_t[]> sources_;  // beside entries_; only once a completion had a source
  uint64_t capacity_ = 0;                 // in entries; a power of two or 0
  uint64_t grow_at_ = 0;                  // entries at which a write allocates the next size
  uint64_t head_ = 0;                     // free-running positions
  uint64_t tail_ = 0;
  std::list<StoredError> errors_;           // a deque occupies half a kilobyte while it is empty
  std::vector<std::byte> last_error_data_;  // readerr returned a pointer to it; valid until the next readerr
  std::string last_sentence_;               // the sentence of that error, if it has one, and ...
  int last_prov_errno_ = 0;                 // ... the number that fi_cq_strerror finds it by
  bool overrun_ = false;
};

// An engine that can read its completions itself may deliver them without a copy in the queue: `read_into` fills the
// caller's buffer with entries if none wait in the queue, else it returns queue.take_ready(). It returns what
// fi_cq_readfrom returns; `count` is not 0, `sources` may be null.
template <class E>
concept ReadsDirectly = requires(E& engine, CompletionQueueCore& queue, void* buf, size_t count, fi_addr_t* sources) {
  { engine.read_into(queue, buf, count, sources) }
  noexcept->std::same_as<ssize_t>;
};

// Owner: its C handle; close answers -FI_EBUSY while endpoints use it. An engine that belongs to one queue has a
// `release()`, which ends the engine.
template <class E>
class CompletionQueue final : public Object<fid_cq>, public CompletionQueueCore {
 public:
  // `parent` is the domain. `locking` is false only if every call in the domain is serialised (FI_THREAD_DOMAIN) and no
  // other thread drives the engine; see EngineBase::expect_others(). Null `error_text`: fi_strerror.
  static Result<CompletionQueue*> open(Ref<RefCounted> parent, const fi_cq_attr* attr, E& engine, uint32_t api_version,
                                       bool locking, StrerrorFn error_text, void* context) {
    static_assert(ProgressEngine<E>);
    if (Status status = check(attr, locking); !status.ok()) return failure(status);
    auto queue = std::unique_ptr<CompletionQueue>(
        new CompletionQueue(std::move(parent), *attr, engine, api_version, locking, error_text, context));
    if (Status status = queue->open_wait_object(*attr); !status.ok()) return failure(status);
    return queue.release();
  }
  ~CompletionQueue() {
    if constexpr (requires { engine_.on_closed(&lock()); }) engine_.on_closed(&lock());
  }
  // The queue of a handle of this class and engine, else null.
  static CompletionQueue* from(const ::fid* fid) noexcept { return object_if<CompletionQueue>(fid); }

  E& engine() noexcept { return engine_; }

  // For poll sets, wait sets and fi_trywait.
  void mark_reported() noexcept {}  // only counters keep marks
  void mark_seen() noexcept {}
  void drive() noexcept { make_progress(engine_); }
  bool prepare_wait() noexcept { return may_sleep(engine_); }
  bool must_not_sleep() noexcept { return satisfies(1); }
  int trywait() noexcept { return ready() ? -FI_EAGAIN : wait_.trywait(*this); }

  // Slots of fi_ops.
  int close() {
    if (in_use()) return -FI_EBUSY;
    wait_.stop_driver();
    wait_.detach_from(engine_);
    E& engine = engine_;
    delete this;
    if constexpr (requires { engine.release(); }) engine.release();
    return 0;
  }
  int control(int command, void* arg) noexcept {
    const int result = wait_.control(command, arg);
    if (command == FI_GETWAIT && result == 0) expect_sleepers(engine_);
    return result;
  }

  // Slots of fi_ops_cq.
  ssize_t read(void* buf, size_t count) noexcept { return readfrom(buf, count, nullptr); }
  ssize_t readfrom(void* buf, size_t count, fi_addr_t* src_addr) noexcept {
    if constexpr (ReadsDirectly<E>) {
      if (count != 0) [[likely]]
        return engine_.read_into(*this, buf, count, src_addr);
    }
    return drive_and_take(buf, count, src_addr);
  }
  ssize_t readerr(fi_cq_err_entry* buf, uint64_t /*reserved*/) noexcept { return take_error(buf); }
  ssize_t sread(void* buf, size_t count, const void* cond, int timeout_ms) {
    return sreadfrom(buf, count, nullptr, cond, timeout_ms);
  }
  ssize_t sreadfrom(void* buf, size_t count, fi_addr_t* src_addr, const void* cond, int timeout_ms) {
    const auto enough = [this, threshold = threshold_of(cond)]() noexcept { return satisfies(threshold); };
    if (enough()) {
      if (const ssize_t result = take(buf, count, src_addr); result != -FI_EAGAIN) return result;
    }
    const Deadline deadline = Deadline::in_ms(timeout_ms);
    for (;;) {
      const Status waited = membership_.wait(wait_, deadline, *this, enough);
      const ssize_t result = take(buf, count, src_addr);
      if (result != -FI_EAGAIN || !waited.ok()) return result;  // otherwise another thread was faster
    }
  }
  int signal() noexcept {
    membership_.interrupt(wait_);
    return 0;
  }
  const char* strerror(int prov_errno, const void* err_data, char* buf, size_t len) noexcept {
    return text_of(prov_errno, err_data, buf, len);
  }

 private:
  [[gnu::noinline]] ssize_t drive_and_take(void* buf, size_t count, fi_addr_t* src_addr) noexcept {
    if (!ready() || count == 0 || needs_progress(engine_)) drive();
    return take_ready(buf, count, src_addr);
  }
  CompletionQueue(Ref<RefCounted> parent, const fi_cq_attr& attr, E& engine, uint32_t api_version, bool locking,
                  StrerrorFn error_text, void* context)
      : CompletionQueueCore(std::move(parent), attr, api_version, locking, error_text), engine_(engine) {
    identify<CompletionQueue>(abi, FI_CLASS_CQ, context);
    if constexpr (requires { engine.on_opened(&lock()); }) engine.on_opened(&lock());
  }
  Status open_wait_object(const fi_cq_attr& attr) {
    if (Status status = membership_.open(wait_, attr.wait_obj, attr.wait_set, wait_member(*this)); !status.ok())
      return status;
    if (Status status = wait_.attach_to(engine_); !status.ok()) return status;
    if (attr.wait_obj == FI_WAIT_SET) expect_sleepers(engine_);
    return wait_.start_driver(*this);
  }

  E& engine_;
  WaitMembership membership_;
};

}  // namespace weft
