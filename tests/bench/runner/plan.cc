// SPDX-License-Identifier: BSD-2-Clause
// What a run measures and what it is judged by; see plan.h.
#include "runner/plan.h"

#include <fmt/format.h>

namespace bench {
namespace {

constexpr std::size_t kKiB = 1024;
constexpr std::size_t kMiB = 1024 * kKiB;
constexpr unsigned kSmallWindow = 64;
constexpr unsigned kLargeWindow =
    16;  // from 64 KiB up, so that all contestants' buffers stay below the last-level cache
constexpr unsigned kStorm = 1000;
constexpr unsigned kWakeGapUs = 200;
constexpr unsigned kFewRounds = 3;  // for measurements that take seconds and vary little

constexpr Target at_most(double limit, Measure measure) {
  return {Bound::kAtMost, limit, measure};
}
constexpr Target at_least(double limit, Measure measure) {
  return {Bound::kAtLeast, limit, measure};
}

std::string size_name(std::size_t size) {
  if (size >= kMiB) return fmt::format("{} MiB", size / kMiB);
  if (size >= kKiB) return fmt::format("{} KiB", size / kKiB);
  return fmt::format("{} B", size);
}

class PlanMaker {
 public:
  explicit PlanMaker(Effort effort) : effort_(effort) {
    plan_.rounds = pick(1u, 7u, 15u);
    seconds_ = fmt::format("{}", pick(0.02, 0.1, 0.3));
  }

  Plan make() {
    latency();
    rate();
    bandwidth();
    connects();
    waits();
    growth();
    return std::move(plan_);
  }

 private:
  template <class T>
  T pick(T quick, T normal, T full) const {
    return effort_ == Effort::kQuick ? quick : effort_ == Effort::kNormal ? normal : full;
  }

  std::string run(std::string id, std::string_view workload, std::vector<std::string> more = {}) {
    std::vector<std::string> arguments = {std::string(workload), "--seconds", seconds_};
    arguments.insert(arguments.end(), more.begin(), more.end());
    plan_.runs.push_back({id, std::move(arguments)});
    return id;
  }

  // A workload that moves messages of one size.
  std::string sized(std::string_view workload, std::size_t size, unsigned window, std::vector<std::string> more = {}) {
    more.insert(more.end(), {"--size", std::to_string(size), "--window", std::to_string(window)});
    std::string suffix = more.front() == "--waitable" ? "-waitable" : more.front() == "--gap" ? "-gap" : "";
    return run(fmt::format("{}-{}{}", workload, size, suffix), workload, std::move(more));
  }

  void latency() {
    PlotPlan plot{"latency.svg",          "Half round trip of a ping-pong, busy-polled",
                  "message size (bytes)", "half round trip (us)",
                  "latency_us",           {}};
    for (const std::size_t size : {std::size_t{8}, std::size_t{64}, 512 * std::size_t{1}, 4 * kKiB, 64 * kKiB, kMiB}) {
      const std::string id = sized("pingpong", size, 2);
      plot.points.push_back({static_cast<double>(size), id});
      const Target target = size <= 64 ? at_most(1.08, Measure::kOverRaw) : Target{};
      const std::string title = "ping-pong " + size_name(size);
      plan_.rows.push_back({title + ", half round trip", id, "latency_us", "us", false, target});
      if (size > 64) continue;
      plan_.rows.push_back({title + ", 99th percentile", id, "latency_p99_us", "us"});
      plan_.rows.push_back(
          {title + ", allocations", id, "allocations_per_op", "per op", false, at_most(0, Measure::kValue)});
      plan_.rows.push_back({title + ", instructions", id, "instructions_per_op", "per op"});
    }
    plan_.plots.push_back(plot);
  }

  void rate() {
    for (const std::size_t size : {8, 64}) {
      const std::string title = fmt::format("stream {}, window {}", size_name(size), kSmallWindow);
      const std::string id = sized("stream", size, kSmallWindow);
      plan_.rows.push_back({title, id, "messages_per_s", "M/s", true, at_least(4, Measure::kOverStock), 1e-6});
      plan_.rows.push_back(
          {title + ", allocations", id, "allocations_per_op", "per op", false, at_most(0, Measure::kValue)});
    }
    const std::string id = sized("stream", 8, kSmallWindow, {"--waitable"});
    plan_.runs.back().raw = false;
    plan_.rows.push_back({"stream 8 B, queue with a wait object", id, "messages_per_s", "M/s", true, {}, 1e-6});
  }

  void bandwidth() {
    PlotPlan plot{"bandwidth.svg",        "Bandwidth of a one-way stream, busy-polled",
                  "message size (bytes)", "bandwidth (GB/s)",
                  "bandwidth_gbs",        {{8, "stream-8"}, {64, "stream-64"}}};
    for (const std::size_t size : {512 * std::size_t{1}, 4 * kKiB, 64 * kKiB, kMiB}) {
      const std::string id = sized("stream", size, size < 64 * kKiB ? kSmallWindow : kLargeWindow);
      plot.points.push_back({static_cast<double>(size), id});
      if (size >= 64 * kKiB)
        plan_.rows.push_back(
            {"stream " + size_name(size), id, "bandwidth_gbs", "GB/s", true, at_least(0.95, Measure::kOverRaw)});
    }
    plan_.plots.push_back(plot);
    for (const char* operation : {"write", "read"}) {
      const std::string id = sized(operation, kMiB, kLargeWindow);
      plan_.rows.push_back({fmt::format("RMA {} 1 MiB", operation), id, "bandwidth_gbs", "GB/s", true,
                            at_least(0.9, Measure::kOverRaw)});
    }
  }

  void connects() {
    run("connects", "connects", {"--connections", pick("200", "1000", "3000")});
    plan_.rows.push_back({"connects one after the other", "connects", "connects_per_s", "k/s", true,
                          at_least(1.3, Measure::kOverStock), 1e-3});
    const std::string count = std::to_string(kStorm);
    run("storm", "storm", {"--connections", count, "--outstanding", count});
    const auto row = [this](const char* what, const char* metric, Target target = {}) {
      plan_.rows.push_back(
          {fmt::format("{} connects outstanding, {}", kStorm, what), "storm", metric, "KiB", false, target});
    };
    plan_.rows.push_back({fmt::format("{} connects outstanding", kStorm), "storm", "connects_per_s", "k/s", true,
                          at_least(2, Measure::kOverStock), 1e-3});
    row("memory of one, active side", "client_private_kib", at_most(8, Measure::kValue));
    row("memory of one, passive side", "server_private_kib", at_most(8, Measure::kValue));
    row("heap of one, active side", "client_heap_kib");
    row("heap of one, passive side", "server_heap_kib");
  }

  void waits() {
    plan_.runs.push_back({"idle", {"idle", "--seconds", pick("0.1", "0.5", "1")}, false, kFewRounds});
    for (const char* queue : {"cq", "eq"})
      plan_.rows.push_back({fmt::format("idle in fi_{}_sread, processor use", queue), "idle",
                            fmt::format("{}_sread_cpu_percent", queue), "%", false, at_most(0.5, Measure::kValue)});
    const Target no_slower = at_most(1.05, Measure::kOverRaw);  // equal within what this clock and machine resolve
    const std::string busy = sized("wakeup", 8, 2);
    plan_.rows.push_back({"wake-up, both sides blocking", busy, "latency_us", "us", false, no_slower});
    const std::string idle = sized("wakeup", 8, 2, {"--gap", std::to_string(kWakeGapUs)});
    plan_.rows.push_back(
        {fmt::format("wake-up after {} us of sleep", kWakeGapUs), idle, "latency_us", "us", false, no_slower});
  }

  void growth() {
    PlotPlan latency{"growth-latency.svg", "Ping-pong of 8 B on one connection while the others are idle",
                     "connections",        "half round trip (us)",
                     "latency_us",         {}};
    PlotPlan message{"growth-message.svg", "Stream of 8 B on one connection while the others are idle",
                     "connections",        "time per message (ns)",
                     "message_ns",         {}};
    PlotPlan connect{"growth-connect.svg", "Time to make one connection, up to 256 under way",
                     "connections",        "time per connection (us)",
                     "connect_us",         {}};
    for (const unsigned count : {1u, 100u, 1000u, 10000u}) {
      if (effort_ == Effort::kQuick && count > 1000) continue;
      const std::string id = fmt::format("growth-{}", count);
      run(id, "growth", {"--connections", std::to_string(count)});
      if (count > 1000) plan_.runs.back().rounds = kFewRounds;  // most of their time goes into set-up
      for (PlotPlan* plot : {&latency, &message, &connect}) plot->points.push_back({static_cast<double>(count), id});
      const std::string title = fmt::format("{} connection{}", count, count == 1 ? "" : "s");
      plan_.rows.push_back({title + ", ping-pong 8 B", id, "latency_us", "us"});
      plan_.rows.push_back({title + ", stream 8 B", id, "message_ns", "ns"});
      plan_.rows.push_back({title + ", making one", id, "connect_us", "us"});
    }
    plan_.plots.insert(plan_.plots.end(), {latency, message, connect});
  }

  Effort effort_;
  std::string seconds_;
  Plan plan_;
};

}  // namespace

Plan make_plan(Effort effort) {
  return PlanMaker(effort).make();
}

}  // namespace bench
