// SPDX-License-Identifier: BSD-2-Clause
// Endpoints of all kinds and connections: kfi_cm(3).
#include "kfabric/transfers.h"

namespace weft::kfabric {
namespace {

constexpr uint64_t kHalves = KFI_READ | KFI_WRITE;

// ---- Connections ----------------------------------------------------------------------------------------------------

int connect(kfid_ep* ep, const void* address, const void* parameters, size_t size) {
  auto* endpoint = static_cast<Endpoint*>(ep);
  if (address == nullptr) {
    if (endpoint->destination.empty()) return -KFI_EINVAL;
    address = endpoint->destination.data();
  }
  return fi_connect(endpoint->fi, address, parameters, size);
}

int reject(kfid_pep* pep, kfid* handle, const void* parameters, size_t size) {
  ConnectionRequest* request = request_of(handle);
  if (request == nullptr) return -KFI_EINVAL;
  const int result = fi_reject(fi_of(pep), request->fi, parameters, size);
  if (result == 0) static_cast<PassiveEndpoint*>(pep)->fabric->end_request(request);
  return result;
}

// Shuts down one half while the other half stays open. Where the provider supports it, receives end, and the peer gets
// a message about it.
int shut_half(fid_ep* below, uint64_t half) {
  void* table = nullptr;
  if (fi_open_ops(&below->fid, "weft_half_shutdown_v1", 0, &table, nullptr) != 0) {
    return half == KFI_WRITE ? 0 : -KFI_EOPNOTSUPP;
  }
  return (*static_cast<int (**)(fid_ep*, uint64_t)>(table))(below, half);
}

int shut_down(kfid_ep* ep, uint64_t flags) {
  Connection& connection = *static_cast<Endpoint*>(ep)->connection;
  if (flags & ~kHalves) return -KFI_EBADFLAGS;
  size_t size = 0;
  const int named = fi_getpeer(connection.fi, nullptr, &size);
  if (named != 0 && named != -FI_ETOOSMALL) return -KFI_ENOTCONN;
  const uint64_t before = connection.shut.fetch_or(flags);
  if (flags == 0 || (before | flags) == kHalves) return fi_shutdown(connection.fi, 0);
  if (before != 0) return 0;
  const int result = shut_half(connection.fi, flags);
  if (result != 0) connection.shut &= ~flags;
  return result;
}

int join(kfid_ep* ep, const void* address, uint64_t flags, kfid_mc** mc, void* context) {
  Fabric* const fabric = static_cast<Endpoint*>(ep)->fabric;
  std::lock_guard opening(fabric->opening);
  return open<Membership>(fabric, KFI_CLASS_UNSPEC, mc, context, [&](Membership& member) {
    const int result = fi_join(fi_of(ep), address, flags, &member.fi, context);
    if (result == 0) member.addr = fi_mc_addr(member.fi);
    return result;
  });
}

// Names of objects of any class, whose fid libfabric treats as an endpoint's.
constexpr kfi_ops_cm kConnectionOps = {sizeof(kfi_ops_cm),
                                       Forward<fi_setname>{},
                                       Forward<fi_getname>{},
                                       Forward<fi_getpeer>{},
                                       connect,
                                       Refuse{},
                                       Forward<fi_accept>{},
                                       Refuse{},
                                       shut_down,
                                       Guarded<join>{}};
constexpr kfi_ops_cm kListenerOps = {sizeof(kfi_ops_cm),
                                     Forward<fi_setname>{},
                                     Forward<fi_getname>{},
                                     Refuse{},
                                     Refuse{},
                                     Forward<fi_listen>{},
                                     Refuse{},
                                     reject,
                                     Refuse{},
                                     Refuse{}};

// ---- Options, contexts ----------------------------------------------------------------------------------------------

ssize_t cancel(kfid* handle, void* context) {
  if (handle->fclass != KFI_CLASS_PEP && handle->fclass != KFI_CLASS_STX_CTX) {
    auto* endpoint = of<Endpoint>(handle);
    for (CompletionQueue* queue : {endpoint->transmit_queue, endpoint->receive_queue}) {
      if (queue != nullptr && queue->bounces.any()) context = queue->bounces.context_below(context);
    }
  }
  return fi_cancel(fi_of(handle), context);
}

int open_transmit_context(kfid_ep* sep, int index, kfi_tx_attr* attr, kfid_ep** ep, void* context);
int open_receive_context(kfid_ep* sep, int index, kfi_rx_attr* attr, kfid_ep** ep, void* context);

constexpr kfi_ops_ep kEndpointOps = {sizeof(kfi_ops_ep),
                                     cancel,
                                     Forward<fi_getopt>{},
                                     Forward<fi_setopt>{},
                                     Guarded<open_transmit_context>{},
                                     Guarded<open_receive_context>{},
                                     Forward<fi_rx_size_left>{},
                                     Forward<fi_tx_size_left>{}};

// An endpoint beneath may lack tables: their calls are refused.
void set_tables(Endpoint& endpoint) {
  const fid_ep& below = *endpoint.fi;
  endpoint.connection->fi = endpoint.fi;
  endpoint.ops = mutable_table(kEndpointOps);
  endpoint.cm = mutable_table(below.cm != nullptr ? kConnectionOps : refused<kfi_ops_cm>);
  endpoint.msg = mutable_table(below.msg != nullptr ? kMessageOps : refused<kfi_ops_msg>);
  endpoint.rma = mutable_table(below.rma != nullptr ? kAccessOps : refused<kfi_ops_rma>);
  endpoint.tagged = mutable_table(below.tagged != nullptr ? kTaggedOps : refused<kfi_ops_tagged>);
  endpoint.atomic = mutable_table(below.atomic != nullptr ? kAtomicOps : refused<kfi_ops_atomic>);
}

void set_limits(Endpoint& endpoint, size_t transmit, size_t receive) {
  if (transmit != 0) endpoint.transmit_limit = transmit;
  if (receive != 0) endpoint.receive_limit = receive;
}

template <class Call>
int open_endpoint_with(kfid_domain* handle, kfi_info* info, size_t fclass, kfid_ep** ep, void* context, Call call) {
  auto* domain = static_cast<Domain*>(handle);
  if (info == nullptr) return -KFI_EINVAL;
  LowerInfo lower(*info, is_1_1(domain->fabric));
  return open<Endpoint>(domain->fabric, fclass, ep, context, [&](Endpoint& endpoint) {
    if (info->dest_addr != nullptr) {
      endpoint.destination.assign(static_cast<const char*>(info->dest_addr), info->dest_addrlen);
    }
    if (int result = call(domain->fi, lower.get(), &endpoint.fi, context)) return result;
    endpoint.domain = domain;
    const int refuses = 1;  // kfi_shutdown: no further transfers
    (void)fi_setopt(&endpoint.fi->fid, FI_OPT_ENDPOINT, FI_OPT_WEFT_REFUSE_AFTER_END, &refuses, sizeof refuses);
    const fi_info& attributes = *lower.get();
    set_limits(endpoint, attributes.tx_attr ? attributes.tx_attr->iov_limit : 0,
               attributes.rx_attr ? attributes.rx_attr->iov_limit : 0);
    set_tables(endpoint);
    if (lower.request() != nullptr) domain->fabric->end_request(lower.request());
    return 0;
  });
}

template <class Call>
int open_context_with(Fabric* fabric, Domain* domain, size_t fclass, size_t limit, kfid_ep** ep, void* context,
                      Call call) {
  return open<Endpoint>(fabric, fclass, ep, context, [&](Endpoint& endpoint) {
    if (int result = call(&endpoint.fi)) return result;
    endpoint.domain = domain;
    set_limits(endpoint, limit, limit);
    set_tables(endpoint);
    return 0;
  });
}

int open_transmit_context(kfid_ep* sep, int index, kfi_tx_attr* attr, kfid_ep** ep, void* context) {
  auto* scalable = static_cast<Endpoint*>(sep);
  LowerTransmit lower(attr, is_1_1(scalable->fabric));
  const size_t limit = attr ? lower.get()->iov_limit : scalable->transmit_limit;
  return open_context_with(scalable->fabric, scalable->domain, KFI_CLASS_TX_CTX, limit, ep, context,
                           [&](auto below) { return fi_tx_context(scalable->fi, index, lower.get(), below, context); });
}

int open_receive_context(kfid_ep* sep, int index, kfi_rx_attr* attr, kfid_ep** ep, void* context) {
  auto* scalable = static_cast<Endpoint*>(sep);
  LowerReceive lower(attr, is_1_1(scalable->fabric));
  const size_t limit = attr ? lower.get()->iov_limit : scalable->receive_limit;
  return open_context_with(scalable->fabric, scalable->domain, KFI_CLASS_RX_CTX, limit, ep, context,
                           [&](auto below) { return fi_rx_context(scalable->fi, index, lower.get(), below, context); });
}

// A request is no object: the two calls that take it are kfi_endpoint and kfi_reject.
constexpr Ops kRequestOps = {refused<kfi_ops>, [](kfid*) -> fid* { return nullptr; }};

}  // namespace

ConnectionRequest* Fabric::add_request(struct fid* below) {
  auto request = std::make_unique<ConnectionRequest>();
  request->fclass = KFI_CLASS_CONNREQ;
  request->ops = mutable_table<kfi_ops>(kRequestOps);
  request->fi = below;
  std::lock_guard lock(mutex);
  return requests.insert(std::move(request)).first->get();
}

void Fabric::end_request(ConnectionRequest* request) {
  std::lock_guard lock(mutex);
  std::erase_if(requests, [&](const auto& one) { return one.get() == request; });
}

int open_passive_endpoint(kfid_fabric* handle, kfi_info* info, kfid_pep** pep, void* context) {
  auto* fabric = static_cast<Fabric*>(handle);
  if (info == nullptr) return -KFI_EINVAL;
  LowerInfo lower(*info, is_1_1(fabric));
  return open<PassiveEndpoint>(fabric, KFI_CLASS_PEP, pep, context, [&](PassiveEndpoint& endpoint) {
    endpoint.ops = mutable_table(kEndpointOps);
    endpoint.cm = mutable_table(kListenerOps);
    return fi_passive_ep(fabric->fi, lower.get(), &endpoint.fi, context);
  });
}

int open_endpoint(kfid_domain* domain, kfi_info* info, kfid_ep** ep, void* context) {
  return open_endpoint_with(domain, info, KFI_CLASS_EP, ep, context, fi_endpoint);
}

int open_scalable_endpoint(kfid_domain* domain, kfi_info* info, kfid_ep** ep, void* context) {
  return open_endpoint_with(domain, info, KFI_CLASS_SEP, ep, context, fi_scalable_ep);
}

int open_shared_transmit(kfid_domain* handle, kfi_tx_attr* attr, kfid_stx** stx, void* context) {
  auto* domain = static_cast<Domain*>(handle);
  LowerTransmit lower(attr, is_1_1(domain->fabric));
  return open<SharedTransmit>(domain->fabric, KFI_CLASS_STX_CTX, stx, context, [&](SharedTransmit& shared) {
    shared.ops = mutable_table(refused<kfi_ops_ep>);
    return fi_stx_context(domain->fi, lower.get(), &shared.fi, context);
  });
}

int open_shared_receive(kfid_domain* handle, kfi_rx_attr* attr, kfid_ep** ep, void* context) {
  auto* domain = static_cast<Domain*>(handle);
  LowerReceive lower(attr, is_1_1(domain->fabric));
  const size_t limit = attr ? lower.get()->iov_limit : 1;
  return open_context_with(domain->fabric, domain, KFI_CLASS_SRX_CTX, limit, ep, context,
                           [&](fid_ep** below) { return fi_srx_context(domain->fi, lower.get(), below, context); });
}

int open_alias(kfid* handle, struct kfi_alias* alias) {
  if (handle->fclass != KFI_CLASS_EP) return -KFI_ENOSYS;
  auto* endpoint = of<Endpoint>(handle);
  kfid_ep* second = nullptr;
  const int result = open_context_with(endpoint->fabric, endpoint->domain, KFI_CLASS_EP, 0, &second, handle->context,
                                       [&](fid_ep** below) { return fi_ep_alias(endpoint->fi, below, alias->flags); });
  if (result != 0) return result;
  auto* object = static_cast<Endpoint*>(second);
  object->connection = endpoint->connection;
  object->transmit_queue = endpoint->transmit_queue;
  object->receive_queue = endpoint->receive_queue;
  object->selects_transmits = endpoint->selects_transmits;
  object->selects_receives = endpoint->selects_receives;
  set_limits(*object, endpoint->transmit_limit, endpoint->receive_limit);
  *alias->fid = &second->fid;
  return 0;
}

int lower_binding(const kfid* handle, const kfid* other, uint64_t& flags) {
  constexpr uint64_t kDirections = FI_TRANSMIT | FI_RECV;
  if (other == nullptr || other->fclass == KFI_CLASS_CONNREQ) return -KFI_EINVAL;
  if (handle->fclass == KFI_CLASS_DOMAIN && is_1_1(of<Domain>(handle)->fabric) && flags == 1) flags = KFI_REG_MR;
  if (other->fclass != KFI_CLASS_CQ || flags & kDirections) return 0;
  if (handle->fclass == KFI_CLASS_EP) return -KFI_EINVAL;
  if (handle->fclass == KFI_CLASS_TX_CTX) flags |= FI_TRANSMIT;
  if (handle->fclass == KFI_CLASS_RX_CTX || handle->fclass == KFI_CLASS_SRX_CTX) flags |= FI_RECV;
  return 0;
}

void note_binding(kfid* handle, kfid* other, uint64_t flags) {
  switch (handle->fclass) {
    case KFI_CLASS_DOMAIN:
      if (flags & KFI_REG_MR) of<Domain>(handle)->reports = true;
      return;
    case KFI_CLASS_PEP:
      if (other->fclass == KFI_CLASS_EQ) of<PassiveEndpoint>(handle)->queue = of<EventQueue>(other);
      return;
    case KFI_CLASS_EP:
    case KFI_CLASS_TX_CTX:
    case KFI_CLASS_RX_CTX:
    case KFI_CLASS_SRX_CTX:
      break;
    default:
      return;
  }
  if (other->fclass != KFI_CLASS_CQ) return;
  auto* endpoint = of<Endpoint>(handle);
  const bool selective = flags & FI_SELECTIVE_COMPLETION;
  if (flags & FI_TRANSMIT) {
    endpoint->transmit_queue = of<CompletionQueue>(other);
    endpoint->selects_transmits = selective;
  }
  if (flags & FI_RECV) {
    endpoint->receive_queue = of<CompletionQueue>(other);
    endpoint->selects_receives = selective;
  }
}

}  // namespace weft::kfabric
