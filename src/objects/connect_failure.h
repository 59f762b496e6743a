// SPDX-License-Identifier: BSD-2-Clause
// Why a connection did not come about, in a sentence: what failed, in which phase, from where to where, after how long.
// It is for fi_eq_strerror, and for fi_cq_strerror where connections are nobody's concern but ours; fi_eq(3), fi_cq(3).
#pragma once

#include <chrono>
#include <string>

#include "objects/address.h"

namespace weft {

// `error` is positive; `why` has words for it where its own say too little, or is null. Empty when memory runs out:
// then what is left is fi_strerror.
std::string connect_failure(int error, const char* why, const char* phase, const Address& from, const Address& to,
                            std::chrono::duration<double, std::milli> after) noexcept;

}  // namespace weft
