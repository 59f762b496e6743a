// SPDX-License-Identifier: BSD-2-Clause
// IP addresses: values, text, name resolution; getaddrinfo(3), fi_getinfo(3).
#include "objects/address.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <rdma/fabric.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <memory>
#include <string_view>

namespace weft {

namespace {

constexpr std::string_view kUriIn = "fi_sockaddr_in://";
constexpr std::string_view kUriIn6 = "fi_sockaddr_in6://";

uint64_t mix(uint64_t h) noexcept {
  h ^= h >> 32;
  h *= 0x9E3779B97F4A7C15u;
  return h ^ (h >> 29);
}

uint64_t load_be64(const uint8_t* bytes) noexcept {
  uint64_t value;
  std::memcpy(&value, bytes, sizeof value);
  return be64toh(value);
}
void store_be64(uint8_t* bytes, uint64_t value) noexcept {
  value = htobe64(value);
  std::memcpy(bytes, &value, sizeof value);
}

Status from_resolver(int error) noexcept {
  switch (error) {
    case EAI_MEMORY:
      return Status(-FI_ENOMEM);
    case EAI_SYSTEM:
      return Status::last_errno();
    case EAI_BADFLAGS:
    case EAI_SOCKTYPE:
      return Status(-FI_EINVAL);
    default:  // the name is unknown, for now or for good
      return Status(-FI_ENODATA);
  }
}

}  // namespace

Address Address::any(int family, uint16_t port) noexcept {
  Address address;
  address.any_.sa_family = static_cast<sa_family_t>(family);  // both wildcards are all zeroes
  address.set_port(port);
  return address;
}

Address Address::loopback(int family, uint16_t port) noexcept {
  Address address = any(family, port);
  if (family == AF_INET)
    address.in_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  else
    address.in6_.sin6_addr = in6addr_loopback;
  return address;
}

Address Address::of_host(int family, const void* bytes, uint32_t link) noexcept {
  Address address = any(family, 0);
  if (family == AF_INET) {
    std::memcpy(&address.in_.sin_addr, bytes, sizeof(in_addr));
    return address;
  }
  std::memcpy(&address.in6_.sin6_addr, bytes, sizeof(in6_addr));
  if (address.is_link_local()) address.in6_.sin6_scope_id = link;
  return address;
}

Result<Address> Address::from(const void* sockaddr, size_t length) noexcept {
  if (sockaddr == nullptr || length < sizeof(sa_family_t)) return failure(FI_EINVAL);
  sa_family_t family;
  std::memcpy(&family, sockaddr, sizeof family);
  Address address;
  address.any_.sa_family = family;
  const size_t size = address.size();
  if (size == 0 || length < size) return failure(FI_EINVAL);
  std::memcpy(&address.in6_, sockaddr, size);
  if (family == AF_INET) std::memset(address.in_.sin_zero, 0, sizeof address.in_.sin_zero);
  return address;
}

Result<Address> Address::from(const void* sockaddr) noexcept {
  return from(sockaddr, sizeof(sockaddr_in6));
}

socklen_t Address::size() const noexcept {
  switch (any_.sa_family) {
    case AF_INET:
      return sizeof(sockaddr_in);
    case AF_INET6:
      return sizeof(sockaddr_in6);
    default:
      return 0;
  }
}

uint32_t Address::format() const noexcept {
  return family() == AF_INET ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6;
}

bool Address::same_host(const Address& other) const noexcept {
  Address with_port = other;
  with_port.set_port(port());
  return *this == with_port;
}

Address Address::next_host(uint64_t steps) const noexcept {
  Address next = *this;
  if (family() == AF_INET) {
    next.in_.sin_addr.s_addr = htonl(ntohl(in_.sin_addr.s_addr) + static_cast<uint32_t>(steps));
    return next;
  }
  uint8_t* bytes = next.in6_.sin6_addr.s6_addr;
  const uint64_t low = load_be64(bytes + 8) + steps;
  if (low < steps) store_be64(bytes, load_be64(bytes) + 1);
  store_be64(bytes + 8, low);
  return next;
}

std::strong_ordering operator<=>(const Address& a, const Address& b) noexcept {
  if (const auto order = a.any_.sa_family <=> b.any_.sa_family; order != 0) return order;
  if (a.family() == AF_INET) {
    if (const auto order = ntohl(a.in_.sin_addr.s_addr) <=> ntohl(b.in_.sin_addr.s_addr); order != 0) return order;
  } else if (a.family() == AF_INET6) {
    if (const int order = std::memcmp(&a.in6_.sin6_addr, &b.in6_.sin6_addr, sizeof(in6_addr)); order != 0)
      return order <=> 0;
    if (const auto order = a.in6_.sin6_scope_id <=> b.in6_.sin6_scope_id; order != 0) return order;
  }
  return a.port() <=> b.port();
}

size_t Address::hash() const noexcept {
  const uint64_t head = uint64_t{any_.sa_family} << 16 | in_.sin_port;
  if (family() != AF_INET6) return mix(head << 32 | in_.sin_addr.s_addr);
  const uint8_t* bytes = in6_.sin6_addr.s6_addr;
  return mix(head + mix(load_be64(bytes) + mix(load_be64(bytes + 8))));
}

std::string Address::host_string() const {
  char text[INET6_ADDRSTRLEN + IF_NAMESIZE + 1] = "";
  // Prints scopes, which inet_ntop does not; numeric, so no name server is queried.
  if (::getnameinfo(data(), size(), text, sizeof text, nullptr, 0, NI_NUMERICHOST) != 0) return "(none)";
  return text;
}

std::string Address::to_string() const noexcept try {
  if (size() == 0) return "(none)";
  const std::string host = family() == AF_INET6 ? "[" + host_string() + "]" : host_string();
  return host + ":" + std::to_string(port());
} catch (const std::bad_alloc&) {
  return "(no memory)";  // so short that it needs none
}

std::string Address::to_uri() const {
  return std::string(family() == AF_INET6 ? kUriIn6 : kUriIn) + to_string();
}

Result<Address> Address::parse(const std::string& text) {
  std::string_view rest = text;
  for (std::string_view scheme : {kUriIn, kUriIn6})
    if (rest.starts_with(scheme)) rest.remove_prefix(scheme.size());
  std::string_view host = rest;
  std::string_view port = "0";
  if (rest.starts_with('[')) {
    const size_t end = rest.find(']');
    if (end == rest.npos) return failure(FI_EINVAL);
    host = rest.substr(1, end - 1);
    rest.remove_prefix(end + 1);
    if (!rest.empty() && !rest.starts_with(':')) return failure(FI_EINVAL);
    if (!rest.empty()) port = rest.substr(1);
  } else if (const size_t colon = rest.find(':'); colon != rest.npos) {
    host = rest.substr(0, colon);
    port = rest.substr(colon + 1);
  }
  uint16_t number;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (error != std::errc() || end != port.data() + port.size() || host.empty()) return failure(FI_EINVAL);
  auto found = resolve(std::string(host).c_str(), nullptr, {.numeric = true});
  if (!found) return failure(FI_EINVAL);
  found->front().set_port(number);
  return found->front();
}

Result<std::vector<Address>> resolve(const char* node, const char* service, const Resolve& how) {
  if (node == nullptr && service == nullptr) return failure(FI_EINVAL);
  if (node != nullptr && (std::string_view(node).starts_with(kUriIn) || std::string_view(node).starts_with(kUriIn6))) {
    auto address = Address::parse(node);
    if (!address || service != nullptr) return failure(FI_EINVAL);
    return std::vector{*address};
  }
  addrinfo hints{};
  hints.ai_family = how.family;
  hints.ai_socktype = SOCK_STREAM;  // one result an address instead of one a protocol
  hints.ai_flags = (how.passive ? AI_PASSIVE : 0) | (how.numeric ? AI_NUMERICHOST : 0);
  addrinfo* list = nullptr;
  if (const int error = ::getaddrinfo(node, service, &hints, &list); error != 0) return failure(from_resolver(error));
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(list, &::freeaddrinfo);
  std::vector<Address> found;
  for (const addrinfo* entry = list; entry != nullptr; entry = entry->ai_next) {
    const auto address = Address::from(entry->ai_addr, entry->ai_addrlen);
    if (address && std::find(found.begin(), found.end(), *address) == found.end()) found.push_back(*address);
  }
  if (found.empty()) return failure(FI_ENODATA);
  return found;
}

}  // namespace weft
