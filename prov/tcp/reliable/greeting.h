// SPDX-License-Identifier: BSD-2-Clause
// The connection data of reliable datagrams: eight bytes in the request and in the answer.
//
// Release 1.17 (its provider `net`) is version 0: it has no announced messages, and its answer repeats the request's
// bytes except for the process. Version 1 answers with the lesser version and a mark, which distinguishes the two.
#pragma once

#include <arpa/inet.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>

namespace weft::tcp {

inline constexpr std::uint8_t kReliableVersion = 1;
inline constexpr std::uint8_t kAnsweredVersion = 0x80;
// In `features` of a request. In the answer each is one bit higher, because release 1.17 repeats the request's
// bits in its answer.
inline constexpr std::uint8_t kHasNumbers = 0x02;  // announced messages have numbers if no ticket is left; Op::kScarce
inline constexpr std::uint8_t kHasAtomics = 0x08;  // Op::kAtomic, which only weft has
inline constexpr std::uint8_t kCloses = 0x20;      // idle connections; rdm/peer_link.h
// Only in a request, from an endpoint at the wildcard address; see rdm/host_addresses.h.
inline constexpr std::uint8_t kEverywhere = 0x80;

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

// The version and the features that both ends of a connection support.
struct Agreement {
  std::uint8_t version = 0;
  std::uint8_t features = 0;

  bool has(std::uint8_t feature) const noexcept { return version >= 1 && (features & feature) != 0; }
};

}  // namespace weft::tcp
