// SPDX-License-Identifier: BSD-2-Clause
// Creation and destruction of fake objects, counts of calls, timers; and the functions of fake_rdma.h for them.
#include "fake_world.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace fake {

namespace {
constexpr size_t kGraves = 8192;
constexpr const char* kKinds[] = {"event channel", "cm id", "cm event", "context", "pd", "mr",
                                  "comp channel",  "cq",    "qp",       "srq",     "ah", "device list",
                                  "addrinfo"};
}  // namespace

const char* name_of(Kind kind) {
  return kKinds[static_cast<int>(kind)];
}

void fatal(const char* call, const std::string& what) {
  std::fprintf(stderr, "fake rdma: %s: %s\n", call, what.c_str());
  std::fflush(stderr);
  std::abort();
}

World& World::get() {
  static World* world = new World;  // never destroyed: its timer thread outlives main
  return *world;
}

int Entry::fail(CallState& state) {
  world.failure_happened = true;
  state.fail_at = 0;
  return state.error;
}

void Entry::linger(int milliseconds) {
  lock.unlock();
  std::this_thread::sleep_for(std::chrono::milliseconds(milliseconds));
  lock.lock();
}

int count_inner_call(Call call) {
  World& world = World::get();
  CallState& state = world.calls[static_cast<int>(call)];
  if (++state.count != state.fail_at) return 0;
  state.fail_at = 0;
  world.failure_happened = true;
  return state.error;
}

void register_object(Tag& tag, Kind kind, bool counted) {
  World& world = World::get();
  tag.kind = kind;
  tag.counted = counted;
  tag.serial = world.next_serial();
  if (counted) ++world.live[static_cast<int>(kind)];
}

int busy(Tag& tag) {
  if (World::get().destruction_failed) excuse(tag);
  return EBUSY;
}

void excuse(Tag& tag) {
  World::get().destruction_failed = true;
  tag.excused = true;
  if (!tag.counted) return;
  tag.counted = false;
  // No program holds the object any more, because a test made its destruction fail: leak detectors should ignore it.
  static auto* const kept = new std::vector<const Tag*>;
  kept->push_back(&tag);
  --World::get().live[static_cast<int>(tag.kind)];
}

void object_fault(const char* call, const void* object, const Tag& tag, Kind kind) {
  char address[32];
  std::snprintf(address, sizeof address, " %p", object);
  if (tag.magic == Tag::kDead && tag.kind == kind)
    fatal(call, std::string(name_of(kind)) + address + " was destroyed before");
  fatal(call, std::string("not a ") + name_of(kind) + address);
}

bool World::drops(Message message) {
  int& count = lost[static_cast<int>(message)];
  if (!count) return false;
  --count;
  return true;
}

void World::after(int milliseconds, const void* owner, std::function<void()> work) {
  timers_.emplace(Clock::now() + std::chrono::milliseconds(milliseconds), Timer{owner, std::move(work)});
  if (!timer_thread_) {
    timer_thread_ = true;
    sigset_t all, before;  // signals are for the program's threads
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, &before);
    std::thread([this] { run_timers(); }).detach();
    pthread_sigmask(SIG_SETMASK, &before, nullptr);
  }
  timers_changed_.notify_one();
}

void World::cancel_timers(const void* owner) {
  for (auto it = timers_.begin(); it != timers_.end();) it = it->second.owner == owner ? timers_.erase(it) : ++it;
}

void World::run_timers() {
  const SparedAllocations spared;
  std::unique_lock<std::mutex> lock(mutex);
  for (;;) {
    if (timers_.empty()) {
      timers_changed_.wait(lock);
    } else if (const auto due = timers_.begin()->first; Clock::now() < due) {
      timers_changed_.wait_until(lock, due);
    } else {
      const Timer timer = std::move(timers_.begin()->second);
      timers_.erase(timers_.begin());
      timer.work();
    }
  }
}

void World::await_acknowledgements(std::unique_lock<std::mutex>& lock, const Tag& tag, const char* call) {
  if (!changed.wait_for(lock, std::chrono::seconds(10), [&] { return tag.unacked_async == 0; }))
    fatal(call, "would block: " + std::to_string(tag.unacked_async) + " asynchronous events are not acknowledged");
}

void World::retain(std::shared_ptr<void> memory) {
  retained_.push_back(std::move(memory));
  if (retained_.size() > kGraves) retained_.pop_front();
}

void World::forget_scripts() {
  for (CallState& state : calls) state = {};
  failure_happened = destruction_failed = false;
  overruns = 0;
  timing = {};
  reach.clear();
  lost.clear();
  scripted = false;
  scripted_status.clear();
  lost_messages.clear();
  lost_acknowledgements.clear();
  keep_completions = false;
  flush_late = reuse_numbers = false;
  late_sends = LateSends::kFlushed;
  second_refusal = 0;
}

std::map<std::string, int> live_objects() {
  World& world = World::get();
  Guard guard(world.mutex);
  std::map<std::string, int> result;
  for (int kind = 0; kind < static_cast<int>(Kind::kCount); ++kind)
    if (world.live[kind]) result[kKinds[kind]] = world.live[kind];
  return result;
}

std::string leaks() {
  std::string text;
  for (const auto& [kind, count] : live_objects())
    text += (text.empty() ? "" : ", ") + std::to_string(count) + " " + kind;
  return text;
}

uint64_t overruns() {
  World& world = World::get();
  Guard guard(world.mutex);
  return world.overruns;
}

std::map<std::string, uint64_t> calls() {
  World& world = World::get();
  Guard guard(world.mutex);
  std::map<std::string, uint64_t> result;
  for (int call = 0; call < static_cast<int>(Call::kCount); ++call)
    if (world.calls[call].count) result[kCallNames[call]] = world.calls[call].count;
  return result;
}

namespace {

CallState& call_with_name(const char* caller, const std::string& name) {
  for (int call = 0; call < static_cast<int>(Call::kCount); ++call)
    if (name == kCallNames[call]) return World::get().calls[call];
  fatal(caller, "unknown call " + name);
}

}  // namespace

void fail(const std::string& name, uint64_t nth, int error) {
  World& world = World::get();
  Guard guard(world.mutex);
  CallState& state = call_with_name("fake::fail", name);
  state.fail_at = state.count + nth;
  state.error = error;
  world.failure_happened = false;
}

void slow(const std::string& name, int milliseconds) {
  Guard guard(World::get().mutex);
  call_with_name("fake::slow", name).milliseconds = milliseconds;
}

bool failure_happened() {
  World& world = World::get();
  Guard guard(world.mutex);
  return world.failure_happened;
}

bool is_destruction(const std::string& call) {
  return call.find("destroy") != call.npos || call.find("dealloc") != call.npos || call.find("dereg") != call.npos ||
         call == "ibv_close_device";
}

void set_timing(const Timing& timing) {
  World& world = World::get();
  Guard guard(world.mutex);
  world.timing = timing;
}

void set_reach(const std::string& address, Reach reach) {
  World& world = World::get();
  Guard guard(world.mutex);
  world.reach[address] = reach;
}

void lose(Message message, int count) {
  World& world = World::get();
  Guard guard(world.mutex);
  world.lost[static_cast<int>(message)] = count;
}

void script_status(uint32_t qp_num, ibv_wc_status status) {
  World& world = World::get();
  Guard guard(world.mutex);
  world.scripted_status[qp_num] = status;
  world.scripted = true;
}

void lose_messages(uint32_t qp_num, int count) {
  World& world = World::get();
  Guard guard(world.mutex);
  world.lost_messages[qp_num] = count;
  world.scripted = true;
}

void lose_acknowledgements(uint32_t qp_num, int count) {
  World& world = World::get();
  Guard guard(world.mutex);
  world.lost_acknowledgements[qp_num] = count;
  world.scripted = true;
}

void keep_completions_of_destroyed(bool keep) {
  World& world = World::get();
  Guard guard(world.mutex);
  world.keep_completions = keep;
}

void treat_late_sends(LateSends treatment) {
  World& world = World::get();
  Guard guard(world.mutex);
  world.late_sends = treatment;
}

void refuse_second_request(int error) {
  World& world = World::get();
  Guard guard(world.mutex);
  world.second_refusal = error;
}

void reuse_numbers(bool reuse) {
  World& world = World::get();
  Guard guard(world.mutex);
  world.reuse_numbers = reuse;
}

}  // namespace fake
