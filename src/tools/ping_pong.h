// SPDX-License-Identifier: BSD-2-Clause
// The test: the client sends a message and the server answers with one of the same size, repeatedly. fi_pingpong(1).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

#include "control_channel.h"
#include "fabric_link.h"
#include "failure.h"
#include "histogram.h"
#include "watch.h"

namespace weft::tools {

// The results of one test; partial if the test ended early.
struct TestResult {
  std::size_t size = 0;   // bytes in a message
  uint64_t sent = 0;      // messages by this side
  uint64_t received = 0;  // messages from the other side
  Clock::time_point start{};
  std::chrono::nanoseconds time{};
  Histogram round_trips;  // ns
};

class PingPong {
 public:
  struct Options {
    bool client = false;
    uint64_t iterations = 10;
    uint64_t warmup = 0;  // round trips at the start of a test that the histogram leaves out
    bool check = false;   // verify the content of every message
  };
  // Called after every message, with the time then.
  using Tick = std::function<void(const TestResult& so_far, Clock::time_point now)>;

  // All arguments must outlive the object.
  PingPong(const Options& options, FabricLink& link, ControlChannel& control, Watch& watch, Tick tick);

  // `result` is valid in any case.
  Status run(std::size_t size, TestResult& result);

 private:
  Status exchange(TestResult& result);
  Status send_one(TestResult& result);
  Status receive_one(TestResult& result);

  const Options options_;
  FabricLink& link_;
  ControlChannel& control_;
  Watch& watch_;
  Tick tick_;
  // Messages of all tests; they number the checked contents.
  uint64_t filled_ = 0;
  uint64_t checked_ = 0;
};

}  // namespace weft::tools
