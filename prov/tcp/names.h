// SPDX-License-Identifier: BSD-2-Clause
// Addresses of active and passive endpoints: the rules of fi_setname, fi_getname and fi_getpeer; fi_cm(3).
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/status.h"
#include "base/unique_fd.h"
#include "objects/address.h"
#include "tcp/parameters.h"

namespace weft::tcp {

// Copies as much of `address` as fits; *len becomes its whole size. -FI_ETOOSMALL if it was cut, -FI_EINVAL for null.
int report_name(const Address& address, void* buf, std::size_t* len) noexcept;

// What the application calls an address, checked against the endpoint's addr_format; -FI_EINVAL.
Result<Address> read_name(std::uint32_t addr_format, const void* name, std::size_t len) noexcept;
// The same when only the format tells the size, as in fi_connect.
Result<Address> read_name(std::uint32_t addr_format, const void* name) noexcept;

// The wildcard address that an endpoint without source address starts from.
Address unnamed(std::uint32_t addr_format) noexcept;

// A stream socket bound to `local`, which receives the port that was chosen: the system's choice if it asks for none,
// for `passive` ones from the range in `parameters` if there is one.
Result<UniqueFd> open_bound(Address& local, const Parameters& parameters, bool passive) noexcept;

// The local address of a bound or connected socket; `otherwise` if the socket has none.
Address name_of(int fd, const Address& otherwise) noexcept;

// Sends FIN and gives what the peer sent to nobody before closing: unread input would turn the close into a reset,
// which can destroy output that has not been read yet.
void close_gently(UniqueFd& socket) noexcept;

}  // namespace weft::tcp
