// SPDX-License-Identifier: BSD-2-Clause
// The sockets behind the addresses of active and passive endpoints; fi_cm(3).
#pragma once

#include "base/status.h"
#include "base/unique_fd.h"
#include "objects/endpoint_names.h"
#include "tcp/parameters.h"
#include "tcp/spare_socket.h"

namespace weft::tcp {

// A stream socket bound to `local`, which receives the port that was chosen: the system's choice if it asks for none,
// for `passive` ones from the range in `parameters` if there is one.
Result<UniqueFd> open_bound(Address& local, const Parameters& parameters, bool passive) noexcept;

// A stream socket that will connect to `peer` from the host of `local`, if that names one; its port is chosen then.
Result<UniqueFd> open_towards(const Address& peer, const Address& local, SpareSocket& spare) noexcept;

// What every connection of ours has from the start: no delays.
void prepare_stream(int fd, const Parameters& parameters) noexcept;

// What connections have that a listener with these options accepts: that, and questions to a peer that has been silent
// for FI_TCP_KEEPALIVE, so that one whose host died is missed.
void prepare_listener(int fd, const Parameters& parameters) noexcept;
void ask_when_silent(int fd, int idle_s) noexcept;

// Where nothing moves for `idle_s` seconds the system asks the peer whether it is there, so many times, `interval_s`
// apart; without an answer the connection ends. tcp(7).
void keep_alive(int fd, int idle_s, int interval_s, int questions) noexcept;

// The local address of a bound or connected socket; `otherwise` if the socket has none.
Address name_of(int fd, const Address& otherwise) noexcept;

// Sends FIN and gives what the peer sent to nobody before closing: unread input would turn the close into a reset,
// which can destroy output that has not been read yet.
void close_gently(UniqueFd& socket) noexcept;

}  // namespace weft::tcp
