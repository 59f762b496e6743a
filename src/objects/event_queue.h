// SPDX-License-Identifier: BSD-2-Clause
// Event queues; fi_eq(3) governs, fi_cm(3) defines connection events. Errors and events share one order: reads return
// the events before an error, then -FI_EAVAIL until fi_eq_readerr has taken it; there may be any number of errors.
#pragma once

#include <rdma/fi_eq.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "abi/ops.h"
#include "base/deadline.h"
#include "base/list.h"
#include "base/mutex.h"
#include "base/ref.h"
#include "base/status.h"
#include "objects/info.h"
#include "objects/progress.h"
#include "objects/wait_object.h"
#include "objects/wait_set.h"

namespace weft {

struct EqError {
  EqError() = default;
  // About an object. `native` 0: there is no such number.
  EqError(const ::fid& object, int error, int native = 0, std::string text = {}) noexcept
      : fid(const_cast<::fid*>(&object)),
        context(object.context),
        err(error),
        prov_errno(native != 0 ? native : error),
        sentence(std::move(text)) {}

  // Without memory the failure is reported without the peer's data.
  void store_data(std::span<const std::byte> peers) noexcept {
    try {
      err_data.assign(peers.begin(), peers.end());
    } catch (const std::bad_alloc&) {
    }
  }

  fid_t fid = nullptr;
  void* context = nullptr;
  uint64_t data = 0;
  int err = 0;                      // positive fi_errno
  int prov_errno = 0;               // native number, or err again
  std::string sentence;             // for fi_eq_strerror; empty: fi_strerror(prov_errno)
  std::vector<std::byte> err_data;  // e.g. a peer's data from fi_reject
};

// The part that does not depend on the engine; objects that post hold a Ref to it. Thread-safe. The post functions may
// be called under an engine's lock. No event is lost when memory runs out: its memory is reserved before.
class EventQueueCore : public RefCounted {
  struct Entry;

 public:
  using Reserved = std::unique_ptr<Entry>;
  // Memory for a connection event with `len` bytes of the peer's data, or for an error, which loses its sentence and
  // data if memory runs out later. Null when memory runs out.
  static Reserved reserve(size_t len) noexcept { return make_event(0, len); }
  // Memory for the result of a call: an fi_eq_entry, or an error and its data. Null when memory runs out.
  static Reserved reserve_result() noexcept;

  // The result of a call. A read into a smaller buffer answers -FI_ETOOSMALL.
  void post(Reserved entry, uint32_t event, const fi_eq_entry& result) noexcept;
  // A connection event: an fi_eq_cm_entry and the peer's `data`, which is cut to the reader's buffer. The queue owns
  // `info` (FI_CONNREQ, else null) until it is read or removed.
  void post_cm(Reserved entry, uint32_t event, fid_t fid, fi_info* info, const void* data, size_t len) noexcept;
  void post_error(EqError&& error, Reserved entry) noexcept {
    hold(*entry, std::move(error));
    append(std::move(entry));
  }
  // The last event of a connection: FI_SHUTDOWN, or the error that hold() stored in its entry.
  static void hold(Entry& entry, EqError&& error) noexcept;
  void post_end(Reserved entry, fid_t fid) noexcept;
  // Drops the unread events and errors of an object that is being closed. Returns the list of their infos.
  InfoPtr remove(fid_t fid) noexcept;

  bool ready() const noexcept { return unread_.load() != 0; }
  WaitObject& wait_object() noexcept { return wait_; }

 protected:
  EventQueueCore(Ref<RefCounted> parent, const fi_eq_attr& attr, uint32_t api_version) noexcept;
  ~EventQueueCore();
  static Status check(const fi_eq_attr* attr);

  ssize_t take(uint32_t* event, void* buf, size_t len, bool peek) noexcept;
  ssize_t take_error(fi_eq_err_entry* out, bool peek) noexcept;
  ssize_t insert(uint32_t event, const void* buf, size_t len, uint64_t flags);
  // The sentence of the error read last if the number matches; valid until the next error is read.
  const char* text_of(int prov_errno, char* buf, size_t len) noexcept;

  WaitObject wait_;

 private:
  // An event or an error. The bytes of an event are in the same memory, behind it. Every connection has reserved one
  // for its last event, so it is small.
  struct Entry : ListHook<Entry> {
    fid_t fid = nullptr;             // the object that it is about, for remove()
    fi_info* info = nullptr;         // owned
    std::unique_ptr<EqError> error;  // may be null although `err` is set: there was no memory
    int err = 0;                     // 0: an event
    uint32_t number = 0;
    uint32_t head = 0;  // bytes of an fi_eq_cm_entry without data, which is made of the members; 0: the bytes are all
    uint32_t size = 0;  // bytes behind the entry

    std::byte* bytes() noexcept { return reinterpret_cast<std::byte*>(this + 1); }
    static void* operator new(size_t own, size_t bytes) noexcept { return ::operator new(own + bytes, std::nothrow); }
    static void operator delete(void* entry) noexcept { ::operator delete(entry); }
  };

  static Reserved make_event(uint32_t number, size_t size) noexcept;
  void append(Reserved entry) noexcept;

  const Ref<RefCounted> parent_;
  const bool writable_;            // FI_WRITE
  const bool gives_pointers_;      // api < 1.5: err_data is always a pointer into the queue
  std::atomic<size_t> unread_{0};  // size of entries_, readable without the lock
  MutexLock mutex_;                // guards the rest
  List<Entry> entries_;            // owned
  EqError last_error_;             // the error that readerr returned last, with its err_data and sentence
};

// Errors of one object that may happen at any time, any number of times. The first one needs no memory when it happens;
// later ones stay out of the queue when memory runs out.
class FailureReports {
 public:
  // False: no memory. Before the first report, as the object is bound or starts.
  bool reserve() noexcept {
    if (spare_ == nullptr) spare_ = EventQueueCore::reserve(0);
    return spare_ != nullptr;
  }
  void post(EventQueueCore& events, EqError&& error) noexcept {
    if (!reserve()) return;
    events.post_error(std::move(error), std::move(spare_));
    reserve();
  }

 private:
  EventQueueCore::Reserved spare_;
};

// Owner: its C handle; close answers -FI_EBUSY while objects are bound.
template <class E>
class EventQueue final : public Object<fid_eq>, public EventQueueCore {
 public:
  // `parent` is the fabric.
  static Result<EventQueue*> open(Ref<RefCounted> parent, const fi_eq_attr* attr, uint32_t api_version, void* context) {
    static_assert(ProgressEngine<E>);
    if (Status status = check(attr); !status.ok()) return failure(status);
    auto queue = std::unique_ptr<EventQueue>(new EventQueue(std::move(parent), *attr, api_version, context));
    if (Status status = queue->open_wait_object(*attr); !status.ok()) return failure(status);
    return queue.release();
  }
  static EventQueue* from(const ::fid* fid) noexcept { return object_if<EventQueue>(fid); }

  // The engines that a read drives. Attaching is counted: once for each bound object. After the last detach returns,
  // the queue does not use the engine any more. Not to be called with an engine's lock held.
  Status attach(E& engine) {
    std::lock_guard lock(engines_mutex_);
    return attach_locked(engine);
  }
  void detach(E& engine) noexcept {
    std::lock_guard lock(engines_mutex_);
    const auto attached =
        std::find_if(engines_.begin(), engines_.end(), [&](Attached& a) { return a.engine == &engine; });
    if (attached == engines_.end() || --attached->count != 0) return;
    const bool watched = attached->watched;
    engines_.erase(attached);
    if (!watched) return;
    wait_.detach_from(engine);
    dismiss_watcher(engine);
  }
  // An engine for objects that belong to no domain, such as listeners; it lives until the queue closes.
  Status open_own_engine() {
    std::lock_guard lock(engines_mutex_);
    if (own_engine_ != nullptr) return {};
    auto engine = std::make_unique<E>();
    engine->serve_only(wait_);
    Status status = attach_locked(*engine);
    if (status.ok()) own_engine_ = std::move(engine);
    return status;
  }
  E& own_engine() noexcept { return *own_engine_; }

  // For wait sets, fi_trywait and sleepers.
  static constexpr bool kShowsAllWork = shows_all_work<E>;
  void drive() noexcept {
    std::lock_guard lock(engines_mutex_);
    for (Attached& attached : engines_) make_progress(*attached.engine);
  }
  bool prepare_wait() noexcept {
    std::lock_guard lock(engines_mutex_);
    bool may_sleep = true;
    for (Attached& attached : engines_) may_sleep &= weft::may_sleep(*attached.engine);
    return may_sleep;
  }
  bool must_not_sleep() const noexcept { return ready(); }
  int trywait() noexcept { return ready() ? -FI_EAGAIN : wait_.trywait(*this); }

  // Slots of fi_ops.
  int close() {
    if (in_use()) return -FI_EBUSY;
    wait_.stop_driver();
    if (own_engine_ != nullptr) detach(*own_engine_);
    delete this;
    return 0;
  }
  int control(int command, void* arg) noexcept {
    const int result = wait_.control(command, arg);
    if (command != FI_GETWAIT || result != 0) return result;
    std::lock_guard lock(engines_mutex_);
    sleepers_ = true;
    for (Attached& attached : engines_) expect_sleepers(*attached.engine);
    return 0;
  }

  // Slots of fi_ops_eq. Reads ignore all flags but FI_PEEK, as libfabric's: programs pass others by mistake.
  ssize_t read(uint32_t* event, void* buf, size_t len, uint64_t flags) noexcept {
    if (!ready()) drive();
    return take(event, buf, len, (flags & FI_PEEK) != 0);
  }
  ssize_t readerr(fi_eq_err_entry* buf, uint64_t flags) noexcept { return take_error(buf, (flags & FI_PEEK) != 0); }
  ssize_t write(uint32_t event, const void* buf, size_t len, uint64_t flags) { return insert(event, buf, len, flags); }
  ssize_t sread(uint32_t* event, void* buf, size_t len, int timeout_ms, uint64_t flags) {
    const bool peek = (flags & FI_PEEK) != 0;
    if (const ssize_t result = take(event, buf, len, peek); result != -FI_EAGAIN) return result;
    const Deadline deadline = Deadline::in_ms(timeout_ms);
    for (;;) {
      const Status waited = membership_.wait(wait_, deadline, *this, [this]() noexcept { return ready(); });
      const ssize_t result = take(event, buf, len, peek);
      if (result != -FI_EAGAIN || !waited.ok()) return result;  // otherwise another thread was faster
    }
  }
  // Without the data of the error: the sentence was made when it happened.
  const char* strerror(int prov_errno, const void*, char* buf, size_t len) noexcept {
    return text_of(prov_errno, buf, len);
  }

 private:
  struct Attached {
    E* engine;
    unsigned count;
    bool watched;  // else a thread drives it
  };
  EventQueue(Ref<RefCounted> parent, const fi_eq_attr& attr, uint32_t api_version, void* context) noexcept
      : EventQueueCore(std::move(parent), attr, api_version) {
    identify<EventQueue>(abi, FI_CLASS_EQ, context);
  }
  Status open_wait_object(const fi_eq_attr& attr) {
    if (Status status = membership_.open(wait_, attr.wait_obj, attr.wait_set, wait_member(*this)); !status.ok())
      return status;
    return wait_.start_driver(*this);
  }
  Status attach_locked(E& engine) {
    for (Attached& attached : engines_) {
      if (attached.engine != &engine) continue;
      ++attached.count;
      return {};
    }
    expect_others(engine);
    engines_.push_back({&engine, 1, false});
    engines_.back().watched = wait_.kind() != FI_WAIT_NONE && admit_watcher(engine);
    if (Status status = engines_.back().watched ? wait_.attach_to(engine) : Status(); !status.ok()) {
      dismiss_watcher(engine);
      engines_.pop_back();
      return status;
    }
    if (sleepers_ || wait_.kind() == FI_WAIT_SET) expect_sleepers(engine);
    return {};
  }

  MutexLock engines_mutex_;  // guards engines_; held while driving them, so that detach waits for readers
  std::vector<Attached> engines_;
  std::unique_ptr<E> own_engine_;
  bool sleepers_ = false;  // see expect_sleepers()
  WaitMembership membership_;
};

}  // namespace weft
