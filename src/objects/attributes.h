// SPDX-License-Identifier: BSD-2-Clause
// Matching hints against what a provider offers; fi_getinfo(3), fi_endpoint(3), fi_domain(3) and fi_fabric(3) govern.
// Every mismatch is logged once, as one plain sentence at info level: "hints ask for tx_attr->inject_size 4096, tcp
// offers 64".
#pragma once

#include <rdma/fabric.h>
#include <rdma/providers/fi_prov.h>

#include "base/status.h"
#include "objects/info.h"

namespace weft {

// What an offer means (every attribute structure is there):
//  - caps, op_flags, comp_order, sizes and counts: all that the provider can do;
//  - msg_order: what it guarantees; mode, mr_mode: what it requires (mr_mode in FI_MR_* bits);
//  - threading, resource_mgmt, av_type (FI_AV_UNSPEC: both): as fi_domain(3) ranks them;
//  - progress: what it prefers. FI_PROGRESS_AUTO can always be had, with a service thread if need be.

// -FI_ENODATA unless `offer` satisfies `hints` (may be null, as may each attribute structure in it) for a caller of API
// `version`. Not compared: addresses beyond their format, open fabrics and provider names.
Status check_info(const fi_info& offer, uint32_t version, const fi_info* hints, const fi_provider* provider);

// Makes an offer that passed check_info into the answer: capabilities narrowed to what was asked (primary ones only on
// request, secondary ones as well if they cost nothing), flags, order, enumerations and queue sizes as asked, mr_mode
// in the spelling of the caller's API version.
void apply_hints(fi_info& offer, uint32_t version, const fi_info* hints) noexcept;

// Whether fi_endpoint and fi_passive_ep may open an endpoint of `type` with this info: it asks for no other, nor for
// more than one context a direction. `shareable`: where a shared context would do as well.
struct Shareable {
  bool transmit = false;
  bool receive = false;
};
bool describes_endpoint(const fi_info& info, fi_ep_type type, Shareable shareable) noexcept;

// The answer to one fi_getinfo call in the making.
class InfoList {
 public:
  InfoList(uint32_t version, const fi_info* hints, const fi_provider* provider) noexcept
      : version_(version), hints_(hints), provider_(provider) {}

  // Appends `offer` as the hints want it, if it satisfies them.
  void add(InfoPtr offer);
  // 0 and the list, or -FI_ENODATA.
  int release_to(fi_info** result) noexcept;

 private:
  const uint32_t version_;
  const fi_info* const hints_;
  const fi_provider* const provider_;
  InfoPtr first_;
  fi_info* last_ = nullptr;
};

}  // namespace weft
