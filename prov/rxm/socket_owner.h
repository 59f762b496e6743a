// SPDX-License-Identifier: BSD-2-Clause
// Which process is at the other end of a connection of this host: sock_diag(7), proc(5).
#pragma once

#include <sys/types.h>

#include "base/status.h"
#include "objects/address.h"

namespace weft::rxm {

// Does the process hold the end at `local` of the established tcp connection with `remote`, both in our network
// namespace? -FI_ENOENT: there is no such connection here; -FI_EACCES: the process has not got it, or does not let us
// look. Any thread; reads the process's list of descriptors.
Status holds_connection(pid_t process, const Address& local, const Address& remote) noexcept;

}  // namespace weft::rxm
