// SPDX-License-Identifier: BSD-2-Clause
// Two ends of a connection that close it when it is idle, in random schedules: every message arrives once and in order,
// whichever end sends its request when, and connections do close.
#include "rdm/peer_link.h"

#include <gtest/gtest.h>

#include <deque>
#include <random>

namespace weft::rdm {
namespace {

using std::chrono::milliseconds;

// Messages are numbers from 1 on; those of the idle close are negative; 0 is the end of the connection.
struct IdleCloseWire {
  std::deque<int> queue;
};

struct OneEnd {
  IdleClose idle_close;
  bool open = false;
  int next = 1;            // to send
  int arrived = 0;         // the last message of the other end
  int waiting = 0;         // messages that cannot be sent yet
  int unacknowledged = 0;  // messages sent; above 0: not quiet
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
        if (end.open && end.idle_close.should_request(activity(end), quiet(end), now_)) out(end).push_back(-1);
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
  static bool quiet(const OneEnd& end) { return end.waiting == 0 && end.unacknowledged == 0; }

  void connect() {
    for (IdleCloseWire& wire : wires_) wire.queue.clear();
    for (OneEnd& end : ends_) {
      end.open = true;
      end.idle_close = IdleClose();
      end.idle_close.allow(milliseconds(10), now_);
    }
  }
  void send(OneEnd& end) {
    if (!ends_[0].open && !ends_[1].open && end.waiting != 0) connect();
    if (!end.open || end.idle_close.holds() || end.waiting == 0) return;
    --end.waiting;
    ++end.unacknowledged;
    out(end).push_back(end.next++);
  }
  void close(OneEnd& end) {
    end.open = false;
    ++end.closings;
    out(end).push_back(0);
  }
  void receive(OneEnd& end) {
    if (!end.open || in(end).empty()) return;
    const int received = in(end).front();
    in(end).pop_front();
    if (received == 0) {  // no message may be lost on its way
      EXPECT_TRUE(end.idle_close.holds());
      EXPECT_EQ(end.unacknowledged, 0);
      end.open = false;
    } else if (received == kAck) {
      --end.unacknowledged;
    } else if (received > 0) {
      EXPECT_EQ(received, end.arrived + 1);
      end.arrived = received;
      out(end).push_back(kAck);
    } else {
      on_message(end, static_cast<IdleCloseMessage>(-received));
    }
  }
  void on_message(OneEnd& end, IdleCloseMessage message) {
    switch (end.idle_close.on_message(message, activity(end), quiet(end), now_)) {
      case IdleClose::Action::kSendAgree:
        return out(end).push_back(-2);
      case IdleClose::Action::kSendDecline:
        return out(end).push_back(-3);
      case IdleClose::Action::kClose:
        EXPECT_EQ(end.unacknowledged, 0);
        return close(end);
      case IdleClose::Action::kProtocolError:
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
  IdleCloseWire wires_[2];
};

TEST(IdleClose, LosesNothingInRandomSchedules) {
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

TEST(IdleClose, UnexpectedMessagesAreProtocolErrors) {
  const Clock::time_point now{};
  for (const IdleCloseMessage message :
       {IdleCloseMessage::kRequest, IdleCloseMessage::kAgree, IdleCloseMessage::kDecline})
    EXPECT_EQ(IdleClose().on_message(message, 0, true, now), IdleClose::Action::kProtocolError) << "not allowed";
  IdleClose end;
  end.allow(milliseconds(10), now);
  EXPECT_EQ(end.on_message(IdleCloseMessage::kAgree, 0, true, now), IdleClose::Action::kProtocolError);
  EXPECT_EQ(end.on_message(IdleCloseMessage::kDecline, 0, true, now), IdleClose::Action::kProtocolError);
  EXPECT_EQ(end.on_message(static_cast<IdleCloseMessage>(9), 0, true, now), IdleClose::Action::kProtocolError);
  EXPECT_EQ(end.on_message(IdleCloseMessage::kRequest, 0, true, now + milliseconds(20)), IdleClose::Action::kSendAgree);
  EXPECT_EQ(end.on_message(IdleCloseMessage::kRequest, 0, true, now + milliseconds(20)),
            IdleClose::Action::kProtocolError);
}

}  // namespace
}  // namespace weft::rdm
