// SPDX-License-Identifier: BSD-2-Clause
// The life of the link to a peer of reliable datagrams as a pure function: when a connection is requested, accepted,
// rejected, replaced or closed, and whether the operations that wait for it start or fail; fi_cm(3). The peer's record
// stores the state, its endpoint executes the actions in the order below, and a test walks every state against every
// event.
//
// When the requests of both ends cross, that of the end with the greater address stays: that end rejects the other
// request, and the other end drops its own and accepts.
//
// One connection of a peer may be accepted beside its link. It has no state of its own. It is the accepted end of a
// loopback connection, or it belongs to a peer that uses another address of this endpoint too, and so requests a second
// connection. Such a peer repeats its request. The first one is rejected, because the old connection may have ended
// before it: that connection is read to its end first, so that messages keep their order.
//
// A request that finds no endpoint is refused. Programs start in any order, so refused first contacts are repeated for
// a while; a peer that was reached before has ended.
//
// Promise: after crossed requests both ends have the same connection, or each accepted that of the other. An operation
// that waits for the peer is started or fails: a connection is being made or closed, or a timer runs.
#pragma once

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstdint>
#include <optional>

#include "base/deadline.h"

namespace weft::rdm {

// The agreement of both ends of an idle connection to close it, without loss and unseen by applications: fi_endpoint(3)
// (FI_EP_RDM) has no connections.
//
// An end that has been idle sends a request and then nothing more until the answer; its operations wait meanwhile. The
// other end agrees if it is idle and quiet too, sends nothing more, and waits for the end of the connection; otherwise
// it declines, and both ends resume. These messages keep their order among the others, so an end that receives a
// request or an agreement has received everything that was sent before. When both ends send requests at the same time,
// both have stopped sending, and each treats the request as an agreement.
enum class IdleCloseMessage : std::uint8_t { kRequest = 1, kAgree = 2, kDecline = 3 };

// One end of a connection; belongs to it. No thread-safety of its own.
class IdleClose {
 public:
  enum class Action : std::uint8_t { kNone, kSendAgree, kSendDecline, kClose, kResume, kProtocolError };

  // Both ends support this. `patience`: how long an end is idle before it sends a request; zero: never.
  void allow(Clock::duration patience, Clock::time_point now) noexcept {
    state_ = State::kNone;
    patience_ = patience;
    idle_since_ = now;
  }
  // Operations wait for an answer, or for the end of the connection.
  bool holds() const noexcept { return state_ >= State::kRequested; }
  // This end has agreed to close: the other end sends nothing more.
  bool agreed() const noexcept { return state_ == State::kAgreed; }

  // Called regularly: whether to send a request now. `activity`: a number that changes with everything sent or
  // received.
  bool should_request(std::uint64_t activity, bool quiet, Clock::time_point now) noexcept {
    note(activity, now);
    if (state_ != State::kNone || !quiet || now - idle_since_ < patience_) return false;
    state_ = State::kRequested;
    return true;
  }

  // The answer to a message of the other end.
  Action on_message(IdleCloseMessage message, std::uint64_t activity, bool quiet, Clock::time_point now) noexcept {
    switch (message) {
      case IdleCloseMessage::kRequest:
        if (state_ == State::kRequested) return Action::kClose;
        if (state_ != State::kNone) return Action::kProtocolError;
        note(activity, now);
        if (!quiet || now - idle_since_ < patience_ / 2) return Action::kSendDecline;
        state_ = State::kAgreed;
        return Action::kSendAgree;
      case IdleCloseMessage::kAgree:
        return state_ == State::kRequested ? Action::kClose : Action::kProtocolError;
      case IdleCloseMessage::kDecline:
        if (state_ != State::kRequested) return Action::kProtocolError;
        state_ = State::kNone;
        idle_since_ = now;
        return Action::kResume;
    }
    return Action::kProtocolError;
  }

 private:
  enum class State : std::uint8_t { kImpossible, kNone, kRequested, kAgreed };

  void note(std::uint64_t activity, Clock::time_point now) noexcept {
    if (activity == activity_) return;
    activity_ = activity;
    idle_since_ = now;
  }

  State state_ = State::kImpossible;
  std::uint64_t activity_ = 0;
  Clock::duration patience_{};
  Clock::time_point idle_since_{};
};

enum class LinkState : std::uint8_t {
  kNone,
  kRequesting,  // our request is under way
  kRejected,    // our request was rejected or refused: the peer's own arrives, or ours is repeated
  kAccepting,   // the peer's request was accepted
  kOpen,
  kClosing,  // an idle close is pending
  kAgreed,   // an idle close to which this end agreed: the peer will close
};

enum class LinkEvent : std::uint8_t {
  kOperation,   // needs a connection
  kRequest,     // from the peer
  kOwnRequest,  // from our own address
  kRejected,    // our request, by the peer
  kRefused,     // our request: the peer's address has no endpoint
  kOpened,
  kFailed,     // an attempt to connect, or the protocol
  kEnded,      // closed by the peer, by the network or after an idle close
  kAbandoned,  // to be closed because of its operations; those that wait are not affected
  kRetry,      // the timer of kRejected, or of a reconnection
  kDeadline,   // for connecting
};

// Facts about a request: the peer's, or our refused one.
struct LinkRequest {
  bool from_greater = false;  // the peer's address is greater than ours
  bool restarted = false;     // from another process than the connected one
  bool duplicate = false;     // a connection beside the link exists
  bool repeated = false;      // kRefused: FirstContact allows another one; kRequest: one was rejected on this link
};

// A rejected request is repeated after this time, unless the peer's own request arrives first.
inline constexpr Clock::duration kCrossedRequestTimeout = std::chrono::milliseconds(200);

// How long a peer that refuses is retried (zero: not at all), and how long a request may take (zero: no limit).
struct LinkTimeouts {
  Clock::duration start{};
  Clock::duration connect{};
};

// Whether a peer was ever reached, and how often it has refused. Belongs to the peer.
class FirstContact {
 public:
  void reached() noexcept { reached_ = true; }
  // When a request that was rejected or refused is repeated; nullopt: it is not. The request after a refusal gets a
  // `deadline` of its own.
  std::optional<Clock::time_point> retry_at(LinkEvent event, Clock::time_point now, const LinkTimeouts& timeouts,
                                            Deadline& deadline) noexcept {
    if (event != LinkEvent::kRefused) return now + kCrossedRequestTimeout;
    const Clock::duration pause = next_pause(now, timeouts.start);
    if (pause == Clock::duration::zero()) return std::nullopt;
    deadline = Deadline::after(now + pause, timeouts.connect);
    return now + pause;
  }

 private:
  // The pause grows from 10 ms to 500 ms. Zero: no further attempt, because `patience` has passed since the first
  // refusal.
  Clock::duration next_pause(Clock::time_point now, Clock::duration patience) noexcept {
    constexpr Clock::duration kLongest = std::chrono::milliseconds(500);
    if (now - end_ > kLongest) refusals_ = 0;  // the requests before ended otherwise
    if (refusals_ == 0) end_ = now + patience;
    const Clock::duration longest = std::min(kLongest, end_ - now);
    const Clock::duration pause =
        std::min<Clock::duration>(std::chrono::milliseconds(10) * (1 << std::min(refusals_, 6)), longest);
    const bool repeated = !reached_ && longest > Clock::duration::zero();
    refusals_ = repeated ? refusals_ + 1 : 0;
    return repeated ? pause : Clock::duration::zero();
  }

  bool reached_ = false;
  int refusals_ = 0;
  Clock::time_point end_{};
};

using LinkActions = std::uint16_t;
inline constexpr LinkActions kLinkReject = 1 << 0;        // the request
inline constexpr LinkActions kLinkClose = 1 << 1;         // the connection; its operations fail
inline constexpr LinkActions kLinkConnect = 1 << 2;       // start the deadline unless it runs; send a request
inline constexpr LinkActions kLinkAccept = 1 << 3;        // start the deadline unless it runs; accept the request
inline constexpr LinkActions kLinkAcceptBeside = 1 << 4;  // accept the request beside the link, without a deadline
inline constexpr LinkActions kLinkRetryLater = 1 << 5;    // start the timer of kRejected
inline constexpr LinkActions kLinkFlush = 1 << 6;         // stop the timers, start the operations that wait
inline constexpr LinkActions kLinkFail = 1 << 7;          // stop the timers, fail the operations that wait
inline constexpr LinkActions kLinkReconnect = 1 << 8;     // if operations wait, kOperation follows

struct LinkStep {
  LinkState state;
  LinkActions actions = 0;
  int error = 0;         // kLinkClose of a request: positive
  bool crossed = false;  // a request that crossed ours, or is on a link already
};

// The state of an open link, in which `idle_close` may be pending.
inline LinkState open_link(const IdleClose& idle_close) noexcept {
  if (idle_close.agreed()) return LinkState::kAgreed;
  return idle_close.holds() ? LinkState::kClosing : LinkState::kOpen;
}

namespace link_detail {

constexpr LinkStep next_request(LinkState state, const LinkRequest& request) noexcept {
  constexpr LinkActions kReplace = kLinkClose | kLinkAccept;
  switch (state) {
    case LinkState::kNone:
    case LinkState::kRejected:
      return {LinkState::kAccepting, kLinkAccept};
    case LinkState::kRequesting:
      if (!request.from_greater) return {state, kLinkReject, 0, true};
      return {LinkState::kAccepting, kReplace, FI_EALREADY, true};
    case LinkState::kAgreed:  // the peer has closed the connection already
      return {LinkState::kAccepting, kReplace, FI_ECANCELED};
    case LinkState::kOpen:
    case LinkState::kClosing:
      if (!request.restarted && request.repeated && !request.duplicate) return {state, kLinkAcceptBeside};
      [[fallthrough]];
    default:
      if (!request.restarted) return {state, kLinkReject, 0, true};
      return {LinkState::kAccepting, kReplace, FI_ECONNRESET};
  }
}

}  // namespace link_detail

constexpr LinkStep next(LinkState state, LinkEvent event, const LinkRequest& request = {}) noexcept {
  const bool connected = state >= LinkState::kAccepting, closing = state >= LinkState::kClosing;
  const LinkActions close = connected || state == LinkState::kRequesting ? kLinkClose : 0;
  switch (event) {
    case LinkEvent::kOperation:
      if (state != LinkState::kNone) break;
      return {LinkState::kRequesting, kLinkConnect};
    case LinkEvent::kRequest:
      return link_detail::next_request(state, request);
    case LinkEvent::kOwnRequest:
      return {state, request.duplicate ? kLinkReject : kLinkAcceptBeside};
    case LinkEvent::kRejected:
      if (state != LinkState::kRequesting) break;
      return {LinkState::kRejected, kLinkClose | kLinkRetryLater};
    case LinkEvent::kRefused:
      if (state == LinkState::kRequesting && request.repeated)
        return {LinkState::kRejected, kLinkClose | kLinkRetryLater};
      return {LinkState::kNone, static_cast<LinkActions>(close | kLinkFail)};
    case LinkEvent::kOpened:
      if (close == 0) break;
      return {closing ? state : LinkState::kOpen, kLinkFlush};
    case LinkEvent::kEnded:
      if (closing) return {LinkState::kNone, kLinkClose | kLinkReconnect};
      [[fallthrough]];
    case LinkEvent::kFailed:
      return {LinkState::kNone, static_cast<LinkActions>(close | kLinkFail)};
    case LinkEvent::kAbandoned:
      return {LinkState::kNone, static_cast<LinkActions>(close | kLinkReconnect)};
    case LinkEvent::kRetry:
      if (state != LinkState::kRejected && state != LinkState::kNone) break;
      return {LinkState::kNone, kLinkReconnect};
    case LinkEvent::kDeadline:
      if (state == LinkState::kNone || state >= LinkState::kOpen) break;
      return {LinkState::kNone, static_cast<LinkActions>(close | kLinkFail)};
  }
  return {state};
}

}  // namespace weft::rdm
