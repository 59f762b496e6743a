// SPDX-License-Identifier: BSD-2-Clause
// The parts that providers' offers to fi_getinfo(3) have in common. attributes.h defines the meaning of an offer.
#pragma once

#include <rdma/fabric.h>
#include <rdma/providers/fi_prov.h>

#include <cstddef>

namespace weft {

inline constexpr uint64_t kLocality = FI_LOCAL_COMM | FI_REMOTE_COMM;
inline constexpr size_t kPlentiful = 8192;                        // for counts limited by memory only
inline constexpr size_t kLongestSoftwareQueue = size_t{1} << 20;  // likewise

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
