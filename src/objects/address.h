// SPDX-License-Identifier: BSD-2-Clause
// IPv4 and IPv6 transport addresses, name resolution and the host's interfaces; fi_getinfo(3) (node, service,
// addressing formats) and getaddrinfo(3) govern.
#pragma once

#include <netinet/in.h>
#include <sys/socket.h>

#include <compare>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace weft {

// A value of 32 bytes. Empty (family AF_UNSPEC) unless made from an address. Unused bytes are zero.
class Address {
 public:
  Address() noexcept = default;
  // The wildcard address of AF_INET or AF_INET6.
  static Address any(int family, uint16_t port) noexcept;
  static Address loopback(int family, uint16_t port) noexcept;
  // `bytes` is an in_addr or an in6_addr; `link` is the scope of a link-local address.
  static Address of_host(int family, const void* bytes, uint32_t link) noexcept;
  // Copies a sockaddr_in or sockaddr_in6 of at least its full length; -FI_EINVAL for null, short or of another family.
  static Result<Address> from(const void* sockaddr, size_t length) noexcept;
  // As above, when the caller guarantees only the family's own length, as address vectors do.
  static Result<Address> from(const void* sockaddr) noexcept;

  const sockaddr* data() const noexcept { return &any_; }
  socklen_t size() const noexcept;  // bytes of the sockaddr: 16, 28 or, if empty, 0
  int family() const noexcept { return any_.sa_family; }
  explicit operator bool() const noexcept { return size() != 0; }
  uint16_t port() const noexcept { return ntohs(in_.sin_port); }  // host byte order
  void set_port(uint16_t port) noexcept { in_.sin_port = htons(port); }
  bool is_any() const noexcept {  // wildcard
    return family() == AF_INET ? in_.sin_addr.s_addr == INADDR_ANY : IN6_IS_ADDR_UNSPECIFIED(&in6_.sin6_addr);
  }
  bool is_loopback() const noexcept {
    return family() == AF_INET ? ntohl(in_.sin_addr.s_addr) >> 24 == IN_LOOPBACKNET
                               : IN6_IS_ADDR_LOOPBACK(&in6_.sin6_addr);
  }
  bool is_link_local() const noexcept {
    return family() == AF_INET ? ntohl(in_.sin_addr.s_addr) >> 16 == 0xA9FE  // 169.254/16
                               : IN6_IS_ADDR_LINKLOCAL(&in6_.sin6_addr);
  }
  bool is_multicast() const noexcept {
    return family() == AF_INET ? IN_MULTICAST(ntohl(in_.sin_addr.s_addr)) : IN6_IS_ADDR_MULTICAST(&in6_.sin6_addr);
  }
  // FI_SOCKADDR_IN or FI_SOCKADDR_IN6.
  uint32_t format() const noexcept;
  // Compares hosts; ports are ignored.
  bool same_host(const Address& other) const noexcept;
  // Counts the host part up, as a number; fi_av_insertsym. Wraps at the end of the address space.
  Address next_host(uint64_t steps) const noexcept;

  // "127.0.0.1:4711", "[::1]:4711", "[fe80::1%eth0]:4711"; "(none)" if empty.
  std::string to_string() const noexcept;
  // The host alone: "127.0.0.1", "::1".
  std::string host_string() const;
  // Inverse of to_string, also "fi_sockaddr_in://127.0.0.1:4711" and "fi_sockaddr_in6://[::1]:4711" (FI_ADDR_STR).
  static Result<Address> parse(const std::string& text);
  // In the form of FI_ADDR_STR and fi_av_straddr.
  std::string to_uri() const;

  // Family, host, scope and port; flow information is ignored.
  friend bool operator==(const Address& a, const Address& b) noexcept { return (a <=> b) == 0; }
  friend std::strong_ordering operator<=>(const Address& a, const Address& b) noexcept;
  size_t hash() const noexcept;

 private:
  union {
    sockaddr any_;
    sockaddr_in in_;
    sockaddr_in6 in6_ = {};
  };
  static_assert(offsetof(sockaddr_in, sin_port) == offsetof(sockaddr_in6, sin6_port));
};

// One address of an interface that is up.
struct Interface {
  std::string name;
  Address address;      // port 0
  unsigned prefix = 0;  // bits
  size_t mtu = 0;       // bytes; 0 if unknown
  bool loopback = false;

  // "192.0.2.0/24": names the network, as fi_fabric_attr's name of IP providers does. For a loopback address it is that
  // address alone, "127.0.0.1/32", as in libfabric: ranks on both libraries may compare the names.
  std::string network() const;
};

// Routable addresses first, link-local next, loopback last; within that the system's order.
Result<std::vector<Interface>> local_interfaces();

// Resolves the node and service of fi_getinfo; one of them may be null. `passive`: a null node is the wildcard, not the
// loopback address. `numeric`: never queries a name server. `family`: AF_UNSPEC for both. May block unless numeric, so
// it is called without a lock. -FI_ENODATA when the name is unknown.
struct Resolve {
  bool passive = false;
  bool numeric = false;
  int family = AF_UNSPEC;
};
Result<std::vector<Address>> resolve(const char* node, const char* service, const Resolve& how);

}  // namespace weft

template <>
struct std::hash<weft::Address> {
  size_t operator()(const weft::Address& address) const noexcept { return address.hash(); }
};
