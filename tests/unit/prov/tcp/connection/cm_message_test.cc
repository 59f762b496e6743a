// SPDX-License-Identifier: BSD-2-Clause
// The connection messages of the tcp wire: bytes, assembly from pieces, and rejected input.
#include "tcp/connection/cm_message.h"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <cstring>
#include <string>
#include <string_view>

namespace weft::tcp {
namespace {

// Result of complete() after `bytes` arrived in pieces of `piece` bytes.
Result<bool> collect(CmMessage& message, std::span<const std::byte> bytes, std::size_t piece) {
  Result<bool> complete = false;
  while (!bytes.empty() && complete && !*complete) {
    const std::size_t count = std::min({piece, bytes.size(), message.room().size()});
    std::memcpy(message.room().data(), bytes.data(), count);
    bytes = bytes.subspan(count);
    message.advance(count);
    complete = message.complete();
  }
  return complete;
}

TEST(CmMessage, MatchesTheReferencesBytes) {
  CmMessage message;
  message.compose(CmType::kAccept, "abc", 3);
  const auto bytes = message.unsent();
  ASSERT_EQ(bytes.size(), 35u);
  EXPECT_EQ(bytes[0], std::byte{3});
  EXPECT_EQ(bytes[1], std::byte{1});
  EXPECT_EQ(bytes[2], std::byte{0});  // size, big-endian
  EXPECT_EQ(bytes[3], std::byte{3});
  for (std::size_t i = 4; i < 16; ++i) EXPECT_EQ(bytes[i], std::byte{0}) << i;
  std::uint64_t mark = 0;
  std::memcpy(&mark, &bytes[24], sizeof mark);
  EXPECT_EQ(mark, 1u);
  EXPECT_EQ(std::memcmp(&bytes[32], "abc", 3), 0);
}

TEST(CmMessage, IsAssembledFromPiecesOfEverySize) {
  const std::string data(256, 'd');
  CmMessage sent;
  sent.compose(CmType::kRequest, data.data(), data.size());
  for (std::size_t piece = 1; piece <= kCmMessageSize; ++piece) {
    CmMessage received;
    const auto complete = collect(received, sent.unsent(), piece);
    ASSERT_TRUE(complete && *complete) << piece;
    EXPECT_EQ(received.type(), CmType::kRequest);
    EXPECT_EQ(received.data().size(), data.size());
    EXPECT_FALSE(received.swapped());
    EXPECT_TRUE(received.room().empty());
  }
}

TEST(CmMessage, SwappedMarkMeansTheOtherByteOrder) {
  CmMessage sent;
  sent.compose(CmType::kRequest, nullptr, 0);
  std::byte bytes[kCmHeaderSize];
  std::memcpy(bytes, sent.unsent().data(), sizeof bytes);
  std::swap(bytes[24], bytes[31]);
  CmMessage received;
  EXPECT_TRUE(collect(received, bytes, sizeof bytes).value_or(false));
  EXPECT_TRUE(received.swapped());
}

// A message of `type` with `bits` announced in the place at `at`, as it arrives.
CmMessage announcing(CmType type, std::size_t at, const char* name, std::uint8_t bits) {
  CmMessage sent;
  sent.compose(type, nullptr, 0);
  std::byte bytes[kCmHeaderSize];
  std::memcpy(bytes, sent.unsent().data(), sizeof bytes);
  std::memset(bytes + 8, 0, 16);
  std::memcpy(bytes + at, name, 4);
  bytes[at + 7] = std::byte{bits};
  CmMessage received;
  EXPECT_TRUE(collect(received, bytes, sizeof bytes).value_or(false));
  return received;
}

TEST(CmMessage, EachRoleAnnouncesItsExtensionsInItsPlace) {
  for (CmType type : {CmType::kRequest, CmType::kAccept}) {
    const bool request = type == CmType::kRequest;
    const CmMessage good = announcing(type, request ? 8 : 16, "weft", 6);
    EXPECT_EQ(good.extensions(), 6u);
    EXPECT_TRUE(good.announced(Extension{2}));
    EXPECT_FALSE(good.announced(Extension{1}));
    // An answer that repeats the request's bytes, and another implementation's use of the place.
    EXPECT_EQ(announcing(type, request ? 16 : 8, "weft", 6).extensions(), 0u);
    EXPECT_EQ(announcing(type, request ? 8 : 16, "fewt", 6).extensions(), 0u);
    CmMessage own;
    own.compose(type, nullptr, 0);
    EXPECT_EQ(own.extensions(), kOwnExtensions);
    EXPECT_EQ(std::memcmp(own.unsent().data() + (request ? 8 : 16), "weft", 4), 0);
  }
  EXPECT_EQ(announcing(CmType::kReject, 8, "weft", 6).extensions(), 0u);
  EXPECT_EQ(announcing(CmType::kReject, 16, "weft", 6).extensions(), 0u);
}

TEST(CmMessage, OtherBytesAreRejected) {
  auto result = [](unsigned char version, unsigned char type, unsigned size) {
    std::byte bytes[kCmHeaderSize] = {std::byte{version}, std::byte{type}, static_cast<std::byte>(size >> 8),
                                      static_cast<std::byte>(size)};
    CmMessage message;
    const auto complete = collect(message, bytes, sizeof bytes);
    return complete ? 0 : complete.error().code();
  };
  EXPECT_EQ(result(3, 0, 256), 0);
  EXPECT_EQ(result(3, 0, 257), -FI_EREMOTEIO);
  EXPECT_EQ(result(3, 0, 65535), -FI_EREMOTEIO);
  EXPECT_EQ(result(2, 0, 0), -FI_ENOPROTOOPT);
  for (unsigned type = 0; type < 256; ++type)
    EXPECT_EQ(result(3, static_cast<unsigned char>(type), 0), type == 0 || type == 1 || type == 6 ? 0 : -FI_EREMOTEIO);
}

TEST(CmMessage, DataIsCutToTheLimit) {
  const std::string data(1000, 'd');
  CmMessage message;
  message.compose(CmType::kReject, data.data(), data.size());
  EXPECT_EQ(message.unsent().size(), kCmMessageSize);
  EXPECT_EQ(message.data().size(), kCmDataSize);
}

}  // namespace
}  // namespace weft::tcp
