// SPDX-License-Identifier: BSD-2-Clause
// A listening socket; see listener.h.
#include "tcp/connection/listener.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <rdma/providers/fi_log.h>

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "tcp/logging.h"
#include "tcp/names.h"
#include "tcp/socket.h"

namespace weft::tcp {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kMaxHalfOpen = 1024;  // connections that have not sent their request
constexpr Clock::duration kGrace = 1s;      // at that limit, connections silent for longer are dropped
constexpr Clock::duration kDefaultRequestTimeout = 30s;
constexpr Clock::duration kRetryAccept = 100ms;  // when the process is out of descriptors or memory
constexpr int kMostFailures = 16;                // in one round: a security policy may refuse each call
constexpr Clock::duration kTimeToAccept = 1ms;   // in one round: peers may send anything but requests

// Errors of one connection, which is closed already.
bool concerns_one_connection(int error) noexcept {
  constexpr int kThose[] = {ECONNABORTED, EPROTO,       EPERM,       ENETDOWN,  ENETUNREACH,
                            EHOSTDOWN,    EHOSTUNREACH, ENOPROTOOPT, EOPNOTSUPP};
  return std::find(std::begin(kThose), std::end(kThose), error) != std::end(kThose);
}

}  // namespace

Listener::Listener(Engine& engine, UniqueFd socket, const Address& local, const Parameters& parameters,
                   std::size_t backlog) noexcept
    : Watch([](Watch& watch) noexcept { static_cast<Listener&>(watch).accept_connections(); },
            [](Watch& watch) noexcept { static_cast<Listener&>(watch).accept_connections(); }),
      local_(local),
      engine_(engine),
      socket_(std::move(socket)),
      request_timeout_(parameters.connect_timeout_ms != 0 ? std::chrono::milliseconds(parameters.connect_timeout_ms)
                                                          : kDefaultRequestTimeout),
      backlog_(backlog) {}

Status Listener::start() noexcept {
  if (Status status = engine_.open_timer(); !status.ok()) return status;
  // The kernel reports a connection only when its request has arrived too.
  const auto timeout_s = std::chrono::ceil<std::chrono::seconds>(request_timeout_).count();
  net::set_option(socket_.get(), IPPROTO_TCP, TCP_DEFER_ACCEPT, static_cast<int>(timeout_s));
  if (int result = net::listen(socket_.get(), static_cast<int>(backlog_)); result < 0) return Status(result);
  return engine_.watch_listener(*this, socket_.get());
}

void Listener::set_backlog(std::size_t backlog) noexcept {
  backlog_ = backlog;
  net::listen(socket_.get(), static_cast<int>(backlog));
  engine_.make_ready(*this);
}

void Listener::close() noexcept {
  engine_.unwatch(*this);
  socket_.reset();
  while (!half_open_.empty()) drop(half_open_.front(), FI_ECANCELED);
}

void Listener::remove_pending() noexcept {
  --pending_count_;
  if (paused_ && socket_) engine_.make_ready(*this);
}

bool Listener::has_room() noexcept {
  if (pending_count_ >= backlog_) return false;  // until release()
  if (half_open_count_ < kMaxHalfOpen && pending_count_ + half_open_count_ < backlog_) return true;
  ConnectRequest& oldest = half_open_.front();
  if (net::now() - oldest.arrived_at < kGrace) {
    engine_.set_deadline(*this, oldest.arrived_at + kGrace);
    return false;
  }
  drop(oldest, FI_ETIMEDOUT);
  return true;
}

void Listener::accept_connections() noexcept {
  paused_ = false;
  const auto limit = net::now() + kTimeToAccept;
  for (int failures = 0; socket_;) {
    if (!has_room()) {
      paused_ = true;
      return;
    }
    if (!std::exchange(readable, false) && !net::acceptable(socket_.get())) return on_quiet();
    sockaddr_storage name;
    socklen_t len = sizeof name;
    const int accepted = net::accept(socket_.get(), reinterpret_cast<sockaddr*>(&name), &len);
    if (accepted == -EAGAIN) return;
    if (accepted >= 0) {
      // Other connections are accepted in the next round behind a request, which is reported first, and at the limit.
      notified_ = false;
      admit(UniqueFd(accepted), Address::from(&name, len).value_or(Address()));
      if (notified_ || net::now() >= limit) return engine_.make_ready(*this);
    } else if (!concerns_one_connection(-accepted) || ++failures == kMostFailures) {
      return pause(-accepted);
    }
  }
}

void Listener::pause(int error) noexcept {
  FI_WARN_SPARSE(&provider(), FI_LOG_EP_CTRL, "%s cannot accept connections: %s\n", local_.to_string().c_str(),
                 fi_strerror(error));
  engine_.set_deadline(*this, net::now() + kRetryAccept);
}

void Listener::admit(UniqueFd socket, const Address& peer) noexcept {
  auto* request = new (std::nothrow) ConnectRequest(
      [](Watch& watch) noexcept {
        auto& self = static_cast<ConnectRequest&>(watch);
        self.listener().proceed(self);
      },
      [](Watch& watch) noexcept {
        auto& self = static_cast<ConnectRequest&>(watch);
        self.listener().drop(self, FI_ETIMEDOUT);
      },
      std::move(socket), peer, *this);
  if (request == nullptr) return;
  request->arrived_at = net::now();
  half_open_.push_back(*request);
  ++half_open_count_;
  proceed(*request);
}

// The request mostly arrives together with the connection: then nothing is registered for it.
void Listener::proceed(ConnectRequest& request) noexcept {
  const auto whole = request.receive();
  if (!whole) return drop(request, whole.error().error());
  if (*whole) {
    notified_ = true;
    return on_request(request);
  }
  if (request.fd >= 0) return;
  if (Status status = engine_.watch(request, request.socket()); !status.ok()) return drop(request, status.error());
  engine_.set_deadline(request, request.arrived_at + request_timeout_);
}

void Listener::drop(ConnectRequest& request, int error) noexcept {
  if (error != FI_ECANCELED)
    FI_INFO(&provider(), FI_LOG_EP_CTRL, "%s dropped the connection from %s before its request was reported: %s\n",
            local_.to_string().c_str(), request.peer().to_string().c_str(), fi_strerror(error));
  leave_half_open(request);
  delete &request;
}

void Listener::leave_half_open(ConnectRequest& request) noexcept {
  engine_.unwatch(request);
  request.ListHook<RequestTag>::unlink();
  --half_open_count_;
  if (paused_ && socket_) engine_.make_ready(*this);
}

EventListener::EventListener(Engine& engine, Fabric& fabric, ::fid& endpoint, EventQueueCore& events,
                             const fi_info& prototype, UniqueFd socket, const Address& local,
                             std::size_t backlog) noexcept
    : Listener(engine, std::move(socket), local, fabric.parameters, backlog),
      fabric_(fabric),
      endpoint_(endpoint),
      events_(events),
      prototype_(prototype) {}

void EventListener::reject(InfoPtr unread) noexcept {
  for (const fi_info* info = unread.get(); info != nullptr; info = info->next) {
    if (!fabric_.passive().requests.remove(info->handle)) continue;  // after FI_PEEK an endpoint may have it
    auto& request = object<ConnectRequest>(info->handle);
    release(request);
    delete &request;
  }
}

void EventListener::leave_requests() noexcept {
  Lock lock(engine().mutex());
  while (!pending_.empty()) {
    ConnectRequest& request = pending_.pop_front();
    fabric_.passive().requests.change_if_live(&request.abi, [&]() noexcept { request.keep_listener.reset(); });
  }
}

void EventListener::release(ConnectRequest& request) noexcept {
  const std::shared_ptr<EventListener> self = std::move(request.keep_listener);
  if (self == nullptr) return;
  Lock lock(self->engine().mutex());
  request.ListHook<RequestTag>::unlink();
  self->remove_pending();
}

void EventListener::on_request(ConnectRequest& request) noexcept {
  // The socket of a wildcard listener's connection has the one of the host's addresses that the peer connected to.
  request.local = local_.is_any() ? name_of(request.socket(), local_) : local_;
  InfoPtr info = spare_ != nullptr ? std::move(spare_) : InfoPtr(duplicate_info(&prototype_));
  const auto data = request.message().data();
  auto event = EventQueueCore::reserve(data.size());
  const bool complete = info != nullptr && event != nullptr &&
                        set_address(info->src_addr, info->src_addrlen, request.local.data(), request.local.size()) &&
                        set_address(info->dest_addr, info->dest_addrlen, request.peer().data(), request.peer().size());
  if (!complete) return drop(request, FI_ENOMEM);
  try {
    fabric_.passive().requests.insert(&request.abi, &fabric_);
  } catch (const std::bad_alloc&) {
    return drop(request, FI_ENOMEM);
  }
  info->handle = &request.abi;
  request.keep_listener = shared_from_this();
  leave_half_open(request);
  pending_.push_back(request);
  add_pending();
  events_->post_cm(std::move(event), FI_CONNREQ, &endpoint_, info.release(), data.data(), data.size());
}

}  // namespace weft::tcp
