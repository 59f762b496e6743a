// SPDX-License-Identifier: BSD-2-Clause
// The library under test, and the offers of its provider on this host.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "program/settings.h"

namespace conform {

inline constexpr const char* kOffersRole = "offers";

// A type of endpoint, and the local addresses on which the provider offers it; empty: not in this family.
struct Offer {
  std::string type, ipv4, ipv6;
};

struct Library {
  std::string path;
  uint32_t version = 0;  // fi_version
  std::vector<Offer> offers;
  std::string failure;  // why it is unknown

  std::string version_text() const { return std::to_string(version >> 16) + "." + std::to_string(version & 0xffff); }
};

// Asks a child process, because the library may crash.
Library examine(const Settings& settings);
// The child's part.
int print_offers();

}  // namespace conform
