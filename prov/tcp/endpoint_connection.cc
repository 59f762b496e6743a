// SPDX-License-Identifier: BSD-2-Clause
// How a connection comes about and ends: carries out what cm_state.h decides; fi_cm(3).
//
// Every function that may end the handshake returns right after, because its Watch is the one that is running.
#include <fmt/format.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/providers/fi_log.h>

#include "tcp/endpoint.h"
#include "tcp/names.h"
#include "tcp/provider.h"
#include "tcp/socket.h"

namespace weft::tcp {
namespace {

const char* phase_name(CmState state) noexcept {
  switch (state) {
    case CmState::kConnecting:
      return "connecting";
    case CmState::kRequesting:
      return "sending the request";
    case CmState::kAwaiting:
      return "waiting for the answer";
    default:
      return "sending the acceptance";
  }
}

const char* plain_reason(int error) noexcept {
  switch (error) {
    case FI_ECONNREFUSED:
      return "nobody listens there";
    case FI_ECONNRESET:
    case EPIPE:
      return "the peer reset the connection";
    case FI_ETIMEDOUT:
      return "no answer in time";
    default:
      return fi_strerror(error);
  }
}

}  // namespace

Endpoint::Handshake::Handshake(Endpoint& owner, UniqueFd opened) noexcept
    : Watch([](Watch& watch) noexcept { static_cast<Handshake&>(watch).endpoint.proceed(); },
            [](Watch& watch) noexcept { static_cast<Handshake&>(watch).endpoint.fail(FI_ETIMEDOUT, nullptr); }),
      endpoint(owner),
      socket(std::move(opened)),
      started_at(net::now()) {}

// ---- The application's calls ----

int Endpoint::connect(const void* peer, const void* data, size_t len) {
  const auto address = read_name(addr_format_, peer);
  if (!address || (data == nullptr && len != 0)) return -FI_EINVAL;
  Lock lock(engine().mutex());
  if (Status status = check_role(CmEvent::kConnect); !status.ok()) return status.code();
  if (Status status = admit(CmEvent::kConnect); !status.ok()) return status.code();
  auto socket = open_active_socket(*address);
  if (!socket) return socket.error().code();
  if (address->family() != local_.family()) local_ = Address::any(address->family(), 0);
  handshake_ = std::make_unique<Handshake>(*this, std::move(*socket));
  handshake_->message.compose(CmType::kRequest, data, len);
  peer_ = *address;
  enter(CmEvent::kConnect);
  return 0;
}

int Endpoint::accept(const void* data, size_t len) {
  if (data == nullptr && len != 0) return -FI_EINVAL;
  Lock lock(engine().mutex());
  if (Status status = check_role(CmEvent::kAccept); !status.ok()) return status.code();
  if (Status status = admit(CmEvent::kAccept); !status.ok()) return status.code();
  handshake_ = std::make_unique<Handshake>(*this, UniqueFd());
  handshake_->message.compose(CmType::kAccept, data, len);
  handshake_->socket = request_->answer();
  swap_bytes_ = request_->message().swapped();
  request_.reset();
  enter(CmEvent::kAccept);
  return 0;
}

int Endpoint::shutdown(uint64_t flags) {
  if (flags != 0) return -FI_EBADFLAGS;
  Lock lock(engine().mutex());
  if (Status status = admit(CmEvent::kShutdown); !status.ok()) return status.code();
  if (handshake_ != nullptr)
    fail(FI_ECONNABORTED, "the application shut the endpoint down");
  else
    enter(CmEvent::kShutdown);
  return 0;
}

Result<UniqueFd> Endpoint::open_active_socket(const Address& peer) noexcept {
  const Parameters& parameters = domain_.fabric().parameters;
  UniqueFd socket = std::move(bound_);
  if (!socket && (local_.port() != 0)) {
    auto bound = open_bound(local_, parameters, false);
    if (!bound) return bound;
    socket = std::move(*bound);
  }
  if (!socket) {
    const int fd = net::open_stream(local_.family());
    if (fd < 0) return failure(Status(fd));
    socket.reset(fd);
    // To an address of this host the kernel connects from that same address, unasked.
    if (!local_.is_any() && !local_.same_host(peer)) {
      // The port is chosen when the destination is known: the same one serves many destinations.
      net::set_option(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, 1);
      if (int result = net::bind(fd, local_.data(), local_.size()); result < 0) return failure(Status(result));
    }
  }
  prepare_stream(socket.get(), parameters);
  // With no deadline set, the kernel finds out that the peer's host has died during the handshake.
  if (connect_timeout_ms_ == 0) keep_alive(socket.get(), 5, 2, 2);
  return socket;
}

// ---- The state machine's actions ----

void Endpoint::enter(CmEvent event, EqError* failure) noexcept {
  const CmState before = state_;
  const CmStep step = next(before, event);
  state_ = step.state;
  if (step.actions & kCmDial) return dial();
  if (step.actions & kCmSend) return send_message();
  if (step.actions & kCmRefuse) request_.reset();
  if (step.actions & kCmHangUp) {
    engine().unwatch(*handshake_);
    handshake_.reset();
  }
  if (step.actions & kCmStart) start_transfers(before == CmState::kAwaiting);
  if (step.actions & kCmStop) stop(failure != nullptr ? failure->err : 0);
  if (step.actions & kCmReportFailure) events_->post_error(std::move(*failure));
  if (step.actions & kCmReportShutdown) events_->post_cm(FI_SHUTDOWN, &abi.fid, nullptr, nullptr, 0);
}

// The handshake's socket is ready for something.
void Endpoint::proceed() noexcept {
  switch (state_) {
    case CmState::kConnecting:
      return dial();
    case CmState::kRequesting:
    case CmState::kAnswering:
      return send_message();
    case CmState::kAwaiting:
      return receive_answer();
    default:
      return;
  }
}

void Endpoint::dial() noexcept {
  Handshake& handshake = *handshake_;
  int result = 0;
  if (!std::exchange(handshake.dialled, true)) {
    // The request follows at once, so the last packet of TCP's handshake can travel with it.
    net::set_option(handshake.socket.get(), IPPROTO_TCP, TCP_QUICKACK, 0);
    result = net::connect(handshake.socket.get(), peer_.data(), peer_.size());
  } else if (handshake.hung)
    result = net::connect_result(handshake.socket.get());
  if (result < 0 && result != -EINPROGRESS) return fail(-result, nullptr);
  // Over the loopback, and to a quick peer, the connection is there already; else the kernel says so.
  const auto unsent = handshake.message.unsent();
  const ssize_t sent = net::send(handshake.socket.get(), unsent.data(), unsent.size());
  if (sent == -EAGAIN || sent == -ENOTCONN) return expect_more();
  if (sent < 0) return fail(static_cast<int>(-sent), nullptr);
  handshake.message.advance(static_cast<std::size_t>(sent));
  enter(CmEvent::kTransportUp);
}

void Endpoint::send_message() noexcept {
  Handshake& handshake = *handshake_;
  for (auto unsent = handshake.message.unsent(); !unsent.empty(); unsent = handshake.message.unsent()) {
    const ssize_t sent = net::send(handshake.socket.get(), unsent.data(), unsent.size());
    if (sent == -EAGAIN) return expect_more();
    if (sent < 0) return fail(static_cast<int>(-sent), nullptr);
    handshake.message.advance(static_cast<std::size_t>(sent));
  }
  enter(CmEvent::kMessageSent);
  if (state_ != CmState::kAwaiting) return;
  handshake.message = CmMessage();
  expect_more();
}

// Waits for readiness, from the first time on until the deadline.
void Endpoint::expect_more() noexcept {
  Handshake& handshake = *handshake_;
  handshake.writable = false;
  if (handshake.fd >= 0) {
    if (state_ == CmState::kAwaiting && handshake.readable) receive_answer();
    return;
  }
  // On the loopback the answer is often there within microseconds; before that, writability is what matters.
  const int fd = handshake.socket.get();
  const Status status =
      state_ == CmState::kAwaiting ? engine().watch_hot(handshake, fd) : engine().watch(handshake, fd, true);
  if (!status.ok()) return fail(status.error(), nullptr);
  if (connect_timeout_ms_ != 0)
    engine().set_deadline(handshake, handshake.started_at + std::chrono::milliseconds(connect_timeout_ms_));
}

void Endpoint::receive_answer() noexcept {
  Handshake& handshake = *handshake_;
  for (Result<bool> complete = false; !*complete;) {
    const auto room = handshake.message.room();
    const ssize_t count = net::recv(handshake.socket.get(), room.data(), room.size());
    if (count == -EAGAIN) {
      handshake.readable = false;
      return;
    }
    if (count == 0) return fail(FI_ECONNABORTED, "the peer closed the connection without an answer");
    if (count < 0) return fail(static_cast<int>(-count), nullptr);
    handshake.message.advance(static_cast<std::size_t>(count));
    complete = handshake.message.complete();
    if (!complete)
      return fail(complete.error().error(), complete.error().error() == FI_ENOPROTOOPT
                                                ? "the peer speaks another version of the protocol"
                                                : "what the peer sent is no connection message");
  }
  switch (handshake.message.type()) {
    case CmType::kAccept:
      swap_bytes_ = handshake.message.swapped();
      return enter(CmEvent::kAccepted);
    case CmType::kReject:
      return on_rejected();
    default:
      return fail(FI_EREMOTEIO, "the peer answered with a request of its own");
  }
}

void Endpoint::start_transfers(bool answered) noexcept {
  // Kept until the end: the answer's data is in it, and its Watch may be the one that is running.
  const std::unique_ptr<Handshake> done = std::move(handshake_);
  socket_ = done->socket.get();
  if (connect_timeout_ms_ == 0) net::set_option(socket_, SOL_SOCKET, SO_KEEPALIVE, 0);
  starting_ = true;
  start(std::move(done->socket), swap_bytes_, {}, done.get());
  engine().unwatch(*done);
  starting_ = false;
  const auto data = answered ? done->message.data() : std::span<const std::byte>();
  events_->post_cm(FI_CONNECTED, &abi.fid, nullptr, data.data(), data.size());
  if (ended_early_) enter(CmEvent::kStreamEnd);
}

void Endpoint::on_stream_end(int) noexcept {
  // FI_SHUTDOWN never comes before FI_CONNECTED.
  if (starting_)
    ended_early_ = true;
  else
    enter(CmEvent::kStreamEnd);
}

// ---- Failures ----

// `why` may be null: the error says it all.
void Endpoint::fail(int error, const char* why) noexcept {
  EqError failure = describe(error, why);
  enter(CmEvent::kFailed, &failure);
}

void Endpoint::on_rejected() noexcept {
  EqError failure = describe(FI_ECONNREFUSED, "the peer rejected the request");
  const auto data = handshake_->message.data();
  try {
    failure.err_data.assign(data.begin(), data.end());
  } catch (const std::bad_alloc&) {
    // The refusal itself is what matters.
  }
  enter(CmEvent::kRejected, &failure);
}

// What, when, from where to where, and how long it took: the sentence for fi_eq_strerror.
EqError Endpoint::describe(int error, const char* why) const noexcept {
  EqError failure;
  failure.fid = const_cast<::fid*>(&abi.fid);
  failure.context = abi.fid.context;
  failure.err = error == EPIPE ? FI_ECONNRESET : error;
  failure.prov_errno = failure.err;
  const double ms = std::chrono::duration<double, std::milli>(net::now() - handshake_->started_at).count();
  try {
    failure.sentence =
        fmt::format("{} while {} ({} to {}, after {:.1f} ms)", why != nullptr ? why : plain_reason(error),
                    phase_name(state_), name_of(handshake_->socket.get(), local_).to_string(), peer_.to_string(), ms);
    FI_INFO(&tcp::provider(), FI_LOG_EP_CTRL, "%s\n", failure.sentence.c_str());
  } catch (const std::exception&) {
    // Without memory for a sentence fi_eq_strerror falls back to fi_strerror.
  }
  return failure;
}

}  // namespace weft::tcp
