// SPDX-License-Identifier: BSD-2-Clause
// Addresses of endpoints and of their peers as applications pass and receive them: fi_setname, fi_getname, fi_getpeer,
// fi_join of fi_cm(3); fi_av_insert, fi_av_insertsvc, fi_av_insertsym of fi_av(3).
#pragma once

#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"
#include "objects/address.h"

namespace weft {

// Copies as much of the name as fits; *len becomes its full size. -FI_ETOOSMALL if it was cut, -FI_EINVAL for null.
int report_name(const void* name, std::size_t size, void* buf, std::size_t* len) noexcept;
inline int report_name(const Address& address, void* buf, std::size_t* len) noexcept {
  return report_name(address.data(), address.size(), buf, len);
}

// An address from the application, checked against the endpoint's addr_format; -FI_EINVAL.
Result<Address> read_name(std::uint32_t addr_format, const void* name, std::size_t len) noexcept;
// read_name() when the size follows from the format only, as in fi_connect.
Result<Address> read_name(std::uint32_t addr_format, const void* name) noexcept;

// The source address in an info, or unnamed().
Result<Address> source_name(const fi_info& info) noexcept;

// The wildcard address: the default of an endpoint without source address.
Address unnamed(std::uint32_t addr_format) noexcept;

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
