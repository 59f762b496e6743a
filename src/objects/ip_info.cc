// SPDX-License-Identifier: BSD-2-Clause
// Addresses and names of fi_getinfo's results; see ip_info.h.
#include "objects/ip_info.h"

#include <fmt/format.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>

#include <algorithm>
#include <cstring>

#include "objects/attributes.h"

namespace weft {
namespace {

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
Status check_attributes(const IpProvider& how, const fi_info& offer, uint32_t version, const fi_info* hints) {
  InfoPtr named(duplicate_info(&offer));
  if (named == nullptr) return Status(-FI_ENOMEM);
  const char* domain = hinted_domain(hints);
  const char* fabric = hinted_fabric(hints);
  if (!set_name(named->domain_attr->name, domain != nullptr ? domain : how.any_domain) ||
      !set_name(named->fabric_attr->name, fabric != nullptr ? fabric : how.any_fabric))
    return Status(-FI_ENOMEM);
  if (hints != nullptr) named->addr_format = hints->addr_format;
  return check_info(*named, version, hints, how.provider);
}

// ---- Addresses ----

// One fi_getinfo call's view of addresses.
class Query {
 public:
  Query(const IpProvider& how, const fi_info* hints, uint64_t flags)
      : how_(how), hints_(hints), source_named_(flags & FI_SOURCE), flags_(flags) {}

  Status prepare();
  Status read(const char* node, const char* service);
  std::vector<IpCandidate> candidates() const;

 private:
  void refuse(const std::string& reason) const { FI_INFO(how_.provider, FI_LOG_CORE, "%s\n", reason.c_str()); }
  bool family_fits(int family) const noexcept { return family_ == AF_UNSPEC || family == family_; }
  Result<std::vector<Address>> look_up(const char* node, const char* service) const;
  const Interface* interface_of(const Address& address) const;
  void add_source(std::vector<IpCandidate>& list, const Address& source, const Address& destination) const;
  void add_route(std::vector<IpCandidate>& list, const Address& destination) const;
  void add_each_interface(std::vector<IpCandidate>& list, int family, uint16_t port) const;

  const IpProvider& how_;
  const fi_info* const hints_;
  const bool source_named_;
  const uint64_t flags_;
  int family_ = AF_UNSPEC;
  bool one_interface_ = false;  // the caller or the administrator named it
  bool unnamed_ = false;        // a source without a host means each interface
  std::vector<Interface> interfaces_;
  std::vector<Address> sources_;
  std::vector<Address> destinations_;
};

Status Query::prepare() {
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
      refuse(fmt::format("hints ask for addr_format {}, {} has internet addresses only", hints_->addr_format,
                         how_.provider->name));
      return Status(-FI_ENODATA);
  }
  auto found = local_interfaces();
  if (!found) return found.error();
  interfaces_ = std::move(*found);
  std::erase_if(interfaces_, [&](const Interface& interface) {
    return !family_fits(interface.address.family()) || (!how_.interface.empty() && interface.name != how_.interface);
  });
  one_interface_ = !how_.interface.empty() || hinted_domain(hints_) != nullptr || hinted_fabric(hints_) != nullptr;
  if (interfaces_.empty() && !how_.interface.empty())
    refuse(fmt::format("{} names {}, which has no usable address", how_.interface_parameter, how_.interface));
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
  unnamed_ = how_.each_interface && source_named_ && node == nullptr;
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

void Query::add_source(std::vector<IpCandidate>& list, const Address& source, const Address& destination) const {
  if (source.is_any()) {
    if (one_interface_ || unnamed_) return add_each_interface(list, source.family(), source.port());
    return list.push_back({source, destination, how_.any_fabric, how_.any_domain});
  }
  if (const Interface* interface = interface_of(source))
    list.push_back({source, destination, interface->network(), interface->name, interface->mtu});
  else
    refuse(fmt::format("{} is not an address of this host or of the interface asked for", source.host_string()));
}

void Query::add_each_interface(std::vector<IpCandidate>& list, int family, uint16_t port) const {
  for (const Interface& interface : interfaces_) {
    if (family != AF_UNSPEC && interface.address.family() != family) continue;
    Address source = interface.address;
    source.set_port(port);
    list.push_back({source, Address(), interface.network(), interface.name, interface.mtu});
  }
}

// The kernel's routing table says which local address packets to `destination` bear.
void Query::add_route(std::vector<IpCandidate>& list, const Address& destination) const {
  sockaddr_storage name;
  socklen_t len = sizeof name;
  const int result = how_.route(destination.data(), destination.size(), reinterpret_cast<sockaddr*>(&name), &len);
  if (result < 0) return refuse(fmt::format("no route to {}: {}", destination.host_string(), fi_strerror(-result)));
  auto source = Address::from(&name, len);
  if (!source) return;
  source->set_port(0);
  if (const Interface* interface = interface_of(*source)) {
    list.push_back({*source, destination, interface->network(), interface->name, interface->mtu});
    return;
  }
  // The route leaves by an interface that was not asked for: the one asked for may do as well.
  for (const Interface& interface : interfaces_)
    if (interface.address.family() == destination.family() && !interface.address.is_link_local())
      return list.push_back({interface.address, destination, interface.network(), interface.name, interface.mtu});
}

std::vector<IpCandidate> Query::candidates() const {
  std::vector<IpCandidate> list;
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
InfoPtr make_info(const fi_info& offer, const IpCandidate& candidate) {
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

int answer_with_addresses(const IpProvider& how, const fi_info& offer, uint32_t version, const char* node,
                          const char* service, uint64_t flags, const fi_info* hints, fi_info** result) {
  if (Status status = check_attributes(how, offer, version, hints); !status.ok()) return status.code();
  Query query(how, hints, flags);
  if (Status status = query.prepare(); !status.ok()) return status.code();
  if (Status status = query.read(node, service); !status.ok()) return status.code();

  InfoPtr list;
  fi_info* last = nullptr;
  for (const IpCandidate& candidate : query.candidates()) {
    InfoPtr info = make_info(offer, candidate);
    if (info == nullptr) return -FI_ENOMEM;
    if (how.adjust) how.adjust(*info, candidate);
    if (!check_info(*info, version, hints, how.provider).ok()) continue;
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

}  // namespace weft
