// SPDX-License-Identifier: BSD-2-Clause
// What ends of reliable datagrams say of themselves when they connect: eight bytes in the request and in the answer.
//
// Release 1.17 (its provider `net`) is version 0, knows nothing of announced messages and answers with the bytes of the
// request but for the process. Version 1 answers with the lesser version and a mark, which tells the two apart.
#pragma once

#include <arpa/inet.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

namespace weft::tcp {

inline constexpr std::uint8_t kReliableVersion = 1;
inline constexpr std::uint8_t kAnsweredVersion = 0x80;
// In `features`: whoever asks closes idle connections (rdm/farewell.h), and so does whoever answers. Two bits, because
// release 1.17 answers with what it was asked.
inline constexpr std::uint8_t kAskerCloses = 0x20;
inline constexpr std::uint8_t kAnswererCloses = 0x40;
// The same of atomic operations (Op::kAtomic), which weft alone has: to others none is sent.
inline constexpr std::uint8_t kAskerHasAtomics = 0x08;
inline constexpr std::uint8_t kAnswererHasAtomics = 0x10;

struct Greeting {
  std::uint8_t version = kReliableVersion;
  std::uint8_t features = 0;
  std::uint16_t port = 0;     // big-endian; where the sender listens
  std::uint32_t process = 0;  // big-endian

  static Greeting of(std::uint16_t port, std::uint32_t process) noexcept {
    return {.port = htons(port), .process = htonl(process)};
  }
  // False: too short.
  bool read(std::span<const std::byte> data) noexcept {
    if (data.size() < sizeof *this) return false;
    std::memcpy(this, data.data(), sizeof *this);
    return true;
  }
  // Of the two ends, once both have spoken: `said` by the asking one, or answered.
  static std::uint8_t common(std::uint8_t said) noexcept { return std::min(said, kReliableVersion); }
  std::uint8_t answered() const noexcept {
    return (version & kAnsweredVersion) != 0 ? common(version & ~kAnsweredVersion) : 0;
  }
};
static_assert(sizeof(Greeting) == 8);

// What both ends of a connection have said that they can do.
struct Agreement {
  std::uint8_t version = 0;
  bool closes = false;   // idle connections
  bool atomics = false;  // arrays of elements travel as they are, so never between ends of different byte orders
};

}  // namespace weft::tcp
