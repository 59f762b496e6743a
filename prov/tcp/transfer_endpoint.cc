// SPDX-License-Identifier: BSD-2-Clause
// Bindings, enabling, options and the end of transfers; the transfer calls themselves are in transfer_calls.cc.
#include "tcp/transfer_endpoint.h"

#include <algorithm>

#include "abi/msg_ops.h"
#include "abi/rma_ops.h"
#include "abi/tagged_ops.h"
#include "objects/endpoint_options.h"
#include "objects/triggers.h"
#include "tcp/domain.h"
#include "tcp/receive_posting.h"
#include "tcp/shared_receive.h"

namespace weft::tcp {
namespace {

// One set of tables a state: nothing may be posted, receives may, everything may, nothing may any more.
struct Tables {
  fi_ops_msg msg;
  fi_ops_tagged tagged;
  fi_ops_rma rma;
};

struct Nothing {};

constexpr Tables kClosed = {make_msg_ops<Nothing, FI_EOPBADSTATE>(), make_tagged_ops<Nothing, FI_EOPBADSTATE>(),
                            make_rma_ops<Nothing, FI_EOPBADSTATE>()};
constexpr Tables kOpen = {Triggers<TransferEndpoint>::msg(), Triggers<TransferEndpoint>::tagged(),
                          Triggers<TransferEndpoint>::rma()};

constexpr Tables only_receives() noexcept {
  Tables tables = kClosed;
  tables.msg.recv = kOpen.msg.recv;
  tables.msg.recvv = kOpen.msg.recvv;
  tables.msg.recvmsg = kOpen.msg.recvmsg;
  tables.tagged.recv = kOpen.tagged.recv;
  tables.tagged.recvv = kOpen.tagged.recvv;
  tables.tagged.recvmsg = kOpen.tagged.recvmsg;
  return tables;
}
constexpr Tables kReceiving = only_receives();

void install(fid_ep& ep, const Tables& tables) noexcept {
  ep.msg = const_cast<fi_ops_msg*>(&tables.msg);
  ep.tagged = const_cast<fi_ops_tagged*>(&tables.tagged);
  ep.rma = const_cast<fi_ops_rma*>(&tables.rma);
}

std::size_t queue_size(std::size_t asked) noexcept {
  return asked != 0 ? asked : kDefaultQueueSize;
}

}  // namespace

TransferEndpoint::TransferEndpoint(Domain& domain, const fi_info& info, void* context) noexcept
    : domain_(domain),
      caps_(info.caps),
      transmit_flags_(info.tx_attr != nullptr ? info.tx_attr->op_flags : 0),
      receive_flags_(info.rx_attr != nullptr ? info.rx_attr->op_flags : 0),
      own_receives_(queue_size(info.rx_attr != nullptr ? info.rx_attr->size : 0)),
      stream_(*this, domain.engine(), domain.regions(), domain.pools()) {
  abi.fid.fclass = FI_CLASS_EP;
  abi.fid.context = context;
  if ((caps_ & FI_TRIGGER) != 0) routes.deferred = &domain.engine().deferred();
  install(abi, kClosed);
  stream_.set_queue_size(queue_size(info.tx_attr != nullptr ? info.tx_attr->size : 0));
}

TransferEndpoint::~TransferEndpoint() {
  Lock lock(engine().mutex());
  stop(0);
  if (shared_receive_) shared_receive_->remove(*this);
}

Engine& TransferEndpoint::engine() noexcept {
  return domain_.engine();
}

Status TransferEndpoint::bind_cq(CompletionQueue& queue, uint64_t flags) noexcept {
  if (&queue.engine() != &engine()) return Status(-FI_EDOMAIN);
  return enabled_ ? Status(-FI_EOPBADSTATE) : routes.bind(queue, flags);
}

Status TransferEndpoint::bind_counter(Counter& counter, uint64_t flags) noexcept {
  if (&counter.engine() != &engine()) return Status(-FI_EDOMAIN);
  return enabled_ ? Status(-FI_EOPBADSTATE) : routes.bind(counter, flags);
}

Status TransferEndpoint::bind_shared_receive(SharedReceive& shared) noexcept {
  if (enabled_) return Status(-FI_EOPBADSTATE);
  shared_receive_ = Ref<SharedReceive>(shared);
  receive_queue_ = &shared.queue();
  return Status();
}

Status TransferEndpoint::bind_shared_transmit(SharedTransmit& shared) noexcept {
  if (&shared.domain() != &domain_) return Status(-FI_EDOMAIN);
  if (enabled_) return Status(-FI_EOPBADSTATE);
  if (shared_transmit_) return Status(-FI_EINVAL);
  shared_transmit_ = Ref<SharedTransmit>(shared);
  stream_.set_queue_size(shared.size(stream_.queue_size()));
  return Status();
}

Status TransferEndpoint::enable_transfers() noexcept {
  if (enabled_) return Status();
  if (Status status = routes.check(caps_); !status.ok()) return status;
  enabled_ = true;
  if (shared_receive_) shared_receive_->add(*this);
  install(abi, kReceiving);
  return Status();
}

void TransferEndpoint::start(UniqueFd socket, bool swap_bytes, std::span<const std::byte> early,
                             Watch* handshake) noexcept {
  started_ = true;
  install(abi, kOpen);
  stream_.start(std::move(socket), swap_bytes, early, handshake);
}

void TransferEndpoint::ask_when_silent() noexcept {
  stream_.ask_when_silent(domain_.fabric().parameters.keepalive_s);
}

void TransferEndpoint::stop(int error) noexcept {
  stream_.stop(error);
}

void TransferEndpoint::cancel_posted_receives(int native) noexcept {
  if (shared_receive_) return;  // they are the context's, for its other endpoints
  while (Receive* receive = own_receives_.first())
    cancel_receive(own_receives_, domain_.pools(), routes, *receive, native);
}

void TransferEndpoint::drop_triggered() noexcept {
  if (routes.deferred != nullptr) routes.deferred->drop(abi);
}

ssize_t TransferEndpoint::cancel(void* context) noexcept {
  if (routes.deferred != nullptr && routes.deferred->cancel(abi, context)) return 0;
  Lock lock(engine().mutex());
  Receive* receive = own_receives_.find_context(context);
  if (receive == nullptr) return -FI_ENOENT;
  cancel_receive(own_receives_, domain_.pools(), routes, *receive, FI_ECANCELED);
  return 0;
}

ssize_t TransferEndpoint::rx_size_left() noexcept {
  Lock lock(engine().mutex());
  return enabled_ ? static_cast<ssize_t>(receive_queue_->room()) : -FI_EOPBADSTATE;
}

ssize_t TransferEndpoint::tx_size_left() noexcept {
  Lock lock(engine().mutex());
  if (!enabled_) return -FI_EOPBADSTATE;
  return static_cast<ssize_t>(stream_.queue_size() - std::min(stream_.queue_size(), stream_.outstanding()));
}

int TransferEndpoint::control_flags(int command, uint64_t* flags) noexcept {
  return control_default_flags(command, flags, transmit_flags_, receive_flags_,
                               [this](uint64_t) { return Lock(engine().mutex()); });
}

int TransferEndpoint::getopt_transfer(int option, void* value, size_t* len) noexcept {
  std::size_t answer = 0;
  switch (option) {
    case FI_OPT_MIN_MULTI_RECV:
      answer = receive_queue_->min_multi_receive;
      break;
    case FI_OPT_TX_SIZE:
      answer = stream_.queue_size();
      break;
    case FI_OPT_RX_SIZE:
      answer = receive_queue_->size();
      break;
    case FI_OPT_MAX_MSG_SIZE:
    case FI_OPT_MAX_TAGGED_SIZE:
    case FI_OPT_MAX_RMA_SIZE:
      answer = SIZE_MAX;
      break;
    case FI_OPT_MAX_ATOMIC_SIZE:
    case FI_OPT_INJECT_ATOMIC_SIZE:
      answer = 0;
      break;
    case FI_OPT_INJECT_MSG_SIZE:
    case FI_OPT_INJECT_TAGGED_SIZE:
    case FI_OPT_INJECT_RMA_SIZE:
      answer = kInjectSize;
      break;
    default:
      return -FI_ENOPROTOOPT;
  }
  return report_option(answer, value, len);
}

int TransferEndpoint::setopt_transfer(int option, const void* value, size_t len) noexcept {
  std::size_t wanted = 0;
  auto read_value = [&] { return read_option(value, len, wanted) == 0; };
  Lock lock(engine().mutex());
  switch (option) {
    case FI_OPT_MIN_MULTI_RECV:
      if (!read_value()) return -FI_EINVAL;
      receive_queue_->min_multi_receive = wanted;
      return 0;
    case FI_OPT_TX_SIZE:
    case FI_OPT_RX_SIZE:
      if (enabled_) return -FI_EOPBADSTATE;
      if (!read_value() || wanted == 0) return -FI_EINVAL;
      if (option == FI_OPT_TX_SIZE)
        stream_.set_queue_size(wanted);
      else
        own_receives_.set_size(wanted);
      return 0;
    case FI_OPT_INJECT_MSG_SIZE:
    case FI_OPT_INJECT_TAGGED_SIZE:
    case FI_OPT_INJECT_RMA_SIZE:
      // The application tells how much it will inject at most.
      if (!read_value()) return -FI_EINVAL;
      return wanted <= kInjectSize ? 0 : -FI_EINVAL;
    case FI_OPT_MAX_MSG_SIZE:
    case FI_OPT_MAX_TAGGED_SIZE:
    case FI_OPT_MAX_RMA_SIZE:
      return read_value() ? 0 : -FI_EINVAL;
    default:
      return -FI_ENOPROTOOPT;
  }
}

}  // namespace weft::tcp
