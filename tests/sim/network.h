// SPDX-License-Identifier: BSD-2-Clause
// A network in memory that replaces prov/tcp/socket.cc: byte pipes, edge-triggered readiness and a clock that only
// tests advance. A script injects failures. One thread; descriptors are real but unused files, so that the network
// notices close(), and leaks are found.
#pragma once

#include <cerrno>
#include <cstddef>
#include <cstdint>

#include "base/deadline.h"

namespace weft::tcp::sim {

// Direction of bytes: the client is the side that connected.
enum Direction { kToServer = 0, kToClient = 1 };

enum class Cut {
  kNone,
  kEnd,    // both sides read end-of-file behind the last byte that came through
  kReset,  // ... or ECONNRESET
};

constexpr std::size_t kNever = SIZE_MAX;

// Applies to every new connection.
struct Script {
  // In each direction no call crosses this offset, and there the sender and the receiver get EAGAIN once.
  std::size_t boundary[2] = {kNever, kNever};
  std::size_t chunk = kNever;  // no call moves more bytes than this
  // The connection breaks after this many bytes in this direction.
  Cut cut = Cut::kNone;
  Direction cut_direction = kToServer;
  std::size_t cut_at = kNever;
  int failing_accepts = 0;           // the next calls of accept answer ...
  int accept_error = EMFILE;         // ... this
  bool slow_connect = false;         // connections are established by finish_connects()
  std::size_t capacity = 64 * 1024;  // bytes on their way, per direction
};

// Starts a new network; no socket may be open.
void reset(const Script& script);
void finish_connects();

std::size_t open_sockets();
std::size_t bytes_sent(Direction direction);  // on all connections
std::size_t transfers();                      // calls that moved bytes
std::size_t empty_reads();                    // calls that found no byte to read

void advance(Clock::duration by);
// Advances to the earliest armed timer; false when none is armed.
bool advance_to_timer();

}  // namespace weft::tcp::sim
