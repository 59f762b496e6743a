// SPDX-License-Identifier: BSD-2-Clause
// The answer of verbs to fi_getinfo(3): one info for each matching device, port and address, or for each destination
// the source that the system's routing table names. Nothing is sent: the route itself is resolved by fi_connect.
//
// No lock is held here, because resolving names may take long.
#include <fmt/format.h>
#include <rdma/providers/fi_log.h>

#include <algorithm>
#include <cstring>

#include "base/socket.h"
#include "objects/attributes.h"
#include "objects/info.h"
#include "objects/named_addresses.h"
#include "verbs/device/gids.h"
#include "verbs/device/logging.h"
#include "verbs/discovery/discovery.h"

namespace weft::verbs {
namespace {

// Names in passive infos that several devices can serve.
constexpr const char* kAnyDomain = "verbs_any_domain";
constexpr const char* kAnyFabric = "verbs_any_fabric";

// One possible result.
struct Candidate {
  const Source* source;
  CmAddress local;        // the source's, with the requested port, or a wildcard
  CmAddress destination;  // empty: none
  bool any_device = false;
  Service service = Service::kConnections;
};

void refuse(const std::string& reason) {
  FI_INFO(&provider(), FI_LOG_CORE, "%s\n", reason.c_str());
}

// The source address of packets to `destination`. Nothing is sent.
Result<CmAddress> route_source(CmAddress destination) noexcept {
  if (destination.port() == 0) destination.set_port(1);  // any will do
  sockaddr_storage name{};
  socklen_t len = sizeof name;
  const int result = net::route(destination.data(), static_cast<socklen_t>(destination.size()),
                                reinterpret_cast<sockaddr*>(&name), &len);
  if (result < 0) return failure(Status(result));
  CmAddress local = CmAddress::from(reinterpret_cast<const sockaddr*>(&name));
  local.set_port(0);
  return local;
}

// The addresses of one fi_getinfo call.
class Query {
 public:
  Query(const std::vector<Source>& sources, const fi_info* hints, uint64_t flags)
      : sources_(sources), hints_(hints), flags_(flags) {}

  Status read(const char* node, const char* service) {
    const int family = format() == FI_SOCKADDR_IN ? AF_INET : format() == FI_SOCKADDR_IN6 ? AF_INET6 : AF_UNSPEC;
    return named_.read(
        node, service, flags_, format() == FI_ADDR_IB_UD ? nullptr : hints_, family,
        [](const void* address, size_t len) { return CmAddress::from(FI_FORMAT_UNSPEC, address, len); },
        [this](const CmAddress& address) { return address.fits(format()); }, refuse);
  }

  // Whether any local address is of the format in the hints.
  bool knows_format() const {
    if (format() == FI_ADDR_IB_UD) return true;
    if (std::ranges::any_of(sources_, [this](const Source& source) { return source.address.fits(format()); }))
      return true;
    refuse(format() == FI_SOCKADDR_IB
               ? "hints request FI_SOCKADDR_IB, which only InfiniBand has, and no port here is one of it (or "
                 "FI_VERBS_IFACE is set): RoCE and iWARP take FI_SOCKADDR_IN and FI_SOCKADDR_IN6"
               : "no active RDMA port has an address of the family that hints request");
    return false;
  }

  std::vector<Candidate> candidates() const {
    std::vector<Candidate> list;
    named_.pair([&](const CmAddress& local, const CmAddress& destination) { add_source(list, local, destination); },
                [&](const CmAddress& destination) { add_route(list, destination); }, [&] { add_each(list); });
    return list;
  }

 private:
  uint32_t format() const noexcept {
    return hints_ != nullptr ? hints_->addr_format : static_cast<uint32_t>(FI_FORMAT_UNSPEC);
  }
  const Source* source_of(const CmAddress& address) const {
    for (const Source& source : sources_) {
      const bool same_partition = address.partition() == 0 || source.address.partition() == address.partition();
      if (same_partition && source.address.same_host(address)) return &source;
    }
    return nullptr;
  }

  void add_source(std::vector<Candidate>& list, const CmAddress& local, const CmAddress& destination) const {
    if (local.is_any()) {
      const auto first = std::ranges::find_if(
          sources_, [&](const Source& source) { return source.address.family() == local.family(); });
      if (first == sources_.end())
        return refuse(fmt::format("no RDMA device has an address of the family of {}", local.to_string()));
      const bool one_device = std::ranges::all_of(
          sources_, [&](const Source& source) { return source.device.get() == first->device.get(); });
      return list.push_back({&*first, local, destination, !one_device});
    }
    if (const Source* source = source_of(local))
      list.push_back({source, local, destination});
    else
      refuse(fmt::format("{} is not an address of an active RDMA port", local.to_string()));
  }

  void add_each(std::vector<Candidate>& list) const {
    for (const Source& source : sources_) {
      if (!source.address.fits(format())) continue;
      // Native InfiniBand addresses are offered only if the hints request that format.
      if (source.address.is_ib() && format() == FI_FORMAT_UNSPEC) continue;
      list.push_back({&source, source.address, CmAddress()});
    }
  }

  void add_route(std::vector<Candidate>& list, const CmAddress& destination) const {
    if (destination.is_ib()) {
      for (const Source& source : sources_)
        if (source.address.is_ib()) list.push_back({&source, source.address, destination});
      return;
    }
    const auto local = route_source(destination);
    if (!local)
      return refuse(fmt::format("no route to {}: {}", destination.to_string(), fi_strerror(local.error().error())));
    if (const Source* source = source_of(*local)) return list.push_back({source, *local, destination});
    // The route uses an interface without RDMA, or one that parameters exclude: another source may reach the peer too.
    const char* const domain = or_none(or_none(hints_).domain_attr).name;
    const std::string device =
        domain != nullptr ? device_name(domain) : std::string();  // empty: no device has this name
    const auto other = std::ranges::find_if(sources_, [&](const Source& source) {
      return device == source.device->name() && source.address.family() == destination.family() && source.routable;
    });
    if (other != sources_.end()) return list.push_back({&*other, other->address, destination});
    refuse(fmt::format("the route to {} leaves from {}, which is not an address of an active RDMA port",
                       destination.to_string(), local->to_string()));
  }

  const std::vector<Source>& sources_;
  const fi_info* const hints_;
  const uint64_t flags_;
  NamedAddresses<CmAddress> named_;
};

// Null: out of memory.
InfoPtr make_info(const Candidate& candidate, uint32_t version, const fi_info* hints, const Parameters& parameters) {
  InfoPtr info = make_offer(*candidate.source, version, hints, parameters, candidate.service);
  if (info == nullptr) return info;
  if (candidate.service == Service::kNativeDatagrams) {
    IbUdAddress name{};
    name.gid = candidate.source->gid;
    name.lid = candidate.source->port.attr.lid;
    const bool asked = hints != nullptr && hints->addr_format == FI_ADDR_IB_UD && hints->dest_addr != nullptr &&
                       hints->dest_addrlen == sizeof name;
    const bool named =
        weft::set_address(info->src_addr, info->src_addrlen, &name, sizeof name) &&
        (!asked || weft::set_address(info->dest_addr, info->dest_addrlen, hints->dest_addr, sizeof name));
    return named ? std::move(info) : nullptr;
  }
  if (candidate.any_device) {
    if (!set_name(info->domain_attr->name, kAnyDomain) || !set_name(info->fabric_attr->name, kAnyFabric))
      return nullptr;
    if (info->nic != nullptr) fi_close(&info->nic->fid);
    info->nic = nullptr;
  }
  const bool complete =
      set_address(info->src_addr, info->src_addrlen, candidate.local) &&
      (!candidate.destination || set_address(info->dest_addr, info->dest_addrlen, candidate.destination));
  return complete ? std::move(info) : nullptr;
}

bool wants(const fi_info* hints, fi_ep_type type) noexcept {
  return hints == nullptr || hints->ep_attr == nullptr || hints->ep_attr->type == FI_EP_UNSPEC ||
         hints->ep_attr->type == type;
}

// Whether the GID is the one that the hints name as source.
bool fits_native(const Source& native, const fi_info* hints) noexcept {
  if (hints == nullptr || hints->addr_format != FI_ADDR_IB_UD || hints->src_addr == nullptr) return true;
  return hints->src_addrlen >= sizeof native.gid && std::memcmp(hints->src_addr, &native.gid, sizeof native.gid) == 0;
}

// Datagram services: FI_ADDR_IB_UD, the format of other libraries, comes first unless an IP address is given.
void add_datagrams(const Query& query, const std::vector<Source>& natives, const fi_info* hints, bool named,
                   std::vector<Candidate>& list) {
  const uint32_t format = hints != nullptr ? hints->addr_format : static_cast<uint32_t>(FI_FORMAT_UNSPEC);
  named = named || (hints != nullptr && (hints->src_addr != nullptr || hints->dest_addr != nullptr));
  const bool native = format == FI_ADDR_IB_UD || (format == FI_FORMAT_UNSPEC && !named);
  if (native)
    for (const Source& each : natives)
      if (fits_native(each, hints)) list.push_back({&each, CmAddress(), CmAddress(), false, Service::kNativeDatagrams});
  if (format == FI_ADDR_IB_UD) return;
  for (Candidate candidate : query.candidates()) {
    const bool ip = !candidate.local.is_ib() && !candidate.destination.is_ib();
    if (!ip || candidate.any_device || candidate.source->port.transport == Transport::kIwarp) continue;
    if (candidate.local.is_any()) {  // a queue pair sends from one address only
      const std::uint16_t port = candidate.local.port();
      candidate.local = candidate.source->address;
      candidate.local.set_port(port);
    }
    candidate.service = Service::kDatagrams;
    list.push_back(candidate);
  }
}

}  // namespace

int getinfo(uint32_t version, const char* node, const char* service, uint64_t flags, const fi_info* hints,
            fi_info** result) {
  if (!wants(hints, FI_EP_MSG) && !wants(hints, FI_EP_DGRAM)) {
    refuse("hints request an endpoint type that verbs does not offer: it has FI_EP_MSG and FI_EP_DGRAM");
    return -FI_ENODATA;
  }
  const Parameters parameters = Parameters::read();
  std::string why;
  const auto sources = discover(parameters, why);
  if (!sources) {
    FI_INFO(&provider(), FI_LOG_CORE, "nothing to offer: %s\n", why.c_str());
    return sources.error().error() == FI_EMFILE ? -FI_EMFILE : -FI_ENODATA;
  }
  if (const std::string low = low_memlock(); !low.empty()) FI_WARN(&provider(), FI_LOG_CORE, "%s\n", low.c_str());
  Query query(sources->addresses, hints, flags);
  if (Status status = query.read(node, service); !status.ok()) return status.code();

  if (!query.knows_format()) return -FI_ENODATA;
  std::vector<Candidate> candidates;
  const bool native_only = hints != nullptr && hints->addr_format == FI_ADDR_IB_UD;
  if (wants(hints, FI_EP_MSG) && !native_only) candidates = query.candidates();
  if (wants(hints, FI_EP_DGRAM)) {
    add_datagrams(query, sources->natives, hints, node != nullptr, candidates);
    const Source& first = sources->addresses.front();
    if (candidates.empty() && first.port.transport == Transport::kIwarp)
      refuse(fmt::format("{} is an iWARP device, which has connections and no datagrams", first.device->name()));
  }
  InfoList list(version, hints, &provider());
  for (const Candidate& candidate : candidates) {
    InfoPtr info = make_info(candidate, version, hints, parameters);
    if (info == nullptr) return -FI_ENOMEM;
    list.add(std::move(info));
  }
  return list.release_to(result);
}

}  // namespace weft::verbs
