// SPDX-License-Identifier: BSD-2-Clause
// The data header on the wire: the reference's byte positions, both byte orders, and rejection of malformed headers.
#include "tcp/stream/data_header.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace weft::tcp {
namespace {

DataHeader write_header(std::uint8_t ranges) {
  DataHeader header;
  header.op = Op::kWrite;
  header.flags = kFlagCqData | kFlagDeliveryComplete;
  header.cq_data = 0x1122334455667788;
  header.rma_count = ranges;
  for (std::uint8_t i = 0; i < ranges; ++i) header.rma[i] = {0x1000u + i, 100u + i, 42u + i};
  header.payload = 5000;
  return header;
}

TEST(DataHeader, PlainMessageTakesSixteenBytes) {
  DataHeader header;
  header.payload = 8;
  std::byte out[kMaxHeaderSize];
  ASSERT_EQ(encode(header, out), 16u);
  const unsigned char expected[16] = {3, 0, 0, 0, 0, 0, 16, 0, 24, 0, 0, 0, 0, 0, 0, 0};
  EXPECT_TRUE(std::equal(out, out + 16, reinterpret_cast<const std::byte*>(expected)));
}

// encode_plain() must write the same bytes as encode(), and the plain masks must recognize them.
TEST(DataHeader, PlainHeadersHaveTheSameBytes) {
  for (const Op op : {Op::kMessage, Op::kTagged}) {
    DataHeader header;
    header.op = op;
    header.payload = 77;
    header.tag = 0x0102030405060708;
    std::byte expected[kMaxHeaderSize];
    const std::size_t size = encode(header, expected);
    expected[kIdOffset] = std::byte{200};
    std::byte out[kTaggedHeaderSize];
    ASSERT_EQ(encode_plain(op, header.tag, header.payload, 200, out), size);
    EXPECT_TRUE(std::equal(out, out + size, expected));
    std::uint64_t word;
    std::memcpy(&word, out, sizeof word);
    EXPECT_EQ(word & kPlainMask, op == Op::kTagged ? kPlainTagged : kPlainMessage);
  }
}

TEST(DataHeader, NothingElseLooksPlain) {
  std::byte out[kMaxHeaderSize];
  auto looks_plain = [&out] {
    std::uint64_t word;
    std::memcpy(&word, out, sizeof word);
    return (word & kPlainMask) == kPlainMessage || (word & kPlainMask) == kPlainTagged;
  };
  for (const Op op : {Op::kMessage, Op::kTagged})
    for (const std::uint16_t flags : {kFlagCqData, kFlagDeliveryComplete, kFlagTagged}) {
      encode({.op = op, .flags = flags, .rma = {}}, out);
      EXPECT_FALSE(looks_plain());
    }
  encode({.op_data = kOpDataAck, .rma = {}}, out);
  EXPECT_FALSE(looks_plain());
  encode(write_header(1), out);
  EXPECT_FALSE(looks_plain());
  encode({.op = Op::kReadResponse, .rma = {}}, out);
  EXPECT_FALSE(looks_plain());
}

TEST(DataHeader, OptionalWordsFollowInOrder) {
  DataHeader tagged;
  tagged.op = Op::kTagged;
  tagged.flags = kFlagCqData;
  tagged.cq_data = 1;
  tagged.tag = 2;
  std::byte out[kMaxHeaderSize];
  ASSERT_EQ(encode(tagged, out), 32u);
  EXPECT_EQ(out[16], std::byte{1});
  EXPECT_EQ(out[24], std::byte{2});
}

// Release 1.17 sends a tagged message from an endpoint without FI_TAGGED as a plain one with a flag.
TEST(DataHeader, ReadsTheTagOfAFlaggedMessage) {
  const unsigned char bytes[32] = {3, 0, 0x81, 0, 0, 0, 32, 0, 40, 0, 0, 0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 9};
  const Result<DataHeader> header = decode(reinterpret_cast<const std::byte*>(bytes), false);
  ASSERT_TRUE(header);
  EXPECT_EQ(header->op, Op::kTagged);
  EXPECT_EQ(header->payload, 8u);
  EXPECT_EQ(header->cq_data, 7u);
  EXPECT_EQ(header->tag, 9u);
}

TEST(DataHeader, SurvivesTheRoundTripForEveryNumberOfRanges) {
  for (std::uint8_t ranges = 1; ranges <= kMaxRmaIov; ++ranges) {
    const DataHeader header = write_header(ranges);
    std::byte out[kMaxHeaderSize];
    ASSERT_EQ(encode(header, out), 24u + 24u * ranges);
    const Result<DataHeader> back = decode(out, false);
    ASSERT_TRUE(back);
    EXPECT_EQ(back->op, Op::kWrite);
    EXPECT_EQ(back->payload, 5000u);
    EXPECT_EQ(back->cq_data, 0x1122334455667788u);
    EXPECT_TRUE(back->wants_ack());
    EXPECT_EQ(back->rma[ranges - 1].addr, 0x1000u + ranges - 1);
    EXPECT_EQ(back->rma[ranges - 1].len, 100u + ranges - 1);
    EXPECT_EQ(back->rma[ranges - 1].key, 42u + ranges - 1);
  }
}

TEST(DataHeader, ReadsTheOtherByteOrder) {
  std::byte out[kMaxHeaderSize];
  const std::size_t size = encode(write_header(1), out);
  std::reverse(out + 2, out + 4);
  for (std::size_t word = 8; word < size; word += 8) std::reverse(out + word, out + word + 8);
  const Result<DataHeader> back = decode(out, true);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->payload, 5000u);
  EXPECT_EQ(back->rma[0].len, 100u);
  EXPECT_FALSE(decode(out, false)) << "the swapped header must not pass for a plain one";
}

TEST(DataHeader, AtomicOperationsHaveTheirWordsInPlaceOfTheTag) {
  DataHeader header;
  header.op = Op::kAtomic;
  header.tag = AtomicWords{.kind = 2, .datatype = 7, .operation = 12}.packed();
  header.rma_count = kMaxRmaIov;
  for (std::uint8_t i = 0; i < kMaxRmaIov; ++i) header.rma[i] = {0x1000u + i, 1u + i, 42u + i};
  header.payload = 160;
  std::byte out[kMaxHeaderSize];
  ASSERT_EQ(encode(header, out), kMaxHeaderSize) << "the longest header";
  const Result<DataHeader> read = decode(out, false);
  ASSERT_TRUE(read);
  const AtomicWords words = AtomicWords::of(read->tag);
  EXPECT_EQ(words.kind, 2);
  EXPECT_EQ(words.datatype, 7);
  EXPECT_EQ(words.operation, 12);
  EXPECT_EQ(read->payload, 160u);
  EXPECT_EQ(read->rma_count, kMaxRmaIov);
  EXPECT_EQ(read->rma[3].key, 45u);
  for (const std::uint8_t flag : {1, 4, 128}) {
    out[2] = std::byte{flag};
    EXPECT_FALSE(decode(out, false)) << "flags in an atomic operation";
  }
  out[2] = std::byte{0};
  for (const std::uint8_t count : {0, 3, 5, 255}) {
    out[5] = std::byte{count};
    EXPECT_FALSE(decode(out, false)) << int{count};
  }
}

TEST(DataHeader, RejectsContradictions) {
  std::byte good[kMaxHeaderSize];
  encode(write_header(2), good);
  auto refused = [&](std::size_t at, unsigned char value) {
    std::byte bad[kMaxHeaderSize];
    std::copy(std::begin(good), std::end(good), bad);
    bad[at] = std::byte{value};
    return !decode(bad, false);
  };
  EXPECT_TRUE(refused(1, 5)) << "an operation of the datagram mode";
  EXPECT_TRUE(refused(1, 255)) << "an unknown operation";
  EXPECT_TRUE(refused(5, 5)) << "more ranges than allowed";
  EXPECT_TRUE(refused(5, 0)) << "a write to nowhere";
  EXPECT_TRUE(refused(1, 0)) << "a message with the header size of a write";
  EXPECT_TRUE(refused(6, 16)) << "a header size that does not fit its contents";
  std::byte shorter[kMaxHeaderSize];
  std::copy(std::begin(good), std::end(good), shorter);
  std::fill(shorter + 8, shorter + 16, std::byte{0});
  EXPECT_FALSE(decode(shorter, false)) << "a total shorter than the header";
}

TEST(DataHeader, LeftoverCountOfRangesInAnAnswerIsIgnored) {
  DataHeader answer;
  answer.op = Op::kReadResponse;
  answer.payload = 100;
  std::byte out[kMaxHeaderSize];
  ASSERT_EQ(encode(answer, out), 16u);
  out[5] = std::byte{1};  // as stock libfabric sends it
  const Result<DataHeader> back = decode(out, false);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->payload, 100u);
  EXPECT_EQ(back->rma_count, 0u);
}

TEST(DataHeader, AcknowledgementHasNoPayload) {
  DataHeader ack;
  ack.op_data = kOpDataAck;
  std::byte out[kMaxHeaderSize];
  encode(ack, out);
  ASSERT_TRUE(decode(out, false));
  EXPECT_TRUE(decode(out, false)->is_ack());
  ack.payload = 1;
  encode(ack, out);
  EXPECT_FALSE(decode(out, false));
}

}  // namespace
}  // namespace weft::tcp
