// SPDX-License-Identifier: BSD-2-Clause
// The ping-pong test; see ping_pong.h.
#include "ping_pong.h"

#include <utility>

#include "payload.h"

namespace weft::tools {

PingPong::PingPong(const Options& options, FabricLink& link, ControlChannel& control, Watch& watch, Tick tick)
    : options_(options), link_(link), control_(control), watch_(watch), tick_(std::move(tick)) {}

Status PingPong::run(std::size_t size, TestResult& result) {
  result = TestResult{};
  result.size = size;
  WEFT_TRY(options_.client ? control_.request_start() : control_.confirm_start());
  watch_.step(fmt::format("waiting for a message of {} bytes", size), Watch::Peer::kMustNotSpeak);
  result.start = Clock::now();
  Status exchanged = exchange(result);
  result.time = Clock::now() - result.start;
  if (!exchanged) return exchanged;
  if (options_.client) return control_.report_count(result.sent);
  WEFT_TRY_FOR(count, control_.receive_count());
  if (count != result.received)
    return fail(FI_EIO, "the client sent {} messages of {} bytes, but {} arrived", count, size, result.received);
  return {};
}

Status PingPong::exchange(TestResult& result) {
  // A round trip is the time between the arrivals of two messages.
  Clock::time_point last = result.start;
  bool last_counts = options_.client;  // the server's first arrival only starts the first round trip
  for (uint64_t i = 0; i < options_.iterations; ++i) {
    if (options_.client) WEFT_TRY(send_one(result));
    WEFT_TRY(receive_one(result));
    if (!options_.client) WEFT_TRY(send_one(result));
    WEFT_TRY(link_.release());
    const Clock::time_point now = Clock::now();
    if (last_counts && i >= options_.warmup)
      result.round_trips.record(static_cast<uint64_t>(std::chrono::nanoseconds(now - last).count()));
    last = now;
    last_counts = true;
    tick_(result, now);
    if (Watch::interrupted()) return watch_.check();
  }
  return link_.finish_send();
}

Status PingPong::send_one(TestResult& result) {
  if (Status ready = link_.finish_send(); !ready) return ready;
  if (options_.check) fill_payload(link_.outgoing(result.size), filled_++);
  if (Status posted = link_.send(result.size); !posted) return posted;
  ++result.sent;
  return {};
}

Status PingPong::receive_one(TestResult& result) {
  WEFT_TRY_FOR(message, link_.receive());
  ++result.received;
  if (message.size() != result.size)
    return fail(FI_EIO, "message {} should have {} bytes, but has {}; -I and -S must be the same on both sides",
                result.received, result.size, message.size());
  if (!options_.check) return {};
  if (auto fault = payload_fault(message, checked_++))
    return fail(FI_EIO, "message {} of {} bytes is corrupt from byte {} on (-c must be given on both sides)",
                result.received, result.size, *fault);
  return {};
}

}  // namespace weft::tools
