// SPDX-License-Identifier: BSD-2-Clause
// Random schedules: several ends send to each other and to themselves, receive from somebody or anybody, with exact
// tags and with masks, cancel, peek, claim, discard, and lend buffers to many messages, in an order that a seed
// decides. Everything that was begun ends exactly once, with the right bytes, and with whom the order of messages
// allows (fixture/matching_model.h); fi_msg(3), fi_tagged(3).
//   WEFT_CONFORMANCE_SEED    the first seed; without it there are a few fixed ones
//   WEFT_CONFORMANCE_SEEDS   how many, one after the other
#include "fixture/schedule.h"

#include "fixture/parameter.h"
#include "fixture/process.h"

namespace random_schedules {

CONFORMANCE_TOPIC(RandomSchedules);

namespace {

void run_all(const Target& target, const ScheduleSetting& setting, int usual) {
  const char* first = std::getenv("WEFT_CONFORMANCE_SEED");
  const char* asked = std::getenv("WEFT_CONFORMANCE_SEEDS");
  const int count = asked != nullptr ? std::atoi(asked) : first != nullptr ? 1 : usual;
  const uint64_t begin = first != nullptr ? std::strtoull(first, nullptr, 0) : 1;
  for (uint64_t seed = begin; seed < begin + static_cast<uint64_t>(count); ++seed) {
    SCOPED_TRACE("WEFT_CONFORMANCE_SEED=" + std::to_string(seed));
    Fabric fabric(target, Schedule::hints(setting));
    Schedule schedule(fabric, seed, setting);
    schedule.run();
    if (testing::Test::HasFailure()) return;
  }
}

// Two messages of one sender, and their receivers; a time after each step.
testing::AssertionResult explained(size_t first, size_t second, bool cancelled) {
  MatchingModel model;
  model.posted({.tagged = true, .from = 1, .tag = 5});
  model.posted({.tagged = true, .ignore = ~uint64_t{0}});
  if (cancelled) model.cancelled(0, 1);
  model.sent(10, 1, true, 5, 2);
  model.sent(11, 1, true, 5, 3);
  model.posted({.tagged = true, .tag = 4, .ignore = 1});
  model.matched(first, 10, 4);
  model.matched(second, 11, 5);
  return model.explained();
}

}  // namespace

TEST_P(RandomSchedules, ModelRejectsWrongResults) {
  EXPECT_TRUE(explained(0, 1, false));
  EXPECT_TRUE(explained(1, 2, true));
  EXPECT_FALSE(explained(1, 0, false)) << "overtaken";
  EXPECT_FALSE(explained(0, 2, false)) << "an older receive is left out";
  EXPECT_FALSE(explained(0, 1, true)) << "it was cancelled before that was sent";
  MatchingModel model;
  model.sent(1, 0, false, 0, 1);
  EXPECT_FALSE(model.explained()) << "lost";
  model.seen({}, 1, 2);
  model.missed({}, 3);
  model.matched(model.posted({}), 1, 4);
  EXPECT_FALSE(model.explained()) << "a peek looked past it";
}

TEST_P(RandomSchedules, ShortMessagesEndOnceAndInOrder) {
  RELIABLE_DATAGRAMS_ONLY();
  run_all(target(), {.longest = 3000, .steps = 600}, 6);
}

TEST_P(RandomSchedules, MessagesOfAllProtocolsEndOnceAndInOrder) {
  RELIABLE_DATAGRAMS_ONLY();
  run_all(target(), {.longest = 300'000, .steps = 300}, 6);
}

TEST_P(RandomSchedules, LongMessagesOverTheConnectionEndOnceAndInOrder) {
  RELIABLE_DATAGRAMS_ONLY();
  const Parameter memory("FI_TCP_SHARED_MEMORY", "0");
  run_all(target(), {.longest = 300'000, .steps = 300}, 3);
}

TEST_P(RandomSchedules, LongMessagesWrittenByTheirSenderEndOnceAndInOrder) {
  RELIABLE_DATAGRAMS_ONLY();
  const Parameter writes("FI_OFI_RXM_USE_RNDV_WRITE", "1");
  run_all(target(), {.longest = 300'000, .steps = 300}, 3);
}

TEST_P(RandomSchedules, ProgressThreadChangesNothing) {
  RELIABLE_DATAGRAMS_ONLY();
  run_all(target(), {.longest = 300'000, .steps = 300, .automatic = true}, 3);
}

// No message here may need its receiver to leave the queue, otherwise only receiving could make room.
TEST_P(RandomSchedules, ShortQueuesChangeNothing) {
  RELIABLE_DATAGRAMS_ONLY();
  run_all(target(), {.longest = 16'000, .steps = 300, .queue = 4}, 3);
}

TEST_P(RandomSchedules, WaitingSendersChangeNothing) {
  RELIABLE_DATAGRAMS_ONLY();
  const Parameter parameter("FI_OFI_RXM_UNEXPECTED_BYTES", "20000");
  run_all(target(), {.longest = 40'000, .steps = 300}, 3);
}

TEST_P(RandomSchedules, SharedReceiveContextMatchesInTheOrderOfItsMessages) {
  RELIABLE_DATAGRAMS_ONLY();
  run_all(target(), {.longest = 3000, .steps = 600, .shared = true}, 6);
  run_all(target(), {.longest = 300'000, .steps = 300, .shared = true}, 4);
  run_all(target(), {.longest = 300'000, .steps = 300, .automatic = true, .shared = true}, 2);
  const Parameter room("FI_OFI_RXM_UNEXPECTED_BYTES", "20000");
  run_all(target(), {.longest = 300'000, .steps = 300, .shared = true}, 4);
}

}  // namespace random_schedules
