// SPDX-License-Identifier: BSD-2-Clause
// What the parts of the cost program share; see cost_main.cc.
#pragma once

#include <atomic>

namespace cost {

extern std::atomic<long> allocations;
inline constexpr int kBatch = 8, kBatches = 500;

// Says what the operations since `before` allocated; 1 if that was anything, or if one was lost.
int report(const char* what, long before, bool complete);

// cost_datagrams.cc: messages to oneself, taken and their receives posted again.
int run_datagrams();

// cost_pings.cc: messages to and fro, remote writes and reads.
int run_pings();
int run_accesses();

// cost_reliable.cc: messages to and fro between endpoints of ofi_rxm.
int run_reliable();

}  // namespace cost
