// SPDX-License-Identifier: BSD-2-Clause
// Connected endpoints: creation, names, and connections, for which it carries out the actions of cm_state.h; fi_cm(3).
//
// A function that may end the handshake returns right after, because the handshake's Watch is running.
#include "tcp/connection/endpoint.h"

#include <cstring>

#include "objects/attributes.h"
#include "objects/peer_memory.h"
#include "objects/send_injected.h"
#include "objects/sentence.h"
#include "tcp/connection/passive_endpoint.h"
#include "tcp/logging.h"

namespace weft::tcp {

int Endpoint::open(Domain& domain, const fi_info* info, fid_ep** ep, void* context) {
  if (info == nullptr || ep == nullptr || !describes_endpoint(*info, FI_EP_MSG, {.transmit = true, .receive = true}))
    return -FI_EINVAL;
  if (Status status = domain.fabric().check(FI_EP_MSG, *info); !status.ok()) return status.code();
  const auto local = source_name(*info);
  if (!local) return local.error().code();
  Owner endpoint(new Endpoint(domain, *info, *local, context));
  if (::fid* handle = info->handle; handle != nullptr) {
    if (Fabric::passive().requests.remove(handle)) {
      endpoint->request_.reset(&object<ConnectRequest>(handle));
      EventListener::release(*endpoint->request_);
      endpoint->local_ = endpoint->request_->local;
      endpoint->peer_ = endpoint->request_->peer();
    } else if (Fabric::passive().endpoints.contains(handle)) {
      auto socket = object<PassiveEndpoint>(handle).give_away(endpoint->local_);
      if (!socket) return socket.error().code();
      endpoint->bound_ = std::move(*socket);
    } else {
      return -FI_EINVAL;
    }
  }
  *ep = &endpoint.release()->abi;
  return 0;
}

int Endpoint::close() {
  if (in_use()) return -FI_EBUSY;
  routes.drop_triggered(abi);
  send_injected(engine(), [this] { return stream_.send_rest(); });
  {
    Lock lock(engine().mutex());
    enter(CmEvent::kClose);
  }
  release_events(events_, engine(), abi.fid);
  delete this;
  return 0;
}

// fi_open_ops: the half shutdown of kfi_shutdown, kfi_cm(3), for which libfabric has no call, and PeerMemoryOps.
int Endpoint::ops_open(const char* name, uint64_t, void** ops, void*) {
  using Call = int (*)(fid_ep*, uint64_t);
  static constexpr Call kHalf = [](fid_ep* ep, uint64_t half) { return object<Endpoint>(ep).shut_down_half(half); };
  static constexpr PeerMemoryOps kMemory{
      .size = sizeof kMemory,
      .is_readable = [](fid_ep* ep) { return object<Endpoint>(ep).is_readable(); },
      .read =
          [](fid_ep* ep, const iovec* to, std::size_t count, std::uint64_t from, std::size_t len) {
            return object<Endpoint>(ep).read_peer({to, count}, from, len);
          }};
  if (name == nullptr || ops == nullptr) return -FI_ENOSYS;
  if (std::strcmp(name, "weft_half_shutdown_v1") == 0)
    *ops = slots(kHalf);
  else if (std::strcmp(name, kPeerMemory) == 0)
    *ops = slots(kMemory);
  else
    return -FI_ENOSYS;
  return 0;
}

bool Endpoint::is_readable() noexcept {
  Lock lock(engine().mutex());
  return stream_.is_readable();
}

int Endpoint::read_peer(std::span<const iovec> to, std::uint64_t from, std::size_t len) noexcept {
  Lock lock(engine().mutex());
  constexpr std::size_t kLong = 64 * 1024;
  if (len >= kLong) engine().took_long();  // messages of other peers may have arrived meanwhile
  return stream_.read_peer(to, from, len).code();
}

int Endpoint::setname(void* name, size_t len) {
  auto wanted = read_name(addr_format_, name, len);
  if (!wanted) return wanted.error().code();
  Lock lock(engine().mutex());
  if (!unconnected() || request_ != nullptr) return -FI_EOPBADSTATE;
  bound_.reset();
  auto socket = open_bound(*wanted, domain_->fabric().parameters, false);
  if (!socket) return socket.error().code();
  bound_ = std::move(*socket);
  local_ = *wanted;
  return 0;
}

// Binds an endpoint without a port only here: connecting needs no port in advance.
int Endpoint::getname(void* name, size_t* len) {
  Lock lock(engine().mutex());
  if (handshake_ != nullptr) {
    local_ = name_of(handshake_->socket.get(), local_);
  } else if (unconnected() && request_ == nullptr && !bound_) {
    auto socket = open_bound(local_, domain_->fabric().parameters, false);
    if (!socket) return socket.error().code();
    bound_ = std::move(*socket);
  }
  return report_name(local_, name, len);
}

// ---- The application's connection calls ----

Endpoint::OwnHandshake::OwnHandshake(Endpoint& owner, UniqueFd opened) noexcept
    : Handshake([](Watch& watch) noexcept { static_cast<OwnHandshake&>(watch).endpoint.proceed(); },
                [](Watch& watch) noexcept { static_cast<OwnHandshake&>(watch).endpoint.fail(FI_ETIMEDOUT, nullptr); },
                owner.engine(), std::move(opened), owner.domain_->fabric().parameters,
                Deadline::after(net::now(), std::chrono::milliseconds(owner.connect_timeout_ms_)),
                owner.answer_timeout_ms_),
      endpoint(owner) {}

int Endpoint::connect(const void* peer, const void* data, size_t len) {
  const auto address = read_name(addr_format_, peer);
  if (!address || (data == nullptr && len != 0)) return -FI_EINVAL;
  if (const int error = bind_default_events(*this, *domain_, events_); error != 0) return error;
  Lock lock(engine().mutex());
  if (Status status = check_role(CmEvent::kConnect); !status.ok()) return status.code();
  if (address->family() != local_.family() && bound_) return -FI_EINVAL;
  if (Status status = admit(CmEvent::kConnect); !status.ok()) return status.code();
  if (address->family() != local_.family()) local_ = Address::any(address->family(), 0);
  auto socket = open_active_socket(*address);
  if (!socket) return socket.error().code();
  handshake_ = std::make_unique<OwnHandshake>(*this, std::move(*socket));
  handshake_->message.compose(CmType::kRequest, data, len);
  peer_ = *address;
  enter(CmEvent::kConnect);
  return 0;
}

int Endpoint::accept(const void* data, size_t len) {
  if (data == nullptr && len != 0) return -FI_EINVAL;
  if (const int error = bind_default_events(*this, *domain_, events_); error != 0) return error;
  Lock lock(engine().mutex());
  if (Status status = check_role(CmEvent::kAccept); !status.ok()) return status.code();
  if (Status status = admit(CmEvent::kAccept); !status.ok()) return status.code();
  handshake_ = std::make_unique<OwnHandshake>(*this, UniqueFd());
  handshake_->event = EventQueueCore::reserve(0);
  if (handshake_->event == nullptr) {
    handshake_.reset();
    return -FI_ENOMEM;
  }
  handshake_->message.compose(CmType::kAccept, data, len);
  handshake_->socket = request_->answer();
  swap_bytes_ = request_->message().swapped();
  agree(request_->message(), false);
  request_.reset();
  enter(CmEvent::kAccept);
  return 0;
}

int Endpoint::shutdown(uint64_t flags) {
  if (flags != 0) return -FI_EBADFLAGS;
  send_injected(engine(), [this] { return stream_.send_rest(); });
  Lock lock(engine().mutex());
  if (Status status = admit(CmEvent::kShutdown); !status.ok()) return status.code();
  if (handshake_ != nullptr)
    fail(FI_ECONNABORTED, "the application shut the endpoint down");
  else
    enter(CmEvent::kShutdown);
  return 0;
}

int Endpoint::shut_down_half(uint64_t half) noexcept {
  Lock lock(engine().mutex());
  if (state_ != CmState::kConnected) return -FI_ENOTCONN;
  if (half == FI_WRITE) return stream_.shut_down_half() ? 0 : -FI_ENOMEM;
  if (half != FI_READ) return -FI_EBADFLAGS;
  stop_receiving();
  return 0;
}

Result<UniqueFd> Endpoint::open_active_socket(const Address& peer) noexcept {
  if (bound_) return std::move(bound_);
  if (local_.port() != 0) return open_bound(local_, domain_->fabric().parameters, false);
  return open_towards(peer, local_, domain_->parts().spare_socket);
}

// ---- The state machine's actions ----

void Endpoint::enter(CmEvent event, EqError* failure) noexcept {
  const CmState before = state_;
  const CmStep step = next(before, event);
  state_ = step.state;
  if (step.actions & kCmConnect) return settle(handshake_->connect(peer_));
  if (step.actions & kCmSend) return settle(handshake_->send_message());
  if (step.actions & kCmRefuse) request_.reset();
  if (step.actions & kCmDisconnect) handshake_.reset();
  if (step.actions & kCmStart) start_transfers(before == CmState::kAwaiting);
  if (step.actions & kCmStop) stop(failure != nullptr ? failure->err : 0);
  if (step.actions & kCmReportFailure) EventQueueCore::hold(*last_event_, std::move(*failure));
  if (step.actions & (kCmReportFailure | kCmReportShutdown)) report_end();
}

void Endpoint::settle(Handshake::Step step) noexcept {
  using Step = Handshake::Step;
  if (step == Step::kConnected) return enter(CmEvent::kTransportUp);
  if (step == Step::kSent) {
    enter(CmEvent::kMessageSent);
    if (state_ != CmState::kAwaiting) return;
    domain_->parts().spare_socket.refill();
    step = handshake_->await_answer();
  }
  if (step == Step::kAnswered) return on_answer();
  if (step == Step::kFailed) fail(handshake_->error, handshake_->why);
}

void Endpoint::on_answer() noexcept {
  const CmMessage& answer = handshake_->message;
  if (answer.type() == CmType::kReject) return on_rejected();
  if (answer.type() != CmType::kAccept) return fail(FI_EREMOTEIO, "the peer answered with a request");
  handshake_->event = EventQueueCore::reserve(answer.data().size());
  if (handshake_->event == nullptr) return fail(FI_ENOMEM, nullptr);
  swap_bytes_ = answer.swapped();
  agree(answer, true);
  enter(CmEvent::kAccepted);
}

void Endpoint::agree(const CmMessage& theirs, bool active) noexcept {
  if (theirs.announced(Extension::kHalfShutdown)) stream_.enable_half_shutdown();
  if (theirs.announced(Extension::kRefusals)) stream_.enable_refusals();
  if (theirs.announced(Extension::kLocalWire) && shares_memory_ && domain_->fabric().parameters.shared_memory)
    stream_.allow_wire(active);
}

void Endpoint::start_transfers(bool answered) noexcept {
  // Kept until the end: it holds the answer's data, and its Watch may be running.
  const std::unique_ptr<OwnHandshake> done = std::move(handshake_);
  if (answered) local_ = name_of(done->socket.get(), local_);  // a request brought its own
  starting_ = true;
  start(done->take_socket(), swap_bytes_, done.get());
  engine().unwatch(*done);
  stream_.look_after_peer(domain_->fabric().parameters.keepalive_s, !answered);
  starting_ = false;
  const auto data = answered ? done->message.data() : std::span<const std::byte>();
  events_->post_cm(std::move(done->event), FI_CONNECTED, &abi.fid, nullptr, data.data(), data.size());
  if (ended_early_) enter(CmEvent::kStreamEnd);
}

void Endpoint::on_stream_end(int error) noexcept {
  end_receives(error);
  // FI_SHUTDOWN never precedes FI_CONNECTED.
  if (starting_)
    ended_early_ = true;
  else
    enter(CmEvent::kStreamEnd);
}

// ---- Failures ----

// `why` may be null: then the error's own text suffices.
void Endpoint::fail(int error, const char* why) noexcept {
  EqError failure = describe(error, why);
  enter(CmEvent::kFailed, &failure);
}

void Endpoint::on_rejected() noexcept {
  EqError failure = describe(FI_ECONNREFUSED, "the peer rejected the request");
  failure.store_data(handshake_->message.data());
  enter(CmEvent::kRejected, &failure);
}

// Builds the sentence for fi_eq_strerror: the failure, its phase, both addresses and the time it took.
EqError Endpoint::describe(int error, const char* why) const noexcept {
  EqError failure(abi.fid, error == EPIPE ? FI_ECONNRESET : error);
  failure.sentence = connect_failure(error, why, handshake_->phase_name(), name_of(handshake_->socket.get(), local_),
                                     peer_, net::now() - handshake_->started_at);
  FI_INFO(&tcp::provider(), FI_LOG_EP_CTRL, "%s\n", failure.sentence.c_str());
  return failure;
}

}  // namespace weft::tcp
