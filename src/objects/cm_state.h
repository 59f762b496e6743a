// SPDX-License-Identifier: BSD-2-Clause
// The life of a connected endpoint as a pure function: which call is allowed in which state, the actions that follow,
// and the events that the application gets. fi_cm(3) governs. The owner of the endpoint carries out the actions; a test
// walks every state against every event.
//
// Promise: a connect or accept that was not refused is followed by one kCmStart or kCmReportFailure, a connection by
// one kCmReportShutdown, unless the application closes the endpoint first. Nothing follows in kClosed.
#pragma once

#include <rdma/fi_errno.h>

#include <cstdint>

namespace weft {

enum class CmState : std::uint8_t {
  kIdle,        // options and bindings may change
  kEnabled,     // receives may be posted
  kConnecting,  // the transport is being set up
  kRequesting,  // our request is leaving
  kAwaiting,    // the peer has received the request and has not answered
  kAnswering,   // our acceptance of the peer's request is leaving
  kConnected,
  kClosed,  // ended, failed or refused; for good
};

enum class CmEvent : std::uint8_t {
  // Calls of the application.
  kEnable,
  kConnect,
  kAccept,
  kShutdown,
  kClose,
  // Events of the network.
  kTransportUp,
  kMessageSent,
  kAccepted,
  kRejected,
  kFailed,     // an error, or the deadline
  kStreamEnd,  // the peer ended the connection, or it broke
  kTryAgain,   // this attempt to connect failed, another one may succeed
};

using CmActions = std::uint16_t;
inline constexpr CmActions kCmEnable = 1 << 0;          // check the bindings, let receives be posted
inline constexpr CmActions kCmConnect = 1 << 1;         // set up the transport
inline constexpr CmActions kCmSend = 1 << 2;            // send the request or the acceptance
inline constexpr CmActions kCmRefuse = 1 << 3;          // reject the peer's request, if it was not answered
inline constexpr CmActions kCmDisconnect = 1 << 4;      // drop the half-open connection
inline constexpr CmActions kCmStart = 1 << 5;           // hand the connection to the data path, then post FI_CONNECTED
inline constexpr CmActions kCmStop = 1 << 6;            // cancel what is outstanding, end the stream
inline constexpr CmActions kCmReportFailure = 1 << 7;   // an error entry
inline constexpr CmActions kCmReportShutdown = 1 << 8;  // FI_SHUTDOWN

struct CmStep {
  CmState state;
  CmActions actions = 0;
  int refusal = 0;  // positive fi_errno: the call is not allowed in this state and changes nothing
};

namespace cm_detail {

// Events that mean the same in every state between the first call and the connection.
constexpr CmStep next_pending(CmState state, CmEvent event) noexcept {
  switch (event) {
    case CmEvent::kEnable:
      return {state};
    case CmEvent::kConnect:
    case CmEvent::kAccept:
      return {state, 0, FI_EOPBADSTATE};
    case CmEvent::kShutdown:
    case CmEvent::kFailed:
      return {CmState::kClosed, kCmDisconnect | kCmStop | kCmReportFailure};
    case CmEvent::kClose:
      return {CmState::kClosed, kCmDisconnect | kCmStop};
    case CmEvent::kTryAgain:  // the transport is set up again; an acceptance cannot be repeated
      return {state == CmState::kAnswering ? state : CmState::kConnecting};
    default:
      return {state};
  }
}

constexpr CmStep next_unconnected(CmState state, CmEvent event) noexcept {
  const CmActions enable = state == CmState::kIdle ? kCmEnable : 0;
  switch (event) {
    case CmEvent::kEnable:
      return {CmState::kEnabled, enable};
    case CmEvent::kConnect:
      return {CmState::kConnecting, static_cast<CmActions>(enable | kCmConnect)};
    case CmEvent::kAccept:
      return {CmState::kAnswering, static_cast<CmActions>(enable | kCmSend)};
    case CmEvent::kShutdown:
      return {state, 0, FI_ENOTCONN};
    case CmEvent::kClose:
      return {CmState::kClosed, kCmRefuse | kCmStop};
    default:
      return {state};
  }
}

constexpr CmStep next_connected(CmEvent event) noexcept {
  switch (event) {
    case CmEvent::kConnect:
    case CmEvent::kAccept:
      return {CmState::kConnected, 0, FI_EISCONN};
    case CmEvent::kShutdown:
      return {CmState::kClosed, kCmStop | kCmReportShutdown};
    case CmEvent::kStreamEnd:  // the data path has completed all operations
      return {CmState::kClosed, kCmReportShutdown};
    case CmEvent::kClose:
      return {CmState::kClosed, kCmStop};
    default:
      return {CmState::kConnected};
  }
}

constexpr CmStep next_closed(CmEvent event) noexcept {
  switch (event) {
    case CmEvent::kEnable:
    case CmEvent::kConnect:
    case CmEvent::kAccept:
      return {CmState::kClosed, 0, FI_EOPBADSTATE};
    default:  // fi_shutdown too: the peer may have been faster
      return {CmState::kClosed};
  }
}

}  // namespace cm_detail

constexpr CmStep next(CmState state, CmEvent event) noexcept {
  switch (state) {
    case CmState::kIdle:
    case CmState::kEnabled:
      return cm_detail::next_unconnected(state, event);
    case CmState::kConnecting:
      if (event == CmEvent::kTransportUp) return {CmState::kRequesting, kCmSend};
      break;
    case CmState::kRequesting:
      if (event == CmEvent::kMessageSent) return {CmState::kAwaiting};
      break;
    case CmState::kAwaiting:
      if (event == CmEvent::kAccepted) return {CmState::kConnected, kCmStart};
      if (event == CmEvent::kRejected) return {CmState::kClosed, kCmDisconnect | kCmStop | kCmReportFailure};
      break;
    case CmState::kAnswering:
      if (event == CmEvent::kMessageSent) return {CmState::kConnected, kCmStart};
      break;
    case CmState::kConnected:
      return cm_detail::next_connected(event);
    case CmState::kClosed:
      return cm_detail::next_closed(event);
  }
  return cm_detail::next_pending(state, event);
}

}  // namespace weft
