// SPDX-License-Identifier: BSD-2-Clause
// Every state of a link against every event, and two ends in every order of what may happen: the promises of
// peer_link.h.
#include "rdm/peer_link.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <unordered_set>
#include <vector>

namespace weft::rdm {
namespace {

constexpr LinkState kStates[] = {LinkState::kNone, LinkState::kRequesting, LinkState::kRejected, LinkState::kAccepting,
                                 LinkState::kOpen, LinkState::kClosing,    LinkState::kAgreed};
constexpr LinkEvent kEvents[] = {LinkEvent::kOperation, LinkEvent::kRequest, LinkEvent::kOwnRequest,
                                 LinkEvent::kRejected,  LinkEvent::kRefused, LinkEvent::kOpened,
                                 LinkEvent::kFailed,    LinkEvent::kEnded,   LinkEvent::kAbandoned,
                                 LinkEvent::kRetry,     LinkEvent::kDeadline};

constexpr bool has_connection(LinkState state) {
  return state != LinkState::kNone && state != LinkState::kRejected;
}

void check(LinkState state, LinkEvent event, const LinkRequest& request) {
  const LinkStep step = next(state, event, request);
  const auto has = [&](LinkActions action) { return (step.actions & action) != 0; };
  const bool is_request = event == LinkEvent::kRequest || event == LinkEvent::kOwnRequest;
  EXPECT_EQ(has(kLinkReject | kLinkAccept | kLinkAcceptBeside), is_request) << "each request has one answer";
  EXPECT_EQ(has(kLinkAccept), event == LinkEvent::kRequest && !has(kLinkReject | kLinkAcceptBeside));
  if (has(kLinkReject | kLinkAcceptBeside)) {
    EXPECT_EQ(step.actions & ~(kLinkReject | kLinkAcceptBeside), 0);
    EXPECT_EQ(step.state, state);
  }
  // A connection is closed exactly when the link leaves it, and never silently.
  const bool leaves = has_connection(state) && (!has_connection(step.state) || has(kLinkAccept));
  EXPECT_EQ(has(kLinkClose), leaves);
  EXPECT_EQ(step.error != 0, is_request && leaves);
  EXPECT_EQ(has(kLinkConnect), state == LinkState::kNone && step.state == LinkState::kRequesting);
  EXPECT_EQ(has(kLinkConnect), state == LinkState::kNone && event == LinkEvent::kOperation);
  EXPECT_EQ(has(kLinkRetryLater), state == LinkState::kRequesting && step.state == LinkState::kRejected);
  EXPECT_EQ(has(kLinkFlush), event == LinkEvent::kOpened && has_connection(state));
  // Operations that wait fail or have a connection made for them.
  EXPECT_EQ(step.state == LinkState::kNone && state != LinkState::kNone,
            state != LinkState::kNone && has(kLinkFail | kLinkReconnect));
  EXPECT_FALSE(has(kLinkFail) && has(kLinkReconnect));
  EXPECT_LE(state >= LinkState::kClosing && event == LinkEvent::kEnded, has(kLinkReconnect));
  EXPECT_LE(step.crossed, is_request);
}

TEST(PeerLink, EveryStateAgainstEveryEvent) {
  for (const LinkState state : kStates)
    for (const LinkEvent event : kEvents)
      for (unsigned bits = 0; bits < 16; ++bits) {
        SCOPED_TRACE(testing::Message() << "state " << static_cast<int>(state) << " event " << static_cast<int>(event)
                                        << " request " << bits);
        check(state, event, {(bits & 1) != 0, (bits & 2) != 0, (bits & 4) != 0, (bits & 8) != 0});
      }
}

TEST(PeerLink, RequestOfTheGreaterAddressStays) {
  EXPECT_EQ(next(LinkState::kRequesting, LinkEvent::kRequest).actions, kLinkReject);
  const LinkStep step = next(LinkState::kRequesting, LinkEvent::kRequest, {.from_greater = true});
  EXPECT_EQ(step.actions, kLinkClose | kLinkAccept);
  EXPECT_EQ(step.error, FI_EALREADY);
}

TEST(PeerLink, RestartedPeerReplacesItsConnection) {
  for (const LinkState state : {LinkState::kAccepting, LinkState::kOpen, LinkState::kClosing}) {
    EXPECT_EQ(next(state, LinkEvent::kRequest, {.restarted = true}).actions, kLinkClose | kLinkAccept);
    EXPECT_EQ(next(state, LinkEvent::kRequest).actions, kLinkReject);
  }
}

// The peer has this endpoint under another address, too.
TEST(PeerLink, ConnectedPeerGetsOneConnectionMore) {
  EXPECT_EQ(next(LinkState::kAccepting, LinkEvent::kRequest).actions, kLinkReject) << "it may have crossed ours";
  for (const LinkState state : {LinkState::kOpen, LinkState::kClosing}) {
    EXPECT_EQ(next(state, LinkEvent::kRequest).actions, kLinkReject) << "the connection may have ended before";
    EXPECT_EQ(next(state, LinkEvent::kRequest, {.repeated = true}).actions, kLinkAcceptBeside);
    EXPECT_EQ(next(state, LinkEvent::kRequest, {.duplicate = true, .repeated = true}).actions, kLinkReject);
  }
}

TEST(PeerLink, PeerThatHasClosedByAgreementConnectsAgain) {
  const LinkStep step = next(LinkState::kAgreed, LinkEvent::kRequest);
  EXPECT_EQ(step.actions, kLinkClose | kLinkAccept);
  EXPECT_EQ(step.error, FI_ECANCELED);
}

TEST(PeerLink, SecondLoopbackConnectionIsRejected) {
  EXPECT_EQ(next(LinkState::kRequesting, LinkEvent::kOwnRequest).actions, kLinkAcceptBeside);
  EXPECT_EQ(next(LinkState::kOpen, LinkEvent::kOwnRequest, {.duplicate = true}).actions, kLinkReject);
}

TEST(PeerLink, RefusedRequestIsRepeatedOrFails) {
  const LinkStep again = next(LinkState::kRequesting, LinkEvent::kRefused, {.repeated = true});
  EXPECT_EQ(again.state, LinkState::kRejected);
  EXPECT_EQ(again.actions, kLinkClose | kLinkRetryLater);
  const LinkStep over = next(LinkState::kRequesting, LinkEvent::kRefused);
  EXPECT_EQ(over.state, LinkState::kNone);
  EXPECT_EQ(over.actions, kLinkClose | kLinkFail);
}

using std::chrono::milliseconds;

// The pause before the next request, if the peer refuses one now; zero: there is none.
Clock::duration pause_of(FirstContact& contact, Clock::time_point now, Clock::duration patience) {
  Deadline deadline;
  const auto next = contact.retry_at(LinkEvent::kRefused, now, {.start = patience}, deadline);
  return next ? *next - now : Clock::duration::zero();
}

// The pauses until there is none, each beginning when the one before ends.
std::vector<Clock::duration> pauses_of(FirstContact& contact, Clock::duration patience, Clock::time_point& now) {
  std::vector<Clock::duration> pauses;
  for (;;) {
    const Clock::duration pause = pause_of(contact, now, patience);
    if (pause == Clock::duration::zero()) return pauses;
    pauses.push_back(pause);
    now += pause;
  }
}

TEST(PeerLink, FirstContactThatEndedOtherwiseHasItsWholeTimeAgain) {
  FirstContact contact;
  const auto start = Clock::now();
  EXPECT_GT(pause_of(contact, start, milliseconds(5000)), milliseconds(0));
  const auto later = start + milliseconds(60000);  // the second request was not refused, for example it had no route
  EXPECT_EQ(pause_of(contact, later, milliseconds(5000)), milliseconds(10));
  EXPECT_GT(pause_of(contact, later + milliseconds(4000), milliseconds(5000)), milliseconds(0));
}

TEST(PeerLink, OnlyTheRequestAfterARefusalHasADeadlineOfItsOwn) {
  FirstContact contact;
  const auto now = Clock::now();
  const LinkTimeouts timeouts{.start = milliseconds(5000), .connect = milliseconds(3000)};
  Deadline deadline(now + milliseconds(700));
  EXPECT_EQ(contact.retry_at(LinkEvent::kRejected, now, timeouts, deadline), now + kCrossedRequestTimeout);
  EXPECT_EQ(deadline.time(), now + milliseconds(700)) << "the rejected request shares it with the next";
  const auto next = contact.retry_at(LinkEvent::kRefused, now, timeouts, deadline);
  EXPECT_EQ(deadline.time(), next.value() + timeouts.connect);
  contact.reached();
  EXPECT_FALSE(contact.retry_at(LinkEvent::kRefused, now, timeouts, deadline)) << "the peer has ended";
  EXPECT_EQ(deadline.time(), next.value() + timeouts.connect);
  FirstContact unlimited;
  EXPECT_TRUE(unlimited.retry_at(LinkEvent::kRefused, now, {.start = timeouts.start}, deadline));
  EXPECT_TRUE(deadline.infinite());
}

TEST(PeerLink, PausesOfTheFirstContactGrowUntilItsTimeIsOver) {
  FirstContact contact;
  Clock::time_point now{};
  for (int period = 0; period < 2; ++period) {  // the next operation begins a new one
    const Clock::time_point start = now;
    const std::vector<Clock::duration> pauses = pauses_of(contact, milliseconds(5000), now);
    ASSERT_GE(pauses.size(), 8u);
    EXPECT_EQ(pauses.front(), milliseconds(10));
    EXPECT_TRUE(std::is_sorted(pauses.begin(), pauses.end() - 1)) << "the last one is cut";
    EXPECT_EQ(*std::max_element(pauses.begin(), pauses.end()), milliseconds(500));
    EXPECT_EQ(now - start, milliseconds(5000));
  }
  EXPECT_TRUE(pauses_of(contact, {}, now).empty()) << "no patience";
  contact.reached();
  EXPECT_TRUE(pauses_of(contact, milliseconds(5000), now).empty()) << "the peer has ended";
}

// ---- Two ends ----

struct End {
  LinkState state = LinkState::kNone;
  int connection = 0;  // 0: none
  int beside = 0;      // accepted beside it; 0: none
  bool has_rejected = false;
  int process = 1;  // changes when it restarts
  int known = 0;    // the process at the other end of `connection`; 0: unknown
  bool waiting = false;
  int failures = 0;
  bool started = true;
};

struct Event {
  enum class Kind { kRequest, kAccept, kReject, kRefuse, kEstablished, kEnd } kind;
  int to, connection, process;
};

struct Rules {
  int operations = 2;            // for each end
  int restarts = 0;              // either end restarted, and then has an operation more
  bool loses_ends = false;       // a restart is that of a host: its connections end unnoticed
  bool starts_late = false;      // the second end
  bool opens_on_accept = false;  // the acceptor does not wait until its answer has arrived
};

// Everything under way between two ends; the second one has the greater address.
class World {
 public:
  explicit World(const Rules& rules)
      : rules_(rules), operations_{rules.operations, rules.operations}, restarts_(rules.restarts) {
    ends_[1].started = !rules.starts_late;
  }

  // Visits each world that one thing more leads to.
  template <class Visit>
  void for_each_next(Visit visit) const {
    const auto with = [&](auto change) {
      World copy = *this;
      change(copy);
      visit(copy);
    };
    for (std::size_t i = 0; i < events_.size(); ++i)
      if (is_first(i)) with([&](World& world) { world.deliver(i); });
    if (!ends_[1].started) with([&](World& world) { world.ends_[1].started = true; });
    for (int end = 0; end < 2; ++end) {
      if (operations_[end] != 0 && ends_[end].started) with([&](World& world) { world.operate(end); });
      if (restarts_ != 0) with([&](World& world) { world.restart(end); });
      // A retry may always be first; but a deadline ends before many of them.
      if (ends_[end].state == LinkState::kRejected &&
          (retries_ < 2 || (events_.empty() && ends_[1].started && !may_expire(1 - end))))
        with([&](World& world) { world.retry(end); });
      if (events_.empty() && may_expire(end)) with([&](World& world) { world.raise(end, LinkEvent::kDeadline); });
    }
  }

  void check_invariants() const {
    for (const End& end : ends_) {
      ASSERT_EQ(end.connection != 0, has_connection(end.state));
      ASSERT_LE(end.waiting, end.state != LinkState::kNone) << "an operation that nothing will start";
      ASSERT_LE(end.failures, rules_.restarts == 0 ? 0 : 2) << "requests that cross fail no operation";
    }
    ASSERT_LT(connections_, 20) << "the ends never settle";
  }
  // Nothing can happen any more.
  void check_settled() const {
    for (int i = 0; i < 2; ++i) {
      const End &end = ends_[i], &other = ends_[1 - i];
      ASSERT_TRUE(end.connection == other.connection || end.connection == other.beside || end.connection == 0);
      EXPECT_FALSE(end.waiting);
      EXPECT_TRUE(end.state == LinkState::kOpen || (end.state == LinkState::kNone && rules_.restarts != 0));
    }
  }

  std::string key() const {
    std::string text;
    const auto add = [&](int number) { text += static_cast<char>(number); };  // all are small
    for (const End& end : ends_)
      for (const int number : {static_cast<int>(end.state), end.connection, end.beside, end.process, end.known,
                               int{end.waiting}, end.failures, int{end.started}, int{end.has_rejected}})
        add(number);
    for (const Event& event : events_)
      for (const int number : {static_cast<int>(event.kind), event.to, event.connection, event.process}) add(number);
    for (const int number : {operations_[0], operations_[1], restarts_, connections_, retries_}) add(number);
    return text;
  }

 private:
  // Events of one connection arrive in order, others in any order.
  bool is_first(std::size_t index) const {
    const Event& event = events_[index];
    return std::none_of(
        events_.begin(), events_.begin() + static_cast<std::ptrdiff_t>(index),
        [&](const Event& before) { return before.to == event.to && before.connection == event.connection; });
  }
  bool may_expire(int end) const {
    return ends_[end].state == LinkState::kRequesting || ends_[end].state == LinkState::kAccepting;
  }
  void send(int from, Event::Kind kind, int connection) {
    events_.push_back({kind, 1 - from, connection, ends_[from].process});
  }

  void operate(int at) {
    --operations_[at];
    End& end = ends_[at];
    if (end.state == LinkState::kOpen) return;
    end.waiting = true;
    raise(at, LinkEvent::kOperation);
  }
  void retry(int at) {
    ++retries_;
    raise(at, LinkEvent::kRetry);
  }
  void restart(int at) {
    --restarts_;
    ++operations_[at];
    End& end = ends_[at];
    for (const int connection : {end.connection, end.beside})
      if (connection != 0 && !rules_.loses_ends) send(at, Event::Kind::kEnd, connection);
    end = {.process = end.process + 1, .failures = end.failures};
    // All that was sent to the former process is lost, and all that a crashed host sent.
    std::erase_if(events_, [&](const Event& event) { return event.to == at || rules_.loses_ends; });
  }

  void raise(int at, LinkEvent event) { execute(at, next(ends_[at].state, event, {.repeated = true}), 0, 0); }
  void execute(int at, const LinkStep& step, int requested, int process) {
    End& end = ends_[at];
    if ((step.actions & kLinkReject) != 0) send(at, Event::Kind::kReject, requested);
    if ((step.actions & kLinkClose) != 0) {
      send(at, Event::Kind::kEnd, end.connection);
      end.connection = end.known = 0;
      end.has_rejected = false;
    }
    end.state = step.state;
    if ((step.actions & kLinkConnect) != 0) send(at, Event::Kind::kRequest, end.connection = ++connections_);
    if ((step.actions & kLinkAccept) != 0) {
      end.connection = requested;
      end.known = process;
      send(at, Event::Kind::kAccept, requested);
      if (rules_.opens_on_accept) raise(at, LinkEvent::kOpened);
    }
    if ((step.actions & kLinkAcceptBeside) != 0) send(at, Event::Kind::kAccept, end.beside = requested);
    if ((step.actions & kLinkFlush) != 0) end.waiting = false;
    if ((step.actions & kLinkFail) != 0) {
      end.failures += end.waiting;
      end.waiting = false;
    }
    if ((step.actions & kLinkReconnect) != 0 && end.waiting) raise(at, LinkEvent::kOperation);
  }

  void deliver(std::size_t index) {
    const Event event = events_[index];
    events_.erase(events_.begin() + static_cast<std::ptrdiff_t>(index));
    End& end = ends_[event.to];
    if (event.kind == Event::Kind::kRequest && !end.started)
      return send(event.to, Event::Kind::kRefuse, event.connection);
    if (event.kind == Event::Kind::kRequest) {
      const LinkRequest request{.from_greater = event.to == 0,
                                .restarted = end.known != 0 && end.known != event.process,
                                .duplicate = end.beside != 0,
                                .repeated = end.has_rejected};
      const LinkStep step = next(end.state, LinkEvent::kRequest, request);
      end.has_rejected |= end.state >= LinkState::kOpen && (step.actions & kLinkReject) != 0;
      return execute(event.to, step, event.connection, event.process);
    }
    if (end.beside == event.connection && event.kind == Event::Kind::kEnd) end.beside = 0;
    if (end.connection != event.connection) return;
    switch (event.kind) {
      case Event::Kind::kAccept:
        end.known = event.process;
        if (!rules_.opens_on_accept) send(event.to, Event::Kind::kEstablished, event.connection);
        return raise(event.to, LinkEvent::kOpened);
      case Event::Kind::kEstablished:
        return raise(event.to, LinkEvent::kOpened);
      case Event::Kind::kReject:
        return raise(event.to, LinkEvent::kRejected);
      case Event::Kind::kRefuse:
        return raise(event.to, LinkEvent::kRefused);
      default:
        return raise(event.to, LinkEvent::kEnded);
    }
  }

  Rules rules_;
  End ends_[2];
  std::vector<Event> events_;
  int operations_[2];
  int restarts_;
  int connections_ = 0;
  int retries_ = 0;
};

// Returns how many worlds there are.
std::size_t explore(const Rules& rules) {
  std::unordered_set<std::string> seen;
  std::vector<World> left{World(rules)};
  while (!left.empty() && !testing::Test::HasFailure()) {
    const World world = left.back();
    left.pop_back();
    if (!seen.insert(world.key()).second) continue;
    world.check_invariants();
    bool settled = true;
    world.for_each_next([&](const World& following) {
      settled = false;
      left.push_back(following);
    });
    if (settled) world.check_settled();
  }
  return seen.size();
}

TEST(PeerLink, CrossedRequestsSettleOnOneConnectionInEveryOrder) {
  for (const bool opens_on_accept : {false, true}) EXPECT_GT(explore({.opens_on_accept = opens_on_accept}), 100u);
}

TEST(PeerLink, EndThatStartsLateIsReachedInEveryOrder) {
  for (const bool opens_on_accept : {false, true})
    EXPECT_GT(explore({.starts_late = true, .opens_on_accept = opens_on_accept}), 100u);
}

TEST(PeerLink, RestartedEndsSettleInEveryOrder) {
  for (const bool opens_on_accept : {false, true})
    for (const bool loses_ends : {false, true})
      EXPECT_GT(explore({.operations = 1, .restarts = 1, .loses_ends = loses_ends, .opens_on_accept = opens_on_accept}),
                1000u);
}

}  // namespace
}  // namespace weft::rdm
