// SPDX-License-Identifier: BSD-2-Clause
// The source of a datagram in its route header (transfer/datagram_receives.h), and addresses of datagram queue pairs
// (device/gids.h).
#include <arpa/inet.h>
#include <gtest/gtest.h>

#include <array>
#include <cstring>

#include "verbs/device/gids.h"
#include "verbs/transfer/datagram_receives.h"

namespace weft::verbs {
namespace {

using Header = std::array<unsigned char, 40>;

ibv_gid gid(const char* text) {
  ibv_gid result{};
  inet_pton(AF_INET6, text, &result);
  return result;
}

Header native(const char* source, const char* destination) {
  Header header{};
  header[0] = 0x60;
  header[6] = 0x1b;
  inet_pton(AF_INET6, source, &header[8]);
  inet_pton(AF_INET6, destination, &header[24]);
  return header;
}

// An IPv4 header behind 20 bytes of `before`; its checksum is right if `sum`.
Header ipv4(const char* source, const char* destination, unsigned char before, bool sum) {
  Header header{};
  std::memset(header.data(), before, 20);
  unsigned char* const v4 = &header[20];
  v4[0] = 0x45;
  v4[8] = 64;
  v4[9] = 17;
  inet_pton(AF_INET, source, v4 + 12);
  inet_pton(AF_INET, destination, v4 + 16);
  unsigned total = 0;
  for (int i = 0; i < 20; i += 2) total += static_cast<unsigned>(v4[i] << 8 | v4[i + 1]);
  while (total >> 16 != 0) total = (total & 0xffff) + (total >> 16);
  if (sum) {
    v4[10] = static_cast<unsigned char>(~total >> 8);
    v4[11] = static_cast<unsigned char>(~total);
  }
  return header;
}

RouteHeader read(const Header& header) {
  return RouteHeader::read(reinterpret_cast<const std::byte*>(header.data()));
}

}  // namespace

TEST(RouteHeader, NativeHeaderNamesGids) {
  const RouteHeader route = read(native("fd77::1", "fd77::2"));
  EXPECT_TRUE(route.source == gid("fd77::1"));
  EXPECT_FALSE(route.to_group);
  EXPECT_TRUE(read(native("fd77::1", "ff15::7")).to_group);
}

TEST(RouteHeader, Ipv4InNativeHeadersIsRecognized) {
  EXPECT_FALSE(read(native("::ffff:10.0.0.1", "::ffff:10.0.0.2")).to_group);
  EXPECT_TRUE(read(native("::ffff:10.0.0.1", "::ffff:239.1.2.3")).to_group);
}

TEST(RouteHeader, Ipv4HeaderStandsInTheSecondHalf) {
  for (const unsigned char before : {0x00, 0x60, 0xff}) {  // nobody promises what stands in the first
    const RouteHeader route = read(ipv4("10.0.0.1", "239.1.2.3", before, true));
    EXPECT_TRUE(route.source == gid("::ffff:10.0.0.1")) << int{before};
    EXPECT_TRUE(route.to_group) << int{before};
  }
  EXPECT_FALSE(read(ipv4("10.0.0.1", "10.0.0.2", 0, true)).to_group);
}

TEST(RouteHeader, Ipv4HeaderOfALoopMayLackItsSum) {
  EXPECT_TRUE(read(ipv4("10.0.0.1", "10.0.0.1", 0, false)).source == gid("::ffff:10.0.0.1"));
}

TEST(RouteHeader, NativeHeaderThatLooksLikeIpv4IsNative) {
  Header header = native("fd77::4500:1:0:1", "fd77::2");
  header[20] = 0x45;
  header[29] = 17;
  ibv_gid source;
  std::memcpy(&source, &header[8], sizeof source);
  EXPECT_TRUE(read(header).source == source) << "the sum is not that of an IPv4 header";
}

TEST(IbUdAddress, IsSpelledAsOtherLibrariesDo) {
  IbUdAddress address{};
  address.gid = gid("fe80::1");
  address.qp_number = 0x11;
  address.lid = 2;
  address.pkey = 0xffff;
  address.service_level = 3;
  EXPECT_EQ(to_uri(address), "fi_addr_ib_ud://fe80::1:11/2/ffff/3");
}

TEST(GidOf, Ipv4AddressIsMapped) {
  EXPECT_TRUE(gid_of(*Address::parse("10.0.0.1:7")) == gid("::ffff:10.0.0.1"));
  EXPECT_TRUE(gid_of(*Address::parse("[fd77::1]:7")) == gid("fd77::1"));
}

}  // namespace weft::verbs
