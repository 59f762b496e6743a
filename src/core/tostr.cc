// SPDX-License-Identifier: BSD-2-Clause
// fi_tostr, fi_tostr_r; fi_fabric(3).
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <string>

#include "core/boundary.h"
#include "core/names.h"
#include "core/state.h"
#include "core/text.h"

namespace weft::core {
namespace {

template <class T>
const T& as(const void* data) noexcept {
  return *static_cast<const T*>(data);
}

// Enumerators have 32 bits, flag words 64, mr_mode is an int.
std::string enumerator(std::span<const Name> table, const void* data) {
  return name_of(table, static_cast<uint32_t>(as<int>(data)));
}
std::string bits(std::span<const Name> table, const void* data) {
  return names_of(table, as<uint64_t>(data));
}

// Appends the text of a structure; false if `type` is not a structure.
bool append_struct(std::string& text, const void* data, fi_type type) {
  switch (type) {
    case FI_TYPE_INFO:
      return append_info(text, as<fi_info>(data)), true;
    case FI_TYPE_TX_ATTR:
      return append(text, static_cast<const fi_tx_attr*>(data), 0), true;
    case FI_TYPE_RX_ATTR:
      return append(text, static_cast<const fi_rx_attr*>(data), 0), true;
    case FI_TYPE_EP_ATTR:
      return append(text, static_cast<const fi_ep_attr*>(data), 0), true;
    case FI_TYPE_DOMAIN_ATTR:
      return append(text, static_cast<const fi_domain_attr*>(data), 0), true;
    case FI_TYPE_FABRIC_ATTR:
      return append(text, static_cast<const fi_fabric_attr*>(data), 0), true;
    case FI_TYPE_FID:
      return append_fid(text, as<fid>(data)), true;
    case FI_TYPE_AV_ATTR:
      return append(text, as<fi_av_attr>(data)), true;
    case FI_TYPE_CQ_ATTR:
      return append(text, as<fi_cq_attr>(data)), true;
    case FI_TYPE_MR_ATTR:
      return append(text, as<fi_mr_attr>(data)), true;
    case FI_TYPE_CNTR_ATTR:
      return append(text, as<fi_cntr_attr>(data)), true;
    case FI_TYPE_CQ_ERR_ENTRY:
      return append(text, as<fi_cq_err_entry>(data)), true;
    default:
      return false;
  }
}

std::string to_text(const void* data, fi_type type) {
  std::string text;
  if (append_struct(text, data, type)) return text;
  switch (type) {
    case FI_TYPE_EP_TYPE:
      return enumerator(names::kEpType, data);
    case FI_TYPE_ADDR_FORMAT:
      return enumerator(names::kAddressFormat, data);
    case FI_TYPE_THREADING:
      return enumerator(names::kThreading, data);
    case FI_TYPE_PROGRESS:
      return enumerator(names::kProgress, data);
    case FI_TYPE_PROTOCOL:
      return enumerator(names::kProtocol, data);
    case FI_TYPE_AV_TYPE:
      return enumerator(names::kAvType, data);
    case FI_TYPE_ATOMIC_TYPE:
      return enumerator(names::kAtomicType, data);
    case FI_TYPE_ATOMIC_OP:
      return enumerator(names::kAtomicOp, data);
    case FI_TYPE_EQ_EVENT:
      return enumerator(names::kEqEvent, data);
    case FI_TYPE_OP_TYPE:
      return enumerator(names::kOpType, data);
    case FI_TYPE_COLLECTIVE_OP:
      return enumerator(names::kCollectiveOp, data);
    case FI_TYPE_HMEM_IFACE:
      return enumerator(names::kHmemIface, data);
    case FI_TYPE_CQ_FORMAT:
      return enumerator(names::kCqFormat, data);
    case FI_TYPE_CQ_WAIT_COND:
      return enumerator(names::kCqWaitCond, data);
    case FI_TYPE_WAIT_OBJ:
      return enumerator(names::kWaitObj, data);
    case FI_TYPE_LOG_LEVEL:
      return enumerator(names::kLogLevel, data);
    case FI_TYPE_LOG_SUBSYS:
      return enumerator(names::kLogSubsys, data);
    case FI_TYPE_CAPS:
      return bits(names::kCaps, data);
    case FI_TYPE_OP_FLAGS:
      return bits(names::kOpFlags, data);
    case FI_TYPE_MSG_ORDER:
      return bits(names::kMsgOrder, data);
    case FI_TYPE_MODE:
      return bits(names::kMode, data);
    case FI_TYPE_CQ_EVENT_FLAGS:
      return bits(names::kCqEventFlags, data);
    case FI_TYPE_MR_MODE:
      return names_of(names::kMrMode, static_cast<unsigned>(as<int>(data)));
    case FI_TYPE_VERSION:
      return fmt::format("{}.{}.{}", FI_MAJOR_VERSION, FI_MINOR_VERSION, FI_REVISION_VERSION);
    default:
      return "Unknown type";
  }
}

}  // namespace
}  // namespace weft::core

using namespace weft::core;

// `data` may be NULL only for FI_TYPE_VERSION, which reads nothing.
WEFT_EXPORT char* fi_tostr_r(char* buf, size_t len, const void* data, fi_type datatype) {
  if (buf == nullptr || len == 0 || (data == nullptr && datatype != FI_TYPE_VERSION)) return nullptr;
  *buf = '\0';
  static_cast<void>(guarded([&] {
    const std::string text = to_text(data, datatype);
    const std::size_t size = std::min(text.size(), len - 1);
    std::memcpy(buf, text.data(), size);
    buf[size] = '\0';
    return 0;
  }));
  return buf;
}

WEFT_EXPORT char* fi_tostr(const void* data, fi_type datatype) {
  if (data == nullptr && datatype != FI_TYPE_VERSION) return nullptr;
  char* kept = nullptr;
  static_cast<void>(guarded([&] {
    kept = state().last_text.keep(to_text(data, datatype));
    return 0;
  }));
  return kept;
}
