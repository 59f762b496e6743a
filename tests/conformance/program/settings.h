// SPDX-License-Identifier: BSD-2-Clause
// The command line of fi_conform; fi_conform(1).
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace conform {

inline constexpr uint16_t kServerPort = 47593;

struct Settings {
  std::string provider;            // empty: tcp
  std::vector<std::string> types;  // msg, rdm, dgram; empty: those that the provider offers
  std::string domain;
  std::string address;
  std::string library;
  std::vector<std::string> patterns, exceptions;
  unsigned jobs = 1;
  unsigned timeout_s = 60;
  bool own = false;  // also what only weft promises
  bool list = false;
  bool trace = false;
  bool json = false;
  std::string junit;  // a file
  bool serve = false;
  std::string peer;
  uint16_t port = kServerPort;
};

// Sets `status` where the program is to end at once, after an error or --help.
Settings parse_command_line(int argc, char** argv, std::optional<int>& status);

}  // namespace conform
