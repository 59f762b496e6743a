// SPDX-License-Identifier: BSD-2-Clause
// Every state against every event, and every sequence of events up to a length: the promises of cm_state.h.
#include "objects/cm_state.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

constexpr CmState kStates[] = {CmState::kIdle,     CmState::kEnabled,   CmState::kConnecting, CmState::kRequesting,
                               CmState::kAwaiting, CmState::kAnswering, CmState::kConnected,  CmState::kClosed};
constexpr CmEvent kEvents[] = {CmEvent::kEnable,   CmEvent::kConnect,     CmEvent::kAccept,      CmEvent::kShutdown,
                               CmEvent::kClose,    CmEvent::kTransportUp, CmEvent::kMessageSent, CmEvent::kAccepted,
                               CmEvent::kRejected, CmEvent::kFailed,      CmEvent::kStreamEnd,   CmEvent::kTryAgain};

constexpr bool is_pending(CmState state) {
  return state > CmState::kEnabled && state < CmState::kConnected;
}

TEST(CmState, EveryStateAgainstEveryEvent) {
  for (CmState state : kStates) {
    for (CmEvent event : kEvents) {
      SCOPED_TRACE(::testing::Message() << "state " << static_cast<int>(state) << " event " << static_cast<int>(event));
      const CmStep step = next(state, event);
      if (step.refusal != 0) {  // a refused call changes nothing
        EXPECT_EQ(step.state, state);
        EXPECT_EQ(step.actions, 0);
        EXPECT_LE(event, CmEvent::kClose) << "only calls can be refused";
      }
      if (state == CmState::kClosed) {
        EXPECT_EQ(step.state, CmState::kClosed);
        EXPECT_EQ(step.actions, 0);
      }
      // Sockets are dropped exactly when a pending connection ends, transfers start exactly when it is established.
      EXPECT_EQ((step.actions & kCmDisconnect) != 0, is_pending(state) && step.state == CmState::kClosed);
      EXPECT_EQ((step.actions & kCmStart) != 0, state != CmState::kConnected && step.state == CmState::kConnected);
      EXPECT_EQ((step.actions & kCmReportShutdown) != 0,
                state == CmState::kConnected && step.state == CmState::kClosed && event != CmEvent::kClose);
      EXPECT_EQ((step.actions & kCmReportFailure) != 0,
                is_pending(state) && step.state == CmState::kClosed && event != CmEvent::kClose);
      if (event == CmEvent::kClose) {
        EXPECT_EQ(step.state, CmState::kClosed);
        EXPECT_EQ(step.refusal, 0);
      }
    }
  }
}

struct History {
  int requests = 0;  // connect or accept was not refused
  int connected = 0;
  int failed = 0;
  int shut_down = 0;
  bool closed_by_application = false;
};

// Depth first over all sequences; `left` more events may follow.
void walk(CmState state, History history, int left) {
  EXPECT_LE(history.requests, 1);
  EXPECT_LE(history.connected + history.failed, history.requests);
  EXPECT_LE(history.shut_down, history.connected);
  if (state == CmState::kClosed && !history.closed_by_application) {
    EXPECT_EQ(history.connected + history.failed, 1);
    EXPECT_EQ(history.shut_down, history.connected);
  }
  if (left == 0 || state == CmState::kClosed || ::testing::Test::HasFailure()) return;
  for (CmEvent event : kEvents) {
    const CmStep step = next(state, event);
    if (step.refusal != 0) continue;
    History after = history;
    after.requests += event == CmEvent::kConnect || event == CmEvent::kAccept;
    after.connected += (step.actions & kCmStart) != 0;
    after.failed += (step.actions & kCmReportFailure) != 0;
    after.shut_down += (step.actions & kCmReportShutdown) != 0;
    after.closed_by_application |= event == CmEvent::kClose;
    walk(step.state, after, left - 1);
  }
}

TEST(CmState, OneTerminalEventOnEveryPath) {
  walk(CmState::kIdle, {}, 6);
}

static_assert(next(CmState::kIdle, CmEvent::kConnect).actions == (kCmEnable | kCmConnect));
static_assert(next(CmState::kConnected, CmEvent::kConnect).refusal == FI_EISCONN);

}  // namespace
}  // namespace weft
