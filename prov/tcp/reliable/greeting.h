// SPDX-License-Identifier: BSD-2-Clause
// The connection data of reliable datagrams: eight bytes in the request and in the answer.
//
// Release 1.17 (its provider `net`) is version 0: it has no announced messages, and its answer repeats the request's
// bytes except for the process. Version 1 answers with the lesser version and a mark, which tells the two apart.
#pragma once

#include <arpa/inet.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

namespace weft::tcp {

inline constexpr std::uint8_t kReliableVersion = 1;
inline constexpr std::uint8_t kAnsweredVersion = 0x80;
// In `features`: the requester closes idle connections (rdm/peer_link.h), and so does the acceptor. Two bits, because
// release 1.17 repeats the request's bits in its answer.
inline constexpr std::uint8_t kRequesterCloses = 0x20;
inline constexpr std::uint8_t kAcceptorCloses = 0x40;
// The same for atomic operations (Op::kAtomic), which only weft has: none are sent to other peers.
inline constexpr std::uint8_t kRequesterHasAtomics = 0x08;
inline constexpr std::uint8_t kAcceptorHasAtomics = 0x10;
// The same for announced messages with numbers, which tickets need not be left for, and for Op::kScarce.
inline constexpr std::uint8_t kRequesterHasNumbers = 0x02;
inline constexpr std::uint8_t kAcceptorHasNumbers = 0x04;

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
  // The version in use, given the peer's.
  static std::uint8_t common(std::uint8_t peers) noexcept { return std::min(peers, kReliableVersion); }
  std::uint8_t answered() const noexcept {
    return (version & kAnsweredVersion) != 0 ? common(version & ~kAnsweredVersion) : 0;
  }
};
static_assert(sizeof(Greeting) == 8);

// The features that both ends of a connection support.
struct Agreement {
  std::uint8_t version = 0;
  bool closes = false;   // idle connections
  bool numbers = false;  // for announced messages
  bool atomics = false;  // elements are not converted, so never between ends of different byte orders
};

}  // namespace weft::tcp
