// SPDX-License-Identifier: BSD-2-Clause
// Finds the process at the other end of a connection of this host: sock_diag(7), proc(5).
#pragma once

#include <sys/types.h>

#include "base/status.h"
#include "objects/address.h"

namespace weft::rxm {

// Checks that the process holds the end at `local` of the established tcp connection with `remote`, both in our network
// namespace. -FI_ENOENT: no such connection; -FI_EACCES: the process does not hold it, or its descriptors may not be
// read. Any thread.
Status holds_connection(pid_t process, const Address& local, const Address& remote) noexcept;

}  // namespace weft::rxm
