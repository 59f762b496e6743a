// SPDX-License-Identifier: BSD-2-Clause
// Names of enumerators and bits, as fi_tostr prints them; fi_fabric(3) fi_tostr. The order of bits and the words for
// unknown values are libfabric's, because programs parse them.
#pragma once

#include <rdma/fabric.h>

#include <cstdint>
#include <span>
#include <string>

namespace weft::core {

struct Name {
  uint64_t value;
  const char* text;
};

namespace names {
extern const std::span<const Name> kAddressFormat, kAtomicOp, kAtomicType, kAvType, kBusType, kCollectiveOp, kCqFormat,
    kCqWaitCond, kEpType, kEqEvent, kHmemIface, kLinkState, kLogLevel, kLogSubsys, kOpType, kProgress, kProtocol,
    kResourceMgmt, kThreading, kCntrEvents, kWaitObj;
extern const std::span<const Name> kCaps, kCqEventFlags, kMode, kMrMode, kMsgOrder, kOpFlags;
}  // namespace names

// "Unknown" for a value without a name, "Provider specific" for one with FI_PROV_SPECIFIC where that is allowed.
const char* name_of(std::span<const Name> enumerators, uint64_t value) noexcept;
// "A, B": the bits that have a name, in the table's order.
std::string names_of(std::span<const Name> bits, uint64_t value);

}  // namespace weft::core
