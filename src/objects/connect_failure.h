// SPDX-License-Identifier: BSD-2-Clause
// Describes in one sentence why a connection failed: the reason, the phase, both addresses, the time. The sentence is
// for fi_eq_strerror, and for fi_cq_strerror where the application does not see connections; fi_eq(3), fi_cq(3).
#pragma once

#include <chrono>
#include <string>

#include "objects/address.h"

namespace weft {

// `error` is positive; `why` replaces its text where that says too little, or is null. Empty when memory runs out: then
// fi_strerror is used.
std::string connect_failure(int error, const char* why, const char* phase, const Address& from, const Address& to,
                            std::chrono::duration<double, std::milli> after) noexcept;

}  // namespace weft
