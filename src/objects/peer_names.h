// SPDX-License-Identifier: BSD-2-Clause
// The addresses that fi_av_insert, fi_av_insertsvc and fi_av_insertsym name; fi_av(3).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "objects/address.h"

namespace weft {

// What an insertsvc or insertsym is given.
struct PeerNames {
  std::string node;
  std::string service;
  size_t nodes = 1;
  size_t services = 1;

  bool empty() const noexcept { return node.empty() && service.empty(); }
  size_t count() const noexcept { return nodes * services; }
};

// Calls `take` with each of them, in order. May block: name servers are asked.
void resolve_names(const PeerNames& names, uint32_t addr_format,
                   const std::function<void(const Result<Address>&)>& take);

// What fi_av_straddr does with the text that `make` returns: null without memory, cut to the buffer.
const char* report_text(const std::function<std::string()>& make, char* buf, size_t* length) noexcept;
// As fi_av_straddr spells an IP address.
std::string uri_of(const void* address);

// The next of addresses that lie one behind the other, each as long as its family says.
Result<Address> read_address(uint32_t addr_format, const std::byte*& next) noexcept;

}  // namespace weft
