// SPDX-License-Identifier: BSD-2-Clause
// fi_info and its attribute structures as text; fi_fabric(3) fi_tostr.
#include "core/text.h"

#include <fmt/format.h>

#include <iterator>

#include "core/names.h"

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

}  // namespace

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

}  // namespace weft::core
