// SPDX-License-Identifier: BSD-2-Clause
// Setting up connections: carries out the actions of cm_state.h; fi_cm(3), rdma_connect(3), rdma_accept(3).
#include <fmt/format.h>
#include <rdma/providers/fi_log.h>

#include <algorithm>
#include <random>

#include "objects/sentence.h"
#include "verbs/connection/endpoint.h"
#include "verbs/device/gids.h"
#include "verbs/device/logging.h"

namespace weft::verbs {
namespace {

using namespace std::chrono_literals;

// Pauses between tries double from the first to the longest. Each is drawn from half to one and a half of that, so that
// endpoints that failed together do not retry together.
constexpr Clock::duration kFirstPause = 20ms;
constexpr Clock::duration kLongestPause = 1s;
constexpr unsigned kMostDoublings = 6;

Clock::duration pause_before(unsigned next_try) noexcept {
  thread_local std::minstd_rand random(std::random_device{}());
  const Clock::duration middle = std::min(kFirstPause * (1u << std::min(next_try, kMostDoublings)), kLongestPause);
  return middle / 2 + middle * (random() % 1024) / 1024;
}

std::uint8_t at_most(std::uint8_t wanted, int limit) noexcept {
  return static_cast<std::uint8_t>(std::min<int>(wanted, std::max(limit, 0)));
}

}  // namespace

// ---- The application's calls ----

int Endpoint::connect(const void* peer, const void* data, size_t len) {
  const auto address = CmAddress::from(addr_format_, peer);
  if (!address || (data == nullptr && len != 0)) return -FI_EINVAL;
  if (const int error = bind_default_events(*this, *domain_, events_); error != 0) return error;
  Lock lock(engine().mutex());
  if (Status status = check_role(CmEvent::kConnect); !status.ok()) return status.code();
  if (address->family() != local_.family() && id_ != nullptr) return -FI_EINVAL;
  if (Status status = admit(CmEvent::kConnect); !status.ok()) return status.code();
  if (address->family() != local_.family()) local_ = CmAddress::any(address->format());
  if (id_ == nullptr && local_.port() != 0)
    if (Status status = bind_id(); !status.ok()) return status.code();
  if (Status status = start_attempt(data, len); !status.ok()) return status.code();
  if (answer_timeout_ms_ == kNoClock) limit_attempt(connect_timeout_ms_);
  peer_ = *address;
  attempt_->local = local_;
  enter(CmEvent::kConnect);
  // A program that connects many endpoints reads no events meanwhile, so earlier connects make their next step here.
  engine().drive_connections();
  return 0;
}

int Endpoint::accept(const void* data, size_t len) {
  if (data == nullptr && len != 0) return -FI_EINVAL;
  if (const int error = bind_default_events(*this, *domain_, events_); error != 0) return error;
  Lock lock(engine().mutex());
  if (Status status = check_role(CmEvent::kAccept); !status.ok()) return status.code();
  if (request_ != nullptr && request_->id()->verbs != domain_->device().context()) return -FI_EDOMAIN;
  if (Status status = admit(CmEvent::kAccept); !status.ok()) return status.code();
  if (Status status = start_attempt(data, len); !status.ok()) return status.code();
  limit_attempt(answer_timeout_ms_ == kNoClock ? connect_timeout_ms_ : answer_timeout_ms_);
  enter(CmEvent::kAccept);
  return 0;
}

Status Endpoint::start_attempt(const void* data, size_t len) noexcept {
  attempt_.reset(new (std::nothrow) Attempt);
  if (attempt_ == nullptr || attempt_->event == nullptr) {
    attempt_.reset();
    return Status(-FI_ENOMEM);
  }
  attempt_->message.compose(data, len);
  return Status();
}

void Endpoint::limit_attempt(int timeout_ms) noexcept {
  const Deadline limit = Deadline::after(Clock::now(), std::chrono::milliseconds(timeout_ms));
  attempt_->deadline = limit.time();
  if (limit.infinite())
    engine().clear_deadline(*this);
  else
    engine().set_deadline(*this, limit.time());
}

// ---- The state machine's actions ----

void Endpoint::enter(CmEvent event, EqError* failure) noexcept {
  const CmStep step = next(state_, event);
  state_ = step.state;
  if (step.actions & kCmConnect) return start_connecting();
  if (step.actions & kCmSend) return event == CmEvent::kAccept ? send_acceptance() : send_request();
  if (step.actions & kCmRefuse) request_.reset();
  if (step.actions & kCmDisconnect) disconnect();
  if (step.actions & kCmStart) return start_transfers();
  if (step.actions & kCmStop) stop_transfers(event == CmEvent::kClose);
  if ((step.actions & (kCmReportFailure | kCmReportShutdown)) == 0) return;
  if (step.actions & kCmReportFailure) EventQueueCore::hold(*last_event_, std::move(*failure));
  begin_ending();
  settle();
}

void Endpoint::start_connecting() noexcept {
  attempt_->phase = CmPhase::kWaiting;
  if (!engine().take_turn(*this)) return;
  if (attempt_->tries++ == 0) {  // waiting for the turn took none of the time, unless the application set one deadline
    if (answer_timeout_ms_ != kNoClock) limit_attempt(connect_timeout_ms_);
    attempt_->last_try = attempt_->deadline;
  }
  const int timeout_ms = begin_phase(CmPhase::kAddress);
  if (id_ == nullptr) {
    local_ = attempt_->local;  // a port that the system chose for the previous try may be taken by now
    auto id =
        local_.port() != 0 ? engine().create_bound_id(*this, local_) : engine().create_id(*this, peer_.port_space());
    if (!id) return fail(explain_errno(CmPhase::kAddress, id.error().error()));
    id_ = std::move(*id);
  }
  set_options();
  sockaddr* source = local_.is_any() ? nullptr : local_.data();
  if (rdma_resolve_addr(id_.get(), source, peer_.data(), timeout_ms) != 0)
    retry_or_fail(explain_errno(CmPhase::kAddress, errno));
}

// Options are best effort: not every system supports them.
void Endpoint::set_options() noexcept {
  if (properties_.type_of_service() >= 0) {
    auto tos = static_cast<std::uint8_t>(properties_.type_of_service());
    rdma_set_option(id_.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_TOS, &tos, sizeof tos);
  }
  if (properties_.ack_timeout >= 0) {
    auto timeout = static_cast<std::uint8_t>(properties_.ack_timeout);
    rdma_set_option(id_.get(), RDMA_OPTION_ID, RDMA_OPTION_ID_ACK_TIMEOUT, &timeout, sizeof timeout);
  }
}

// Tries that fail in one phase share its time. Returns the milliseconds that this try may take.
int Endpoint::begin_phase(CmPhase phase) noexcept {
  const bool address = phase == CmPhase::kAddress;
  const int patience_ms = address ? parameters().address_timeout_ms : parameters().route_timeout_ms;
  Clock::time_point& limit = address ? attempt_->address_limit : attempt_->route_limit;
  const Clock::time_point now = Clock::now();
  attempt_->phase = phase;
  if (limit == Clock::time_point()) limit = Deadline::after(now, std::chrono::milliseconds(patience_ms)).time();
  const auto left = std::chrono::ceil<std::chrono::milliseconds>(std::min(limit, attempt_->last_try) - now);
  return static_cast<int>(std::clamp(left, 1ms, std::chrono::milliseconds(parameters().resolve_timeout_ms)).count());
}

void Endpoint::on_address_resolved() noexcept {
  if (id_->verbs != domain_->device().context())
    return fail({FI_EHOSTUNREACH, FI_EHOSTUNREACH, "the route to the peer uses a device other than the domain's"});
  local_ = CmAddress::from(rdma_get_local_addr(id_.get()));
  attempt_->address_limit = {};
  if (rdma_resolve_route(id_.get(), begin_phase(CmPhase::kRoute)) != 0)
    retry_or_fail(explain_errno(CmPhase::kRoute, errno));
}

// No more than the device has, or than the peer offers.
void Endpoint::limit_reads(int responder_resources, int initiator_depth) noexcept {
  properties_.responder_resources = at_most(properties_.responder_resources, responder_resources);
  properties_.initiator_depth = at_most(properties_.initiator_depth, initiator_depth);
}

// Without private data. The queue pair exists.
rdma_conn_param Endpoint::connection_parameters() const noexcept {
  rdma_conn_param param{};
  param.responder_resources = properties_.responder_resources;
  param.initiator_depth = properties_.initiator_depth;
  param.flow_control = properties_.flow_control ? 1 : 0;
  param.retry_count = properties_.retry_count;
  param.rnr_retry_count = properties_.rnr_retry_count;
  param.srq = has_shared_receive() ? 1 : 0;
  param.qp_num = qp_->qp_num;
  return param;
}

// The queue pair is not created earlier: with many connects under way, the first peers answer while the last queue
// pairs are created.
void Endpoint::send_request() noexcept {
  Attempt& attempt = *attempt_;
  attempt.phase = CmPhase::kRequest;
  const ibv_device_attr& device = domain_->device().attr().orig_attr;
  limit_reads(device.max_qp_rd_atom, device.max_qp_init_rd_atom);
  if (Status status = create_queue_pair(); !status.ok()) return fail(explain_errno(CmPhase::kRequest, status.error()));
  rdma_conn_param param = connection_parameters();
  const bool headed = peer_.is_ib();
  param.private_data = headed ? attempt.message.with_header(local_, peer_) : attempt.message.bytes();
  param.private_data_len = headed ? attempt.message.size_with_header() : attempt.message.size();
  if (rdma_connect(id_.get(), &param) != 0) return fail(explain_errno(CmPhase::kRequest, errno));
  // No event shows that the peer's host has the request: the kernel repeats it, and reports a host that does not
  // answer.
  if (answer_timeout_ms_ != kNoClock) limit_attempt(answer_timeout_ms_);
  enter(CmEvent::kMessageSent);
}

void Endpoint::send_acceptance() noexcept {
  attempt_->phase = CmPhase::kAnswer;
  const ibv_device_attr& device = domain_->device().attr().orig_attr;
  limit_reads(device.max_qp_rd_atom, device.max_qp_init_rd_atom);
  const rdma_conn_param& offered = request_->event().param;
  limit_reads(offered.responder_resources, offered.initiator_depth);
  if (const ConnectRequest::Gone* gone = request_->gone(); gone != nullptr)
    return fail(explain(CmPhase::kAnswer, gone->type, gone->status));
  id_ = request_->answer();
  id_->context = static_cast<CmHandler*>(this);
  request_.reset();
  Status status = create_queue_pair();
  if (status.ok()) status = ready_queue_pair();
  if (!status.ok()) {
    rdma_reject(id_.get(), nullptr, 0);
    return fail(explain_errno(CmPhase::kAnswer, status.error()));
  }
  rdma_conn_param param = connection_parameters();
  param.private_data = attempt_->message.bytes();
  param.private_data_len = attempt_->message.size();
  if (rdma_accept(id_.get(), &param) != 0) return fail(explain_errno(CmPhase::kAnswer, errno));
  // The queue pair is ready to send. The peer's first message may complete before its confirmation is handled, and the
  // application may answer that message at once. On iWARP the kernel makes the queue pair ready with FI_CONNECTED.
  if (!domain_->device().is_iwarp()) start();
}

// Memory for the peer's data is allocated when they arrive, so that an attempt that waits is small. Without memory the
// attempt fails: the application would miss the data.
Status Endpoint::keep_answer(const RdmaEvent& event) noexcept {
  attempt_->answer = application_data(event.data());
  if (attempt_->answer.empty()) return {};
  auto larger = EventQueueCore::reserve(attempt_->answer.size());
  if (larger == nullptr) return Status(-FI_ENOMEM);
  attempt_->event = std::move(larger);
  return {};
}

// The peer accepted. On InfiniBand the provider makes the queue pair ready and confirms.
void Endpoint::on_answer(const RdmaEvent& event) noexcept {
  if (state_ != CmState::kAwaiting) return;
  Status status = keep_answer(event);
  if (status.ok()) status = ready_queue_pair();
  if (status.ok() && rdma_establish(id_.get()) != 0) status = Status::last_errno();
  if (!status.ok()) {
    rdma_reject(id_.get(), nullptr, 0);
    return fail(explain_errno(CmPhase::kRequest, status.error()));
  }
  enter(CmEvent::kAccepted);
}

void Endpoint::on_established(const RdmaEvent& event) noexcept {
  if (state_ == CmState::kAnswering) return enter(CmEvent::kMessageSent);
  if (state_ != CmState::kAwaiting) return;  // on_answer() has handled it
  // No response preceded: this is iWARP, whose kernel driver has made the queue pair ready.
  Status status = keep_answer(event);
  if (status.ok() && !domain_->device().is_iwarp()) status = ready_queue_pair();
  if (!status.ok()) return fail(explain_errno(CmPhase::kRequest, status.error()));
  enter(CmEvent::kAccepted);
}

void Endpoint::start_transfers() noexcept {
  const std::unique_ptr<Attempt> done = std::move(attempt_);
  engine().end_turn(*this);
  engine().clear_deadline(*this);
  peer_may_wait_ = true;
  local_ = CmAddress::from(rdma_get_local_addr(id_.get()));
  if (!peer_.is_ib()) peer_ = CmAddress::from(rdma_get_peer_addr(id_.get()));
  log_connection(*done);
  start();
  schedule_keepalive(std::chrono::seconds(parameters().keepalive_s));
  if (port_down_) await_port();
  events_->post_cm(std::move(done->event), FI_CONNECTED, &abi.fid, nullptr, done->answer.data(), done->answer.size());
}

void Endpoint::log_connection(const Attempt& attempt) const noexcept {
  if (!fi_log_enabled(&provider(), FI_LOG_INFO, FI_LOG_EP_CTRL)) return;
  try {
    const auto text = fmt::format(
        "{} connected to {} on {} port {} GID {} queue pair {} after {:.1f} ms and {} tries; responder resources {}, "
        "initiator depth {}, retry count {}, RNR retry count {}, RNR timer {}, acknowledgement timeout {}, "
        "flow control {}, shared receives {}, type of service {}",
        local_.to_string(), peer_.to_string(), domain_->device().name(), id_->port_num,
        gid_text(id_->route.addr.addr.ibaddr.sgid), qp_->qp_num,
        std::chrono::duration<double, std::milli>(Clock::now() - attempt.started_at).count(),
        std::max(attempt.tries, 1u), properties_.responder_resources, properties_.initiator_depth,
        +properties_.retry_count, +properties_.rnr_retry_count, properties_.min_rnr_timer, properties_.ack_timeout,
        bool{properties_.flow_control}, has_shared_receive(), properties_.type_of_service());
    FI_INFO(&provider(), FI_LOG_EP_CTRL, "%s\n", text.c_str());
  } catch (const std::exception&) {
    // Only a log line is lost.
  }
}

// ---- Events ----

void Endpoint::on_cm_event(const RdmaEvent& event) noexcept {
  switch (event.type) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      if (state_ == CmState::kConnecting && attempt_->phase == CmPhase::kAddress) on_address_resolved();
      return;
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      if (state_ != CmState::kConnecting || attempt_->phase != CmPhase::kRoute) return;
      attempt_->route_limit = {};
      enter(CmEvent::kTransportUp);
      return;
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
      return on_answer(event);
    case RDMA_CM_EVENT_ESTABLISHED:
      return on_established(event);
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
      return;
    default:
      return on_failed_event(event);
  }
}

void Endpoint::on_failed_event(const RdmaEvent& event) noexcept {
  if (event.type != RDMA_CM_EVENT_ADDR_CHANGE) peer_may_wait_ = false;  // a bond's failover ends no connection
  if (state_ == CmState::kConnected) {
    switch (event.type) {
      case RDMA_CM_EVENT_DISCONNECTED:
      case RDMA_CM_EVENT_REJECTED:  // the peer was closed before its acceptance was confirmed
        return lose_connection(0, nullptr);
      case RDMA_CM_EVENT_DEVICE_REMOVAL:
        return lose_connection(FI_ENODEV, "the RDMA device was removed");
      case RDMA_CM_EVENT_CONNECT_ERROR:
        return lose_connection(FI_ECONNRESET, "the connection manager reports an error");
      default:
        return;  // e.g. ADDR_CHANGE: if it matters, transfers fail
    }
  }
  if (attempt_ == nullptr) return;
  const CmFailure why = explain(attempt_->phase, event.type, event.status);
  if (event.type != RDMA_CM_EVENT_REJECTED) return retry_or_fail(why);
  constexpr int kConsumerReject = 28;
  if (why.retryable) return retry_or_fail(why);
  fail(why, event.status == kConsumerReject || event.status < 0 ? application_data(event.data())
                                                                : std::span<const std::byte>());
}

// ---- Failures ----

void Endpoint::retry_or_fail(const CmFailure& why) noexcept {
  if (!why.retryable || state_ == CmState::kAnswering) return fail(why);
  if (Clock::now() >= attempt_->last_try) return fail(why);
  const auto next_try = Clock::now() + pause_before(attempt_->tries);
  for (const auto limit : {attempt_->address_limit, attempt_->route_limit})
    if (limit != Clock::time_point() && next_try >= limit) return fail(why);
  attempt_->last_reason = why.reason;
  attempt_->deadline = attempt_->last_try;
  attempt_->paused = next_try < attempt_->deadline;  // otherwise the deadline reports the failure
  if (attempt_->paused) {
    FI_INFO(&provider(), FI_LOG_EP_CTRL, "connection attempt %u failed: %s; retrying\n", attempt_->tries, why.reason);
    enter(CmEvent::kTryAgain);
  }
  id_.reset();
  engine().end_turn(*this);
  engine().set_deadline(*this, attempt_->paused ? next_try : attempt_->deadline);
}

void Endpoint::on_deadline() noexcept {
  if (ending()) return settle();
  if (attempt_ == nullptr) return check_port();
  const bool expired = Clock::now() >= attempt_->deadline;
  if (std::exchange(attempt_->paused, false) && !expired) {
    if (attempt_->deadline != Clock::time_point::max()) engine().set_deadline(*this, attempt_->deadline);
    return start_connecting();
  }
  if (expired) fail({FI_ETIMEDOUT, FI_ETIMEDOUT, "no answer in time"});
}

void Endpoint::fail(const CmFailure& why, std::span<const std::byte> peer_data) noexcept {
  EqError failure = describe(why);
  failure.store_data(peer_data);
  enter(CmEvent::kFailed, &failure);
}

// The entry for fi_eq_readerr, with the sentence for fi_eq_strerror: reason, phase, addresses, device and duration.
EqError Endpoint::describe(const CmFailure& why) const noexcept {
  EqError failure(abi.fid, why.error, why.native);
  const double ms = std::chrono::duration<double, std::milli>(Clock::now() - attempt_->started_at).count();
  std::string history;
  if (attempt_->last_reason != nullptr)
    history = sentence(", {} tries, before: {}", attempt_->tries, attempt_->last_reason);
  failure.sentence =
      sentence("{} while {} ({} to {}, device {}, after {:.1f} ms{})", why.reason, phase_name(attempt_->phase),
               local_.to_string(), peer_.to_string(), domain_->device().name(), ms, history);
  FI_INFO(&provider(), FI_LOG_EP_CTRL, "%s\n", failure.sentence.c_str());
  return failure;
}

}  // namespace weft::verbs
