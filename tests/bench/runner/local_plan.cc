// SPDX-License-Identifier: BSD-2-Clause
// The measurements between processes of one host, against shared memory without a fabric; see plan.h.
#include "runner/plan_maker.h"

namespace bench {
namespace {

constexpr const char* kIntroduction = R"(# Performance within a host

Reliable datagrams with tags between two processes of one machine: `tcp` and `tcp;ofi_rxm` of weft, the `shm` provider
of Debian's libfabric.so.1, and a program that exchanges cache lines in shared memory, in turns, within one run.
`sh tests/bench/run.sh local` writes this page; [local.json](local.json) has the numbers behind it.
)";

constexpr const char* kMethod = R"(
## How it is measured

- Both libraries are loaded by path into the same program, which uses only the public API: default sizes,
  FI_THREAD_DOMAIN, fi_tsend, fi_tinject and fi_trecv, one completion queue for both directions, read with fi_cq_read
  without pause. libfabric's `tcp` takes no part: it has no path within a host.
- "shared memory" polls a row of cache lines for each direction. It copies a message of more than 48 bytes out of the
  other process, process_vm_readv(2), which weft does from 16 KiB on.
- "untraced": a filter denies process_vm_readv to weft, as containers do. Its ratio is to the program that may use it.
- Client and server run on the first and the last processor that they may use. Whether these share a cache decides
  about the shortest times, so only ratios can be compared between runs.
- Contestants take turns within a round and rotate from round to round. All of them set up first, and then alternate
  many times within a round, each for a moment while the others sleep; the round's value is the median of these. A cell
  is the median over rounds, with the best round in brackets; a ratio is the median of the ratios within each round.
)";

constexpr unsigned kWindow = 64;
constexpr unsigned kTurns = 7;
constexpr double kTurnSeconds = 0.06;

class LocalPlanMaker : PlanMaker {
 public:
  explicit LocalPlanMaker(Effort effort) : PlanMaker(effort, 0.02, 0.1, 0.3) {
    plan_.page = {"local.md", "local.json", kIntroduction, kMethod};
    plan_.raw_name = "shared memory";
    plan_.raw_program = "memory_bench";
    plan_.common_arguments = {"--reliable", "--tagged"};
    plan_.stock_arguments = {"--provider", "shm"};
  }

  Plan make() {
    struct Size {
      std::size_t bytes;
      double most, most_untraced;  // times the raw program
    };
    for (const char* provider : {"tcp", "tcp;ofi_rxm"}) {
      for (const Size& size : {Size{8, 3, 0}, {4 * kKiB, 1.5, 0}, {64 * kKiB, 1.2, 2.2}, {kMiB, 1.1, 2.2}}) {
        ping_pong(provider, size.bytes, size.most, {});
        if (size.most_untraced != 0) ping_pong(provider, size.bytes, size.most_untraced, {"--untraced"});
      }
      const std::string id = measure("stream", provider, 8, kWindow, {});
      plan_.rows.push_back({fmt::format("{}: stream 8 B, window {}", provider, kWindow), id, "messages_per_s", "M/s",
                            true, at_least(6, Measure::kValue), 1e-6});
    }
    return std::move(plan_);
  }

 private:
  void ping_pong(const char* provider, std::size_t size, double most, std::vector<std::string> more) {
    const std::string title =
        fmt::format("{}: ping-pong {}{}, half round trip", provider, size_name(size), more.empty() ? "" : ", untraced");
    const std::string id = measure("pingpong", provider, size, 2, std::move(more));
    plan_.rows.push_back({title, id, "latency_us", "us", false, at_most(most, Measure::kOverRaw)});
  }

  std::string measure(const char* workload, const char* provider, std::size_t size, unsigned window,
                      std::vector<std::string> more) {
    const std::string id = fmt::format("{}-{}-{}{}", provider, workload, size, more.empty() ? "" : more.front());
    more.insert(more.end(),
                {"--provider", provider, "--size", std::to_string(size), "--window", std::to_string(window)});
    const bool untraced = more.front() == "--untraced";
    run(id, workload, std::move(more));
    plan_.runs.back().stock = !untraced;
    in_turns(kTurns, kTurnSeconds);
    return id;
  }
};

}  // namespace

Plan make_local_plan(Effort effort) {
  return LocalPlanMaker(effort).make();
}

}  // namespace bench
