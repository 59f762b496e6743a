// SPDX-License-Identifier: BSD-2-Clause
// Addresses: values, text, resolution, interfaces.
#include "objects/address.h"

#include <gtest/gtest.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <set>

namespace weft {
namespace {

TEST(Address, ReadsSocketAddressesOfBothFamilies) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(4711);
  in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  std::memset(in.sin_zero, 0xEE, sizeof in.sin_zero);
  const Address v4 = Address::from(&in, sizeof in).value();
  EXPECT_EQ(v4.to_string(), "127.0.0.1:4711");
  EXPECT_EQ(v4.to_uri(), "fi_sockaddr_in://127.0.0.1:4711");
  EXPECT_EQ(v4.size(), sizeof in);
  EXPECT_EQ(v4.format(), FI_SOCKADDR_IN);
  EXPECT_EQ(v4, Address::loopback(AF_INET, 4711)) << "padding does not count";

  const Address v6 = Address::loopback(AF_INET6, 80);
  EXPECT_EQ(v6.to_string(), "[::1]:80");
  EXPECT_EQ(v6.to_uri(), "fi_sockaddr_in6://[::1]:80");
  EXPECT_EQ(v6.format(), FI_SOCKADDR_IN6);
  EXPECT_EQ(Address::from(v6.data(), v6.size()).value(), v6);
}

TEST(Address, RefusesInvalidAddresses) {
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  EXPECT_EQ(Address::from(nullptr, 16).error().code(), -FI_EINVAL);
  EXPECT_EQ(Address::from(&in6, sizeof(sockaddr_in)).error().code(), -FI_EINVAL) << "too short for its family";
  EXPECT_EQ(Address::from(&in6, 1).error().code(), -FI_EINVAL);
  in6.sin6_family = AF_UNIX;
  EXPECT_EQ(Address::from(&in6).error().code(), -FI_EINVAL);
  EXPECT_FALSE(Address());
  EXPECT_EQ(Address().to_string(), "(none)");
}

TEST(Address, ParsesWhatItPrints) {
  for (const char* text : {"127.0.0.1:4711", "[::1]:80", "10.0.0.1:0", "[fe80::1]:1"})
    EXPECT_EQ(Address::parse(text).value().to_string(), text);
  EXPECT_EQ(Address::parse("fi_sockaddr_in6://[::1]:80").value(), Address::loopback(AF_INET6, 80));
  EXPECT_EQ(Address::parse("127.0.0.1").value(), Address::loopback(AF_INET, 0));
  for (const char* text : {"", ":1", "[::1", "[::1]80", "127.0.0.1:", "127.0.0.1:65536", "127.0.0.1:1x", "localhost:1"})
    EXPECT_FALSE(Address::parse(text)) << text;
}

TEST(Address, ComparesHostsScopesAndPorts) {
  const Address a = Address::loopback(AF_INET, 1);
  Address b = a;
  EXPECT_EQ(std::hash<Address>()(a), std::hash<Address>()(b));
  b.set_port(2);
  EXPECT_NE(a, b);
  EXPECT_LT(a, b);
  EXPECT_TRUE(a.same_host(b));
  EXPECT_FALSE(a.same_host(Address::any(AF_INET, 1)));
  EXPECT_LT(Address::any(AF_INET, 9), a);
  EXPECT_NE(Address::any(AF_INET, 1), Address::any(AF_INET6, 1));
  EXPECT_TRUE(Address::any(AF_INET6, 1).is_any());
  EXPECT_TRUE(Address::loopback(AF_INET6, 1).is_loopback());
  EXPECT_TRUE(Address::parse("169.254.1.2:1").value().is_link_local());
  EXPECT_TRUE(Address::parse("[fe80::1]:1").value().is_link_local());
  EXPECT_TRUE(Address::parse("224.0.0.1:1").value().is_multicast());
  EXPECT_TRUE(Address::parse("239.255.255.255:1").value().is_multicast());
  EXPECT_FALSE(Address::parse("240.0.0.1:1").value().is_multicast());
  EXPECT_FALSE(Address::parse("127.0.0.1:1").value().is_multicast());
  EXPECT_TRUE(Address::parse("[ff15::1]:1").value().is_multicast());
  EXPECT_FALSE(Address::parse("[fe80::1]:1").value().is_multicast());
  EXPECT_FALSE(Address().is_multicast());
}

TEST(Address, NextHostAddsToTheHostPart) {
  EXPECT_EQ(Address::parse("10.0.0.255:7").value().next_host(2).to_string(), "10.0.1.1:7");
  EXPECT_EQ(Address::parse("[fe80::ffff:ffff:ffff:ffff]:7").value().next_host(1).to_string(), "[fe80:0:0:1::]:7");
}

TEST(Resolve, NumericNamesResolveWithoutNameServer) {
  EXPECT_EQ(resolve("127.0.0.1", "4711", {.numeric = true}).value(), std::vector{Address::loopback(AF_INET, 4711)});
  EXPECT_EQ(resolve("::1", "4711", {.numeric = true}).value(), std::vector{Address::loopback(AF_INET6, 4711)});
  EXPECT_EQ(resolve("fi_sockaddr_in://127.0.0.1:5", nullptr, {}).value(), std::vector{Address::loopback(AF_INET, 5)});
  EXPECT_EQ(resolve("localhost", "1", {.numeric = true}).error().code(), -FI_ENODATA);
  EXPECT_EQ(resolve("127.0.0.1", "1", {.numeric = true, .family = AF_INET6}).error().code(), -FI_ENODATA);
  EXPECT_EQ(resolve(nullptr, nullptr, {}).error().code(), -FI_EINVAL);
}

TEST(Resolve, WithoutNodeIsTheWildcardOrTheLoopback) {
  EXPECT_EQ(resolve(nullptr, "4711", {.passive = true, .family = AF_INET}).value(),
            std::vector{Address::any(AF_INET, 4711)});
  EXPECT_EQ(resolve(nullptr, "4711", {.family = AF_INET}).value(), std::vector{Address::loopback(AF_INET, 4711)});
}

TEST(Interfaces, AreListedLoopbackLast) {
  const auto interfaces = local_interfaces().value();
  ASSERT_FALSE(interfaces.empty());
  bool loopback_seen = false;
  for (const Interface& interface : interfaces) {
    EXPECT_FALSE(interface.name.empty());
    EXPECT_EQ(interface.address.port(), 0);
    EXPECT_EQ(interface.loopback, interface.address.is_loopback() || interface.loopback);
    if (loopback_seen) {
      EXPECT_TRUE(interface.loopback);
    }
    loopback_seen |= interface.loopback;
    if (interface.address == Address::loopback(AF_INET, 0)) {
      EXPECT_EQ(interface.network(), "127.0.0.1/32");
      EXPECT_GT(interface.mtu, 0u);
    }
  }
  EXPECT_TRUE(loopback_seen);
}

TEST(Interfaces, AreThoseOfGetifaddrs) {
  const auto interfaces = local_interfaces().value();
  ifaddrs* list = nullptr;
  ASSERT_EQ(::getifaddrs(&list), 0);
  std::size_t count = 0;
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const auto address = Address::from(entry->ifa_addr, sizeof(sockaddr_in6));
    if (!address) continue;  // the address that the link itself has
    ++count;
    const auto found = std::ranges::find(interfaces, *address, &Interface::address);
    ASSERT_NE(found, interfaces.end()) << address->to_string();
    EXPECT_EQ(found->name, entry->ifa_name);
    EXPECT_EQ(found->loopback, (entry->ifa_flags & IFF_LOOPBACK) != 0);
    const std::size_t at =
        address->family() == AF_INET ? offsetof(sockaddr_in, sin_addr) : offsetof(sockaddr_in6, sin6_addr);
    const auto* mask = reinterpret_cast<const uint8_t*>(entry->ifa_netmask) + at;
    unsigned bits = 0;
    for (std::size_t i = 0; i < (address->family() == AF_INET ? 4u : 16u); ++i)
      bits += static_cast<unsigned>(std::popcount(mask[i]));
    EXPECT_EQ(found->prefix, bits);
  }
  ::freeifaddrs(list);
  EXPECT_EQ(interfaces.size(), count);
}

TEST(Interfaces, NetworkKeepsThePrefixBits) {
  Interface interface;
  interface.address = Address::parse("192.168.255.77:0").value();
  interface.prefix = 20;
  EXPECT_EQ(interface.network(), "192.168.240.0/20");
  interface.address = Address::parse("[2001:db8:ffff::1]:0").value();
  interface.prefix = 36;
  EXPECT_EQ(interface.network(), "2001:db8:f000::/36");
}

}  // namespace
}  // namespace weft
