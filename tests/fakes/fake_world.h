// SPDX-License-Identifier: BSD-2-Clause
// The state that all fakes share, behind one mutex: the live objects, the calls that are to fail, timers. Entry is the
// first line of every function that the fakes export: it takes the mutex, counts the call and returns the scripted
// error.
#pragma once
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "fake_calls.h"
#include "fake_rdma.h"

namespace weft::test {
[[gnu::weak]] void spare_allocations(int change) noexcept;  // null: no test of that kind is linked
}

namespace fake {

struct Device;
struct Qp;
struct Id;
struct CmEvent;

using Clock = std::chrono::steady_clock;

enum class Kind {
  kChannel,
  kId,
  kEvent,
  kContext,
  kPd,
  kMr,
  kCompChannel,
  kCq,
  kQp,
  kSrq,
  kAh,
  kList,
  kAddrInfo,
  kCount
};
const char* name_of(Kind kind);

[[noreturn]] void fatal(const char* call, const std::string& what);

// Follows the C structure in every object. A destroyed object keeps its memory for a while, so that a use after
// destruction can be distinguished from a wild pointer.
struct Tag {
  static constexpr uint64_t kAlive = 0x66616b6520726431, kDead = 0x66616b6520726430;
  uint64_t magic = kAlive;
  Kind kind;
  bool counted = true;   // false: an object of the library itself, or excused
  bool excused = false;  // by a scripted failure: no program holds it any more
  uint64_t serial = 0;
  int users = 0;          // objects that must be destroyed before this one
  int unacked_async = 0;  // asynchronous events that ibv_get_async_event returned
};

// Allocations of the fakes do not fail in a test that lets the library's fail (tests/unit/failing_allocations.h).
class SparedAllocations {
 public:
  SparedAllocations() { change(1); }
  ~SparedAllocations() { change(-1); }
  SparedAllocations(const SparedAllocations&) = delete;
  SparedAllocations& operator=(const SparedAllocations&) = delete;

 private:
  static void change(int by) {
    if (weft::test::spare_allocations != nullptr) weft::test::spare_allocations(by);
  }
};

struct Guard : SparedAllocations, std::lock_guard<std::mutex> {
  using lock_guard::lock_guard;
};

struct HoldRule {
  const rdma_cm_id* id;
  int event;
};

class World {
 public:
  static World& get();

  std::mutex mutex;
  std::condition_variable changed;  // some queue of events got an entry

  CallState calls[static_cast<int>(Call::kCount)];
  bool failure_happened = false;
  bool destruction_failed = false;
  int live[static_cast<int>(Kind::kCount)] = {};
  uint64_t overruns = 0;
  Timing timing;

  std::vector<Device*> devices, retired_devices;
  std::map<uint64_t, Id*> ids;          // by serial
  std::map<uint32_t, Qp*> queue_pairs;  // by number
  std::map<std::string, Reach> reach;
  std::vector<HoldRule> hold_rules;
  std::deque<CmEvent*> held;
  std::map<int, int> lost;  // by Message
  bool data_held = false;
  bool keep_completions = false;
  bool flush_late = false;
  LateSends late_sends = LateSends::kFlushed;
  bool reuse_numbers = false;
  int second_refusal = 0;

  // Scripts for the next send request of a queue; 0 is any queue. `scripted` saves the look-up on the data path.
  bool scripted = false;
  std::map<uint32_t, ibv_wc_status> scripted_status;
  std::map<uint32_t, int> lost_messages, lost_acknowledgements;

  uint64_t next_serial() { return ++serial_; }
  bool drops(Message message);  // whether a test asked to drop it
  // `work` runs with the mutex held. The timers of an owner end with it.
  void after(int milliseconds, const void* owner, std::function<void()> work);
  void cancel_timers(const void* owner);
  void forget_scripts();

  // The destruction of an object waits until its asynchronous events are acknowledged. A program that never
  // acknowledges one is at fault.
  void await_acknowledgements(std::unique_lock<std::mutex>& lock, const Tag& tag, const char* call);

  void retain(std::shared_ptr<void> memory);  // keeps a destroyed object's memory for a while

 private:
  struct Timer {
    const void* owner;
    std::function<void()> work;
  };
  void run_timers();
  uint64_t serial_ = 0;
  std::multimap<Clock::time_point, Timer> timers_;
  std::condition_variable timers_changed_;
  bool timer_thread_ = false;
  std::deque<std::shared_ptr<void>> retained_;
};

// One call of the program under test.
class Entry : SparedAllocations {
 public:
  explicit Entry(Call call) : world(World::get()), lock(world.mutex), call_(call) {
    CallState& state = world.calls[static_cast<int>(call)];
    if (++state.count == state.fail_at) error_ = fail(state);
    if (state.milliseconds != 0) linger(state.milliseconds);
  }
  int error() const { return error_; }  // the scripted one, or 0
  const char* name() const { return name_of(call_); }
  World& world;
  std::unique_lock<std::mutex> lock;

 private:
  int fail(CallState& state);
  void linger(int milliseconds);
  Call call_;
  int error_ = 0;
};

// Counts a call that happens inside another one; returns the scripted error or 0.
int count_inner_call(Call call);

inline int cm_error(int error) {  // the result of librdmacm's functions
  if (!error) return 0;
  errno = error;
  return -1;
}
inline std::nullptr_t null_error(int error) {
  errno = error;
  return nullptr;
}

void register_object(Tag& tag, Kind kind, bool counted = true);
void excuse(Tag& tag);  // its destruction was made to fail, so it is no leak
int busy(Tag& tag);     // EBUSY; after a failed destruction, excuses the objects that depend on it
[[noreturn]] void object_fault(const char* call, const void* object, const Tag& tag, Kind kind);

// The object behind a C structure; ends the process if the structure is of another kind or was destroyed.
template <class T, class Base>
T& checked(Base* base, Kind kind, const char* call) {
  if (!base) fatal(call, std::string(name_of(kind)) + " is null");
  T& object = *reinterpret_cast<T*>(base);  // every class starts with its C structure
  if (object.tag.magic != Tag::kAlive || object.tag.kind != kind) object_fault(call, base, object.tag, kind);
  return object;
}

// Ends the life of an object created with new.
template <class T>
void destroy_object(T* object) {
  World& world = World::get();
  if (object->tag.counted) --world.live[static_cast<int>(object->tag.kind)];
  object->tag.magic = Tag::kDead;
  world.cancel_timers(object);
  world.retain(std::shared_ptr<void>(object, [](void* p) { delete static_cast<T*>(p); }));
}

}  // namespace fake
