// SPDX-License-Identifier: BSD-2-Clause
// The checked content of fi_pingpong -c, compared with messages of Debian's fi_pingpong 1.17.
#include "tools/payload.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace weft::tools {
namespace {

std::string filled(std::size_t size, uint64_t number) {
  std::string text(size, '?');
  fill_payload(std::as_writable_bytes(std::span(text)), number);
  return text;
}

TEST(Payload, ContentIsThatOfLibfabric) {
  EXPECT_EQ(filled(64, 0), "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ01");
  EXPECT_EQ(filled(64, 1), "789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ012345678");
  EXPECT_EQ(filled(4, 6), "GHIJ");
  EXPECT_EQ(filled(4, 9), "1234");  // once around
}

TEST(Payload, FirstWrongByteIsReported) {
  for (std::size_t size : {0u, 1u, 61u, 62u, 63u, 1000u}) {
    for (uint64_t number : {0u, 1u, 8u, 9u, 1000u}) {
      std::string text = filled(size, number);
      EXPECT_EQ(payload_fault(std::as_bytes(std::span(text)), number), std::nullopt);
      for (std::size_t at = 0; at < size; at += 60) {
        std::string wrong = text;
        wrong[at] = '!';
        EXPECT_EQ(payload_fault(std::as_bytes(std::span(wrong)), number), at);
      }
    }
  }
}

TEST(Payload, RepeatedMessageIsDetected) {
  const std::string text = filled(100, 5);
  EXPECT_EQ(payload_fault(std::as_bytes(std::span(text)), 6), 0u);
}

}  // namespace
}  // namespace weft::tools
