// SPDX-License-Identifier: BSD-2-Clause
// Transfers of connected endpoints: requests, bindings, enabling, options and their end; see transfer_endpoint.h.
#include "tcp/connection/transfer_endpoint.h"

#include <rdma/fi_ext.h>

#include <algorithm>

#include "abi/ops.h"
#include "objects/binding_check.h"
#include "objects/endpoint_options.h"
#include "objects/triggers.h"
#include "tcp/connection/shared_receive.h"
#include "tcp/logging.h"

namespace weft::tcp {
namespace {

// One set of tables per state: no calls, receives only, all calls.
struct Tables {
  fi_ops_msg msg;
  fi_ops_tagged tagged;
  fi_ops_rma rma;
};

constexpr Tables kClosed = {kOps<fi_ops_msg, NoCalls, FI_EOPBADSTATE>, kOps<fi_ops_tagged, NoCalls, FI_EOPBADSTATE>,
                            kOps<fi_ops_rma, NoCalls, FI_EOPBADSTATE>};
constexpr Tables kOpen = {Triggers<TransferEndpoint>::msg(), Triggers<TransferEndpoint>::tagged(),
                          Triggers<TransferEndpoint>::rma()};
constexpr Tables kReceiving = {with_receives(kClosed.msg, kOpen.msg), with_receives(kClosed.tagged, kOpen.tagged),
                               kClosed.rma};

// The value of an option that only states a limit. `inject`: that of messages.
std::optional<std::size_t> limit_of(int option, std::size_t inject) noexcept {
  switch (option) {
    case FI_OPT_MAX_MSG_SIZE:
    case FI_OPT_MAX_TAGGED_SIZE:
    case FI_OPT_MAX_RMA_SIZE:
      return SIZE_MAX;
    case FI_OPT_INJECT_MSG_SIZE:
    case FI_OPT_INJECT_TAGGED_SIZE:
    case FI_OPT_INJECT_RMA_SIZE:
      return inject;
    default:
      return std::nullopt;
  }
}

void install(fid_ep& ep, const Tables& tables) noexcept {
  ep.msg = slots(tables.msg);
  ep.tagged = slots(tables.tagged);
  ep.rma = slots(tables.rma);
}

}  // namespace

TransferEndpoint::TransferEndpoint(Domain& domain, const fi_info& info, void* context)
    : TransferCalls(info),
      EndpointReceiver(info.caps, queue_size(info.rx_attr, kDefaultQueueSize), domain.engine(), domain.regions(),
                       domain.parts().pools),
      domain_(domain),
      inject_limit_(static_cast<std::uint16_t>(inject_limit(info.tx_attr))) {
  abi.fid.fclass = FI_CLASS_EP;
  abi.fid.context = context;
  routes.accept_triggers(caps_, domain.engine().deferred());
  install(abi, kClosed);
  stream_.set_queue_size(queue_size(info.tx_attr, kDefaultQueueSize));
}

TransferEndpoint::~TransferEndpoint() {
  Lock lock(engine().mutex());
  stop(0);
  ListHook<SharingTag>::unlink();
}

Status TransferEndpoint::bind_cq(CompletionQueue& queue, uint64_t flags) noexcept {
  return bind_route(provider(), routes, queue, flags, engine(), enabled_);
}

Status TransferEndpoint::bind_counter(Counter& counter, uint64_t flags) noexcept {
  return bind_route(provider(), routes, counter, flags, engine(), enabled_);
}

Status TransferEndpoint::bind_shared_receive(SharedReceive& shared, uint64_t flags) noexcept {
  const Status status =
      check_binding(provider(), shared, *domain_, enabled_, flags, static_cast<bool>(shared_receive_));
  if (!status.ok()) return status;
  shared_receive_ = Ref<SharedReceive>(shared);
  queue_ = &shared.queue();
  return Status();
}

Status TransferEndpoint::bind_shared_transmit(SharedTransmit& shared, uint64_t flags) noexcept {
  const Status status =
      check_binding(provider(), shared, *domain_, enabled_, flags, static_cast<bool>(shared_transmit_));
  if (!status.ok()) return status;
  shared_transmit_ = Ref<SharedTransmit>(shared);
  stream_.set_queue_size(shared.size(stream_.queue_size()));
  return Status();
}

Status TransferEndpoint::enable_transfers() noexcept {
  if (enabled_) return Status();
  if (Status status = routes.check(caps_); !status.ok()) return status;
  if (Status status = engine().open_resources(); !status.ok()) return status;
  enabled_ = true;
  if (shared_receive_) shared_receive_->add(*this);
  install(abi, kReceiving);
  return Status();
}

void TransferEndpoint::start(UniqueFd socket, bool swap_bytes, Watch* handshake) noexcept {
  install(abi, kOpen);
  stream_.start(std::move(socket), swap_bytes, handshake);
}

void TransferEndpoint::stop(int error) noexcept {
  stream_.stop(error);
  end_receives(error);
}

ssize_t TransferEndpoint::transmit_checked(const TransmitRequest& request) noexcept {
  std::size_t len = 0;
  if (const int wrong = check_transmit(request, limits_of_transmits(inject_limit_), len); wrong != 0) return wrong;
  Lock lock(engine().mutex());
  return unless_ended(request, stream_.transmit(request));
}

// Programs post until they have read the event of the connection's end, so the transfer fails by a completion.
ssize_t TransferEndpoint::fail_after_end(const TransmitRequest& request) noexcept {
  CompletionRoutes& to = request.routes != nullptr ? *request.routes : routes;
  to.transmit_failed(completion_flags_of(request.operation), request.context, FI_ENOTCONN, FI_ENOTCONN);
  return 0;
}

ssize_t TransferEndpoint::post_receive(const ReceiveRequest& request, fi_addr_t) noexcept {
  if (!request.tagged && (request.flags & (FI_PEEK | FI_CLAIM | FI_DISCARD))) return -FI_EBADFLAGS;
  if (!valid_vector(request.iov)) return -FI_EINVAL;
  if (shared_receive_) return -FI_EOPBADSTATE;  // receives are posted to the shared context
  Lock lock(engine().mutex());
  // A program that polls with FI_PEEK may read the answer to its last peek each time; such reads make no progress.
  if ((request.flags & FI_PEEK) != 0) engine().progress();
  if (stream_.ended() && refuses_after_end_) return -FI_ENOTCONN;
  return own_receives_.post(request, routes);  // after the end it stays there until fi_close
}

ssize_t TransferEndpoint::cancel(void* context) noexcept {
  if (routes.cancel_triggered(abi, context)) return 0;
  Lock lock(engine().mutex());
  return own_receives_.cancel(context, routes) ? 0 : -FI_ENOENT;
}

ssize_t TransferEndpoint::rx_size_left() noexcept {
  Lock lock(engine().mutex());
  return enabled_ ? static_cast<ssize_t>(queue_->room()) : -FI_EOPBADSTATE;
}

ssize_t TransferEndpoint::tx_size_left() noexcept {
  Lock lock(engine().mutex());
  const std::size_t size = stream_.queue_size();
  return enabled_ ? static_cast<ssize_t>(size - std::min(size, stream_.outstanding())) : -FI_EOPBADSTATE;
}

int TransferEndpoint::control_flags(int command, uint64_t* flags) noexcept {
  return control_default_flags(command, flags, transmit_flags_, receive_flags_,
                               [this](uint64_t) { return Lock(engine().mutex()); });
}

int TransferEndpoint::getopt_transfer(int option, void* value, size_t* len) noexcept {
  if (option == FI_OPT_MIN_MULTI_RECV) return report_option(queue_->min_multi_receive, value, len);
  if (option == FI_OPT_SHARED_MEMORY_PERMITTED) return report_option(shares_memory_, value, len);
  if (option == FI_OPT_WEFT_REFUSE_AFTER_END) return report_option(int{refuses_after_end_}, value, len);
  if (option == FI_OPT_TX_SIZE) return report_option(stream_.queue_size(), value, len);
  if (option == FI_OPT_RX_SIZE) return report_option(queue_->size(), value, len);
  if (option == FI_OPT_MAX_ATOMIC_SIZE || option == FI_OPT_INJECT_ATOMIC_SIZE)
    return report_option(std::size_t{0}, value, len);
  return report_limit(limit_of(option, inject_limit_), value, len);
}

int TransferEndpoint::setopt_transfer(int option, const void* value, size_t len) noexcept {
  Lock lock(engine().mutex());
  if (option == FI_OPT_SHARED_MEMORY_PERMITTED) return read_option(value, len, shares_memory_);
  if (option == FI_OPT_WEFT_REFUSE_AFTER_END) return read_switch(value, len, refuses_after_end_);
  if (option == FI_OPT_MIN_MULTI_RECV) return read_option(value, len, queue_->min_multi_receive);
  if (option == FI_OPT_TX_SIZE)
    return weft::set_queue_size(enabled_, value, len, [&](std::size_t size) { stream_.set_queue_size(size); });
  if (option == FI_OPT_RX_SIZE)
    return weft::set_queue_size(enabled_, value, len, [&](std::size_t size) { own_receives_.set_size(size); });
  return accept_limit(limit_of(option, inject_limit_), value, len);
}

}  // namespace weft::tcp
