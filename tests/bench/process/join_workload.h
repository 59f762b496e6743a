// SPDX-License-Identifier: BSD-2-Clause
// The time to join a multicast group, and to leave it, over any code that has groups.
#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>

#include "process/measurement.h"
#include "process/process_pair.h"

namespace bench {

inline constexpr const char* kJoinsWorkload = "joins";

// The groups in turns, so that a join does not meet the network's state of the one before.
inline sockaddr_in group_address(unsigned index) {
  constexpr unsigned kGroups = 32;
  constexpr in_addr_t kFirst = 0xef4d0100;  // 239.77.1.0
  sockaddr_in group{};
  group.sin_family = AF_INET;
  group.sin_port = htons(4711);
  group.sin_addr.s_addr = htonl(kFirst + index % kGroups);
  return group;
}

// m.connections times: node.join(address), which returns when the membership is complete, and node.leave_group().
template <class Node>
void make_joins(Node& node, const Measurement& m) {
  constexpr unsigned kWarmUp = 8;
  std::uint64_t joining = 0;
  std::uint64_t leaving = 0;
  for (unsigned i = 0; i < kWarmUp + m.connections; ++i) {
    const sockaddr_in group = group_address(i);
    const std::uint64_t start = now_ns();
    node.join(group);
    const std::uint64_t joined = now_ns();
    node.leave_group();
    if (i < kWarmUp) continue;
    joining += joined - start;
    leaving += now_ns() - joined;
  }
  report("join_us", static_cast<double>(joining) / 1e3 / m.connections);
  report("leave_us", static_cast<double>(leaving) / 1e3 / m.connections);
  report("membership_us", static_cast<double>(joining + leaving) / 1e3 / m.connections);
}

}  // namespace bench
