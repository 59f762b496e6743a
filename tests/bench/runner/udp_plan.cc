// SPDX-License-Identifier: BSD-2-Clause
// The measurements over udp, against plain sockets; see plan.h.
#include "runner/plan_maker.h"

namespace bench {
namespace {

constexpr const char* kIntroduction = R"(# Performance of datagrams over UDP

weft, Debian's libfabric.so.1, and plain UDP sockets do the same work between two processes over 127.0.0.1, in turns,
within one run. `sh tests/bench/run.sh udp` writes this page; [udp.json](udp.json) has the numbers behind it. Other
pages: [tcp](README.md), [datagrams over RDMA](ud.md).
)";

constexpr const char* kMethod = R"(
## How it is measured

- Both libraries are loaded by path into the same program, which uses only the public API: FI_EP_DGRAM over the udp
  provider, FI_THREAD_DOMAIN, one completion queue for both directions, read with fi_cq_read without pause.
- "raw sockets" is non-blocking sendto() and recvfrom() without pause, one datagram a call, on sockets that are not
  connected.
- A stream keeps 64 messages under way: the receiver grants half of them again whenever it has received that many, so
  nothing is lost. It is timed until the receiver has confirmed the last message. Every message carries a sequence
  number that the receiver checks.
- In a flood the sender does not wait. Messages that arrive are counted, from the first to the last; the rest is lost
  where the socket's buffer is full. A sequence number that comes twice or too late ends the measurement.
- "join and leave" is fi_join, FI_JOIN_COMPLETE and fi_close of a member that receives; raw: socket, bind,
  IP_ADD_MEMBERSHIP, close.
- Client and server run on the first and the last core that they may use, at the highest ordinary priority where
  permitted (on a shared machine `chrt -f 1` before the command keeps others out), the same for every contestant.
- Contestants take turns within a round and rotate from round to round. In ping-pongs all of them set up first, and then
  alternate many times within a round, each for a moment while the others sleep. A cell is the median over rounds, with
  the best round in brackets; a ratio is the median of the ratios within each round. Verdicts use that median.
- Allocations are calls of malloc and its relatives anywhere in the client while messages flow.
)";

constexpr unsigned kWindow = 64;
constexpr unsigned kFloodWindow = 256;

class UdpPlanMaker : PlanMaker {
 public:
  explicit UdpPlanMaker(Effort effort) : PlanMaker(effort, 0.02, 0.1, 0.3) {
    plan_.page = {"udp.md", "udp.json", kIntroduction, kMethod};
    plan_.raw_name = "raw sockets";
    plan_.raw_program = "socket_bench";
    plan_.fabric_arguments = {"--provider", "udp"};
  }

  Plan make() {
    latency();
    streams();
    floods();
    joins();
    return std::move(plan_);
  }

 private:
  void latency() {
    PlotPlan plot{"udp-latency.svg",      "Half round trip of a ping-pong of datagrams, busy-polled",
                  "message size (bytes)", "half round trip (us)",
                  "latency_us",           {}};
    for (const std::size_t size : {8, 64, 512, 1024}) {
      const std::string id = sized("dgram-pingpong", size, 2);
      in_turns(7, 0.06);
      plot.points.push_back({static_cast<double>(size), id});
      const std::string title = "ping-pong " + size_name(size);
      plan_.rows.push_back(
          {title + ", half round trip", id, "latency_us", "us", false, at_most(1.08, Measure::kOverRaw)});
      if (size > 64) continue;
      plan_.rows.push_back({title + ", 99th percentile", id, "latency_p99_us", "us"});
      plan_.rows.push_back(
          {title + ", allocations", id, "allocations_per_op", "per op", false, at_most(0, Measure::kValue)});
    }
    plan_.plots.push_back(plot);
  }

  void streams() {
    for (const std::size_t size : {8, 64, 512, 1024}) {
      const std::string id = sized("dgram-stream", size, kWindow, {"--credits"});
      const Target target = size <= 64 ? at_least(4, Measure::kOverStock) : Target{};
      const std::string title = fmt::format("stream {}, window {}", size_name(size), kWindow);
      plan_.rows.push_back({title, id, "messages_per_s", "M/s", true, target, 1e-6});
      if (size > 64) continue;
      plan_.rows.push_back(
          {title + ", allocations", id, "allocations_per_op", "per op", false, at_most(0, Measure::kValue)});
    }
  }

  void floods() {
    const std::string id = sized("dgram-flood", 64, kFloodWindow);
    plan_.rows.push_back(
        {"flood 64 B, received", id, "received_per_s", "M/s", true, at_least(4, Measure::kOverStock), 1e-6});
    plan_.rows.push_back({"flood 64 B, sent", id, "sent_per_s", "M/s", true, {}, 1e-6});
    plan_.rows.push_back({"flood 64 B, lost", id, "lost_percent", "%"});
  }

  void joins() {
    run("joins", "joins", {"--connections", pick("20", "500", "2000")});
    plan_.rows.push_back({"join and leave", "joins", "membership_us", "us"});
    plan_.rows.push_back({"join and leave, the join", "joins", "join_us", "us"});
  }
};

}  // namespace

Plan make_udp_plan(Effort effort) {
  return UdpPlanMaker(effort).make();
}

}  // namespace bench
