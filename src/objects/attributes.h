// SPDX-License-Identifier: BSD-2-Clause
// Matching hints against what a provider offers; fi_getinfo(3), fi_endpoint(3), fi_domain(3) and fi_fabric(3) govern.
// Every mismatch is logged once at info level, as one sentence: "hints request tx_attr->inject_size 4096, tcp offers
// 64".
#pragma once

#include <rdma/fabric.h>
#include <rdma/providers/fi_prov.h>

#include <cstddef>

#include "base/status.h"
#include "objects/info.h"

namespace weft {

// The meaning of an offer (no attribute structure is null):
//  - caps, op_flags, comp_order, sizes and counts: the most that the provider can do;
//  - msg_order: guaranteed by the provider; mode, mr_mode: required by it (mr_mode in FI_MR_* bits);
//  - threading, resource_mgmt, av_type (FI_AV_UNSPEC: both): as fi_domain(3) ranks them;
//  - progress: preferred by it. FI_PROGRESS_AUTO is always possible, with a service thread if necessary.

// -FI_ENODATA unless `offer` satisfies `hints` (may be null, as may each attribute structure in it) for a caller of API
// `version`. Not compared: addresses beyond their format, open fabrics and provider names.
Status check_info(const fi_info& offer, uint32_t version, const fi_info* hints, const fi_provider* provider);

// fi_endpoint and fi_passive_ep: the same for the attributes of endpoints in `info`; its domain and fabric are open
// already. Each mismatch is logged as a warning. As in libfabric's tcp, a strict order of completions and persistent
// memory may be stated without effect. `offer` is changed.
Status check_endpoint(fi_info& offer, uint32_t version, const fi_info& info, const fi_provider& provider);

// Turns an offer that passed check_info into the answer: capabilities narrowed to the request (primary ones only on
// request, secondary ones as well if they cost nothing), flags, order, enumerations and queue sizes as requested,
// mr_mode in the spelling of the caller's API version.
void apply_hints(fi_info& offer, uint32_t version, const fi_info* hints) noexcept;

// Whether fi_endpoint and fi_passive_ep may open an endpoint of `type` with this info: it requests no other type and at
// most one context for each direction; reliable datagrams ignore the number, so programs open plain endpoints with the
// info of a scalable one, too. `shareable`: the directions that also accept a shared context.
struct Shareable {
  bool transmit = false;
  bool receive = false;
};
bool describes_endpoint(const fi_info& info, fi_ep_type type, Shareable shareable) noexcept;

// The answer to one fi_getinfo call while it is assembled.
class InfoList {
 public:
  InfoList(uint32_t version, const fi_info* hints, const fi_provider* provider) noexcept
      : version_(version), hints_(hints), provider_(provider) {}

  uint32_t version() const noexcept { return version_; }
  const fi_info* hints() const noexcept { return hints_; }
  // Appends `offer`, adapted to the hints, if it satisfies them.
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

// ---- The parts that providers' offers have in common ----

inline constexpr uint64_t kLocality = FI_LOCAL_COMM | FI_REMOTE_COMM;
inline constexpr size_t kPlentiful = 8192;                        // for counts limited by memory only
inline constexpr size_t kLongestSoftwareQueue = size_t{1} << 20;  // likewise, requested by hints or parameters

// The order that a connection guarantees if it carries everything in order: only reads are answered later, with the
// data of that time.
inline constexpr uint64_t kConnectionOrder = FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_RAS | FI_ORDER_WAW | FI_ORDER_WAS |
                                             FI_ORDER_SAW | FI_ORDER_SAS | FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW |
                                             FI_ORDER_RMA_WAW | FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW |
                                             FI_ORDER_ATOMIC_WAW;

// One direction of an endpoint. Completions come in the order of the calls.
struct DirectionOffer {
  uint64_t caps;
  uint64_t op_flags;
  uint64_t msg_order;
  size_t size;
  size_t iov_limit;
};
template <class Attr>
void describe_direction(Attr& attr, const DirectionOffer& offer) noexcept {
  attr.caps = offer.caps;
  attr.op_flags = offer.op_flags;
  attr.msg_order = offer.msg_order;
  attr.comp_order = FI_ORDER_STRICT;
  attr.size = offer.size;
  attr.iov_limit = offer.iov_limit;
}

// A domain limited by memory only, with manual progress, plain endpoints and keys of 64 bits. Providers with hardware
// limits set them afterwards.
void describe_domain(fi_domain_attr& attr) noexcept;

// Applies the hints (may be null) that every provider with internet addresses and queues in memory can meet: a general
// address format, longer queues. Also sets the versions of the provider and of the caller.
void adapt_software_offer(fi_info& offer, uint32_t version, const fi_info* hints, const fi_provider& provider) noexcept;

}  // namespace weft
