// SPDX-License-Identifier: BSD-2-Clause
// Addresses and names of fi_getinfo's results; see ip_info.h.
#include "objects/ip_info.h"

#include <fmt/format.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>
#include <sys/socket.h>

#include <string_view>

#include "base/unique_fd.h"
#include "objects/named_addresses.h"

namespace weft {
namespace {

const char* hinted_domain(const fi_info* hints) {
  return or_none(or_none(hints).domain_attr).name;
}
const char* hinted_fabric(const fi_info* hints) {
  return or_none(or_none(hints).fabric_attr).name;
}

// Checks the hints that do not depend on addresses first, so that no name is looked up in vain.
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

// Whether the system lets a program use the address, although no interface that is up has it: that of an interface that
// is down, a route of type local, or ip_nonlocal_bind; ip(7).
bool is_bindable(Address address) {
  if (address.is_multicast()) return false;
  address.set_port(0);
  const UniqueFd socket(::socket(address.family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  return socket && ::bind(socket.get(), address.data(), address.size()) == 0;
}

// One fi_getinfo call's view of addresses.
class Query {
 public:
  Query(const IpProvider& how, const fi_info* hints, uint64_t flags) : how_(how), hints_(hints), flags_(flags) {}

  Status prepare();
  Status read(const char* node, const char* service);
  std::vector<IpCandidate> candidates() const;

 private:
  void refuse(const std::string& reason) const { FI_INFO(how_.provider, FI_LOG_CORE, "%s\n", reason.c_str()); }
  bool family_fits(int family) const noexcept { return family_ == AF_UNSPEC || family == family_; }
  const Interface* interface_of(const Address& address) const;
  void add(std::vector<IpCandidate>& list, const Address& source, const Address& destination,
           const Interface& interface) const;
  void add_source(std::vector<IpCandidate>& list, const Address& source, const Address& destination) const;
  void add_route(std::vector<IpCandidate>& list, const Address& destination) const;
  void add_each_interface(std::vector<IpCandidate>& list, int family, uint16_t port, const Address& destination) const;

  const IpProvider& how_;
  const fi_info* const hints_;
  const uint64_t flags_;
  int family_ = AF_UNSPEC;
  bool one_interface_ = false;  // named by the caller or the administrator
  bool any_names_ = false;      // the hints have the names of sources without an interface
  std::vector<Interface> interfaces_;
  NamedAddresses<Address> named_;
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
      refuse(fmt::format("hints request addr_format {}, {} has internet addresses only", hints_->addr_format,
                         how_.provider->name));
      return Status(-FI_ENODATA);
  }
  auto found = local_interfaces();
  if (!found) return found.error();
  interfaces_ = std::move(*found);
  std::erase_if(interfaces_, [&](const Interface& interface) {
    return !family_fits(interface.address.family()) || (!how_.interface.empty() && interface.name != how_.interface);
  });
  const auto has = [](const char* hint, std::string_view name) { return hint != nullptr && hint == name; };
  any_names_ = has(hinted_domain(hints_), how_.any_domain) || has(hinted_fabric(hints_), how_.any_fabric);
  const bool named = hinted_domain(hints_) != nullptr || hinted_fabric(hints_) != nullptr;
  one_interface_ = !how_.interface.empty() || (named && !any_names_);
  if (!interfaces_.empty()) return Status();
  if (!how_.interface.empty())
    refuse(fmt::format("{} names {}, which has no usable address", how_.interface_parameter, how_.interface));
  else
    refuse("no interface that is up has an address of the requested kind");
  return one_interface_ ? Status(-FI_ENODATA) : Status();  // without an interface a program may still bind its address
}

Status Query::read(const char* node, const char* service) {
  return named_.read(
      node, service, flags_, hints_, family_,
      [](const void* address, size_t len) { return Address::from(address, len); },
      [this](const Address& address) { return family_fits(address.family()); },
      [this](const std::string& reason) { refuse(reason); });
}

const Interface* Query::interface_of(const Address& address) const {
  for (const Interface& interface : interfaces_)
    if (interface.address.same_host(address)) return &interface;
  // All of 127.0.0.0/8 is local, not only the interface's address.
  if (address.is_loopback())
    for (const Interface& interface : interfaces_)
      if (interface.loopback && interface.address.family() == address.family()) return &interface;
  return nullptr;
}

// An earlier answer that is repeated as hints has the names of any interface.
void Query::add(std::vector<IpCandidate>& list, const Address& source, const Address& destination,
                const Interface& interface) const {
  list.push_back({source, destination, any_names_ ? how_.any_fabric : interface.network(),
                  any_names_ ? how_.any_domain : interface.name, interface.mtu});
}

void Query::add_source(std::vector<IpCandidate>& list, const Address& source, const Address& destination) const {
  if (source.is_any() && one_interface_) return add_each_interface(list, source.family(), source.port(), destination);
  if (const Interface* interface = interface_of(source)) return add(list, source, destination, *interface);
  const bool is_wildcard = source.is_any() && !interfaces_.empty();
  if (is_wildcard || (!one_interface_ && is_bindable(source)))
    return list.push_back({source, destination, how_.any_fabric, how_.any_domain});
  refuse(fmt::format("{} is not an address of this host or of the interface asked for", source.host_string()));
}

void Query::add_each_interface(std::vector<IpCandidate>& list, int family, uint16_t port,
                               const Address& destination) const {
  for (const Interface& interface : interfaces_) {
    if (family != AF_UNSPEC && interface.address.family() != family) continue;
    Address source = interface.address;
    source.set_port(port);
    add(list, source, destination, interface);
  }
}

// The kernel's routing table selects the source address of packets to `destination`.
void Query::add_route(std::vector<IpCandidate>& list, const Address& destination) const {
  sockaddr_storage name;
  socklen_t len = sizeof name;
  const int result = how_.route(destination.data(), destination.size(), reinterpret_cast<sockaddr*>(&name), &len);
  if (result < 0) return refuse(fmt::format("no route to {}: {}", destination.host_string(), fi_strerror(-result)));
  auto source = Address::from(&name, len);
  if (!source) return;
  source->set_port(0);
  if (const Interface* interface = interface_of(*source)) return add(list, *source, destination, *interface);
  // No interface has an IPv4-mapped address, but the system sends from it.
  if (!one_interface_) return list.push_back({*source, destination, how_.any_fabric, how_.any_domain});
  // The route leaves by an interface that was not requested: the requested one may reach the destination as well.
  for (const Interface& interface : interfaces_)
    if (interface.address.family() == destination.family() && !interface.address.is_link_local())
      return add(list, interface.address, destination, interface);
}

std::vector<IpCandidate> Query::candidates() const {
  std::vector<IpCandidate> list;
  named_.pair([&](const Address& source, const Address& destination) { add_source(list, source, destination); },
              [&](const Address& destination) { add_route(list, destination); },
              [&] { add_each_interface(list, AF_UNSPEC, 0, Address()); });
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
      set_address(info->src_addr, info->src_addrlen, candidate.source.data(), candidate.source.size()) &&
      (!candidate.destination ||
       set_address(info->dest_addr, info->dest_addrlen, candidate.destination.data(), candidate.destination.size()));
  return complete ? std::move(info) : nullptr;
}

}  // namespace

Status answer_with_addresses(const IpProvider& how, const fi_info& offer, const char* node, const char* service,
                             uint64_t flags, InfoList& list) {
  if (Status status = check_attributes(how, offer, list.version(), list.hints()); !status.ok()) return status;
  Query query(how, list.hints(), flags);
  if (Status status = query.prepare(); !status.ok()) return status;
  if (Status status = query.read(node, service); !status.ok()) return status;
  for (const IpCandidate& candidate : query.candidates()) {
    InfoPtr info = make_info(offer, candidate);
    if (info == nullptr) return Status(-FI_ENOMEM);
    if (how.adjust) how.adjust(*info, candidate);
    list.add(std::move(info));
  }
  return {};
}

}  // namespace weft
