// SPDX-License-Identifier: BSD-2-Clause
// The network card behind an fi_info; fi_nic(3).
#pragma once

#include <rdma/fabric.h>

#include "verbs/discovery/discovery.h"

namespace weft::verbs {

// For fi_info::nic; fi_freeinfo closes it. Null: out of memory.
fid_nic* make_nic(const Source& source) noexcept;

}  // namespace weft::verbs
