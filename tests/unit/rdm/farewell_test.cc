// SPDX-License-Identifier: BSD-2-Clause
// Two ends of a connection that close it when it is idle, in random schedules: every message arrives once and in order,
// whoever asks when, and connections do close.
#include "rdm/farewell.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace weft::rdm {
namespace {

using std::chrono::milliseconds;

// Messages are numbers from 1 on; words are negative; 0 is the end of the connection.
struct FarewellWire {
  std::deque<int> queue;
};

struct OneEnd {
  Farewell farewell;
  bool open = false;
  int next = 1;     // to send
  int arrived = 0;  // of the other end's
  int waiting = 0;  // messages that could not go yet
  int owed = 0;     // of those sent, not acknowledged: not quiet
  int closings = 0;
};

class TwoEnds {
 public:
  explicit TwoEnds(unsigned seed) : random_(seed) { connect(); }

  void step() {
    OneEnd& end = ends_[random_() % 2];
    now_ += milliseconds(random_() % 3);
    switch (random_() % 4) {
      case 0:
        if (random_() % 8 == 0) ++end.waiting;
        return send(end);
      case 1:
        if (end.open && end.farewell.asks(activity(end), quiet(end), now_)) out(end).push_back(-1);
        return;
      default:
        return receive(end);
    }
  }
  void drain() {
    for (int i = 0; i < 10'000; ++i) {
      for (OneEnd& end : ends_) {
        send(end);
        receive(end);
      }
    }
    for (int i = 0; i < 2; ++i) {
      EXPECT_EQ(ends_[i].waiting, 0);
      EXPECT_EQ(ends_[i].arrived, ends_[1 - i].next - 1);
    }
  }
  int closings() const { return ends_[0].closings + ends_[1].closings; }

 private:
  std::deque<int>& out(OneEnd& end) { return wires_[&end - ends_].queue; }
  std::deque<int>& in(OneEnd& end) { return wires_[1 - (&end - ends_)].queue; }
  static std::uint64_t activity(const OneEnd& end) { return static_cast<std::uint64_t>(end.next + end.arrived); }
  static bool quiet(const OneEnd& end) { return end.waiting == 0 && end.owed == 0; }

  void connect() {
    for (FarewellWire& wire : wires_) wire.queue.clear();
    for (OneEnd& end : ends_) {
      end.open = true;
      end.farewell = Farewell();
      end.farewell.allow(milliseconds(10), now_);
    }
  }
  void send(OneEnd& end) {
    if (!ends_[0].open && !ends_[1].open && end.waiting != 0) connect();
    if (!end.open || end.farewell.holds() || end.waiting == 0) return;
    --end.waiting;
    ++end.owed;
    out(end).push_back(end.next++);
  }
  void close(OneEnd& end) {
    end.open = false;
    ++end.closings;
    out(end).push_back(0);
  }
  void receive(OneEnd& end) {
    if (!end.open || in(end).empty()) return;
    const int what = in(end).front();
    in(end).pop_front();
    if (what == 0) {  // nothing of ours may have been on its way
      EXPECT_TRUE(end.farewell.holds());
      EXPECT_EQ(end.owed, 0);
      end.open = false;
    } else if (what == kAck) {
      --end.owed;
    } else if (what > 0) {
      EXPECT_EQ(what, end.arrived + 1);
      end.arrived = what;
      out(end).push_back(kAck);
    } else {
      hear(end, static_cast<FarewellWord>(-what));
    }
  }
  void hear(OneEnd& end, FarewellWord word) {
    switch (end.farewell.hear(word, activity(end), quiet(end), now_)) {
      case Farewell::Then::kSayAgree:
        return out(end).push_back(-2);
      case Farewell::Then::kSayDecline:
        return out(end).push_back(-3);
      case Farewell::Then::kClose:
        EXPECT_EQ(end.owed, 0);
        return close(end);
      case Farewell::Then::kNonsense:
        ADD_FAILURE();
        return;
      default:
        return;
    }
  }

  static constexpr int kAck = -100;
  std::mt19937 random_;
  Clock::time_point now_{};
  OneEnd ends_[2];
  FarewellWire wires_[2];
};

TEST(Farewell, LosesNothingInRandomSchedules) {
  int closings = 0;
  for (unsigned seed = 1; seed <= 300; ++seed) {
    TwoEnds model(seed);
    for (int i = 0; i < 5000 && !testing::Test::HasFailure(); ++i) model.step();
    model.drain();
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
    closings += model.closings();
  }
  EXPECT_GT(closings, 1000);
}

TEST(Farewell, WordsThatNobodyWaitsForAreNonsense) {
  const Clock::time_point now{};
  for (const FarewellWord word : {FarewellWord::kAsk, FarewellWord::kAgree, FarewellWord::kDecline})
    EXPECT_EQ(Farewell().hear(word, 0, true, now), Farewell::Then::kNonsense) << "nobody allowed it";
  Farewell end;
  end.allow(milliseconds(10), now);
  EXPECT_EQ(end.hear(FarewellWord::kAgree, 0, true, now), Farewell::Then::kNonsense);
  EXPECT_EQ(end.hear(FarewellWord::kDecline, 0, true, now), Farewell::Then::kNonsense);
  EXPECT_EQ(end.hear(static_cast<FarewellWord>(9), 0, true, now), Farewell::Then::kNonsense);
  EXPECT_EQ(end.hear(FarewellWord::kAsk, 0, true, now + milliseconds(20)), Farewell::Then::kSayAgree);
  EXPECT_EQ(end.hear(FarewellWord::kAsk, 0, true, now + milliseconds(20)), Farewell::Then::kNonsense);
}

}  // namespace
}  // namespace weft::rdm
