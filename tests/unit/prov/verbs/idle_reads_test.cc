// SPDX-License-Identifier: BSD-2-Clause
// The pace at which a completion queue that is read in vain looks at connections (completion_channel.h), on a clock of
// the test's own.
#include <gtest/gtest.h>

#include "verbs/transfer/completion_channel.h"

namespace idle_reads_test {

using namespace std::chrono_literals;
using weft::Clock;
using weft::verbs::IdleReads;

// Reads that find nothing, one for each `period`.
class Reader {
 public:
  // The longest time between two looks.
  Clock::duration read(Clock::duration period, int times) {
    Clock::duration longest{};
    for (int i = 0; i < times; ++i) {
      now_ += period;
      if (!reads_.count()) continue;
      ++looks;
      longest = std::max(longest, now_ - std::exchange(looked_at_, now_));
      reads_.looked(now_);
    }
    return std::max(longest, now_ - looked_at_);
  }
  int looks = 0;

 private:
  IdleReads reads_;
  Clock::time_point now_{1h}, looked_at_{1h};
};

TEST(IdleReads, TheFirstReadLooks) {
  Reader reader;
  reader.read(1us, 1);
  EXPECT_EQ(reader.looks, 1);
}

TEST(IdleReads, EveryReadLooksWhenTheyAreFarApart) {
  for (const Clock::duration period : {1ms, 5ms, 1000ms}) {
    Reader reader;
    EXPECT_EQ(reader.read(period, 100), period);
  }
}

TEST(IdleReads, AboutOneLookForEachMillisecond) {
  for (const Clock::duration period : {2us, 20us, 300us}) {
    Reader reader;
    EXPECT_LE(reader.read(period, 20'000), 1100us);
    EXPECT_LE(reader.looks, 20 + 20'000 * period / 500us);
  }
}

TEST(IdleReads, OneOfAThousandFastReadsLooks) {
  Reader reader;
  reader.read(40ns, 100'000);
  EXPECT_LE(reader.looks, 120);
}

TEST(IdleReads, AProgramThatBeginsToReadSeldomWaitsOnce) {
  Reader reader;
  reader.read(40ns, 100'000);
  EXPECT_LE(reader.read(1ms, 1100), 1100ms);
  EXPECT_EQ(reader.read(1ms, 100), 1ms);
}

}  // namespace idle_reads_test
