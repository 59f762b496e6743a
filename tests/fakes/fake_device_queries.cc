// SPDX-License-Identifier: BSD-2-Clause
// ibv_query_device_ex(3), ibv_query_port(3), ibv_query_gid(3), ibv_query_pkey(3) and asynchronous events,
// ibv_get_async_event(3).
#include <algorithm>
#include <cstring>

#include "fake_device.h"

#undef ibv_query_port

namespace fake {

namespace {

void fill_attributes(const Device& device, ibv_device_attr* attr) {
  const DeviceConfig& config = device.config;
  *attr = {};
  std::snprintf(attr->fw_ver, sizeof attr->fw_ver, "fake.1");
  attr->node_guid = attr->sys_image_guid = htobe64(0x0200000000000001);
  attr->max_mr_size = UINT64_MAX;
  attr->page_size_cap = 0xfffff000;
  attr->vendor_id = 0xfa4e;
  attr->vendor_part_id = 1;
  attr->max_qp = config.max_qp;
  attr->max_qp_wr = config.max_qp_wr;
  attr->device_cap_flags = IBV_DEVICE_RC_RNR_NAK_GEN | IBV_DEVICE_PORT_ACTIVE_EVENT | IBV_DEVICE_SRQ_RESIZE;
  attr->max_sge = config.max_sge;
  attr->max_sge_rd = config.max_sge_rd;
  attr->max_cq = config.max_cq;
  attr->max_cqe = config.max_cqe;
  attr->max_mr = config.max_mr;
  attr->max_pd = config.max_pd;
  attr->max_qp_rd_atom = config.max_qp_rd_atom;
  attr->max_qp_init_rd_atom = config.max_qp_init_rd_atom;
  attr->max_res_rd_atom = config.max_qp_rd_atom;
  attr->atomic_cap = config.atomic_cap;
  attr->max_mcast_grp = config.max_groups;
  attr->max_mcast_qp_attach = config.max_group_members;
  attr->max_total_mcast_qp_attach = config.max_groups * config.max_group_members;
  attr->max_ah = config.max_ah;
  attr->max_srq = config.max_srq;
  attr->max_srq_wr = config.max_srq_wr;
  attr->max_srq_sge = config.max_srq_sge;
  attr->max_pkeys = static_cast<uint16_t>(config.pkeys.size());
  attr->local_ca_ack_delay = 15;
  attr->phys_port_cnt = static_cast<uint8_t>(device.ports.size());
}

int query_device_ex(ibv_context* context, const ibv_query_device_ex_input*, ibv_device_attr_ex* attr, size_t size) {
  Entry entry(Call::ibv_query_device);
  Context& own = context_of(context, entry.name());
  if (entry.error()) return entry.error();
  std::memset(attr, 0, size);
  fill_attributes(*own.device_of, &attr->orig_attr);
  attr->phys_port_cnt_ex = attr->orig_attr.phys_port_cnt;
  return 0;
}

int query_port(ibv_context* context, uint8_t number, ibv_port_attr* attr, size_t size) {
  Entry entry(Call::ibv_query_port);
  Device& device = *context_of(context, entry.name()).device_of;
  if (entry.error()) return entry.error();
  const Port* port = port_of(device, number);
  if (!port) return EINVAL;
  ibv_port_attr full = {};
  full.state = port->state;
  full.max_mtu = IBV_MTU_4096;
  full.active_mtu = device.config.mtu;
  full.gid_tbl_len = static_cast<int>(port->gids.size());
  full.max_msg_sz = device.config.max_msg_size;
  full.pkey_tbl_len = static_cast<uint16_t>(device.config.pkeys.size());
  full.max_vl_num = 1;
  full.active_width = 1;
  full.active_speed = 1;
  full.phys_state = port->state == IBV_PORT_ACTIVE ? 5 : 3;
  full.link_layer = device.config.infiniband ? IBV_LINK_LAYER_INFINIBAND : IBV_LINK_LAYER_ETHERNET;
  std::memcpy(attr, &full, std::min(size, sizeof full));
  return 0;
}

ibv_gid_entry gid_entry(const Device& device, const Port& port, size_t index) {
  return {.gid = port.gids[index].gid,
          .gid_index = static_cast<uint32_t>(index),
          .port_num = port.number,
          .gid_type = device.config.iwarp ? IBV_GID_TYPE_IB : IBV_GID_TYPE_ROCE_V2,
          .ndev_ifindex = port.gids[index].ifindex};
}

}  // namespace

void set_query_ops(Context& context) {
  context.query_device_ex = query_device_ex;
  context.query_port = query_port;
}

void push_async_event(Context& context, const ibv_async_event& event, Tag* tag) {
  context.async_events.push_back({event, tag});
  context.async.set(true);
  World::get().changed.notify_all();
}

// A removed device leaves its descriptors readable for good.
static void show_async_events(Context& context) {
  context.async.set(!context.async_events.empty() || context.device_of->removed);
}

void drop_async_events(Context& context, const Tag* tag) {
  auto& events = context.async_events;
  events.erase(std::remove_if(events.begin(), events.end(), [&](const AsyncEvent& e) { return e.tag == tag; }),
               events.end());
  show_async_events(context);
}

}  // namespace fake

using namespace fake;

extern "C" {

int ibv_query_device(ibv_context* context, ibv_device_attr* attr) {
  Entry entry(Call::ibv_query_device);
  Context& own = context_of(context, entry.name());
  if (entry.error()) return entry.error();
  fill_attributes(*own.device_of, attr);
  return 0;
}

int ibv_query_port(ibv_context* context, uint8_t port, _compat_ibv_port_attr* attr) {
  return query_port(context, port, reinterpret_cast<ibv_port_attr*>(attr), offsetof(ibv_port_attr, port_cap_flags2));
}

int ibv_query_gid(ibv_context* context, uint8_t number, int index, ibv_gid* gid) {
  Entry entry(Call::ibv_query_gid);
  const Port* port = port_of(*context_of(context, entry.name()).device_of, number);
  if (entry.error()) return cm_error(entry.error());  // this one returns -1
  if (!port || index < 0 || static_cast<size_t>(index) >= port->gids.size()) return cm_error(EINVAL);
  *gid = port->gids[static_cast<size_t>(index)].gid;
  return 0;
}

int _ibv_query_gid_ex(ibv_context* context, uint32_t number, uint32_t index, ibv_gid_entry* result, uint32_t flags,
                      size_t size) {
  Entry entry(Call::ibv_query_gid);
  Device& device = *context_of(context, entry.name()).device_of;
  if (entry.error()) return entry.error();
  const Port* port = port_of(device, number);
  if (!port || flags || size < sizeof *result) return EINVAL;
  if (index >= port->gids.size()) return ENODATA;
  *result = gid_entry(device, *port, index);
  return 0;
}

ssize_t _ibv_query_gid_table(ibv_context* context, ibv_gid_entry* entries, size_t max_entries, uint32_t flags,
                             size_t size) {
  Entry entry(Call::ibv_query_gid_table);
  const Device& device = *context_of(context, entry.name()).device_of;
  if (entry.error()) return -entry.error();
  if (flags || size < sizeof *entries) return -EINVAL;
  size_t count = 0;
  for (const Port& port : device.ports)
    for (size_t i = 0; i < port.gids.size() && count < max_entries; ++i) entries[count++] = gid_entry(device, port, i);
  return static_cast<ssize_t>(count);
}

int ibv_query_pkey(ibv_context* context, uint8_t port, int index, __be16* pkey) {
  Entry entry(Call::ibv_query_pkey);
  Device& device = *context_of(context, entry.name()).device_of;
  const auto& pkeys = device.config.pkeys;
  if (entry.error()) return cm_error(entry.error());
  if (!port_of(device, port) || index < 0 || static_cast<size_t>(index) >= pkeys.size()) return cm_error(EINVAL);
  *pkey = htobe16(pkeys[static_cast<size_t>(index)]);
  return 0;
}

int ibv_get_pkey_index(ibv_context*, uint8_t, __be16 pkey) {
  return pkey == 0xffff ? 0 : -1;
}

int ibv_get_async_event(ibv_context* context, ibv_async_event* event) {
  Entry entry(Call::ibv_get_async_event);
  Context& own = context_of(context, entry.name());
  if (entry.error()) return cm_error(entry.error());
  while (own.async_events.empty()) {
    if (own.device_of->removed) return cm_error(EIO);
    if (own.async.nonblocking()) return cm_error(EAGAIN);
    entry.world.changed.wait(entry.lock);
  }
  const AsyncEvent first = own.async_events.front();
  own.async_events.pop_front();
  show_async_events(own);
  *event = first.event;
  if (first.tag) ++first.tag->unacked_async;
  return 0;
}

void ibv_ack_async_event(ibv_async_event* event) {
  World& world = World::get();
  Guard guard(world.mutex);
  if (Tag* tag = tag_of_event(*event)) {
    if (!tag->unacked_async) fatal("ibv_ack_async_event", "acknowledged more often than got");
    if (--tag->unacked_async == 0) world.changed.notify_all();
  }
}

}  // extern "C"
