// SPDX-License-Identifier: BSD-2-Clause
// What tcp answers to fi_getinfo(3): one info for each local address that fits, or for each destination the address
// that the route to it leaves from.
//
// No lock is held anywhere here: names may be resolved, which may take its time.
#include "objects/info.h"

#include <fmt/format.h>
#include <rdma/providers/fi_log.h>

#include <algorithm>
#include <cstring>

#include "objects/address.h"
#include "objects/attributes.h"
#include "tcp/cm_message.h"
#include "tcp/limits.h"
#include "tcp/parameters.h"
#include "tcp/provider.h"
#include "tcp/socket.h"

namespace weft::tcp {
namespace {

// Names of the fabric and the domain for sources that no interface stands for, such as 0.0.0.0.
constexpr const char* kAnyFabric = "TCP-IP";
constexpr const char* kAnyDomain = "tcp";

// What endpoints can do; receives and sends each know their part of it.
constexpr uint64_t kLocality = FI_LOCAL_COMM | FI_REMOTE_COMM;
constexpr uint64_t kTxCaps = FI_MSG | FI_TAGGED | FI_RMA | FI_SEND | FI_READ | FI_WRITE | FI_FENCE | kLocality;
constexpr uint64_t kRxCaps =
    FI_MSG | FI_TAGGED | FI_RMA | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE | FI_MULTI_RECV | FI_RMA_EVENT | kLocality;
constexpr uint64_t kTxFlags =
    FI_COMPLETION | FI_INJECT | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;
constexpr uint64_t kRxFlags = FI_COMPLETION | FI_MULTI_RECV;

// One stream carries everything in order; only reads are answered later, with what is there then.
constexpr uint64_t kOrder = FI_ORDER_RAR | FI_ORDER_RAW | FI_ORDER_RAS | FI_ORDER_WAW | FI_ORDER_WAS | FI_ORDER_SAW |
                            FI_ORDER_SAS | FI_ORDER_RMA_RAR | FI_ORDER_RMA_RAW | FI_ORDER_RMA_WAW |
                            FI_ORDER_ATOMIC_RAR | FI_ORDER_ATOMIC_RAW | FI_ORDER_ATOMIC_WAW;

constexpr uint64_t kAnyTag = 0xAAAA'AAAA'AAAA'AAAA;  // alternating bits: 64 fields of one bit each
constexpr size_t kMaxQueueSize = size_t{1} << 20;
constexpr size_t kPlentiful = 8192;  // for counts that only memory limits

// One possible result.
struct Candidate {
  Address source;
  Address destination;  // empty: none
  std::string fabric;
  std::string domain;
};

void refuse(const std::string& reason) {
  FI_INFO(&provider(), FI_LOG_CORE, "%s\n", reason.c_str());
}

void describe_endpoint(fi_info& info, uint32_t version, const Parameters& parameters) {
  info.caps = kTxCaps | kRxCaps;
  fi_tx_attr& tx = *info.tx_attr;
  tx.caps = kTxCaps;
  tx.op_flags = kTxFlags;
  tx.msg_order = kOrder;
  tx.comp_order = FI_ORDER_STRICT;
  tx.inject_size = kInjectSize;
  tx.size = parameters.tx_size;
  tx.iov_limit = kIovLimit;
  tx.rma_iov_limit = kIovLimit;

  fi_rx_attr& rx = *info.rx_attr;
  rx.caps = kRxCaps;
  rx.op_flags = kRxFlags;
  rx.msg_order = kOrder;
  rx.comp_order = FI_ORDER_STRICT;
  rx.size = parameters.rx_size;
  rx.iov_limit = kIovLimit;

  fi_ep_attr& ep = *info.ep_attr;
  ep.type = FI_EP_MSG;
  // The protocol got a name of its own in 1.18; the bytes are the same.
  ep.protocol = FI_VERSION_GE(version, FI_VERSION(1, 18)) ? FI_PROTO_XNET : FI_PROTO_SOCK_TCP;
  ep.max_msg_size = SIZE_MAX;
  ep.max_order_raw_size = SIZE_MAX;
  ep.max_order_waw_size = SIZE_MAX;
  ep.mem_tag_format = kAnyTag;
  ep.tx_ctx_cnt = 1;
  ep.rx_ctx_cnt = 1;
}

void describe_domain(fi_domain_attr& attr) {
  attr.threading = FI_THREAD_SAFE;
  attr.control_progress = FI_PROGRESS_MANUAL;
  attr.progress = FI_PROGRESS_MANUAL;
  attr.resource_mgmt = FI_RM_ENABLED;
  attr.mr_key_size = sizeof(uint64_t);
  attr.cq_data_size = sizeof(uint64_t);
  attr.cq_cnt = kPlentiful;
  attr.ep_cnt = kPlentiful;
  attr.tx_ctx_cnt = kPlentiful;
  attr.rx_ctx_cnt = kPlentiful;
  attr.max_ep_tx_ctx = 1;
  attr.max_ep_rx_ctx = 1;
  attr.max_ep_srx_ctx = kPlentiful;
  attr.cntr_cnt = kPlentiful;
  attr.mr_iov_limit = 1;
  attr.caps = kLocality;
  attr.max_err_data = kCmDataSize;
  attr.mr_cnt = kPlentiful;
  attr.max_cntr_value = UINT64_MAX;
  attr.max_err_cntr_value = UINT64_MAX;
}

void grow(size_t& size, size_t wanted) {
  size = std::max(size, std::min(wanted, kMaxQueueSize));
}

// Everything but addresses and names. Null when memory runs out.
InfoPtr make_offer(uint32_t version, const fi_info* hints, const Parameters& parameters) {
  InfoPtr offer(allocate_info());
  if (offer == nullptr) return offer;
  describe_endpoint(*offer, version, parameters);
  describe_domain(*offer->domain_attr);
  offer->fabric_attr->api_version = version;
  offer->fabric_attr->prov_version = provider().version;
  if (hints == nullptr) return offer;
  offer->handle = hints->handle;
  if (hints->addr_format == FI_SOCKADDR || hints->addr_format == FI_SOCKADDR_IP)
    offer->addr_format = hints->addr_format;
  // Queues are as long as the caller likes, within reason.
  if (hints->tx_attr != nullptr) grow(offer->tx_attr->size, hints->tx_attr->size);
  if (hints->rx_attr != nullptr) grow(offer->rx_attr->size, hints->rx_attr->size);
  if (const fi_ep_attr* wanted = hints->ep_attr; wanted != nullptr)
    if (wanted->protocol == FI_PROTO_XNET || wanted->protocol == FI_PROTO_SOCK_TCP)
      offer->ep_attr->protocol = wanted->protocol;
  return offer;
}

// These two are false when memory runs out.
bool set_name(char*& name, const char* value) {
  std::free(name);
  name = ::strdup(value);
  return name != nullptr;
}

bool set_address(void*& address, size_t& len, const Address& value) {
  address = std::malloc(value.size());
  if (address == nullptr) return false;
  std::memcpy(address, value.data(), value.size());
  len = value.size();
  return true;
}

const char* hinted_domain(const fi_info* hints) {
  return hints != nullptr && hints->domain_attr != nullptr ? hints->domain_attr->name : nullptr;
}
const char* hinted_fabric(const fi_info* hints) {
  return hints != nullptr && hints->fabric_attr != nullptr ? hints->fabric_attr->name : nullptr;
}

// Whether anything that does not depend on addresses speaks against us: no name is looked up in vain.
Status check_attributes(const fi_info& offer, uint32_t version, const fi_info* hints) {
  InfoPtr named(duplicate_info(&offer));
  if (named == nullptr) return Status(-FI_ENOMEM);
  const char* domain = hinted_domain(hints);
  const char* fabric = hinted_fabric(hints);
  if (!set_name(named->domain_attr->name, domain != nullptr ? domain : kAnyDomain) ||
      !set_name(named->fabric_attr->name, fabric != nullptr ? fabric : kAnyFabric))
    return Status(-FI_ENOMEM);
  if (hints != nullptr) named->addr_format = hints->addr_format;
  return check_info(*named, version, hints, &provider());
}

// ---- Addresses ----

// One fi_getinfo call's view of addresses.
class Query {
 public:
  Query(const fi_info* hints, uint64_t flags) : hints_(hints), source_named_(flags & FI_SOURCE), flags_(flags) {}

  Status prepare(const Parameters& parameters);
  Status read(const char* node, const char* service);
  std::vector<Candidate> candidates() const;

 private:
  bool family_fits(int family) const noexcept { return family_ == AF_UNSPEC || family == family_; }
  Result<std::vector<Address>> look_up(const char* node, const char* service) const;
  const Interface* interface_of(const Address& address) const;
  void add_source(std::vector<Candidate>& list, const Address& source, const Address& destination) const;
  void add_route(std::vector<Candidate>& list, const Address& destination) const;
  void add_each_interface(std::vector<Candidate>& list, int family, uint16_t port) const;

  const fi_info* const hints_;
  const bool source_named_;
  const uint64_t flags_;
  int family_ = AF_UNSPEC;
  bool one_interface_ = false;  // the caller or the administrator named it
  std::vector<Interface> interfaces_;
  std::vector<Address> sources_;
  std::vector<Address> destinations_;
};

Status Query::prepare(const Parameters& parameters) {
  switch (hints_ != nullptr ? hints_->addr_format : static_cast<uint32_t>(FI_FORMAT_UNSPEC)) {
    case FI_FORMAT_UNSPEC:
    case FI_SOCKADDR:
    case FI_SOCKADDR_IP:
      break;
    case FI_SOCKADDR_IN:
      family_ = AF_INET;
      break;
    case FI_SOCKADDR_IN6:
      family_ = AF_INET6;
      break;
    default:
      refuse(fmt::format("hints ask for addr_format {}, tcp has internet addresses only", hints_->addr_format));
      return Status(-FI_ENODATA);
  }
  auto found = local_interfaces();
  if (!found) return found.error();
  interfaces_ = std::move(*found);
  std::erase_if(interfaces_, [&](const Interface& interface) {
    return !family_fits(interface.address.family()) ||
           (!parameters.interface.empty() && interface.name != parameters.interface);
  });
  one_interface_ =
      !parameters.interface.empty() || hinted_domain(hints_) != nullptr || hinted_fabric(hints_) != nullptr;
  if (interfaces_.empty() && !parameters.interface.empty())
    refuse(fmt::format("FI_TCP_IFACE names {}, which has no usable address", parameters.interface));
  return interfaces_.empty() ? Status(-FI_ENODATA) : Status();
}

Result<std::vector<Address>> Query::look_up(const char* node, const char* service) const {
  if (node != nullptr && std::strstr(node, "://") != nullptr) {  // FI_ADDR_STR
    if (service != nullptr) return failure(FI_EINVAL);
    const auto address = Address::parse(node);
    if (!address) return failure(FI_ENODATA);
    return std::vector{*address};
  }
  return resolve(node, service,
                 {.passive = source_named_, .numeric = (flags_ & FI_NUMERICHOST) != 0, .family = family_});
}

// Node and service name the destination, or the source with FI_SOURCE; hints say the rest.
Status Query::read(const char* node, const char* service) {
  const bool named = node != nullptr || service != nullptr;
  if (source_named_ && !named) return Status(-FI_EINVAL);
  if (named) {
    auto found = look_up(node, service);
    if (!found) {
      refuse(fmt::format("{}:{} is no address that can be resolved", node != nullptr ? node : "",
                         service != nullptr ? service : ""));
      return found.error();
    }
    (source_named_ ? sources_ : destinations_) = std::move(*found);
  }
  if (hints_ == nullptr) return Status();
  auto take = [this](std::vector<Address>& list, const void* address, size_t len) {
    const auto given = Address::from(address, len);
    if (given && family_fits(given->family())) list.push_back(*given);
    return given.has_value();
  };
  if (!source_named_ && hints_->src_addr != nullptr && !take(sources_, hints_->src_addr, hints_->src_addrlen))
    return Status(-FI_ENODATA);
  if ((source_named_ || !named) && hints_->dest_addr != nullptr &&
      !take(destinations_, hints_->dest_addr, hints_->dest_addrlen))
    return Status(-FI_ENODATA);
  return Status();
}

const Interface* Query::interface_of(const Address& address) const {
  for (const Interface& interface : interfaces_)
    if (interface.address.same_host(address)) return &interface;
  // All of 127.0.0.0/8 is ours, not only what the interface shows.
  if (address.is_loopback())
    for (const Interface& interface : interfaces_)
      if (interface.loopback && interface.address.family() == address.family()) return &interface;
  return nullptr;
}

void Query::add_source(std::vector<Candidate>& list, const Address& source, const Address& destination) const {
  if (source.is_any()) {
    if (one_interface_) return add_each_interface(list, source.family(), source.port());
    return list.push_back({source, destination, kAnyFabric, kAnyDomain});
  }
  if (const Interface* interface = interface_of(source))
    list.push_back({source, destination, interface->network(), interface->name});
  else
    refuse(fmt::format("{} is not an address of this host or of the interface asked for", source.host_string()));
}

void Query::add_each_interface(std::vector<Candidate>& list, int family, uint16_t port) const {
  for (const Interface& interface : interfaces_) {
    if (family != AF_UNSPEC && interface.address.family() != family) continue;
    Address source = interface.address;
    source.set_port(port);
    list.push_back({source, Address(), interface.network(), interface.name});
  }
}

// The kernel's routing table says which local address packets to `destination` bear.
void Query::add_route(std::vector<Candidate>& list, const Address& destination) const {
  sockaddr_storage name;
  socklen_t len = sizeof name;
  const int result = net::route(destination.data(), destination.size(), reinterpret_cast<sockaddr*>(&name), &len);
  if (result < 0) return refuse(fmt::format("no route to {}: {}", destination.host_string(), fi_strerror(-result)));
  auto source = Address::from(&name, len);
  if (!source) return;
  source->set_port(0);
  if (const Interface* interface = interface_of(*source)) {
    list.push_back({*source, destination, interface->network(), interface->name});
    return;
  }
  // The route leaves by an interface that was not asked for: the one asked for may do as well.
  for (const Interface& interface : interfaces_)
    if (interface.address.family() == destination.family() && !interface.address.is_link_local())
      return list.push_back({interface.address, destination, interface.network(), interface.name});
}

std::vector<Candidate> Query::candidates() const {
  std::vector<Candidate> list;
  if (!sources_.empty()) {
    for (const Address& source : sources_) {
      const auto destination = std::find_if(destinations_.begin(), destinations_.end(),
                                            [&](const Address& to) { return to.family() == source.family(); });
      if (destination != destinations_.end())
        add_source(list, source, *destination);
      else if (destinations_.empty())
        add_source(list, source, Address());
    }
  } else if (!destinations_.empty()) {
    for (const Address& destination : destinations_) add_route(list, destination);
  } else {
    add_each_interface(list, AF_UNSPEC, 0);
  }
  return list;
}

// Null when memory runs out.
InfoPtr make_info(const fi_info& offer, const Candidate& candidate) {
  InfoPtr info(duplicate_info(&offer));
  if (info == nullptr) return info;
  if (info->addr_format == FI_FORMAT_UNSPEC) info->addr_format = candidate.source.format();
  const bool complete =
      set_name(info->fabric_attr->name, candidate.fabric.c_str()) &&
      set_name(info->domain_attr->name, candidate.domain.c_str()) &&
      set_address(info->src_addr, info->src_addrlen, candidate.source) &&
      (!candidate.destination || set_address(info->dest_addr, info->dest_addrlen, candidate.destination));
  return complete ? std::move(info) : nullptr;
}

}  // namespace

int getinfo(uint32_t version, const char* node, const char* service, uint64_t flags, const fi_info* hints,
            fi_info** result) {
  const Parameters parameters = Parameters::read();
  const InfoPtr offer = make_offer(version, hints, parameters);
  if (offer == nullptr) return -FI_ENOMEM;
  if (Status status = check_attributes(*offer, version, hints); !status.ok()) return status.code();
  Query query(hints, flags);
  if (Status status = query.prepare(parameters); !status.ok()) return status.code();
  if (Status status = query.read(node, service); !status.ok()) return status.code();

  InfoPtr list;
  fi_info* last = nullptr;
  for (const Candidate& candidate : query.candidates()) {
    InfoPtr info = make_info(*offer, candidate);
    if (info == nullptr) return -FI_ENOMEM;
    if (!check_info(*info, version, hints, &provider()).ok()) continue;
    apply_hints(*info, version, hints);
    fi_info* const added = info.release();
    if (last == nullptr)
      list.reset(added);
    else
      last->next = added;
    last = added;
  }
  if (list == nullptr) return -FI_ENODATA;
  *result = list.release();
  return 0;
}

}  // namespace weft::tcp
