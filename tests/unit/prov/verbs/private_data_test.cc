// SPDX-License-Identifier: BSD-2-Clause
// The framing of private data, byte by byte: [length][data], and the header of native InfiniBand addresses.
#include "verbs/cm/private_data.h"

#include <gtest/gtest.h>

#include <cstring>
#include <string>
#include <string_view>
#include <vector>

namespace weft::verbs {
namespace {

std::vector<std::byte> bytes_of(std::string_view text) {
  const auto* begin = reinterpret_cast<const std::byte*>(text.data());
  return {begin, begin + text.size()};
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

PrivateData composed(std::string_view text) {
  PrivateData data;
  data.compose(text.data(), text.size());
  return data;
}

CmAddress native(unsigned char last, std::uint16_t port) {
  sockaddr_ib name{};
  name.sib_family = AF_IB;
  reinterpret_cast<unsigned char*>(&name.sib_addr)[0] = 0xfe;
  reinterpret_cast<unsigned char*>(&name.sib_addr)[15] = last;
  CmAddress address = CmAddress::from(reinterpret_cast<const sockaddr*>(&name));
  address.set_port(port);
  return address;
}

TEST(PrivateData, IsTheLengthAndTheData) {
  const PrivateData data = composed("hello");
  ASSERT_EQ(data.size(), 6);
  EXPECT_EQ(text_of({data.bytes(), data.size()}), std::string("\x05hello"));
}

TEST(PrivateData, WithoutDataIsTheLengthZero) {
  PrivateData data;
  data.compose(nullptr, 0);
  ASSERT_EQ(data.size(), 1);
  EXPECT_EQ(data.bytes()[0], std::byte{0});
}

TEST(PrivateData, IsCutToTheRoomInARequest) {
  for (std::size_t length : {kCmDataSize - 1, kCmDataSize, kCmDataSize + 1, std::size_t{300}, std::size_t{70'000}}) {
    const std::string text(length, 'x');
    const PrivateData data = composed(text);
    const std::size_t kept = std::min(length, kCmDataSize);
    EXPECT_EQ(data.size(), 1 + kept);
    EXPECT_EQ(text_of(application_data({data.bytes(), data.size()})), text.substr(0, kept));
  }
  EXPECT_EQ(kCmDataSize + 1, 56U) << "rdma_connect(3)";
  EXPECT_EQ(kCmDataSize + 1 + kIbHeaderSize, 92U) << "private data of a request in the InfiniBand specification";
}

TEST(PrivateData, ProtocolPaddingIsNotDelivered) {
  std::vector<std::byte> received = bytes_of("\x03 ab");
  received.resize(56);
  EXPECT_EQ(text_of(application_data(received)), " ab");
}

TEST(PrivateData, LengthBeyondTheReceivedBytesIsCut) {
  EXPECT_TRUE(application_data({}).empty());
  EXPECT_EQ(text_of(application_data(bytes_of("\xff"
                                              "abc"))),
            "abc");
  EXPECT_TRUE(application_data(bytes_of("\x07")).empty());
}

TEST(PrivateData, HeaderOfNativeAddressesNamesBothEnds) {
  PrivateData data = composed("hi");
  const std::byte* whole = data.with_header(native(1, 0x1234), native(2, 9));
  ASSERT_EQ(data.size_with_header(), kIbHeaderSize + 3);
  EXPECT_EQ(whole[0], std::byte{0}) << "version";
  EXPECT_EQ(whole[1], std::byte{0}) << "no IP";
  EXPECT_EQ(whole[2], std::byte{0x12}) << "port, big-endian";
  EXPECT_EQ(whole[3], std::byte{0x34});
  EXPECT_EQ(whole[4], std::byte{0xfe});
  EXPECT_EQ(whole[19], std::byte{1}) << "source";
  EXPECT_EQ(whole[35], std::byte{2}) << "destination";
  EXPECT_EQ(text_of(application_data_behind_header({whole, data.size_with_header()})), "hi");
  EXPECT_TRUE(application_data_behind_header({whole, kIbHeaderSize}).empty());
}

}  // namespace
}  // namespace weft::verbs
