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

// The arguments of insertsvc or insertsym.
struct PeerNames {
  std::string node;
  std::string service;
  size_t nodes = 1;
  size_t services = 1;

  bool empty() const noexcept { return node.empty() && service.empty(); }
  size_t count() const noexcept { return nodes * services; }
};

// Calls `take` with each address, in order. May block: it queries name servers.
void resolve_names(const PeerNames& names, uint32_t addr_format,
                   const std::function<void(const Result<Address>&)>& take);

// Writes the text that `make` returns as fi_av_straddr does: cut to the buffer; null when memory runs out.
const char* report_text(const std::function<std::string()>& make, char* buf, size_t* length) noexcept;
// The text of an IP address for fi_av_straddr.
std::string uri_of(const void* address);

// Reads the address at `next` and advances it by the size of the address's family.
Result<Address> read_address(uint32_t addr_format, const std::byte*& next) noexcept;

}  // namespace weft
