// SPDX-License-Identifier: BSD-2-Clause
// Declarations that the parts of the cost program share; see cost_main.cc.
#pragma once

#include <atomic>

namespace cost {

extern std::atomic<long> allocations;
inline constexpr int kBatch = 8, kBatches = 500;

// Prints the allocations since `before`; returns 1 if there were any, or if an operation was lost.
int report(const char* what, long before, bool complete);

// cost_datagrams.cc: an endpoint sends to itself, takes the messages and posts their receives again.
int run_datagrams();

// cost_pings.cc: a ping-pong of messages; remote writes and reads.
int run_pings();
int run_accesses();

// cost_reliable.cc: a ping-pong between endpoints of ofi_rxm.
int run_reliable();
// Messages by rendezvous between the same, with cached registrations.
int run_rendezvous();

}  // namespace cost
