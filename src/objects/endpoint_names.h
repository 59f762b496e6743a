// SPDX-License-Identifier: BSD-2-Clause
// Addresses of endpoints as applications pass and receive them: fi_setname, fi_getname, fi_getpeer, fi_join; fi_cm(3).
#pragma once

#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>

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
// The same when the size follows from the format only, as in fi_connect.
Result<Address> read_name(std::uint32_t addr_format, const void* name) noexcept;

// The source address in an info, or unnamed().
Result<Address> source_name(const fi_info& info) noexcept;

// The wildcard address: the default of an endpoint without source address.
Address unnamed(std::uint32_t addr_format) noexcept;

}  // namespace weft
