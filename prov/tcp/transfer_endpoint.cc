// SPDX-License-Identifier: BSD-2-Clause
// Bindings, enabling, options and the end of transfers; the transfer calls themselves are in transfer_calls.cc.
#include "tcp/transfer_endpoint.h"

#include <algorithm>
#include <cstring>

#include "abi/msg_ops.h"
#include "abi/rma_ops.h"
#include "abi/tagged_ops.h"
#include "tcp/domain.h"
#include "tcp/provider.h"
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
constexpr Tables kOpen = {make_msg_ops<TransferEndpoint>(), make_tagged_ops<TransferEndpoint>(),
                          make_rma_ops<TransferEndpoint>()};

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

constexpr uint64_t kDirections = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;

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
const fi_provider* TransferEndpoint::provider() const noexcept {
  return &tcp::provider();
}

Status TransferEndpoint::bind_cq(CompletionQueue& queue, uint64_t flags) noexcept {
  if (enabled_) return Status(-FI_EOPBADSTATE);
  const bool selective = (flags & FI_SELECTIVE_COMPLETION) != 0;
  if ((flags & ~(FI_TRANSMIT | FI_RECV | FI_SELECTIVE_COMPLETION)) != 0) return Status(-FI_EBADFLAGS);
  if (!(flags & (FI_TRANSMIT | FI_RECV))) return Status(-FI_EINVAL);
  if (((flags & FI_TRANSMIT) && routes.transmit_queue) || ((flags & FI_RECV) && routes.receive_queue))
    return Status(-FI_EINVAL);
  if (flags & FI_TRANSMIT) {
    routes.transmit_queue = Ref<CompletionQueueCore>(queue);
    routes.transmit_selective = selective;
  }
  if (flags & FI_RECV) {
    routes.receive_queue = Ref<CompletionQueueCore>(queue);
    routes.receive_selective = selective;
  }
  return Status();
}

Status TransferEndpoint::bind_counter(Counter& counter, uint64_t flags) noexcept {
  if (enabled_) return Status(-FI_EOPBADSTATE);
  if ((flags & ~kDirections) != 0) return Status(-FI_EBADFLAGS);
  if (flags == 0) return Status(-FI_EINVAL);
  auto bind = [&](uint64_t direction, Ref<CounterCore>& route) {
    if (flags & direction) route = Ref<CounterCore>(counter);
  };
  bind(FI_SEND, routes.send);
  bind(FI_RECV, routes.receive);
  bind(FI_READ, routes.read);
  bind(FI_WRITE, routes.write);
  bind(FI_REMOTE_READ, routes.remote_read);
  bind(FI_REMOTE_WRITE, routes.remote_write);
  return Status();
}

Status TransferEndpoint::bind_shared_receive(SharedReceive& shared) noexcept {
  if (enabled_) return Status(-FI_EOPBADSTATE);
  shared_receive_ = Ref<SharedReceive>(shared);
  receive_queue_ = &shared.queue();
  return Status();
}

Status TransferEndpoint::enable_transfers() noexcept {
  if (enabled_) return Status();
  const bool any = (caps_ & kDirections) == 0;
  const bool sends = any || (caps_ & (FI_SEND | FI_READ | FI_WRITE)) != 0;
  const bool receives = any || (caps_ & FI_RECV) != 0;
  if (sends && !routes.transmit_queue && !routes.send && !routes.read && !routes.write) return Status(-FI_ENOCQ);
  if (receives && !routes.receive_queue && !routes.receive) return Status(-FI_ENOCQ);
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

void TransferEndpoint::stop(int error) noexcept {
  stream_.stop(error);
}

void TransferEndpoint::cancel_posted_receives(int native) noexcept {
  if (shared_receive_) return;  // they are the context's, for its other endpoints
  while (Receive* receive = own_receives_.first())
    cancel_receive(own_receives_, domain_.pools(), routes, *receive, native);
}

ssize_t TransferEndpoint::cancel(void* context) noexcept {
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
  if (flags == nullptr) return -FI_EINVAL;
  const uint64_t direction = *flags & (FI_TRANSMIT | FI_RECV);
  if (direction != FI_TRANSMIT && direction != FI_RECV) return -FI_EINVAL;
  uint64_t& defaults = direction == FI_TRANSMIT ? transmit_flags_ : receive_flags_;
  Lock lock(engine().mutex());
  if (command == FI_SETOPSFLAG)
    defaults = *flags & ~direction;
  else
    *flags = defaults | direction;
  return 0;
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
  if (len == nullptr || value == nullptr) return -FI_EINVAL;
  if (*len < sizeof answer) {
    *len = sizeof answer;
    return -FI_ETOOSMALL;
  }
  *len = sizeof answer;
  std::memcpy(value, &answer, sizeof answer);
  return 0;
}

int TransferEndpoint::setopt_transfer(int option, const void* value, size_t len) noexcept {
  std::size_t wanted = 0;
  auto read_value = [&] {
    if (value == nullptr || len != sizeof wanted) return false;
    std::memcpy(&wanted, value, sizeof wanted);
    return true;
  };
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
