// SPDX-License-Identifier: BSD-2-Clause
// The measurements of datagrams over verbs, against a raw program of librdmacm and libibverbs; see plan.h.
#include "runner/plan_maker.h"

namespace bench {
namespace {

constexpr const char* kIntroduction = R"(# Performance of datagrams over RDMA

weft, Debian's libfabric.so.1, and a program that calls librdmacm and libibverbs do the same work on one RDMA device, in
turns, within one boot. `sh tests/bench/run.sh ud` writes this page; [ud.json](ud.json) has the numbers behind it. [Over
UDP](udp.md) the same is measured without a virtual machine.

)";

constexpr const char* kCounted =
    R"(A microsecond on this page is a thousand instructions: the guest is emulated, and its clock counts them, including those
of the kernel, which is the network card here (Soft-RoCE). So the load of the machine does not affect the numbers:
rounds differ by half a percent for messages, by a few for joins. With `RXE_MODE=vm` before the command the clock is the
machine's, and two processes exchange the messages.
)";

constexpr const char* kTimed =
    R"(On Soft-RoCE the kernel is the network card, and an emulated machine is ten to thirty times slower than a real one. So
the times on this page mean nothing; the ratios do.
)";

constexpr const char* kMethod = R"(
## How it is measured

- Both libraries are loaded by path into the same program, which uses only the public API: FI_EP_DGRAM over the verbs
  provider (stock libfabric's own, and weft's plug-in in weft), default sizes, one completion queue for both directions,
  read with fi_cq_read without pause. With weft the endpoints find each other by IP address. Stock libfabric has only
  queue-pair addresses (FI_ADDR_IB_UD), requires 40 bytes of room in front of each received message (FI_MSG_PREFIX), and
  has no groups.
- "raw verbs" is one UD queue pair, ibv_poll_cq for up to 16 work completions without pause, small messages inline, work
  requests prebuilt, the route header left in front of each message.
- "to itself": one side sends windows of messages to its own queue pair and receives them before it sends the next. One
  thread does both sides' work without waiting for another process, so the scheduler has the least influence here. All
  contestants request a completion of every 16th message of a window of 64. Every message carries a sequence number that
  is checked.
- weft receives into memory of its own and copies from there ([decision
  0011](../decisions/0011-datagrams-over-verbs.md)); raw verbs and stock libfabric do not. The numbers include the copy.
- "join" is fi_join until FI_JOIN_COMPLETE, raw: rdma_join_multicast until RDMA_CM_EVENT_MULTICAST_JOIN, and an address
  handle for sending; "leave" is fi_close, raw: rdma_leave_multicast and the end of the handle.
- Contestants take turns within a round and rotate from round to round. A cell is the median over rounds, with the best
  round in brackets; a ratio is the median of the ratios within each round. Verdicts use that median.
- Allocations are calls of malloc and its relatives anywhere in the process while messages flow.
)";

constexpr const char* kBetweenProcesses =
    R"(- Client and server of the rows that are not "to itself" run on the first and the last core that they may use, at idle
  priority (SCHED_IDLE): the kernel's threads, which carry the messages here, preempt them at once. Raw verbs requests a
  work completion of every 32nd message of the ping-pong only. A stream keeps 64 messages under way; the receiver grants
  half a window again whenever it has received that many, so nothing is lost.
- A half round trip of about 4 ms is the tick of the guest's scheduler: both sides spin, and Soft-RoCE's own thread
  waits for its turn. Its ratio means nothing then; the stream's does.
)";

constexpr unsigned kWindow = 64;

class UdPlanMaker : PlanMaker {
 public:
  UdPlanMaker(Effort effort, const std::string& address, bool counted)
      : PlanMaker(effort, 0.05, 0.2, 1), counted_(counted) {
    const std::string introduction = kIntroduction, method = kMethod;
    plan_.page = {"ud.md", "ud.json", introduction + (counted ? kCounted : kTimed),
                  counted ? method : method + kBetweenProcesses};
    compare_with_verbs(address);
  }

  Plan make() {
    if (!counted_) {
      latency();
      stream();
    }
    to_itself();
    joins();
    return std::move(plan_);
  }

 private:
  static constexpr Target kAsFastAsRaw = at_most(1.03, Measure::kOverRaw);

  void latency() {
    for (const std::size_t size : {8, 64, 1024}) {
      const std::string id = sized("dgram-pingpong", size, 2);
      const std::string title = "ping-pong " + size_name(size);
      plan_.rows.push_back({title + ", half round trip", id, "latency_us", "us", false, kAsFastAsRaw});
      if (size > 8) continue;
      plan_.rows.push_back(
          {title + ", allocations", id, "allocations_per_op", "per op", false, at_most(0, Measure::kValue)});
    }
  }

  void stream() {
    const std::string id = sized("dgram-stream", 64, kWindow, {"--selective"});
    plan_.rows.push_back(
        {fmt::format("stream 64 B, window {}, a message", kWindow), id, "message_ns", "us", false, kAsFastAsRaw, 1e-3});
  }

  void to_itself() {
    for (const std::size_t size : {8, 64, 1024}) {
      const std::string id = sized("dgram-self", size, 1);
      const std::string title = fmt::format("{} to itself, one at a time", size_name(size));
      plan_.rows.push_back({title, id, "message_ns", "us", false, kAsFastAsRaw, 1e-3});
      plan_.rows.push_back(
          {title + ", allocations", id, "allocations_per_op", "per op", false, at_most(0, Measure::kValue)});
    }
    for (const std::size_t size : {64, 1024}) {
      const std::string id = sized("dgram-self", size, kWindow, {"--selective"});
      const std::string title = fmt::format("{} to itself, window {}", size_name(size), kWindow);
      plan_.rows.push_back({title + ", a message", id, "message_ns", "us", false, kAsFastAsRaw, 1e-3});
    }
  }

  void joins() {
    run("joins", "joins", {"--connections", pick("10", "100", "1000")});
    plan_.runs.back().stock = false;
    plan_.rows.push_back({"join", "joins", "join_us", "us"});
    plan_.rows.push_back({"leave", "joins", "leave_us", "us"});
    plan_.rows.push_back({"join and leave", "joins", "membership_us", "us"});
  }

  const bool counted_;
};

}  // namespace

Plan make_ud_plan(Effort effort, const std::string& address, bool counted) {
  return UdPlanMaker(effort, address, counted).make();
}

}  // namespace bench
