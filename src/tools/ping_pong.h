// SPDX-License-Identifier: BSD-2-Clause
// The test itself: the client sends a message, the server sends one of the same size back, as often as asked.
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

// What one test measured; of a test that ended early, what it measured until then.
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
    bool check = false;   // the content of every message
  };
  // Called after every message, with the time then.
  using Tick = std::function<void(const TestResult& so_far, Clock::time_point now)>;

  // All outlive the object.
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
  // Over all tests; they number the checked contents.
  uint64_t filled_ = 0;
  uint64_t checked_ = 0;
};

}  // namespace weft::tools
