// SPDX-License-Identifier: BSD-2-Clause
// The order of fi_getinfo's answers; fi_getinfo(3), fi_provider(7). Programs open the first one, so ranks of one job
// that run on weft and on libfabric 2.x, the reference, must find the same protocol there.
#pragma once

#include <rdma/fabric.h>

#include <vector>

#include "objects/info.h"

namespace weft::core {

// `all` is in the order of the providers; `hints` may be null.
void order_answers(const fi_info* hints, std::vector<InfoPtr>& all);

}  // namespace weft::core
