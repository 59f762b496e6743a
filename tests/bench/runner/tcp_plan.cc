// SPDX-License-Identifier: BSD-2-Clause
// The measurements over tcp, against plain sockets; see plan.h.
#include <cstdlib>

#include "runner/plan_maker.h"

namespace bench {
namespace {

constexpr unsigned kSmallWindow = 64;
constexpr unsigned kLargeWindow =
    16;  // from 64 KiB up, so that all contestants' buffers stay below the last-level cache
constexpr unsigned kFewReceives = 16;  // a sender that is faster meets a receiver without a buffer
constexpr unsigned kStorm = 1000;
constexpr unsigned kWakeGapUs = 200;
constexpr unsigned kFewRounds = 3;  // for measurements that take seconds and vary little

constexpr const char* kIntroduction = R"(# Performance

weft, Debian's libfabric.so.1, and plain TCP sockets do the same work between two processes over 127.0.0.1, in turns,
within one run. `tests/bench/run.sh` writes this page; [results.json](results.json) has the numbers behind it.
`tests/bench/run.sh verbs` does the same over RDMA. weft's messages go through the socket, as between two machines;
[local.md](local.md) has those that go through shared memory.
)";

constexpr const char* kMethod = R"(
## How it is measured

- Both libraries are loaded by path into the same program, which uses only the public API: FI_EP_MSG over the tcp
  provider, FI_THREAD_DOMAIN, one completion queue for both directions, read with fi_cq_read without pause.
- Both processes are on one host; FI_TCP_SHARED_MEMORY=0 leaves their messages to the socket.
- "raw sockets" is non-blocking send() and recv() without pause on sockets with TCP_NODELAY, a 16-byte header before
  each payload, header and payload in one call, small frames gathered up to 64 KiB. With several connections it calls
  epoll first. Where the fabric's threads block, it uses blocking calls.
- Client and server run on the first and the last core that they may use, at the highest ordinary priority where
  permitted (on a shared machine `chrt -f 1` before the command keeps others out), the same for every contestant.
- Contestants take turns within a round and rotate from round to round. In most measurements all of them set up first,
  and then alternate many times within a round, each for a moment while the others sleep; the round's value is the
  median of these. A cell is the median over rounds, with the best round in brackets; a ratio is the median of the
  ratios within each round. Verdicts use that median.
- A stream is timed until the receiver has confirmed the last message. Every message carries a sequence number that the
  receiver checks. Streams of 64 KiB and more, and RMA, keep 16 transfers under way. The window is also the number of
  receives that are posted at a time.
- "connects" covers endpoint, connect, accept, FI_CONNECTED on both sides and close; raw sockets exchange 32 bytes each
  way in place of the request and response. "outstanding" starts all connects before it waits for the first.
- Memory of a connection is the growth of Private_Dirty in /proc/self/smaps_rollup, divided by the connections, before
  any message; heap is the growth of the memory allocated by malloc. Neither includes the sockets' kernel memory.
- Processor use is that of the whole process while one thread sleeps in a blocking read.
- Allocations are calls of malloc and its relatives anywhere in the client while messages flow. Instructions are those
  in user space; n/a: this machine has no hardware counter for them.
- "queue with a wait object" polls a completion queue that was opened with FI_WAIT_UNSPEC in place of FI_WAIT_NONE.
)";

constexpr unsigned kTurns = 7;
constexpr double kTurnSeconds = 0.06;

class TcpPlanMaker : PlanMaker {
 public:
  explicit TcpPlanMaker(Effort effort) : PlanMaker(effort, 0.02, 0.1, 0.3) {
    plan_.page = {"README.md", "results.json", kIntroduction, kMethod};
    plan_.raw_name = "raw sockets";
    plan_.raw_program = "socket_bench";
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
  void latency() {
    PlotPlan plot{"latency.svg",          "Half round trip of a ping-pong, busy-polled",
                  "message size (bytes)", "half round trip (us)",
                  "latency_us",           {}};
    for (const std::size_t size : {std::size_t{8}, std::size_t{64}, 512 * std::size_t{1}, 4 * kKiB, 64 * kKiB, kMiB}) {
      const std::string id = sized("pingpong", size, 2);
      in_turns(kTurns, kTurnSeconds);
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
      in_turns(kTurns, kTurnSeconds);
      plot.points.push_back({static_cast<double>(size), id});
      if (size >= 64 * kKiB)
        plan_.rows.push_back(
            {"stream " + size_name(size), id, "bandwidth_gbs", "GB/s", true, at_least(1, Measure::kOverStock)});
    }
    plan_.plots.push_back(plot);
    for (const std::size_t size : {4 * kKiB, 16 * kKiB}) {
      const std::string id = sized("stream", size, kFewReceives);
      in_turns(kTurns, kTurnSeconds);
      plan_.rows.push_back({fmt::format("stream {}, {} receives", size_name(size), kFewReceives), id, "bandwidth_gbs",
                            "GB/s", true, at_least(1, Measure::kOverStock)});
    }
    for (const char* operation : {"write", "read"}) {
      const std::string id = sized(operation, kMiB, kLargeWindow);
      plan_.rows.push_back({fmt::format("RMA {} 1 MiB", operation), id, "bandwidth_gbs", "GB/s", true,
                            at_least(1, Measure::kOverStock)});
    }
  }

  void connects() {
    run("connects", "connects", {"--connections", pick("200", "300", "600")});
    in_turns(3, kTurnSeconds);
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
    in_turns(kTurns, kTurnSeconds);
    plan_.rows.push_back({"wake-up, both sides blocking", busy, "latency_us", "us", false, no_slower});
    const std::string idle = sized("wakeup", 8, 2, {"--gap", std::to_string(kWakeGapUs)});
    in_turns(kTurns, kTurnSeconds);
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
      if (count > 1000) plan_.runs.back().rounds = kFewRounds;  // most of their time is set-up
      for (PlotPlan* plot : {&latency, &message, &connect}) plot->points.push_back({static_cast<double>(count), id});
      const std::string title = fmt::format("{} connection{}", count, count == 1 ? "" : "s");
      plan_.rows.push_back({title + ", ping-pong 8 B", id, "latency_us", "us"});
      plan_.rows.push_back({title + ", stream 8 B", id, "message_ns", "ns"});
      plan_.rows.push_back({title + ", making one", id, "connect_us", "us"});
    }
    plan_.plots.insert(plan_.plots.end(), {latency, message, connect});
  }
};

}  // namespace

Plan make_tcp_plan(Effort effort) {
  ::setenv("FI_TCP_SHARED_MEMORY", "0", 1);  // for the measured programs
  return TcpPlanMaker(effort).make();
}

}  // namespace bench
