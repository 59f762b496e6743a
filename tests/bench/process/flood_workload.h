// SPDX-License-Identifier: BSD-2-Clause
// Datagrams as fast as one side can send them, whether or not the other one keeps up: arrived messages are counted, and
// lost ones reported. Written once for every contestant; a link is that of message_workloads.h, with try_receive().
#pragma once

#include <cstdint>

#include "process/message_workloads.h"

namespace bench {

template <MessageLink Link>
void take_flood(Link& link, const Measurement&, Channel& channel) {
  constexpr std::uint64_t kSilenceNs = 20'000'000;  // then no message is in flight any more
  channel.put(0);
  std::uint64_t received = 0;
  std::uint64_t next = 0;
  std::uint64_t first_ns = 0;
  std::uint64_t last_ns = now_ns();
  for (;;) {
    if (const auto word = link.try_receive()) {
      link.release();
      if (*word < next) fail("a message of the flood came twice or out of place");
      next = *word + 1;
      if (received++ == 0) first_ns = now_ns();
      if (received % 16 == 0) last_ns = now_ns();
    } else if (now_ns() - last_ns > kSilenceNs && channel.ready()) {
      break;
    }
  }
  const std::uint64_t sent = channel.get();
  if (received < 2 || last_ns <= first_ns) fail("nothing of the flood arrived");
  report("received_per_s", static_cast<double>(received) / static_cast<double>(last_ns - first_ns) * 1e9);
  report("lost_percent", 100.0 * static_cast<double>(sent - received) / static_cast<double>(sent));
}

template <MessageLink Link>
void send_flood(Link& link, const Measurement& m, Channel& channel) {
  channel.get();
  std::uint64_t word = 0;
  const std::uint64_t start = now_ns();
  const std::uint64_t end = deadline_ns(m);
  do {
    for (unsigned i = 0; i < m.window; ++i) link.send(word++);
  } while (now_ns() < end);
  link.drain();
  report("sent_per_s", static_cast<double>(word) / static_cast<double>(now_ns() - start) * 1e9);
  channel.put(word);
}

}  // namespace bench
