// SPDX-License-Identifier: BSD-2-Clause
// The measurements over verbs, against a raw program of librdmacm and libibverbs; see plan.h.
#include "runner/plan_maker.h"

namespace bench {
namespace {

constexpr const char* kIntroduction = R"(# Performance over RDMA

weft, Debian's libfabric.so.1, and a program that calls librdmacm and libibverbs do the same work between two processes
on one RDMA device, in turns, within one boot. `sh tests/bench/run.sh verbs` writes this page; [verbs.json](verbs.json)
has the numbers behind it. The page of [tcp](README.md) has more measurements; [reliable datagrams](rdm.md) are compared
with these connections.
)";

constexpr const char* kCounted = R"(
A microsecond on this page is a thousand instructions: the guest is emulated, and its one processor counts them,
including those of the kernel, which is the network card here (Soft-RoCE). So the load of the machine does not affect
the numbers. With `RXE_MODE=vm` before the command the clock is the machine's, and the two processes have a processor
each.
)";

constexpr const char* kTimed = R"(
On Soft-RoCE the kernel is the network card, and an emulated machine is ten to thirty times slower than a real one. So
the times on this page mean nothing; the ratios do.
)";

constexpr const char* kMethod = R"(
## How it is measured

- Both libraries are loaded by path into the same program, which uses only the public API: FI_EP_MSG over the verbs
  provider (stock libfabric's own, and weft's plug-in in weft), default sizes, one completion queue for both directions,
  read with fi_cq_read without pause.
- "raw verbs" is one queue pair a connection, with queues as long as weft's default (126) and, as in both libraries,
  work requests of up to four pieces of memory; one completion queue, ibv_poll_cq for up to 16 work completions without
  pause, small messages inline, work requests prebuilt. Messages of the ping-pong have a work completion every 32nd time
  only.
- In streams, RMA writes and reads all contestants request a completion of every 16th transfer (FI_SELECTIVE_COMPLETION;
  raw: no IBV_SEND_SIGNALED). "each completed" is the same with a completion of every message. The receiver of a stream
  grants half a window again whenever it has received that many, so that every message finds a buffer: otherwise the
  device would pause for a time of its own choosing.
- Contestants take turns within a round and rotate from round to round. In most measurements all of them set up first,
  and then alternate many times within a round, each for a moment while the others sleep; the round's value is the
  median of these. A cell is the median over rounds, with the best round in brackets; a ratio is the median of the
  ratios within each round. Verdicts use that median.
- Client and server run on the first and the last core that they may use, at idle priority (SCHED_IDLE): the kernel's
  threads, which carry the messages here, preempt them at once. At equal priority a message may wait for the end of a
  time slice, and the scheduler would be measured. Connection events are awaited asleep: fi_eq_sread, and a blocking
  rdma_get_cm_event.
- With one core for both, a process that polls in vain yields it.
- A stream is timed until the receiver has confirmed the last message. Every message carries a sequence number that the
  receiver checks; so do written and read slots.
- "connects one after the other" covers endpoint, connect, accept, FI_CONNECTED on both sides and close; raw:
  rdma_cm_id, queue pair, resolving address and route, rdma_connect, rdma_accept, RDMA_CM_EVENT_ESTABLISHED on both
  sides, and the destruction of both. "outstanding" starts that many connects before it waits for the first.
- That raw program does less than an application must: it waits without a limit, and it destroys its ids without
  disconnecting, so that a peer that misses the one message about that never learns of the end. weft waits with poll(2)
  and a deadline, disconnects, and keeps the id until the peer has confirmed the end.
- Memory of one end is the loss of MemAvailable in /proc/meminfo, divided by twice the connections, before any message;
  it includes the queues that the device shares with the process. Process memory is the growth of Private_Dirty in
  /proc/self/smaps_rollup, divided by the connections.
- Allocations are calls of malloc and its relatives anywhere in the client while messages flow.
)";

constexpr unsigned kSmallWindow = 64;
constexpr unsigned kLargeWindow = 16;
constexpr unsigned kLargeSize = 64 * kKiB;
constexpr double kDataBound = 1.02;
constexpr unsigned kTurns = 9;
constexpr double kTurnSeconds = 0.1;
constexpr double kConnectBound = 1.05;

class VerbsPlanMaker : PlanMaker {
 public:
  VerbsPlanMaker(Effort effort, const std::string& address, bool counted) : PlanMaker(effort, 0.05, 0.2, 1) {
    const std::string introduction = kIntroduction;
    plan_.page = {"verbs.md", "verbs.json", introduction + (counted ? kCounted : kTimed), kMethod};
    compare_with_verbs(address);
  }

  Plan make() {
    latency();
    streams();
    rma();
    connects();
    storm(pick(20u, 100u, 100u));
    if (!quick()) storm(1000);
    return std::move(plan_);
  }

 private:
  static constexpr Target kAsFastAsRaw = at_most(kDataBound, Measure::kOverRaw);

  // Whether the run only shows that everything works: one measurement of each kind.
  bool quick() const { return effort_ == Effort::kQuick; }

  void latency() {
    PlotPlan plot{"verbs-latency.svg",    "Half round trip of a ping-pong over RDMA, busy-polled",
                  "message size (bytes)", "half round trip (us)",
                  "latency_us",           {}};
    for (const std::size_t size : {std::size_t{8}, std::size_t{64}, 4 * kKiB, 64 * kKiB}) {
      if (quick() && size > 8) break;
      const std::string id = sized("pingpong", size, 2);
      in_turns(kTurns, kTurnSeconds);
      plot.points.push_back({static_cast<double>(size), id});
      const std::string title = "ping-pong " + size_name(size);
      plan_.rows.push_back({title + ", half round trip", id, "latency_us", "us", false, kAsFastAsRaw});
      if (size > 8) continue;
      plan_.rows.push_back({title + ", 99th percentile", id, "latency_p99_us", "us"});
      plan_.rows.push_back(
          {title + ", allocations", id, "allocations_per_op", "per op", false, at_most(0, Measure::kValue)});
    }
    plan_.plots.push_back(plot);
  }

  void streams() {
    const std::string small = sized("stream", 8, kSmallWindow, {"--selective"});
    in_turns(kTurns, kTurnSeconds);
    const std::string title = fmt::format("stream 8 B, window {}", kSmallWindow);
    plan_.rows.push_back({title + ", a message", small, "message_ns", "us", false, kAsFastAsRaw, 1e-3});
    plan_.rows.push_back(
        {title + ", allocations", small, "allocations_per_op", "per op", false, at_most(0, Measure::kValue)});
    if (quick()) return;
    const std::string each = sized("stream", 8, kSmallWindow);
    in_turns(kTurns, kTurnSeconds);
    plan_.rows.push_back({title + ", each completed, a message", each, "message_ns", "us", false, kAsFastAsRaw, 1e-3});
    const std::string large = sized("stream", kLargeSize, kLargeWindow, {"--selective"});
    in_turns(kTurns, kTurnSeconds);
    plan_.rows.push_back({fmt::format("stream {}, window {}, a message", size_name(kLargeSize), kLargeWindow), large,
                          "message_ns", "us", false, kAsFastAsRaw, 1e-3});
  }

  void rma() {
    for (const char* operation : {"write", "read"}) {
      for (const auto& [size, window] : {std::pair{8u, kSmallWindow}, std::pair{kLargeSize, kLargeWindow}}) {
        if (quick() && size > 8) break;
        const std::string id = sized(operation, size, window, {"--selective"});
        in_turns(kTurns, kTurnSeconds);
        plan_.rows.push_back({fmt::format("RMA {} {}, window {}", operation, size_name(size), window), id,
                              "transfer_us", "us", false, kAsFastAsRaw});
      }
    }
  }

  void connects() {
    const std::string id = run("connects", "connects", {"--connections", pick("5", "20", "100")});
    in_turns(kTurns, kTurnSeconds);
    const std::string title = "connects one after the other";
    plan_.rows.push_back({title, id, "connect_ms", "ms", false, at_most(kConnectBound, Measure::kOverRaw)});
    plan_.rows.push_back({title + ", rate", id, "connects_per_s", "1/s", true, at_least(1, Measure::kOverStock)});
  }

  void storm(unsigned count) {
    const std::string number = std::to_string(count);
    const std::string id = run("storm-" + number, "storm", {"--connections", number, "--outstanding", number});
    const std::string title = number + " connects outstanding";
    plan_.rows.push_back({title, id, "connect_ms", "ms", false, at_most(kConnectBound, Measure::kOverRaw)});
    plan_.rows.push_back({title + ", rate", id, "connects_per_s", "1/s", true, at_least(1.5, Measure::kOverStock)});
    if (count < 1000) return;  // other uses of the machine's memory must not show
    plan_.rows.push_back(
        {title + ", memory of one end", id, "machine_kib", "KiB", false, at_most(0.5, Measure::kOverStock)});
    for (const auto& [side, metric] :
         {std::pair{"active", "client_private_kib"}, std::pair{"passive", "server_private_kib"}})
      plan_.rows.push_back({fmt::format("{}, process memory of one end, {} side", title, side), id, metric, "KiB"});
  }
};

}  // namespace

Plan make_verbs_plan(Effort effort, const std::string& address, bool counted) {
  return VerbsPlanMaker(effort, address, counted).make();
}

}  // namespace bench
