// SPDX-License-Identifier: BSD-2-Clause
// Reliable-datagram endpoints: creation, bindings, options, names, transfers; see endpoint.h.
#include "tcp/reliable/endpoint.h"

#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "objects/attributes.h"
#include "objects/endpoint_names.h"
#include "rdm/host_addresses.h"
#include "tcp/names.h"

namespace weft::tcp {

// The socket is bound at once, because applications exchange names before they enable their endpoints.
int ReliableEndpoint::open(Domain& domain, const fi_info* info, fid_ep** ep, void* context) {
  if (info == nullptr || ep == nullptr || info->handle != nullptr ||
      !describes_endpoint(*info, FI_EP_RDM, {.transmit = true, .receive = true}))
    return -FI_EINVAL;
  if (Status status = domain.fabric().check(FI_EP_RDM, *info); !status.ok()) return status.code();
  auto own = source_name(*info);
  if (!own) return own.error().code();
  auto socket = open_bound(*own, domain.fabric().parameters, true);
  if (!socket) return socket.error().code();
  *ep = &(new ReliableEndpoint(domain, *info, *own, std::move(*socket), context))->abi;
  return 0;
}

ReliableEndpoint::ReliableEndpoint(Domain& domain, const fi_info& info, const Address& own, UniqueFd socket,
                                   void* context)
    : EndpointBase(domain, info, receives_, kReliableQueueSize, context),
      domain_(domain),
      addr_format_(info.addr_format),
      process_(static_cast<std::uint32_t>(::getpid())),
      idle_timeout_(std::chrono::milliseconds(domain.fabric().parameters.idle_timeout_ms)),
      names_sources_((info.caps & FI_SOURCE) != 0),
      own_(own),
      socket_(std::move(socket)),
      receives_(*this, routes_) {}

int ReliableEndpoint::close() {
  return close_after([this] {
    if (listener_ != nullptr) listener_->close();
    peers_.for_each([this](Peer& peer) {
      fail_waiting(peer, FI_ECANCELED);
      engine().unwatch(peer.timer);
    });
    while (!channels_.empty()) close_channel(channels_.front(), FI_ECANCELED);
    engine().unwatch(channels_timer_);
    receives_.cancel_all();
    peers_.for_each([](Peer& peer) { peer.stop_waiting(); });
    reap();
  });
}

int ReliableEndpoint::enable_contexts() {
  if (enabled_) return 0;
  if (!vector_) return -FI_ENOAV;
  if (Status status = engine().open_resources(); !status.ok()) return status.code();
  if (!socket_) {  // another endpoint had the address when this one tried before
    auto socket = open_bound(own_, parameters(), true);
    if (!socket) return socket.error().code();
    socket_ = std::move(*socket);
  }
  prepare_listener(socket_.get(), parameters());  // accepted sockets inherit the options
  listener_ = std::make_unique<PeerListener>(*this, engine(), std::move(socket_), own_, parameters());
  if (Status status = listener_->start(); !status.ok()) {
    listener_->close();
    return status.code();
  }
  enabled_ = true;
  check_channels();
  take_transfers(caps_);
  return 0;
}

int ReliableEndpoint::setname(void* name, size_t len) {
  auto wanted = read_name(addr_format_, name, len);
  if (!wanted) return wanted.error().code();
  Lock lock(engine().mutex());
  if (enabled_) return -FI_EOPBADSTATE;
  // The port that was assigned before stays unless the new name has one.
  if (wanted->port() == 0) wanted->set_port(own_.port());
  socket_.reset();  // the new name may have its port
  auto socket = open_bound(*wanted, parameters(), true);
  const Status status = socket ? Status() : socket.error();
  if (status.ok())
    own_ = *wanted;
  else
    socket = open_bound(own_, parameters(), true);
  if (socket) socket_ = std::move(*socket);
  return status.code();
}

int ReliableEndpoint::getname(void* name, size_t* len) {
  Address own;
  {
    Lock lock(engine().mutex());
    own = own_;
  }
  return report_name(rdm::reachable_name(own), name, len);
}

// ---- Transfers ----

ssize_t ReliableEndpoint::transmit(TransmitRequest&& request) noexcept {
  if (!rdm::set_receive_context(request, *vector_)) return -FI_EINVAL;
  std::size_t len = 0;
  const int wrong = check_transmit(request, limits_of_transmits(kReliableInjectSize), len);
  return wrong != 0 ? wrong : submit(request, len);
}

ssize_t ReliableEndpoint::update(const AtomicRequest& request) noexcept {
  const std::size_t most = atomic_count(request.kind, request.datatype, request.operation);
  if (const int wrong = check_atomic(request, most); wrong != 0) return wrong;
  if ((request.flags & kUnsupportedFlags) != 0) return -FI_EBADFLAGS;
  const rdm::AtomicBuffers buffers(request);
  fi_rma_iov ranges[kMaxRmaIov];
  std::transform(request.remote.begin(), request.remote.end(), ranges, [](const fi_rma_ioc& range) {
    return fi_rma_iov{range.addr, range.count, range.key};
  });
  const AtomicWords words{.kind = static_cast<std::uint8_t>(request.kind),
                          .datatype = static_cast<std::uint8_t>(request.datatype),
                          .operation = static_cast<std::uint8_t>(request.operation)};
  const bool fetches = request.kind != AtomicKind::kUpdate;
  return submit({.operation = fetches ? Operation::kFetch : Operation::kUpdate,
                 .iov = buffers.results(),
                 .flags = request.flags,
                 .destination = request.peer,
                 .context = request.context,
                 .tag = words.packed(),
                 .remote = {ranges, request.remote.size()},
                 .silent = request.silent,
                 .routes = request.routes,
                 .arrays = buffers.sent()},
                total_length(buffers.results()));
}

bool ReliableEndpoint::holds_injected(const CompletionRoutes* routes) noexcept {
  bool found = false;
  channels_.for_each([&](Channel& channel) {
    found |= channel.stream().send_rest() && (routes == nullptr || channel.stream().carries(*routes));
  });
  return rdm::holds_injected(peers_, routes) || found;
}

// The request is valid, except perhaps for its peer.
ssize_t ReliableEndpoint::submit(const TransmitRequest& request, std::size_t len) noexcept {
  Lock lock(engine().mutex());
  Peer* peer = peer_of(request.destination);
  if (peer == nullptr) return rdm::no_peer(*vector_, request.destination);
  if (peer->channel != nullptr && peer->channel->can_send()) {
    const ssize_t result = send_on(*peer->channel, request);
    if (result != -FI_ENOTCONN) return result;
  }
  return wait_for(*peer, request, len);
}

ssize_t ReliableEndpoint::send_on(Channel& channel, const TransmitRequest& request, bool has_waited) noexcept {
  if (is_small(request) && !has_waited) return channel.stream().send_small(request);
  if (request.operation >= Operation::kUpdate && !channel.stream().has_atomics())
    return refuse_atomic(channel.peer(), request);
  return channel.stream().transmit(request, has_waited);
}

// The peer does not support the operation. It fails asynchronously: the peer's features are unknown until it is
// connected.
ssize_t ReliableEndpoint::refuse_atomic(Peer& peer, const TransmitRequest& request) noexcept {
  constexpr const char* kWhy = "the peer does not support weft's atomic operations on tcp, or has another byte order";
  FI_INFO(&provider(), FI_LOG_EP_DATA, "atomic operation to %s failed: %s\n", peer.address.to_string().c_str(), kWhy);
  routes_of(request).transmit_failed(completion_flags_of(request.operation), request.context, FI_EOPNOTSUPP,
                                     FI_EOPNOTSUPP, kWhy);
  return 0;
}

ssize_t ReliableEndpoint::wait_for(Peer& peer, const TransmitRequest& request, std::size_t len) noexcept {
  if (peer.waiting_count >= tx_size()) return -FI_EAGAIN;
  WaitingTransmit* waiting = waiting_.take();
  if (waiting == nullptr) return -FI_EAGAIN;
  if (!waiting->keep(request, len)) {
    waiting_.give_back(waiting);
    return -FI_EAGAIN;
  }
  if (Status status = connect(peer); !status.ok()) {
    waiting_.give_back(waiting);
    return status.code();
  }
  waiting->request.silent |= !routes_of(request).reports_sent(request.flags);
  peer.waiting.push_back(*waiting);
  ++peer.waiting_count;
  if (waiting->request.silent) rdm::advance_contact(engine(), peer);
  return 0;
}

void ReliableEndpoint::take(rdm::Message& taken, const rdm::Delivery& delivery) noexcept {
  auto& message = static_cast<Unclaimed&>(taken);
  const rdm::Envelope& envelope = message.envelope;
  if (message.dead) {
    receives_.fail(delivery, envelope, FI_ECONNRESET, FI_ECONNRESET);
  } else if (message.where != Unclaimed::Where::kHere) {
    return message.channel->take(message, delivery);
  } else {
    delivery.write({message.payload.get(), envelope.len});
    receives_.complete(delivery, envelope);
  }
  delete &message;
}

void ReliableEndpoint::discard(rdm::Message& unwanted) noexcept {
  auto& message = static_cast<Unclaimed&>(unwanted);
  if (!message.dead && message.where != Unclaimed::Where::kHere)
    message.channel->take(message, {});
  else
    delete &message;
}

}  // namespace weft::tcp
