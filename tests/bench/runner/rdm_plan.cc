// SPDX-License-Identifier: BSD-2-Clause
// The measurements of reliable datagrams over verbs, against connected endpoints of the same library; see plan.h.
#include <cstdlib>

#include "runner/plan_maker.h"

namespace bench {
namespace {

constexpr const char* kIntroduction = R"(# Performance of reliable datagrams over RDMA

Reliable-datagram endpoints of `verbs;ofi_rxm` in weft and in Debian's libfabric.so.1, and weft's own connected
endpoints beneath them, in turns, within one boot. `sh tests/bench/run.sh rdm` writes this page; [rdm.json](rdm.json)
has the numbers behind it. [Connections over RDMA](verbs.md) compares those with a program without libfabric.

A microsecond on this page is a thousand instructions: the guest is emulated, and its one processor counts them,
including those of the kernel, which is the network card here (Soft-RoCE). So the load of the machine does not affect
the numbers.
)";

constexpr const char* kMethod = R"(
## How it is measured

- All load the library by path into the same program, which uses only the public API: default sizes, FI_THREAD_DOMAIN,
  one completion queue for both directions, read with fi_cq_read without pause; a process that polls in vain yields the
  processor to the other side. Untagged messages between two processes.
- "connected endpoint" is FI_EP_MSG over verbs on weft: the choice of an application that makes its connections itself.
- Both processes are on one host; FI_TCP_SHARED_MEMORY=0 leaves their messages to the device.
- FI_UNIVERSE_SIZE is 16: by default libfabric requires a longer completion queue than Soft-RoCE has.
- A message of reliable datagrams has a header of 64 bytes, which may need one more packet: Soft-RoCE's hold 1024 bytes.
  It is copied out of its receive buffer.
- Contestants take turns within a round and rotate from round to round. All of them set up first, and then alternate
  many times within a round, each for a moment while the others sleep; the round's value is the median of these. A cell
  is the median over rounds, with the best round in brackets; a ratio is the median of the ratios within each round.
- Allocations are calls of malloc and its relatives anywhere in the client while messages flow.
)";

constexpr unsigned kWindow = 64;
constexpr unsigned kTurns = 5;
constexpr double kTurnSeconds = 0.05;

class RdmPlanMaker : PlanMaker {
 public:
  RdmPlanMaker(Effort effort, const std::string& address) : PlanMaker(effort, 0.05, 0.2, 1) {
    plan_.page = {"rdm.md", "rdm.json", kIntroduction, kMethod};
    compare_with_verbs(address);
    plan_.raw_name = "connected endpoint";
    plan_.raw_program = "fabric_bench";
    plan_.raw_arguments = plan_.fabric_arguments;
    plan_.fabric_arguments = {"--provider", "verbs;ofi_rxm", "--reliable"};
  }

  Plan make() {
    for (const std::size_t size : {std::size_t{8}, std::size_t{64}, 4 * kKiB}) {
      const std::string id = sized("pingpong", size, 2);
      in_turns(kTurns, kTurnSeconds);
      const std::string title = "ping-pong " + size_name(size);
      plan_.rows.push_back({title + ", half round trip", id, "latency_us", "us", false,
                            size == 8 ? at_most(1.15, Measure::kOverRaw) : Target{}});
      plan_.rows.push_back(
          {title + ", allocations", id, "allocations_per_op", "per op", false, at_most(0, Measure::kValue)});
    }
    const std::string id = sized("stream", 8, kWindow);
    in_turns(kTurns, kTurnSeconds);
    plan_.rows.push_back(
        {fmt::format("stream 8 B, window {}, a message", kWindow), id, "message_ns", "us", false, {}, 1e-3});
    return std::move(plan_);
  }
};

}  // namespace

Plan make_rdm_plan(Effort effort, const std::string& address) {
  ::setenv("FI_TCP_SHARED_MEMORY", "0", 1);  // for the measured programs
  return RdmPlanMaker(effort, address).make();
}

}  // namespace bench
