// SPDX-License-Identifier: BSD-2-Clause
// Addresses of verbs endpoints: formats, ports, text, and the rules of fi_getname(3).
#include "verbs/cm/cm_address.h"

#include <gtest/gtest.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <cstring>

namespace weft::verbs {
namespace {

CmAddress parsed(const char* text) {
  return *Address::parse(text);
}

CmAddress native() {
  sockaddr_ib name{};
  name.sib_family = AF_IB;
  reinterpret_cast<unsigned char*>(&name.sib_addr)[15] = 7;
  return CmAddress::from(reinterpret_cast<const sockaddr*>(&name));
}

TEST(CmAddress, FamilyDecidesFormatSizeAndPortSpace) {
  EXPECT_EQ(parsed("192.0.2.1:5").format(), static_cast<uint32_t>(FI_SOCKADDR_IN));
  EXPECT_EQ(parsed("[2001:db8::1]:5").format(), static_cast<uint32_t>(FI_SOCKADDR_IN6));
  EXPECT_EQ(native().format(), static_cast<uint32_t>(FI_SOCKADDR_IB));
  EXPECT_EQ(parsed("192.0.2.1:5").size(), sizeof(sockaddr_in));
  EXPECT_EQ(parsed("[2001:db8::1]:5").size(), sizeof(sockaddr_in6));
  EXPECT_EQ(native().size(), sizeof(sockaddr_ib));
  EXPECT_EQ(native().port_space(), RDMA_PS_IB);
  EXPECT_EQ(parsed("192.0.2.1:5").port_space(), RDMA_PS_TCP);
  EXPECT_FALSE(CmAddress());
}

TEST(CmAddress, PortsCanBeSetInEveryFamily) {
  for (CmAddress address : {parsed("192.0.2.1:5"), parsed("[2001:db8::1]:5"), native()}) {
    address.set_port(0x1234);
    EXPECT_EQ(address.port(), 0x1234);
    EXPECT_NE(address.to_string().find("4660"), std::string::npos) << address.to_string();
  }
}

TEST(CmAddress, WildcardsAreRecognized) {
  for (uint32_t format : {FI_SOCKADDR_IN, FI_SOCKADDR_IN6, FI_SOCKADDR_IB, FI_SOCKADDR, FI_FORMAT_UNSPEC})
    EXPECT_TRUE(CmAddress::any(format).is_any()) << format;
  for (CmAddress address : {parsed("192.0.2.1:5"), parsed("[2001:db8::1]:5"), native()}) EXPECT_FALSE(address.is_any());
}

TEST(CmAddress, AddressOutsideOfTheFormatIsRefused) {
  CmAddress v4 = parsed("192.0.2.1:5"), v6 = parsed("[::1]:5"), ib = native();
  const auto accepts = [](uint32_t format, CmAddress& name) {
    return CmAddress::from(format, name.data(), name.size()).has_value();
  };
  EXPECT_TRUE(accepts(FI_SOCKADDR_IN, v4) && accepts(FI_SOCKADDR, v4) && accepts(FI_SOCKADDR_IP, v4));
  EXPECT_TRUE(accepts(FI_SOCKADDR_IN6, v6) && accepts(FI_SOCKADDR_IB, ib) && accepts(FI_SOCKADDR, ib));
  EXPECT_FALSE(accepts(FI_SOCKADDR_IN6, v4) || accepts(FI_SOCKADDR_IB, v4) || accepts(FI_SOCKADDR_IP, ib));
  EXPECT_EQ(CmAddress::from(FI_SOCKADDR_IN, v4.data(), v4.size() - 1).error().error(), FI_EINVAL);
  EXPECT_EQ(CmAddress::from(FI_SOCKADDR_IN, nullptr, 16).error().error(), FI_EINVAL);
  const sockaddr other{AF_UNIX, {}};
  EXPECT_FALSE(CmAddress::from(FI_FORMAT_UNSPEC, &other, sizeof other));
}

TEST(CmAddress, ReportIsCutAndReturnsTheWholeSize) {
  for (CmAddress address : {parsed("192.0.2.1:5"), parsed("[2001:db8::1]:5"), native()}) {
    unsigned char buffer[64];
    for (size_t room = 0; room < address.size(); ++room) {
      std::memset(buffer, '#', sizeof buffer);
      size_t len = room;
      EXPECT_EQ(report_name(address, buffer, &len), -FI_ETOOSMALL);
      EXPECT_EQ(len, address.size());
      EXPECT_EQ(std::memcmp(buffer, address.data(), room), 0);
      EXPECT_EQ(buffer[room], '#');
    }
    size_t len = sizeof buffer;
    EXPECT_EQ(report_name(address, buffer, &len), 0);
    EXPECT_EQ(len, address.size());
    EXPECT_EQ(report_name(address, buffer, nullptr), -FI_EINVAL);
  }
}

}  // namespace
}  // namespace weft::verbs
