// SPDX-License-Identifier: BSD-2-Clause
// The provider's offer on a device; see discovery.h.
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/providers/fi_log.h>

#include <algorithm>

#include "objects/attributes.h"
#include "objects/message_buffers.h"
#include "verbs/cm/private_data.h"
#include "verbs/device/gids.h"
#include "verbs/device/limits.h"
#include "verbs/device/logging.h"
#include "verbs/discovery/discovery.h"

namespace weft::verbs {
namespace {

constexpr uint64_t kTxCaps = FI_MSG | FI_RMA | FI_SEND | FI_READ | FI_WRITE | FI_FENCE | kLocality;
constexpr uint64_t kRxCaps = FI_MSG | FI_RMA | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_MULTI_RECV | kLocality;
constexpr uint64_t kTxFlags =
    FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;
constexpr uint64_t kRxFlags = FI_COMPLETION | FI_MULTI_RECV;

constexpr uint64_t kDatagramTxCaps = FI_MSG | FI_SEND | kLocality;
constexpr uint64_t kDatagramRxCaps = FI_MSG | FI_RECV | FI_MULTI_RECV | FI_SOURCE | kLocality;
constexpr uint64_t kDatagramTxFlags = FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE;

// The domain of datagram endpoints is named after the device, with this suffix.
constexpr const char* kDatagramSuffix = "-dgram";

size_t positive(int value) noexcept {
  return static_cast<size_t>(std::max(value, 0));
}

// The default size, or the larger one that hints request, up to the limit.
size_t chosen(size_t standard, size_t wanted, size_t limit) noexcept {
  return std::min(std::max(standard, wanted), limit);
}

// The differences between the services.
struct Traits {
  uint64_t tx_caps, rx_caps, tx_flags, msg_order;
  size_t inject_size, rx_size;  // defaults
  size_t most_rx_iov;
};

Traits traits_of(Service service, const ibv_device_attr& limits, const Parameters& parameters) noexcept {
  if (service == Service::kConnections) {
    const uint64_t atomics = limits.atomic_cap != IBV_ATOMIC_NONE ? FI_ATOMIC : 0;
    return {.tx_caps = kTxCaps | atomics,
            .rx_caps = kRxCaps | atomics,
            .tx_flags = kTxFlags,
            .msg_order = kConnectionOrder,
            .inject_size = parameters.inline_size,
            .rx_size = parameters.rx_size,
            .most_rx_iov = kMaxIov};
  }
  const uint64_t groups = service == Service::kDatagrams && limits.max_mcast_grp > 0 ? FI_MULTICAST : 0;
  return {.tx_caps = kDatagramTxCaps | groups,
          .rx_caps = kDatagramRxCaps | groups,
          .tx_flags = kDatagramTxFlags | groups,
          .msg_order = 0,
          .inject_size = kDatagramInjectSize,
          .rx_size = std::max(parameters.rx_size, kDatagramReceives),
          .most_rx_iov = kIovLimit};
}

void describe_queues(fi_info& info, Device& device, const fi_info& hints, const Parameters& parameters,
                     const Traits& traits) {
  const ibv_device_attr& limits = device.attr().orig_attr;
  const fi_tx_attr& tx_hints = or_none(hints.tx_attr);
  const fi_rx_attr& rx_hints = or_none(hints.rx_attr);
  const size_t most_work = std::min(positive(limits.max_qp_wr), kMaxQueueSize);
  const size_t most_iov = std::min(positive(limits.max_sge), kMaxIov);
  info.caps = traits.tx_caps | traits.rx_caps;
  describe_direction(*info.tx_attr, {.caps = traits.tx_caps,
                                     .op_flags = traits.tx_flags,
                                     .msg_order = traits.msg_order,
                                     .size = chosen(parameters.tx_size, tx_hints.size, most_work),
                                     .iov_limit = chosen(parameters.tx_iov_limit, tx_hints.iov_limit, most_iov)});
  info.tx_attr->rma_iov_limit = (traits.tx_caps & FI_RMA) != 0 ? 1 : 0;
  info.tx_attr->inject_size =
      chosen(traits.inject_size, tx_hints.inject_size, std::min<size_t>(device.max_inline(), kMaxInjectSize));
  describe_direction(*info.rx_attr, {.caps = traits.rx_caps,
                                     .op_flags = kRxFlags,
                                     .msg_order = traits.msg_order,
                                     .size = chosen(traits.rx_size, rx_hints.size, most_work),
                                     .iov_limit = chosen(parameters.rx_iov_limit, rx_hints.iov_limit,
                                                         std::min(most_iov, traits.most_rx_iov))});
}

// Immediate data consumes a posted receive at the peer. It is offered only to applications that accept FI_RX_CQ_DATA.
void describe_immediate_data(fi_info& info, const Source& source, const fi_info* hints) {
  if (source.port.transport == Transport::kIwarp) return;
  const uint64_t accepted = hints == nullptr ? ~uint64_t{0} : hints->mode | or_none(hints->rx_attr).mode;
  if ((accepted & FI_RX_CQ_DATA) == 0) return;
  info.mode = info.rx_attr->mode = FI_RX_CQ_DATA;
  info.domain_attr->cq_data_size = kCqDataSize;
}

void describe_endpoint(fi_ep_attr& ep, const Source& source) {
  ep.type = FI_EP_MSG;
  ep.protocol = source.port.transport == Transport::kIwarp ? FI_PROTO_IWARP : FI_PROTO_RDMA_CM_IB_RC;
  ep.protocol_version = 1;
  ep.max_msg_size = source.port.attr.max_msg_sz;
  ep.max_order_raw_size = ep.max_msg_size;
  ep.max_order_waw_size = ep.max_msg_size;
  ep.tx_ctx_cnt = 1;
  ep.rx_ctx_cnt = 1;
}

// Datagram endpoints send messages only, of one packet each.
void describe_datagrams(fi_info& info, const Source& source, const fi_info& hints) {
  fi_ep_attr& ep = *info.ep_attr;
  ep.type = FI_EP_DGRAM;
  ep.protocol = FI_PROTO_IB_UD;
  ep.max_msg_size = size_t{128} << source.port.attr.active_mtu;
  ep.max_order_raw_size = ep.max_order_waw_size = 0;
  info.domain_attr->cq_data_size = kCqDataSize;
  info.domain_attr->max_ep_srx_ctx = 0;
  if ((hints.mode & FI_MSG_PREFIX) == 0) return;
  info.mode = info.rx_attr->mode = FI_MSG_PREFIX;  // not in tx_attr, as in libfabric
  ep.msg_prefix_size = sizeof(ibv_grh);
}

// Only for a request: FI_HMEM brings the mode FI_MR_HMEM along. No inline data, which the processor copies.
void describe_device_memory(fi_info& info, const Source& source, const fi_info& hints) {
  if ((hints.caps & FI_HMEM) == 0) return;
  if (!source.device->takes_dmabufs()) {
    FI_INFO(&provider(), FI_LOG_CORE, "%s, its driver or the kernel registers no DMA buffers: no FI_HMEM\n",
            source.device->name());
    return;
  }
  for (uint64_t* caps : {&info.caps, &info.tx_attr->caps, &info.rx_attr->caps}) *caps |= FI_HMEM;
  info.domain_attr->mr_mode |= FI_MR_HMEM;
  info.tx_attr->inject_size = 0;
}

void describe_limits(fi_domain_attr& attr, const ibv_device_attr& limits) {
  attr.mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  attr.mr_key_size = sizeof(uint32_t);
  attr.cq_cnt = positive(limits.max_cq);
  attr.ep_cnt = positive(limits.max_qp);
  attr.tx_ctx_cnt = positive(limits.max_qp);
  attr.rx_ctx_cnt = positive(limits.max_qp);
  attr.max_ep_srx_ctx = positive(limits.max_srq);
  attr.max_err_data = kCmDataSize;
  attr.mr_cnt = positive(limits.max_mr);
}

// Everything but addresses and names.
InfoPtr make_nameless_offer(const Source& source, std::uint32_t version, const fi_info* hints,
                            const Parameters& parameters, Service service) {
  InfoPtr offer(allocate_info());
  if (offer == nullptr) return offer;
  const ibv_device_attr& limits = source.device->attr().orig_attr;
  describe_queues(*offer, *source.device, or_none(hints), parameters, traits_of(service, limits, parameters));
  describe_endpoint(*offer->ep_attr, source);
  describe_domain(*offer->domain_attr);
  describe_limits(*offer->domain_attr, limits);
  const bool datagrams = service != Service::kConnections;
  if (datagrams)
    describe_datagrams(*offer, source, or_none(hints));
  else
    describe_immediate_data(*offer, source, hints);
  if (!datagrams) describe_device_memory(*offer, source, or_none(hints));
  offer->fabric_attr->api_version = version;
  offer->fabric_attr->prov_version = provider().version;
  offer->addr_format = service == Service::kNativeDatagrams ? uint32_t{FI_ADDR_IB_UD} : source.address.format();
  return offer;
}

}  // namespace

std::string device_name(const std::string& domain) {
  const std::string_view suffix = kDatagramSuffix;
  return domain.ends_with(suffix) ? domain.substr(0, domain.size() - suffix.size()) : domain;
}

InfoPtr make_offer(const Source& source, std::uint32_t version, const fi_info* hints, const Parameters& parameters,
                   Service service) {
  InfoPtr offer = make_nameless_offer(source, version, hints, parameters, service);
  if (offer == nullptr) return offer;
  offer->nic = make_nic(source);
  const std::string domain =
      std::string(source.device->name()) + (service != Service::kConnections ? kDatagramSuffix : "");
  if (!set_name(offer->domain_attr->name, domain.c_str()) ||
      !set_name(offer->fabric_attr->name, fabric_name(source.port.transport, source.first_gid).c_str()))
    return nullptr;
  if (hints == nullptr) return offer;
  offer->handle = hints->handle;
  if (service == Service::kNativeDatagrams) return offer;
  if (!source.address.is_ib() && hints->addr_format == FI_SOCKADDR_IP) offer->addr_format = hints->addr_format;
  return offer;
}

Status check(const fi_info& info, Device& device, std::uint32_t version, const Parameters& parameters) {
  const auto first = device.port(1);
  if (!first) return {};  // the endpoint reports why the device does not answer
  Source best{CmAddress(), "", Ref<Device>(device), *first};
  for (int number = 2; number <= device.port_count(); ++number) {
    const auto port = device.port(static_cast<std::uint8_t>(number));
    if (!port) continue;
    best.port.attr.max_msg_sz = std::max(best.port.attr.max_msg_sz, port->attr.max_msg_sz);
    best.port.attr.active_mtu = std::max(best.port.attr.active_mtu, port->attr.active_mtu);
  }
  const Service service = or_none(info.ep_attr).type != FI_EP_DGRAM ? Service::kConnections
                          : info.addr_format == FI_ADDR_IB_UD       ? Service::kNativeDatagrams
                                                                    : Service::kDatagrams;
  const InfoPtr offer = make_nameless_offer(best, version, &info, parameters, service);
  if (offer == nullptr) return Status(-FI_ENOMEM);
  offer->addr_format = FI_FORMAT_UNSPEC;  // the endpoint reads its address
  return check_endpoint(*offer, version, info, provider());
}

InfoPtr request_info(const fi_info& prototype, rdma_cm_id& request, const CmAddress& peer) {
  const CmAddress local = CmAddress::from(rdma_get_local_addr(&request));
  InfoPtr info(duplicate_info(&prototype));
  if (info == nullptr || !set_address(info->src_addr, info->src_addrlen, local) ||
      !set_address(info->dest_addr, info->dest_addrlen, peer))
    return nullptr;
  auto device = device_of(request.verbs);
  if (!device) return info;
  const char* name = (*device)->name();
  if (info->domain_attr == nullptr ||
      (info->domain_attr->name != nullptr && info->domain_attr->name == std::string(name)))
    return info;
  // The listener was not bound to a device; the request has one.
  auto port = (*device)->port(request.port_num);
  if (!port || !set_name(info->domain_attr->name, name)) return nullptr;
  const ibv_gid first_gid = query_gid(**device, port->number, 0);
  const std::string fabric = fabric_name(port->transport, first_gid);
  if (info->fabric_attr != nullptr && !set_name(info->fabric_attr->name, fabric.c_str())) return nullptr;
  if (info->nic == nullptr) info->nic = make_nic({local, "", *device, *port, first_gid, first_gid});
  return info;
}

}  // namespace weft::verbs
