// SPDX-License-Identifier: BSD-2-Clause
// The measurement of a pair of processes, and how a bench program finds the code for it.
#pragma once

#include <cstddef>
#include <span>
#include <string>

namespace bench {

class Channel;

enum class Role { kServer, kClient };
enum class Wait { kSpin, kBlock };  // how a side awaits messages: polling without pause, or asleep in the kernel

struct Measurement {
  std::string workload;
  std::string library;                // path of the libfabric.so.1 under test; unused by the raw programs
  std::string provider = "tcp";       // in that library
  std::string plugins;                // folder of its provider plug-ins, where it shall not search itself
  std::string address = "127.0.0.1";  // IPv4, of both sides
  std::size_t size = 8;               // payload bytes of one message
  unsigned window = 64;               // messages outstanding at once
  unsigned connections = 1;           // connections made; messages use the first, the others stay idle
  unsigned outstanding = 1;           // connects outstanding at once
  unsigned gap_us = 0;                // pause before each ping, so that both sides really fall asleep
  bool busy_kernel = false;  // its threads go first: the process has idle priority, and awaits connection events asleep
  bool credits = false;      // the receiver of a stream grants credits
  bool selective = false;    // only every completion_every()th transfer of a stream has a completion
  bool waitable = false;     // a spinning side polls a completion queue that could also be waited on
  bool reliable = false;     // messages over reliable datagrams, not connections
  bool tagged = false;       // messages with a tag
  bool untraced = false;     // the library must not read another process's memory
  unsigned turns = 1;        // turns.h
  double seconds = 0.2;      // how long messages flow, in each turn
};

// Four times in a window: often enough for the window never to run empty.
inline unsigned completion_every(const Measurement& m) {
  return m.window < 4 ? 1 : m.window / 4;
}

// The two halves of a workload. Each runs in a process of its own, uses the channel for set-up, and prints its
// measurements with report().
struct Workload {
  const char* name;
  void (*server)(const Measurement&, Channel&);
  void (*client)(const Measurement&, Channel&);
};

// Parses the command line, forks the pair and waits for it. Exit codes: 0 measured, 1 failed, 77 skipped with a reason.
int bench_main(int argc, char** argv, std::span<const Workload> workloads);

}  // namespace bench
