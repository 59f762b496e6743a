// SPDX-License-Identifier: BSD-2-Clause
// A network in memory, in the place of prov/tcp/socket.cc: byte pipes, edge-triggered readiness and a clock that only
// tests turn. A script says what goes wrong and where. One thread; descriptors are real ones without a function, so
// that close() tells the network and a leak is seen.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/deadline.h"

namespace weft::tcp::sim {

// Which way bytes go: the client is the side that connected.
enum Direction { kToServer = 0, kToClient = 1 };

enum class Cut {
  kNone,
  kEnd,    // both sides read end-of-file behind the last byte that came through
  kReset,  // ... or ECONNRESET
};

constexpr std::size_t kNever = SIZE_MAX;

// Applies to every connection that is made.
struct Script {
  // In each direction no call crosses this offset, and at the offset the sender and the receiver once meet EAGAIN.
  std::size_t boundary[2] = {kNever, kNever};
  std::size_t chunk = kNever;  // no call moves more bytes than this
  // The connection breaks once so many bytes have been sent in this direction.
  Cut cut = Cut::kNone;
  Direction cut_direction = kToServer;
  std::size_t cut_at = kNever;
  int failing_accepts = 0;           // the next calls of accept answer EMFILE
  bool slow_connect = false;         // connections come about when finish_connects() is called
  std::size_t capacity = 64 * 1024;  // bytes on their way, per direction
};

// A new network. There must be no open socket.
void reset(const Script& script);
void finish_connects();

std::size_t open_sockets();
std::size_t bytes_sent(Direction direction);  // on all connections
std::size_t transfers();                      // calls that moved bytes

void advance(Clock::duration by);
// To the earliest timer that is armed and has not expired; false when there is none.
bool advance_to_timer();

}  // namespace weft::tcp::sim
