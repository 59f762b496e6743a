// SPDX-License-Identifier: BSD-2-Clause
// Event queues, completion queues, counters and wait sets: kfi_eq(3).
#include <linux/futex.h>
#include <poll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstring>
#include <ctime>

#include "kfabric/fabric.h"

namespace weft::kfabric {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint64_t kUnits = KFI_TIME_US | KFI_TIME_MS;
// The flags of completions in kfabric.
constexpr uint64_t kCompletionFlags = KFI_SEND | KFI_RECV | KFI_RMA | KFI_ATOMIC | KFI_MSG | KFI_TAGGED | KFI_READ |
                                      KFI_WRITE | KFI_REMOTE_READ | KFI_REMOTE_WRITE | KFI_REMOTE_CQ_DATA |
                                      KFI_MULTI_RECV;

// Flags of completion queues that clients of API 1.1 set: the directions, and KFI_CQ_CAN_WAIT, as every queue can.
constexpr uint64_t kNoEffectIn1_1 = KFI_SEND | KFI_RECV | 1ull << 53;

// The only flag of calls that read events, besides a unit of time.
int check_reading(uint64_t flags) {
  return flags & ~KFI_PEEK ? -KFI_EBADFLAGS : 0;
}

// Removes the unit of time from the flags. `microseconds` stays as it is if they name none.
int take_unit(uint64_t& flags, bool& microseconds) {
  if ((flags & kUnits) == kUnits) return -KFI_EBADFLAGS;
  if (flags & kUnits) microseconds = flags & KFI_TIME_US;
  flags &= ~kUnits;
  return 0;
}

// The number, which may be one that the enumeration of API 1.7 does not have.
template <class Enumeration>
unsigned number_of(const Enumeration& value) {
  unsigned number;
  static_assert(sizeof number == sizeof value);
  std::memcpy(&number, &value, sizeof number);
  return number;
}

// API 1.1 has KFI_WAIT_MUTEX_COND, too.
bool is_wait_object(const Fabric* fabric, const kfi_wait_obj& object) {
  return number_of(object) <= KFI_WAIT_QUEUE + (is_1_1(fabric) ? 1u : 0u);
}

// Waiting is possible whatever the client chose, as every queue has a descriptor.
int lower_wait(const Fabric* fabric, const kfi_wait_obj& object, kfid_wait* set, fi_wait_obj& lower,
               fid_wait*& lower_set) {
  if (!is_wait_object(fabric, object)) return -KFI_EINVAL;
  const bool in_set = number_of(object) == KFI_WAIT_SET;
  if (in_set && set == nullptr) return -KFI_EINVAL;
  lower = in_set ? FI_WAIT_SET : FI_WAIT_FD;
  if (in_set) lower_set = fi_of(set);
  return 0;
}

// Negative: for ever.
int lower_timeout(const Fabric* fabric, int timeout) {
  return timeout < 0 || (timeout == 0 && is_1_1(fabric)) ? -1 : timeout;
}

// A client's time-out in its unit, from now on.
class Deadline {
 public:
  Deadline(const Fabric* fabric, int timeout, bool microseconds)
      : timeout_(lower_timeout(fabric, timeout)),
        at_(Clock::now() + std::chrono::nanoseconds(microseconds ? 1000 : 1000000) * timeout_) {}
  bool is_for_ever() const { return timeout_ < 0; }
  bool looks_once() const { return timeout_ == 0; }
  // An hour if there is no time-out.
  std::chrono::nanoseconds left() const {
    return is_for_ever() ? std::chrono::hours(1) : std::max(at_ - Clock::now(), Clock::duration(0));
  }
  // The form that libfabric takes.
  int milliseconds() const {
    return is_for_ever() ? -1 : static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left()).count());
  }
  // libfabric's clock may end a wait up to a millisecond before this one.
  bool is_over() const { return !is_for_ever() && left() <= std::chrono::milliseconds(1); }

 private:
  int timeout_;
  Clock::time_point at_;
};

// A wait of libfabric's, which a Unix signal ends in some of its releases.
template <class Wait>
auto without_signals(const Deadline& deadline, Wait wait) {
  auto result = wait(deadline.milliseconds());
  while (result == -EINTR) result = wait(deadline.milliseconds());
  return result;
}

// Polls until there is something, the time is over, or `end` (may be null) is given. libfabric's time-outs are whole
// milliseconds, so this waits for the wait object itself.
template <class Look>
ssize_t wait_until(Fabric* fabric, fid* queue, const Deadline& deadline, Wakeup* end, Look look) {
  pollfd fds[2] = {{-1, POLLIN, 0}, {end != nullptr ? end->fd() : -1, POLLIN, 0}};
  if (!deadline.looks_once()) {
    if (int result = fi_control(queue, FI_GETWAIT, &fds[0].fd)) return result;
  }
  for (;;) {
    const ssize_t result = look();
    if (result != -FI_EAGAIN) return result;
    const std::chrono::nanoseconds left = deadline.left();
    if (left.count() == 0) return -KFI_ETIMEDOUT;
    if (end != nullptr && end->take()) return -FI_EAGAIN;
    if (fi_trywait(fabric->fi, &queue, 1) == -FI_EAGAIN) continue;
    const timespec remaining{left.count() / 1000000000, left.count() % 1000000000};
    ppoll(fds, 2, &remaining, nullptr);
  }
}

// ---- Event queue ----------------------------------------------------------------------------------------------------

template <class Queue>
void rearm(Queue* queue) {
  if (queue->watch) queue->fabric->dispatcher.rearm(*queue->watch);
}

// Makes the client's form of a connection request's info before the event is taken, so that no memory leaves the event
// in the queue. It is made once, also if it is peeked at first.
int prepare_info(EventQueue* queue, fi_info* info) {
  if (queue->peeked == info) return 0;
  const bool older = is_1_1(queue->fabric);
  const auto release = [&](kfi_info* made) { free_info(made, older); };
  std::unique_ptr<kfi_info, decltype(release)> made(upper_request(*info, older), release);
  if (made == nullptr) return -KFI_ENOMEM;
  set_handle(made.get(), queue->fabric->add_request(info->handle), older);
  free_info(queue->peeked_info, older);
  queue->peeked = info;
  queue->peeked_info = made.release();
  return 0;
}

kfi_info* take_info(EventQueue* queue, fi_info* info, bool peek) {
  if (peek) return queue->peeked_info;
  queue->peeked = nullptr;
  fi_freeinfo(info);
  return std::exchange(queue->peeked_info, nullptr);
}

// fi_eq_read, with the queue's lock held. The requests of a listener that has closed are dropped, which some providers
// leave to this.
ssize_t read_prepared(EventQueue* queue, uint32_t* event, void* buffer, size_t len, uint64_t flags) {
  union {
    fi_eq_cm_entry entry;
    char room[sizeof(fi_eq_cm_entry) + 1024];
  } next;
  for (;;) {
    uint32_t number = 0;
    const ssize_t size = fi_eq_read(queue->fi, &number, &next, sizeof next, FI_PEEK);
    if (size == -FI_EAGAIN) return size;
    if (size > 0 && len < std::min(static_cast<size_t>(size), sizeof next.entry)) return -KFI_ETOOSMALL;
    if (number == FI_CONNREQ && size >= static_cast<ssize_t>(sizeof next.entry)) {
      if (handle_of(next.entry.fid) == nullptr) {
        if (fi_eq_read(queue->fi, &number, &next, sizeof next, 0) > 0) fi_freeinfo(next.entry.info);
        continue;
      }
      if (int result = prepare_info(queue, next.entry.info)) return result;
    }
    return fi_eq_read(queue->fi, event, buffer, len, flags);
  }
}

// Every entry begins with the object beneath. One that the client wrote itself has another value there, which stays.
ssize_t take_event(EventQueue* queue, uint32_t* event, void* buffer, size_t len, uint64_t flags) {
  std::lock_guard lock(queue->reading);
  const ssize_t result = read_prepared(queue, event, buffer, len, flags);
  if (result == -FI_EAGAIN) rearm(queue);
  if (result < static_cast<ssize_t>(sizeof(kfi_eq_cm_entry))) return result;
  auto* entry = static_cast<kfi_eq_cm_entry*>(buffer);
  fid* const below = reinterpret_cast<fid*>(entry->fid);
  kfid* handle = handle_of(below);
  if (handle == nullptr && (*event == FI_MR_COMPLETE || *event == FI_JOIN_COMPLETE)) {
    std::lock_guard opened(queue->fabric->opening);
    handle = handle_of(below);
  }
  if (handle == nullptr) return result;
  entry->fid = handle;
  if (*event == FI_CONNREQ) {
    entry->info = take_info(queue, reinterpret_cast<fi_info*>(entry->info), flags & KFI_PEEK);
  }
  return result;
}

ssize_t read_event(kfid_eq* eq, uint32_t* event, void* buffer, size_t len, uint64_t flags) {
  if (int result = check_reading(flags)) return result;
  return take_event(static_cast<EventQueue*>(eq), event, buffer, len, flags);
}

ssize_t wait_for_event(kfid_eq* eq, uint32_t* event, void* buffer, size_t len, int timeout, uint64_t flags) {
  auto* queue = static_cast<EventQueue*>(eq);
  if (queue->event_handler != nullptr) return -KFI_ENOSYS;
  bool microseconds = queue->microseconds;
  if (int result = take_unit(flags, microseconds)) return result;
  if (int result = check_reading(flags)) return result;
  return wait_until(queue->fabric, &queue->fi->fid, Deadline(queue->fabric, timeout, microseconds), nullptr,
                    [&] { return take_event(queue, event, buffer, len, flags); });
}

// A connection request written by the program has an info that the library cannot own.
ssize_t write_event(kfid_eq* eq, uint32_t event, const void* buffer, size_t len, uint64_t flags) {
  return event == KFI_CONNREQ ? -KFI_EINVAL : fi_eq_write(fi_of(eq), event, buffer, len, flags);
}

ssize_t read_event_error(kfid_eq* eq, kfi_eq_err_entry* entry, uint64_t flags) {
  auto* queue = static_cast<EventQueue*>(eq);
  if (int result = check_reading(flags)) return result;
  const bool older = is_1_1(queue->fabric);
  kfi_eq_err_entry whole{};
  const ssize_t result = fi_eq_readerr(queue->fi, down(older ? &whole : entry), flags);
  if (result == -FI_EAGAIN) rearm(queue);
  if (result <= 0) return result;
  if (older) std::memcpy(entry, &whole, sizeof(kfi_eq_err_entry_1_1));
  entry->fid = handle_of(reinterpret_cast<fid*>(entry->fid));
  return older ? static_cast<ssize_t>(sizeof(kfi_eq_err_entry_1_1)) : result;
}

constexpr kfi_ops_eq kEventOps = {sizeof(kfi_ops_eq), Guarded<read_event>{},     read_event_error,
                                  write_event,        Guarded<wait_for_event>{}, Forward<fi_eq_strerror>{}};

// ---- Completion queue -----------------------------------------------------------------------------------------------

// Gives an entry of an operation through a buffer the values of its client. False: the client gets no completion.
bool settle(CompletionQueue* queue, char* bytes) {
  auto* entry = reinterpret_cast<kfi_cq_data_entry*>(bytes);
  const std::unique_ptr<Bounce> bounce = queue->bounces.take(entry->op_context);
  if (bounce == nullptr) return true;
  entry->op_context = bounce->context;
  if (bounce->scatters) {
    // An entry without a length, and one of a read, is for all of the buffer, which began as a copy of the pieces.
    const bool received = queue->has_flags && (entry->flags & KFI_RECV);
    scatter(*bounce, received ? entry->len : bounce->bytes);
  }
  if (queue->entry_size >= sizeof(kfi_cq_data_entry)) entry->buf = nullptr;
  return !bounce->silent;
}

// The number of entries for the client, without those of operations that are silent.
ssize_t settle_all(CompletionQueue* queue, ssize_t count, char* entries, kfi_addr_t* sources) {
  const size_t size = queue->entry_size;
  ssize_t kept = 0;
  for (ssize_t i = 0; i < count; i++) {
    char* entry = entries + i * size;
    if (!settle(queue, entry)) continue;
    if (kept != i) {
      std::memcpy(entries + kept * size, entry, size);
      if (sources != nullptr) sources[kept] = sources[i];
    }
    kept++;
  }
  return kept;
}

template <class Read>
ssize_t read_with(CompletionQueue* queue, void* buffer, kfi_addr_t* sources, Read read) {
  for (;;) {
    const ssize_t result = read();
    if (result <= 0) {
      if (result == -FI_EAGAIN) rearm(queue);
      return result;
    }
    char* const entries = static_cast<char*>(buffer);
    if (queue->has_flags) {
      char* const end = entries + result * queue->entry_size;
      for (char* entry = entries; entry != end; entry += queue->entry_size) {
        reinterpret_cast<kfi_cq_msg_entry*>(entry)->flags &= kCompletionFlags;
      }
    }
    if (!queue->bounces.any()) return result;
    const ssize_t kept = settle_all(queue, result, entries, sources);
    if (kept != 0) return kept;
  }
}

ssize_t read_completions(kfid_cq* cq, void* buffer, size_t count) {
  auto* queue = static_cast<CompletionQueue*>(cq);
  return read_with(queue, buffer, nullptr, [&] { return fi_cq_read(queue->fi, buffer, count); });
}

ssize_t read_completions_from(kfid_cq* cq, void* buffer, size_t count, kfi_addr_t* sources) {
  auto* queue = static_cast<CompletionQueue*>(cq);
  if (sources == nullptr) return -KFI_EINVAL;
  return read_with(queue, buffer, sources, [&] { return fi_cq_readfrom(queue->fi, buffer, count, sources); });
}

// A time-out in milliseconds is libfabric's, except for queues in a wait set, where it may have none. kfi_cq_signal
// ends either. `sleep` waits for the time that is left. A Unix signal may end it, with the answer to kfi_cq_signal or,
// in some releases of libfabric, with -FI_EINTR.
template <class Sleep, class Look>
ssize_t wait_for_completions(CompletionQueue* queue, int timeout, Sleep sleep, Look look) {
  if (queue->comp_handler != nullptr) return -KFI_ENOSYS;
  const Deadline deadline(queue->fabric, timeout, queue->microseconds);
  if (queue->signal) return wait_until(queue->fabric, &queue->fi->fid, deadline, queue->signal.get(), look);
  const uint64_t before = queue->signals;
  for (;;) {
    const ssize_t result = sleep(deadline);
    if (result != -FI_EAGAIN && result != -FI_EINTR) return result;
    if (deadline.is_over()) return -KFI_ETIMEDOUT;
    const uint64_t now = queue->signals;
    if (queue->answered.exchange(now) != now || now != before) return -FI_EAGAIN;
  }
}

int signal_queue(kfid_cq* cq) {
  auto* queue = static_cast<CompletionQueue*>(cq);
  if (queue->signal) return queue->signal->give();
  ++queue->signals;
  return fi_cq_signal(queue->fi);
}

ssize_t sread_completions(kfid_cq* cq, void* buffer, size_t count, const void* condition, int timeout) {
  auto* queue = static_cast<CompletionQueue*>(cq);
  return wait_for_completions(
      queue, timeout,
      [&](const Deadline& deadline) {
        return read_with(queue, buffer, nullptr,
                         [&] { return fi_cq_sread(queue->fi, buffer, count, condition, deadline.milliseconds()); });
      },
      [&] { return read_completions(cq, buffer, count); });
}

ssize_t sread_completions_from(kfid_cq* cq, void* buffer, size_t count, kfi_addr_t* sources, const void* condition,
                               int timeout) {
  auto* queue = static_cast<CompletionQueue*>(cq);
  if (sources == nullptr) return -KFI_EINVAL;
  return wait_for_completions(
      queue, timeout,
      [&](const Deadline& deadline) {
        return read_with(queue, buffer, sources, [&] {
          return fi_cq_sreadfrom(queue->fi, buffer, count, sources, condition, deadline.milliseconds());
        });
      },
      [&] { return read_completions_from(cq, buffer, count, sources); });
}

ssize_t read_completion_error(kfid_cq* cq, kfi_cq_err_entry* entry, uint64_t flags) {
  auto* queue = static_cast<CompletionQueue*>(cq);
  fi_cq_err_entry lower{};
  const bool older = is_1_1(queue->fabric);
  const size_t size = older ? sizeof(kfi_cq_err_entry_1_1) : sizeof *entry;
  if (!older) {
    lower.err_data = entry->err_data;
    lower.err_data_size = entry->err_data_size;
  }
  const ssize_t result = fi_cq_readerr(queue->fi, &lower, flags);
  if (result == -FI_EAGAIN) rearm(queue);
  if (result <= 0) return result;
  // The structures agree up to err_data_size, where kfabric's ends.
  static_assert(offsetof(fi_cq_err_entry, err_data_size) == offsetof(kfi_cq_err_entry, err_data_size));
  std::memcpy(entry, &lower, size);
  entry->flags &= kCompletionFlags;
  if (queue->bounces.any()) {
    const std::unique_ptr<Bounce> bounce = queue->bounces.take(entry->op_context);
    if (bounce != nullptr) {
      entry->op_context = bounce->context;
      entry->buf = nullptr;
      if (bounce->scatters) scatter(*bounce, entry->len);
    }
  }
  return older ? static_cast<ssize_t>(size) : result;
}

constexpr kfi_ops_cq kCompletionOps = {sizeof(kfi_ops_cq),    read_completions,         read_completions_from,
                                       read_completion_error, sread_completions,        sread_completions_from,
                                       signal_queue,          Forward<fi_cq_strerror>{}};

// ---- Counter, wait set ----------------------------------------------------------------------------------------------

int wait_for_count(kfid_cntr* handle, uint64_t threshold, int timeout) {
  auto* counter = static_cast<Counter*>(handle);
  return without_signals(Deadline(counter->fabric, timeout, counter->microseconds),
                         [&](int ms) { return fi_cntr_wait(counter->fi, threshold, ms); });
}

constexpr kfi_ops_cntr kCounterOps = {sizeof(kfi_ops_cntr),      Forward<fi_cntr_read>{},  Forward<fi_cntr_readerr>{},
                                      Forward<fi_cntr_add>{},    Forward<fi_cntr_set>{},   wait_for_count,
                                      Forward<fi_cntr_adderr>{}, Forward<fi_cntr_seterr>{}};

int wait_for_set(kfid_wait* handle, int timeout) {
  auto* set = static_cast<WaitSet*>(handle);
  return without_signals(Deadline(set->fabric, timeout, set->microseconds),
                         [&](int ms) { return fi_wait(set->fi, ms); });
}

constexpr kfi_ops_wait kWaitOps = {sizeof(kfi_ops_wait), wait_for_set};

// Wakes the sleepers on the head of a wait queue, which check their condition again.
void wake(wait_queue_head& head) {
  __atomic_add_fetch(&head.wakes, 1u, __ATOMIC_SEQ_CST);
  syscall(SYS_futex, &head.wakes, FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

// A queue with a handler or with the head of a wait queue is watched.
template <class Queue, class Handler>
void prepare_watch(Queue& queue, Fabric* fabric, const kfi_wait_obj& object, Handler handler) {
  if (number_of(object) == KFI_WAIT_QUEUE && !is_1_1(fabric)) queue.head = std::make_unique<wait_queue_head>();
  if (handler == nullptr && queue.head == nullptr) return;
  queue.watch.reset(new Watch{nullptr, -1, [to = &queue, handler] {
                                if (handler != nullptr) handler(to, to->fid.context);
                                if (to->head) wake(*to->head);
                              }});
}

// Starts the watch of the queue, before the client has the queue; on failure the queue closes.
template <class Queue>
int start_watch(Queue* queue) {
  if (!queue->watch) return 0;
  queue->watch->queue = &queue->fi->fid;
  int result = fi_control(queue->watch->queue, FI_GETWAIT, &queue->watch->fd);
  if (result == 0) result = queue->fabric->dispatcher.add(*queue->watch);
  if (result == 0) return 0;
  queue->watch.reset();
  kfi_close(&queue->fid);
  return result;
}

// open() of a queue that may be watched.
template <class Queue, class K, class Call>
int open_watched(Fabric* fabric, size_t fclass, K** out, void* context, Call call) {
  K* opened = nullptr;
  int result = open<Queue>(fabric, fclass, &opened, context, call);
  if (result == 0) result = start_watch(static_cast<Queue*>(opened));
  if (result == 0) *out = opened;
  return result;
}

// Opens a queue; a vector that the provider cannot use is none.
template <class Open>
int with_hint(uint64_t& flags, Open open) {
  int result = open();
  if (result != -FI_EINVAL || (flags & KFI_AFFINITY) == 0) return result;
  flags &= ~KFI_AFFINITY;
  return open();
}

}  // namespace

EventQueue::~EventQueue() {
  if (peeked_info != nullptr) free_info(peeked_info, is_1_1(fabric));
}

int open_event_queue(kfid_fabric* handle, kfi_eq_attr* attr, kfid_eq** eq, kfi_event_handler handler, void* context) {
  auto* fabric = static_cast<Fabric*>(handle);
  const kfi_eq_attr wanted = attr == nullptr ? kfi_eq_attr{} : *attr;
  return open_watched<EventQueue>(fabric, KFI_CLASS_EQ, eq, context, [&](EventQueue& queue) {
    fi_eq_attr lower{wanted.size, wanted.flags, FI_WAIT_FD, wanted.signaling_vector, nullptr};
    if (int bad = lower_wait(fabric, wanted.wait_obj, wanted.wait_set, lower.wait_obj, lower.wait_set)) return bad;
    if (int bad = take_unit(lower.flags, queue.microseconds)) return bad;
    queue.ops = mutable_table(kEventOps);
    queue.event_handler = handler;
    prepare_watch(queue, fabric, wanted.wait_obj, handler);
    return with_hint(lower.flags, [&] { return fi_eq_open(fabric->fi, &lower, &queue.fi, context); });
  });
}

int open_completion_queue(kfid_domain* handle, kfi_cq_attr* attr, kfid_cq** cq, kfi_comp_handler handler,
                          void* context) {
  auto* domain = static_cast<Domain*>(handle);
  Fabric* fabric = domain->fabric;
  const kfi_cq_attr wanted = attr == nullptr ? kfi_cq_attr{} : *attr;
  return open_watched<CompletionQueue>(fabric, KFI_CLASS_CQ, cq, context, [&](CompletionQueue& queue) {
    fi_cq_attr lower{};
    lower.size = wanted.size;
    lower.flags = wanted.flags;
    lower.signaling_vector = wanted.signaling_vector;
    lower.wait_cond = static_cast<fi_cq_wait_cond>(wanted.wait_cond);
    if (is_1_1(fabric)) lower.flags &= ~kNoEffectIn1_1;
    if (int bad = lower_wait(fabric, wanted.wait_obj, wanted.wait_set, lower.wait_obj, lower.wait_set)) return bad;
    if (int bad = take_unit(lower.flags, queue.microseconds)) return bad;
    if (queue.microseconds || lower.wait_obj == FI_WAIT_SET) {
      queue.signal = std::make_unique<Wakeup>();
      if (int bad = queue.signal->open()) return bad;
    }
    constexpr size_t kSizes[] = {sizeof(kfi_cq_entry), sizeof(kfi_cq_entry), sizeof(kfi_cq_msg_entry),
                                 sizeof(kfi_cq_data_entry), sizeof(kfi_cq_tagged_entry)};
    if (number_of(wanted.format) > KFI_CQ_FORMAT_TAGGED) return -KFI_EINVAL;
    lower.format = static_cast<fi_cq_format>(wanted.format);
    queue.entry_size = kSizes[wanted.format];
    queue.has_flags = wanted.format >= KFI_CQ_FORMAT_MSG;
    queue.ops = mutable_table(kCompletionOps);
    queue.comp_handler = handler;
    prepare_watch(queue, fabric, wanted.wait_obj, handler);
    return with_hint(lower.flags, [&] { return fi_cq_open(domain->fi, &lower, &queue.fi, context); });
  });
}

int open_counter(kfid_domain* handle, kfi_cntr_attr* attr, kfid_cntr** cntr, void* context) {
  auto* domain = static_cast<Domain*>(handle);
  Fabric* const fabric = domain->fabric;
  const kfi_cntr_attr wanted = attr == nullptr ? kfi_cntr_attr{} : *attr;
  return open<Counter>(fabric, KFI_CLASS_CNTR, cntr, context, [&](Counter& counter) {
    fi_cntr_attr lower{};
    lower.events = static_cast<fi_cntr_events>(wanted.events);
    lower.flags = wanted.flags;
    if (int bad = lower_wait(fabric, wanted.wait_obj, wanted.wait_set, lower.wait_obj, lower.wait_set)) return bad;
    if (int bad = take_unit(lower.flags, counter.microseconds)) return bad;
    counter.ops = mutable_table(kCounterOps);
    return fi_cntr_open(domain->fi, &lower, &counter.fi, context);
  });
}

int open_wait_set(kfid_fabric* handle, kfi_wait_attr* attr, kfid_wait** wait) {
  auto* fabric = static_cast<Fabric*>(handle);
  const kfi_wait_attr wanted = attr == nullptr ? kfi_wait_attr{} : *attr;
  return open<WaitSet>(fabric, KFI_CLASS_WAIT, wait, nullptr, [&](WaitSet& set) {
    if (number_of(wanted.wait_obj) == KFI_WAIT_SET || !is_wait_object(fabric, wanted.wait_obj)) return -KFI_EINVAL;
    fi_wait_attr lower{FI_WAIT_UNSPEC, wanted.flags};
    if (int bad = take_unit(lower.flags, set.microseconds)) return bad;
    set.ops = mutable_table(kWaitOps);
    return fi_wait_open(fabric->fi, &lower, &set.fi);
  });
}

}  // namespace weft::kfabric
