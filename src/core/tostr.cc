// SPDX-License-Identifier: BSD-2-Clause
// fi_tostr, fi_tostr_r: structures as indented text, as `fi_info -v` prints them, and names of values; fi_fabric(3).
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>
#include <type_traits>

#include "base/each.h"
#include "core/boundary.h"
#include "core/names.h"
#include "core/state.h"

namespace weft::core {
namespace {

constexpr int kIndent = 4;

// A value as text; pointers that are null as printf prints them.
template <class T>
std::string text_of(const T& value) {
  constexpr bool kString = std::is_convertible_v<T, const char*>;
  if constexpr (std::is_pointer_v<T>)
    if (value == nullptr) return kString ? "(null)" : "(nil)";
  if constexpr (std::is_pointer_v<T> && !kString)
    return fmt::format("{}", static_cast<const void*>(value));
  else
    return fmt::format("{}", value);
}

// Appends "<indent>name: value" lines of one structure.
class Lines {
 public:
  Lines(std::string& text, int depth) : text_(text), depth_(depth) {}

  template <class T>
  void add(const char* name, const T& value) {
    fmt::format_to(std::back_inserter(text_), "{:{}}{}: {}\n", "", depth_ * kIndent, name, text_of(value));
  }
  void add_bits(const char* name, std::span<const Name> table, uint64_t bits) {
    add(name, fmt::format("[ {} ]", names_of(table, bits)));
  }
  void add_enum(const char* name, std::span<const Name> table, uint64_t value) { add(name, name_of(table, value)); }
  void add_hex(const char* name, uint64_t value) { add(name, fmt::format("{:#x}", value)); }
  void add_version(const char* name, uint32_t version) {
    add(name, fmt::format("{}.{}", FI_MAJOR(version), FI_MINOR(version)));
  }
  // A structure inside this one; see describe() below.
  template <class T>
  void add_struct(const char* name, const T* value) {
    fmt::format_to(std::back_inserter(text_), "{:{}}{}:{}\n", "", depth_ * kIndent, name, value ? "" : " (null)");
    Lines inner(text_, depth_ + 1);
    if (value != nullptr) describe(inner, *value);
  }

 private:
  std::string& text_;
  int depth_;
};

// Lines of members that are numbers, strings and pointers.
#define WEFT_MEMBER(member) lines.add(#member, attr.member);

std::string context_count(std::size_t count) {
  return count == FI_SHARED_CONTEXT ? "FI_SHARED_CONTEXT" : fmt::format("{}", count);
}

// The members that both directions begin with.
template <class Attr>
void describe_direction(Lines& lines, const Attr& attr) {
  lines.add_bits("caps", names::kCaps, attr.caps);
  lines.add_bits("mode", names::kMode, attr.mode);
  lines.add_bits("op_flags", names::kOpFlags, attr.op_flags);
  lines.add_bits("msg_order", names::kMsgOrder, attr.msg_order);
}

void describe(Lines& lines, const fi_tx_attr& attr) {
  describe_direction(lines, attr);
  WEFT_EACH(WEFT_MEMBER, inject_size, size, iov_limit, rma_iov_limit)
  lines.add_hex("tclass", attr.tclass);
}

void describe(Lines& lines, const fi_rx_attr& attr) {
  describe_direction(lines, attr);
  WEFT_EACH(WEFT_MEMBER, size, iov_limit)
}

void describe(Lines& lines, const fi_ep_attr& attr) {
  lines.add_enum("type", names::kEpType, attr.type);
  lines.add_enum("protocol", names::kProtocol, attr.protocol);
  WEFT_EACH(WEFT_MEMBER, protocol_version, max_msg_size, msg_prefix_size, max_order_raw_size, max_order_war_size,
            max_order_waw_size)
  lines.add("mem_tag_format", fmt::format("{:#018x}", attr.mem_tag_format));
  lines.add("tx_ctx_cnt", context_count(attr.tx_ctx_cnt));
  lines.add("rx_ctx_cnt", context_count(attr.rx_ctx_cnt));
  WEFT_EACH(WEFT_MEMBER, auth_key_size, xpu_ctx)
}

void describe(Lines& lines, const fi_domain_attr& attr) {
  WEFT_EACH(WEFT_MEMBER, domain, name)
  lines.add_enum("threading", names::kThreading, attr.threading);
  lines.add_enum("progress", names::kProgress, attr.progress);
  lines.add_enum("resource_mgmt", names::kResourceMgmt, attr.resource_mgmt);
  lines.add_enum("av_type", names::kAvType, attr.av_type);
  lines.add_bits("mr_mode", names::kMrMode, static_cast<unsigned>(attr.mr_mode));
  WEFT_EACH(WEFT_MEMBER, mr_key_size, cq_data_size, cq_cnt, ep_cnt, tx_ctx_cnt, rx_ctx_cnt, max_ep_tx_ctx,
            max_ep_rx_ctx, max_ep_stx_ctx, max_ep_srx_ctx, cntr_cnt, mr_iov_limit)
  lines.add_bits("caps", names::kCaps, attr.caps);
  lines.add_bits("mode", names::kMode, attr.mode);
  WEFT_EACH(WEFT_MEMBER, auth_key_size, max_err_data, mr_cnt)
  lines.add_hex("tclass", attr.tclass);
  WEFT_EACH(WEFT_MEMBER, max_ep_auth_key, max_group_id, max_cntr_value, max_err_cntr_value, max_xpu_ctx_cnt)
}

void describe(Lines& lines, const fi_fabric_attr& attr) {
  WEFT_EACH(WEFT_MEMBER, name, prov_name)
  lines.add_version("prov_version", attr.prov_version);
  lines.add_version("api_version", attr.api_version);
}

void describe(Lines& lines, const fi_device_attr& attr) {
  WEFT_EACH(WEFT_MEMBER, name, device_id, device_version, vendor_id, driver, firmware)
}

void describe(Lines& lines, const fi_pci_attr& attr) {
  WEFT_EACH(WEFT_MEMBER, domain_id, bus_id, device_id, function_id)
}

void describe(Lines& lines, const fi_bus_attr& attr) {
  lines.add_enum("bus_type", names::kBusType, attr.bus_type);
  if (attr.bus_type == FI_BUS_PCI) lines.add_struct("fi_pci_attr", &attr.attr.pci);
}

void describe(Lines& lines, const fi_link_attr& attr) {
  WEFT_EACH(WEFT_MEMBER, address, mtu, speed)
  lines.add_enum("state", names::kLinkState, attr.state);
  lines.add("network_type", attr.network_type);
}

void describe(Lines& lines, const fid_nic& nic) {
  if (nic.device_attr != nullptr) lines.add_struct("fi_device_attr", nic.device_attr);
  if (nic.bus_attr != nullptr) lines.add_struct("fi_bus_attr", nic.bus_attr);
  if (nic.link_attr != nullptr) lines.add_struct("fi_link_attr", nic.link_attr);
}

void describe(Lines& lines, const fi_info& info) {
  lines.add_bits("caps", names::kCaps, info.caps);
  lines.add_bits("mode", names::kMode, info.mode);
  lines.add_enum("addr_format", names::kAddressFormat, info.addr_format);
  lines.add("src_addrlen", info.src_addrlen);
  lines.add("dest_addrlen", info.dest_addrlen);
  lines.add("src_addr", address_text(info.addr_format, info.src_addr, info.src_addrlen));
  lines.add("dest_addr", address_text(info.addr_format, info.dest_addr, info.dest_addrlen));
  lines.add("handle", info.handle);
  lines.add_struct("fi_tx_attr", info.tx_attr);
  lines.add_struct("fi_rx_attr", info.rx_attr);
  lines.add_struct("fi_ep_attr", info.ep_attr);
  lines.add_struct("fi_domain_attr", info.domain_attr);
  lines.add_struct("fi_fabric_attr", info.fabric_attr);
  info.nic != nullptr ? lines.add_struct("nic", info.nic) : lines.add("nic", info.nic);
}

void describe(Lines& lines, const fi_av_attr& attr) {
  lines.add_enum("type", names::kAvType, attr.type);
  WEFT_EACH(WEFT_MEMBER, count, ep_per_node)
  lines.add("name", attr.name);
  lines.add_bits("flags", names::kAvFlags, attr.flags);
}

void describe(Lines& lines, const fi_cq_attr& attr) {
  lines.add("size", attr.size);
  lines.add_bits("flags", names::kCqFlags, attr.flags);
  lines.add_enum("format", names::kCqFormat, attr.format);
  lines.add_enum("wait_obj", names::kWaitObj, attr.wait_obj);
  lines.add("signaling_vector", attr.signaling_vector);
  lines.add_enum("wait_cond", names::kCqWaitCond, attr.wait_cond);
  lines.add("xpu_ctx", (attr.flags & FI_XPU) != 0 ? attr.xpu_ctx : nullptr);
}

void describe(Lines& lines, const fi_mr_attr& attr) {
  WEFT_EACH(WEFT_MEMBER, mr_iov, iov_count)
  lines.add_bits("access", names::kMrAccess, attr.access);
  lines.add_hex("offset", attr.offset);
  lines.add_hex("requested_key", attr.requested_key);
  WEFT_EACH(WEFT_MEMBER, context, auth_key_size)
  lines.add_enum("iface", names::kHmemIface, attr.iface);
}

void describe(Lines& lines, const fi_cntr_attr& attr) {
  lines.add_enum("events", names::kCntrEvents, attr.events);
  lines.add_enum("wait_obj", names::kWaitObj, attr.wait_obj);
  lines.add_hex("flags", attr.flags);
  lines.add("xpu_ctx", (attr.flags & FI_XPU) != 0 ? attr.xpu_ctx : nullptr);
}

void describe(Lines& lines, const fi_cq_err_entry& attr) {
  lines.add("op_context", attr.op_context);
  lines.add_hex("flags", attr.flags);
  WEFT_EACH(WEFT_MEMBER, len, buf, data)
  lines.add_hex("tag", attr.tag);
  WEFT_EACH(WEFT_MEMBER, olen, err, prov_errno, err_data, err_data_size)
}

std::string fid_text(const fid& fid) {
  // Some providers write to the front of the buffer, others append to its text: an empty string suits both.
  char own[4096] = "";
  if (FI_CHECK_OP(fid.ops, fi_ops, tostr) && fid.ops->tostr(&fid, own, sizeof own) == 0) return own;
  std::string text;
  if (fid.fclass == FI_CLASS_NIC)
    Lines(text, 0).add_struct("nic", reinterpret_cast<const fid_nic*>(&fid));
  else
    Lines(text, 0).add("fid", static_cast<const void*>(&fid));
  return text;
}

template <class T>
const T& as(const void* data) noexcept {
  return *static_cast<const T*>(data);
}

template <class T>
void add(Lines& lines, const char* name, const void* data) {
  lines.add_struct(name, &as<T>(data));
}

// The types of structures.
struct Structure {
  fi_type type;
  const char* name;
  void (*add_to)(Lines& lines, const char* name, const void* data);
};
constexpr Structure kStructures[] = {{FI_TYPE_INFO, "fi_info", add<fi_info>},
                                     {FI_TYPE_TX_ATTR, "fi_tx_attr", add<fi_tx_attr>},
                                     {FI_TYPE_RX_ATTR, "fi_rx_attr", add<fi_rx_attr>},
                                     {FI_TYPE_EP_ATTR, "fi_ep_attr", add<fi_ep_attr>},
                                     {FI_TYPE_DOMAIN_ATTR, "fi_domain_attr", add<fi_domain_attr>},
                                     {FI_TYPE_FABRIC_ATTR, "fi_fabric_attr", add<fi_fabric_attr>},
                                     {FI_TYPE_AV_ATTR, "fi_av_attr", add<fi_av_attr>},
                                     {FI_TYPE_CQ_ATTR, "fi_cq_attr", add<fi_cq_attr>},
                                     {FI_TYPE_MR_ATTR, "fi_mr_attr", add<fi_mr_attr>},
                                     {FI_TYPE_CNTR_ATTR, "fi_cntr_attr", add<fi_cntr_attr>},
                                     {FI_TYPE_CQ_ERR_ENTRY, "fi_cq_err_entry", add<fi_cq_err_entry>}};

// The names of a type of values.
struct Values {
  fi_type type;
  std::span<const Name> table;
};
constexpr Values kEnumerators[] = {{FI_TYPE_EP_TYPE, names::kEpType},
                                   {FI_TYPE_ADDR_FORMAT, names::kAddressFormat},
                                   {FI_TYPE_THREADING, names::kThreading},
                                   {FI_TYPE_PROGRESS, names::kProgress},
                                   {FI_TYPE_PROTOCOL, names::kProtocol},
                                   {FI_TYPE_AV_TYPE, names::kAvType},
                                   {FI_TYPE_ATOMIC_TYPE, names::kAtomicType},
                                   {FI_TYPE_ATOMIC_OP, names::kAtomicOp},
                                   {FI_TYPE_EQ_EVENT, names::kEqEvent},
                                   {FI_TYPE_OP_TYPE, names::kOpType},
                                   {FI_TYPE_COLLECTIVE_OP, names::kCollectiveOp},
                                   {FI_TYPE_HMEM_IFACE, names::kHmemIface},
                                   {FI_TYPE_CQ_FORMAT, names::kCqFormat},
                                   {FI_TYPE_CQ_WAIT_COND, names::kCqWaitCond},
                                   {FI_TYPE_WAIT_OBJ, names::kWaitObj},
                                   {FI_TYPE_LOG_LEVEL, names::kLogLevel},
                                   {FI_TYPE_LOG_SUBSYS, names::kLogSubsys}};
constexpr Values kBits[] = {{FI_TYPE_CAPS, names::kCaps},
                            {FI_TYPE_OP_FLAGS, names::kOpFlags},
                            {FI_TYPE_MSG_ORDER, names::kMsgOrder},
                            {FI_TYPE_MODE, names::kMode},
                            {FI_TYPE_CQ_EVENT_FLAGS, names::kCqEventFlags}};

std::string to_text(const void* data, fi_type type) {
  if (type == FI_TYPE_FID) return fid_text(as<fid>(data));
  for (const Structure& structure : kStructures) {
    if (structure.type != type) continue;
    std::string text;
    Lines lines(text, 0);
    structure.add_to(lines, structure.name, data);
    return text;
  }
  if (type == FI_TYPE_VERSION) return fmt::format("{}.{}.{}", FI_MAJOR_VERSION, FI_MINOR_VERSION, FI_REVISION_VERSION);
  // Enumerators have 32 bits, flag words 64, mr_mode is an int.
  if (type == FI_TYPE_MR_MODE) return names_of(names::kMrMode, static_cast<unsigned>(as<int>(data)));
  for (const Values& values : kEnumerators)
    if (values.type == type) return std::string(name_of(values.table, static_cast<uint32_t>(as<int>(data))));
  for (const Values& values : kBits)
    if (values.type == type) return names_of(values.table, as<uint64_t>(data));
  return "Unknown type";
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
