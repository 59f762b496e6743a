// SPDX-License-Identifier: BSD-2-Clause
// The output of fi_pingpong: columns where scripts expect them, at most 80 characters, and valid JSON.
#include "tools/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>

namespace weft::tools {
namespace {

std::unique_ptr<TestResult> ten_round_trips() {
  auto result = std::make_unique<TestResult>();
  result->size = 64;
  result->sent = result->received = 10;
  result->time = std::chrono::microseconds(897);
  for (uint64_t i = 1; i <= 10; ++i) result->round_trips.record(i * 200);  // 0.1 us .. 1 us one way
  return result;
}

std::size_t widest_line(const std::string& text) {
  std::size_t widest = 0, width = 0;
  for (const char c : text) widest = std::max(widest, width = c == '\n' ? 0 : width + 1);
  return widest;
}

TEST(Report, SummaryTimesAreOneWay) {
  const Summary s = summarize(*ten_round_trips());
  EXPECT_EQ(s.total_bytes, 1280u);
  EXPECT_DOUBLE_EQ(s.usec_per_transfer, 44.85);
  EXPECT_NEAR(s.megabytes_per_second, 1.427, 0.001);
  EXPECT_NEAR(s.million_transfers_per_second, 0.0223, 0.0001);
  EXPECT_EQ(s.samples, 10u);
  EXPECT_DOUBLE_EQ(s.min, 0.1);
  EXPECT_NEAR(s.p50, 0.5, 0.005);
  EXPECT_DOUBLE_EQ(s.max, 1.0);
  EXPECT_NEAR(s.mean, 0.55, 1e-9);
}

TEST(Report, NothingMeasuredIsZeroNotNan) {
  const Summary s = summarize(TestResult());
  EXPECT_EQ(s.usec_per_transfer, 0);
  EXPECT_EQ(s.megabytes_per_second, 0);
  EXPECT_EQ(s.p999, 0);
}

TEST(Report, RowsAreThoseOfLibfabric) {
  EXPECT_EQ(table_header(), "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n");
  EXPECT_EQ(table_row(summarize(*ten_round_trips())),
            "64      10      =10      1.2k        0.00s      1.43      44.85       0.02\n");
}

TEST(Report, MissingAnswersAreNotMarkedEqual) {
  auto result = ten_round_trips();
  result->received = 9;
  EXPECT_NE(table_row(summarize(*result)).find(" 9 "), std::string::npos);
}

TEST(Report, FitsATerminal) {
  auto result = ten_round_trips();
  result->size = 6 << 20;
  result->sent = result->received = 999'999'999;
  result->time = std::chrono::seconds(99999);
  result->round_trips.record(1'000'000'000'0);
  const Summary s = summarize(*result);
  EXPECT_LE(widest_line(table_row(s)), 80u);
  EXPECT_LE(widest_line(percentile_table({s})), 80u);
}

TEST(Report, JsonHasEveryTestAndEscapesText) {
  const Summary s = summarize(*ten_round_trips());
  RunDescription run;
  run.provider = "tcp;\"odd\\name\"\n";
  const std::string text = json_document(run, {s, s});
  EXPECT_NE(text.find(R"("provider": "tcp;\"odd\\name\"\u000a")"), std::string::npos) << text;
  EXPECT_EQ(text.find("\"domain\""), std::string::npos) << "empty fields are left out";
  EXPECT_NE(text.find("\"p99_9\": 1.000"), std::string::npos);
  std::size_t tests = 0;
  for (auto at = text.find("\"bytes\": 64"); at != text.npos; at = text.find("\"bytes\": 64", at + 1)) ++tests;
  EXPECT_EQ(tests, 2u);
  EXPECT_EQ(std::count(text.begin(), text.end(), '{'), std::count(text.begin(), text.end(), '}'));
  EXPECT_EQ(json_document({}, {}),
            "{\n  \"program\": \"fi_pingpong\",\n  \"role\": \"server\",\n"
            "  \"transmit_mode\": \"msg\",\n  \"integrity_checked\": false,\n  \"tests\": [\n  ]\n}\n");
}

}  // namespace
}  // namespace weft::tools
