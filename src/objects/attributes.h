// SPDX-License-Identifier: BSD-2-Clause
// Matching hints against what a provider offers; fi_getinfo(3), fi_endpoint(3), fi_domain(3) and fi_fabric(3) govern.
// Every mismatch is logged once, as one plain sentence at info level: "hints ask for tx_attr->inject_size 4096, tcp
// offers 64".
#pragma once

#include <rdma/fabric.h>
#include <rdma/providers/fi_prov.h>

#include "base/status.h"

namespace weft {

// -FI_ENODATA unless `offer` (complete: all attributes set) satisfies `hints` (may be null, as may each attribute in
// it) for a caller of API `version`. Addresses and names of domains are compared if hints have them; provider filters
// are the core's business.
Status check_info(const fi_info& offer, uint32_t version, const fi_info* hints, const fi_provider* provider);

// Makes an offer that passed check_info into the answer to `hints`: capabilities narrowed to what was asked (primary
// ones only on request, secondary ones as they are), modes to what the caller accepts, enumerations and flags as asked,
// mr_mode in the spelling of the caller's API version, sizes as asked where the provider can serve less.
void apply_hints(fi_info& offer, uint32_t version, const fi_info* hints) noexcept;

}  // namespace weft
