// SPDX-License-Identifier: BSD-2-Clause
// The sockets behind the addresses of active and passive endpoints; fi_cm(3).
#pragma once

#include <span>

#include "base/status.h"
#include "base/unique_fd.h"
#include "objects/endpoint_names.h"
#include "tcp/parameters.h"
#include "tcp/spare_socket.h"

namespace weft::tcp {

// A stream socket bound to `local`, which receives the chosen port: any free port if it names none; for `passive`
// sockets one from the range in `parameters`, if that is set.
Result<UniqueFd> open_bound(Address& local, const Parameters& parameters, bool passive) noexcept;

// A stream socket that will connect to `peer` from the host of `local`, if that names one; connecting chooses the port.
Result<UniqueFd> open_towards(const Address& peer, const Address& local, SpareSocket& spare) noexcept;

// Sets the options of every connection: no delays.
void prepare_stream(int fd, const Parameters& parameters) noexcept;

// Sets the options that accepted sockets inherit: those of every connection; that a service which restarts may have
// their port while they linger; and probes of a peer that has been silent for FI_TCP_KEEPALIVE, so that the death of
// its host is detected.
void prepare_listener(int fd, const Parameters& parameters) noexcept;
void enable_keepalive(int fd, int idle_s) noexcept;

// After `idle_s` seconds of silence the system sends `probes` probes, `interval_s` apart; without an answer the
// connection ends; tcp(7).
void keep_alive(int fd, int idle_s, int interval_s, int probes) noexcept;

// The local address of a bound or connected socket; `otherwise` if the socket has none.
Address name_of(int fd, const Address& otherwise) noexcept;
// The address at the other end of a connected socket; empty: none.
Address peer_of(int fd) noexcept;

// Reads into `scratch` and drops the bytes, `most` times at most. The last result of net::recv(): 0 or an error ends
// the input.
ssize_t discard_input(int fd, std::span<std::byte> scratch, int most) noexcept;

// Sends FIN and discards the peer's input before closing: unread input would turn the close into a reset, which can
// destroy output that the peer has not read yet.
void close_gently(UniqueFd& socket) noexcept;

}  // namespace weft::tcp
