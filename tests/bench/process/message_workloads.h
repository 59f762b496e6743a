// SPDX-License-Identifier: BSD-2-Clause
// The workloads made of two-sided messages, written once for every contestant. A link carries messages of one size over
// one connection; the first eight bytes of a message are its word, a sequence number here, so that loss, repetition and
// reordering are detected while measuring.
#pragma once

#include <time.h>

#include <concepts>
#include <cstdint>

#include "process/latency_log.h"
#include "process/measurement.h"
#include "process/process_cost.h"
#include "process/process_pair.h"

namespace bench {

template <class Link>
concept MessageLink = requires(Link link, std::uint64_t word) {
  link.send(word);                                    // queue one of many; may wait for room in the window
  link.send_alone(word);                              // the only message for now: must go at once
  { link.receive() } -> std::same_as<std::uint64_t>;  // wait for the next message
  link.release();                                     // its buffer may take another one
  link.drain();                                       // wait until all sends have left
};

inline constexpr std::uint64_t kLast = std::uint64_t{1} << 63;  // marks the word of the last message

inline std::uint64_t deadline_ns(const Measurement& m) {
  return now_ns() + static_cast<std::uint64_t>(m.seconds * 1e9);
}

inline void sleep_us(unsigned us) {
  const timespec pause{0, static_cast<long>(us) * 1000};
  clock_nanosleep(CLOCK_MONOTONIC, 0, &pause, nullptr);
}

template <MessageLink Link>
void answer_pings(Link& link, const Measurement&) {
  for (std::uint64_t word = 0; (word & kLast) == 0;) {
    word = link.receive();
    link.send_alone(word);
    link.release();
  }
  link.drain();
}

template <MessageLink Link>
void send_pings(Link& link, const Measurement& m) {
  const auto ping = [&link](std::uint64_t word) {
    link.send_alone(word);
    if (link.receive() != word) fail("the answer does not match the ping");
    link.release();
  };
  constexpr std::uint64_t kWarmUp = 200;
  std::uint64_t word = 0;
  for (const std::uint64_t end = now_ns() + 20'000'000; word < kWarmUp && now_ns() < end;) ping(word++);

  LatencyLog log;
  const OperationCost cost;
  const std::uint64_t end = deadline_ns(m);
  for (std::uint64_t start = now_ns(); start < end && !log.full();) {
    if (m.gap_us != 0) {
      sleep_us(m.gap_us);
      start = now_ns();
    }
    ping(word++);
    const std::uint64_t done = now_ns();
    log.add(done - start);
    start = done;
  }
  cost.finish(2 * log.count());  // a message sent and one received
  ping(kLast);
  link.drain();
  log.report_half_round_trips();
}

// The number of messages after which a receiver with m.credits grants as many again.
inline std::uint64_t credit(const Measurement& m) {
  return m.window < 2 ? 1 : m.window / 2;
}

// The sender's view of that: where nothing else limits a sender, it would find the receiver without a buffer.
template <MessageLink Link>
class Credits {
 public:
  Credits(Link& link, const Measurement& m) : link_(link), m_(m) {}

  // Before message number `word` is sent.
  void wait_for(std::uint64_t word) {
    while (m_.credits && word - allowed_ >= m_.window) take();
  }
  // After the last of `sent` messages: collects the remaining credits.
  void wait_for_all(std::uint64_t sent) {
    while (m_.credits && sent - allowed_ >= credit(m_)) take();
  }

 private:
  void take() {
    link_.receive();
    link_.release();
    allowed_ += credit(m_);
  }

  Link& link_;
  const Measurement& m_;
  std::uint64_t allowed_ = 0;  // messages whose buffers are free again
};

template <MessageLink Link>
void take_stream(Link& link, const Measurement& m) {
  for (std::uint64_t expected = 0;; ++expected) {
    const std::uint64_t word = link.receive();
    link.release();
    if ((word & ~kLast) != expected) fail("a message of the stream is missing or out of place");
    if (m.credits && (expected + 1) % credit(m) == 0) link.send_alone(expected);
    if ((word & kLast) != 0) break;
  }
  link.send_alone(kLast);
  link.drain();
}

template <MessageLink Link>
void send_stream(Link& link, const Measurement& m) {
  constexpr unsigned kWarmUpWindows = 4;
  std::uint64_t word = 0;
  Credits credits(link, m);
  const auto send = [&] {
    credits.wait_for(word);
    link.send(word++);
  };
  while (word < kWarmUpWindows * m.window) send();
  link.drain();

  const OperationCost cost;
  const std::uint64_t first = word;
  const std::uint64_t start = now_ns();
  const std::uint64_t end = deadline_ns(m);
  do {
    for (unsigned i = 0; i < m.window; ++i) send();
  } while (now_ns() < end);
  credits.wait_for(word);
  link.send_alone(word++ | kLast);
  link.drain();
  credits.wait_for_all(word);
  link.receive();  // the peer has received all
  const auto elapsed_ns = static_cast<double>(now_ns() - start);
  const auto sent = static_cast<double>(word - first);
  cost.finish(word - first);
  link.release();
  report("message_ns", elapsed_ns / sent);
  report("messages_per_s", sent / elapsed_ns * 1e9);
  report("bandwidth_gbs", sent * static_cast<double>(m.size) / elapsed_ns);
}

inline constexpr const char* kSelfWorkload = "dgram-self";

// Over a link to its own side, a window at a time: one thread does all of the work, so that the scheduler does not
// affect the cost of a message.
template <MessageLink Link>
void send_to_self(Link& link, const Measurement& m) {
  std::uint64_t word = 0;
  const auto window = [&] {
    std::uint64_t expected = word;
    for (unsigned i = 0; i < m.window; ++i) link.send(word++);
    for (; expected != word; ++expected) {
      if (link.receive() != expected) fail("a message is missing or out of place");
      link.release();
    }
  };
  for (unsigned warm_up = 0; warm_up < 4; ++warm_up) window();
  const OperationCost cost;
  const std::uint64_t first = word;
  const std::uint64_t start = now_ns();
  const std::uint64_t end = deadline_ns(m);
  do {
    window();
  } while (now_ns() < end);
  const auto elapsed_ns = static_cast<double>(now_ns() - start);
  cost.finish(word - first);
  report("message_ns", elapsed_ns / static_cast<double>(word - first));
  link.drain();
}

// Latency, then rate, over the same set of connections.
template <MessageLink Link>
void answer_pings_take_stream(Link& link, const Measurement& m) {
  answer_pings(link, m);
  take_stream(link, m);
}

template <MessageLink Link>
void send_pings_send_stream(Link& link, const Measurement& m) {
  send_pings(link, m);
  send_stream(link, m);
}

}  // namespace bench
