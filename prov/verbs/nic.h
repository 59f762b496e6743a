// SPDX-License-Identifier: BSD-2-Clause
// The network card behind an fi_info; fi_nic(3).
#pragma once

#include <rdma/fabric.h>

#include "verbs/discovery.h"

namespace weft::verbs {

// For fi_info::nic, whose release closes it. nullptr when memory runs out.
fid_nic* make_nic(const Source& source) noexcept;

}  // namespace weft::verbs
