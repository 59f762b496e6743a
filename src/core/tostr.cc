// SPDX-License-Identifier: BSD-2-Clause
// fi_tostr, fi_tostr_r: structures as indented text, as `fi_info -v` prints them, and names of values; fi_fabric(3).
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <string>

#include "core/boundary.h"
#include "core/names.h"
#include "core/state.h"

namespace weft::core {
namespace {

constexpr int kIndent = 4;

// Appends "<indent>name: value" lines of one structure.
class Lines {
 public:
  Lines(std::string& text, int depth) : text_(text), depth_(depth) {}

  // Appends the heading; for an absent structure "(null)" and returns false.
  bool open(const char* name, bool present) {
    fmt::format_to(std::back_inserter(text_), "{:{}}{}:{}\n", "", depth_++ * kIndent, name, present ? "" : " (null)");
    return present;
  }
  template <class T>
  void add(const char* name, const T& value) {
    fmt::format_to(std::back_inserter(text_), "{:{}}{}: {}\n", "", depth_ * kIndent, name, value);
  }
  void add_string(const char* name, const char* value) { add(name, value == nullptr ? "(null)" : value); }
  void add_bits(const char* name, std::span<const Name> table, uint64_t bits) {
    add(name, fmt::format("[ {} ]", names_of(table, bits)));
  }
  void add_enum(const char* name, std::span<const Name> table, uint64_t value) { add(name, name_of(table, value)); }
  void add_hex(const char* name, uint64_t value) { add(name, fmt::format("{:#x}", value)); }
  void add_pointer(const char* name, const void* value) {
    if (value == nullptr) {
      add(name, "(nil)");
    } else {
      add(name, value);
    }
  }
  void add_version(const char* name, uint32_t version) {
    add(name, fmt::format("{}.{}", FI_MAJOR(version), FI_MINOR(version)));
  }
  int depth() const noexcept { return depth_; }

 private:
  std::string& text_;
  int depth_;
};

std::string context_count(std::size_t count) {
  return count == FI_SHARED_CONTEXT ? "FI_SHARED_CONTEXT" : fmt::format("{}", count);
}

void append(std::string& text, const fi_tx_attr* attr, int depth) {
  Lines lines(text, depth);
  if (!lines.open("fi_tx_attr", attr != nullptr)) return;
  lines.add_bits("caps", names::kCaps, attr->caps);
  lines.add_bits("mode", names::kMode, attr->mode);
  lines.add_bits("op_flags", names::kOpFlags, attr->op_flags);
  lines.add_bits("msg_order", names::kMsgOrder, attr->msg_order);
  lines.add("inject_size", attr->inject_size);
  lines.add("size", attr->size);
  lines.add("iov_limit", attr->iov_limit);
  lines.add("rma_iov_limit", attr->rma_iov_limit);
  lines.add_hex("tclass", attr->tclass);
}

void append(std::string& text, const fi_rx_attr* attr, int depth) {
  Lines lines(text, depth);
  if (!lines.open("fi_rx_attr", attr != nullptr)) return;
  lines.add_bits("caps", names::kCaps, attr->caps);
  lines.add_bits("mode", names::kMode, attr->mode);
  lines.add_bits("op_flags", names::kOpFlags, attr->op_flags);
  lines.add_bits("msg_order", names::kMsgOrder, attr->msg_order);
  lines.add("size", attr->size);
  lines.add("iov_limit", attr->iov_limit);
}

void append(std::string& text, const fi_ep_attr* attr, int depth) {
  Lines lines(text, depth);
  if (!lines.open("fi_ep_attr", attr != nullptr)) return;
  lines.add_enum("type", names::kEpType, attr->type);
  lines.add_enum("protocol", names::kProtocol, attr->protocol);
  lines.add("protocol_version", attr->protocol_version);
  lines.add("max_msg_size", attr->max_msg_size);
  lines.add("msg_prefix_size", attr->msg_prefix_size);
  lines.add("max_order_raw_size", attr->max_order_raw_size);
  lines.add("max_order_war_size", attr->max_order_war_size);
  lines.add("max_order_waw_size", attr->max_order_waw_size);
  lines.add("mem_tag_format", fmt::format("{:#018x}", attr->mem_tag_format));
  lines.add("tx_ctx_cnt", context_count(attr->tx_ctx_cnt));
  lines.add("rx_ctx_cnt", context_count(attr->rx_ctx_cnt));
  lines.add("auth_key_size", attr->auth_key_size);
  lines.add_pointer("xpu_ctx", attr->xpu_ctx);
}

void append(std::string& text, const fi_domain_attr* attr, int depth) {
  Lines lines(text, depth);
  if (!lines.open("fi_domain_attr", attr != nullptr)) return;
  lines.add_pointer("domain", attr->domain);
  lines.add_string("name", attr->name);
  lines.add_enum("threading", names::kThreading, attr->threading);
  lines.add_enum("progress", names::kProgress, attr->progress);
  lines.add_enum("resource_mgmt", names::kResourceMgmt, attr->resource_mgmt);
  lines.add_enum("av_type", names::kAvType, attr->av_type);
  lines.add_bits("mr_mode", names::kMrMode, static_cast<unsigned>(attr->mr_mode));
  lines.add("mr_key_size", attr->mr_key_size);
  lines.add("cq_data_size", attr->cq_data_size);
  lines.add("cq_cnt", attr->cq_cnt);
  lines.add("ep_cnt", attr->ep_cnt);
  lines.add("tx_ctx_cnt", attr->tx_ctx_cnt);
  lines.add("rx_ctx_cnt", attr->rx_ctx_cnt);
  lines.add("max_ep_tx_ctx", attr->max_ep_tx_ctx);
  lines.add("max_ep_rx_ctx", attr->max_ep_rx_ctx);
  lines.add("max_ep_stx_ctx", attr->max_ep_stx_ctx);
  lines.add("max_ep_srx_ctx", attr->max_ep_srx_ctx);
  lines.add("cntr_cnt", attr->cntr_cnt);
  lines.add("mr_iov_limit", attr->mr_iov_limit);
  lines.add_bits("caps", names::kCaps, attr->caps);
  lines.add_bits("mode", names::kMode, attr->mode);
  lines.add("auth_key_size", attr->auth_key_size);
  lines.add("max_err_data", attr->max_err_data);
  lines.add("mr_cnt", attr->mr_cnt);
  lines.add_hex("tclass", attr->tclass);
  lines.add("max_ep_auth_key", attr->max_ep_auth_key);
  lines.add("max_group_id", attr->max_group_id);
  lines.add("max_cntr_value", attr->max_cntr_value);
  lines.add("max_err_cntr_value", attr->max_err_cntr_value);
  lines.add("max_xpu_ctx_cnt", attr->max_xpu_ctx_cnt);
}

void append(std::string& text, const fi_fabric_attr* attr, int depth) {
  Lines lines(text, depth);
  if (!lines.open("fi_fabric_attr", attr != nullptr)) return;
  lines.add_string("name", attr->name);
  lines.add_string("prov_name", attr->prov_name);
  lines.add_version("prov_version", attr->prov_version);
  lines.add_version("api_version", attr->api_version);
}

void append(std::string& text, const fid_nic* nic, int depth) {
  Lines lines(text, depth);
  if (nic == nullptr) return lines.add_pointer("nic", nullptr);
  lines.open("nic", true);
  if (const fi_device_attr* device = nic->device_attr) {
    Lines inner(text, lines.depth());
    inner.open("fi_device_attr", true);
    inner.add_string("name", device->name);
    inner.add_string("device_id", device->device_id);
    inner.add_string("device_version", device->device_version);
    inner.add_string("vendor_id", device->vendor_id);
    inner.add_string("driver", device->driver);
    inner.add_string("firmware", device->firmware);
  }
  if (const fi_bus_attr* bus = nic->bus_attr) {
    Lines inner(text, lines.depth());
    inner.open("fi_bus_attr", true);
    inner.add_enum("bus_type", names::kBusType, bus->bus_type);
    if (bus->bus_type == FI_BUS_PCI) {
      Lines pci(text, inner.depth());
      pci.open("fi_pci_attr", true);
      pci.add("domain_id", bus->attr.pci.domain_id);
      pci.add("bus_id", bus->attr.pci.bus_id);
      pci.add("device_id", bus->attr.pci.device_id);
      pci.add("function_id", bus->attr.pci.function_id);
    }
  }
  if (const fi_link_attr* link = nic->link_attr) {
    Lines inner(text, lines.depth());
    inner.open("fi_link_attr", true);
    inner.add_string("address", link->address);
    inner.add("mtu", link->mtu);
    inner.add("speed", link->speed);
    inner.add_enum("state", names::kLinkState, link->state);
    inner.add_string("network_type", link->network_type);
  }
}

void append_info(std::string& text, const fi_info& info) {
  Lines lines(text, 0);
  lines.open("fi_info", true);
  lines.add_bits("caps", names::kCaps, info.caps);
  lines.add_bits("mode", names::kMode, info.mode);
  lines.add_enum("addr_format", names::kAddressFormat, info.addr_format);
  lines.add("src_addrlen", info.src_addrlen);
  lines.add("dest_addrlen", info.dest_addrlen);
  lines.add("src_addr", address_text(info.addr_format, info.src_addr, info.src_addrlen));
  lines.add("dest_addr", address_text(info.addr_format, info.dest_addr, info.dest_addrlen));
  lines.add_pointer("handle", info.handle);
  append(text, info.tx_attr, lines.depth());
  append(text, info.rx_attr, lines.depth());
  append(text, info.ep_attr, lines.depth());
  append(text, info.domain_attr, lines.depth());
  append(text, info.fabric_attr, lines.depth());
  append(text, info.nic, lines.depth());
}

void append_fid(std::string& text, const fid& fid) {
  // Some providers write to the front of the buffer, others append to its text: an empty string suits both.
  char own[4096] = "";
  if (FI_CHECK_OP(fid.ops, fi_ops, tostr) && fid.ops->tostr(&fid, own, sizeof own) == 0) {
    text += own;
  } else if (fid.fclass == FI_CLASS_NIC) {
    append(text, reinterpret_cast<const fid_nic*>(&fid), 0);
  } else {
    Lines(text, 0).add("fid", static_cast<const void*>(&fid));
  }
}

void append(std::string& text, const fi_av_attr& attr) {
  Lines lines(text, 0);
  lines.open("fi_av_attr", true);
  lines.add_enum("type", names::kAvType, attr.type);
  lines.add("rx_ctx_bits", attr.rx_ctx_bits);
  lines.add("count", attr.count);
  lines.add("ep_per_node", attr.ep_per_node);
  lines.add_string("name", attr.name);
  lines.add_pointer("map_addr", attr.map_addr);
  lines.add_hex("flags", attr.flags);
}

void append(std::string& text, const fi_cq_attr& attr) {
  Lines lines(text, 0);
  lines.open("fi_cq_attr", true);
  lines.add("size", attr.size);
  lines.add_bits("flags", names::kOpFlags, attr.flags);
  lines.add_enum("format", names::kCqFormat, attr.format);
  lines.add_enum("wait_obj", names::kWaitObj, attr.wait_obj);
  lines.add("signaling_vector", attr.signaling_vector);
  lines.add_enum("wait_cond", names::kCqWaitCond, attr.wait_cond);
  lines.add_pointer("xpu_ctx", (attr.flags & FI_XPU) != 0 ? attr.xpu_ctx : nullptr);
  lines.add_pointer("wait_set", attr.wait_set);
}

void append(std::string& text, const fi_mr_attr& attr) {
  Lines lines(text, 0);
  lines.open("fi_mr_attr", true);
  lines.add_pointer("mr_iov", attr.mr_iov);
  lines.add("iov_count", attr.iov_count);
  lines.add_bits("access", names::kCaps, attr.access);
  lines.add("offset", attr.offset);
  lines.add_hex("requested_key", attr.requested_key);
  lines.add_pointer("context", attr.context);
  lines.add("auth_key_size", attr.auth_key_size);
  lines.add_enum("iface", names::kHmemIface, attr.iface);
  lines.add("device", attr.device.reserved);
}

void append(std::string& text, const fi_cntr_attr& attr) {
  Lines lines(text, 0);
  lines.open("fi_cntr_attr", true);
  lines.add_enum("events", names::kCntrEvents, attr.events);
  lines.add_enum("wait_obj", names::kWaitObj, attr.wait_obj);
  lines.add_pointer("wait_set", attr.wait_set);
  lines.add_hex("flags", attr.flags);
  lines.add_pointer("xpu_ctx", (attr.flags & FI_XPU) != 0 ? attr.xpu_ctx : nullptr);
}

void append(std::string& text, const fi_cq_err_entry& entry) {
  Lines lines(text, 0);
  lines.open("fi_cq_err_entry", true);
  lines.add_pointer("op_context", entry.op_context);
  lines.add_bits("flags", names::kCqEventFlags, entry.flags);
  lines.add("len", entry.len);
  lines.add_pointer("buf", entry.buf);
  lines.add_hex("data", entry.data);
  lines.add_hex("tag", entry.tag);
  lines.add("olen", entry.olen);
  lines.add("err", fmt::format("{} ({})", entry.err, fi_strerror(entry.err)));
  lines.add("prov_errno", entry.prov_errno);
  lines.add("err_data_size", entry.err_data_size);
  lines.add_hex("src_addr", entry.src_addr);
}

template <class T>
const T& as(const void* data) noexcept {
  return *static_cast<const T*>(data);
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
  std::string text;
  if (append_struct(text, data, type)) return text;
  if (type == FI_TYPE_VERSION) return fmt::format("{}.{}.{}", FI_MAJOR_VERSION, FI_MINOR_VERSION, FI_REVISION_VERSION);
  // Enumerators have 32 bits, flag words 64, mr_mode is an int.
  if (type == FI_TYPE_MR_MODE) return names_of(names::kMrMode, static_cast<unsigned>(as<int>(data)));
  for (const Values& values : kEnumerators)
    if (values.type == type) return name_of(values.table, static_cast<uint32_t>(as<int>(data)));
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
