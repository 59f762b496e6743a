// SPDX-License-Identifier: BSD-2-Clause
// Bindings, enabling, options and the end of transfers; the calls themselves are in transfer_calls.cc, rma_calls.cc,
// atomics.cc and receive_calls.cc.
#include "verbs/transfer_endpoint.h"

#include <algorithm>

#include "objects/endpoint_options.h"
#include "verbs/device.h"
#include "verbs/domain.h"
#include "verbs/kept_receives.h"
#include "verbs/limits.h"
#include "verbs/provider.h"
#include "verbs/send_work.h"
#include "verbs/shared_receive.h"
#include "verbs/transfer_tables.h"

namespace weft::verbs {
namespace {

struct Nothing {};
constexpr TransferTables kClosed = make_tables<Nothing, FI_EOPBADSTATE>();
constexpr TransferTables kOpen = make_tables<TransferEndpoint, FI_ENOSYS>();
constexpr TransferTables kEnded = make_tables<Nothing, FI_ENOTCONN>();

// What an application may ask about atomics does not depend on the state.
constexpr TransferTables with_questions(TransferTables tables) noexcept {
  tables.atomic.writevalid = kOpen.atomic.writevalid;
  tables.atomic.readwritevalid = kOpen.atomic.readwritevalid;
  tables.atomic.compwritevalid = kOpen.atomic.compwritevalid;
  return tables;
}
constexpr TransferTables with_receives(TransferTables tables) noexcept {
  tables.msg.recv = kOpen.msg.recv;
  tables.msg.recvv = kOpen.msg.recvv;
  tables.msg.recvmsg = kOpen.msg.recvmsg;
  return tables;
}
constexpr TransferStates kConnected{.before = with_questions(kClosed),
                                    .receiving = with_receives(with_questions(kClosed)),
                                    .open = kOpen,
                                    .after = with_questions(kEnded)};

void install(fid_ep& ep, const TransferTables& tables) noexcept {
  ep.msg = const_cast<fi_ops_msg*>(&tables.msg);
  ep.rma = const_cast<fi_ops_rma*>(&tables.rma);
  ep.atomic = const_cast<fi_ops_atomic*>(&tables.atomic);
}

std::uint32_t choose(size_t asked, size_t otherwise, size_t most) noexcept {
  return static_cast<std::uint32_t>(std::clamp<size_t>(asked != 0 ? asked : otherwise, 1, std::max<size_t>(most, 1)));
}

size_t device_limit(int limit) noexcept {
  return limit > 0 ? static_cast<size_t>(limit) : 1;
}

uint64_t max_message(const fi_info& info) noexcept {
  constexpr uint64_t kLargestEver = uint64_t{1} << 31;  // of reliable connections
  const uint64_t said = info.ep_attr != nullptr ? info.ep_attr->max_msg_size : 0;
  return said != 0 ? std::min(said, kLargestEver) : kLargestEver;
}

}  // namespace

TransferEndpoint::Sizes TransferEndpoint::sizes_for(const Domain& domain, const fi_info& info) noexcept {
  const ibv_device_attr& device = domain.device().attr().orig_attr;
  const fi_tx_attr none_tx{};
  const fi_rx_attr none_rx{};
  const fi_tx_attr& tx = info.tx_attr != nullptr ? *info.tx_attr : none_tx;
  const fi_rx_attr& rx = info.rx_attr != nullptr ? *info.rx_attr : none_rx;
  // One work request is ours: the marker at the end.
  const size_t depth = std::min(device_limit(device.max_qp_wr - 1), kMaxQueueSize);
  const size_t sges = std::min(device_limit(device.max_sge), kMaxIov);
  Sizes sizes{};
  sizes.transmits = std::max(choose(tx.size, kDefaultQueueSize, depth), 2u);
  sizes.receives = choose(rx.size, kDefaultQueueSize, depth);
  sizes.transmit_iov = choose(tx.iov_limit, kDefaultIovLimit, sges);
  sizes.receive_iov = choose(rx.iov_limit, kDefaultIovLimit, sges);
  const bool spills = domain.spill().length != 0;
  sizes.receive_sges = std::min<std::uint32_t>(sizes.receive_iov + (spills ? 1 : 0), static_cast<std::uint32_t>(sges));
  sizes.inline_bytes = static_cast<std::uint32_t>(std::min(tx.inject_size, kMaxInjectSize));
  return sizes;
}

TransferEndpoint::TransferEndpoint(Domain& domain, const fi_info& info, void* context) noexcept
    : TransferEndpoint(domain, info, context, kConnected, IBV_QPT_RC) {}

TransferEndpoint::TransferEndpoint(Domain& domain, const fi_info& info, void* context, const TransferStates& states,
                                   ibv_qp_type type) noexcept
    : domain_(domain),
      transmit_flags_(info.tx_attr != nullptr ? info.tx_attr->op_flags : 0),
      receive_flags_(info.rx_attr != nullptr ? info.rx_attr->op_flags : 0),
      states_(states),
      datagrams_(type == IBV_QPT_UD),
      sizes_(sizes_for(domain, info)),
      caps_(info.caps),
      max_message_(max_message(info)),
      takes_cq_data_(info.domain_attr == nullptr || info.domain_attr->cq_data_size != 0),
      min_multi_receive_(kDefaultMinMultiReceive) {
  abi.fid.fclass = FI_CLASS_EP;
  abi.fid.context = context;
  install(abi, states_.before);
}

TransferEndpoint::~TransferEndpoint() {
  stop(0);
  abandon();
}

// ---- Bindings ----

Status TransferEndpoint::bind_cq(CompletionQueue& queue, uint64_t flags) noexcept {
  if (enabled_) return Status(-FI_EOPBADSTATE);
  if (&queue.engine().domain() != &domain_) return Status(-FI_EDOMAIN);
  if (Status status = routes.bind(queue, flags); !status.ok()) return status;
  if (flags & FI_TRANSMIT) routes.transmit_channel = &queue.engine();
  if (flags & FI_RECV) routes.receive_channel = &queue.engine();
  return Status();
}

Status TransferEndpoint::bind_counter(Counter& counter, uint64_t flags) noexcept {
  if (enabled_) return Status(-FI_EOPBADSTATE);
  if (&counter.engine() != &domain_.progress()) return Status(-FI_EDOMAIN);
  return routes.bind(counter, flags);
}

Status TransferEndpoint::bind_shared_receive(SharedReceive& shared) noexcept {
  if (enabled_) return Status(-FI_EOPBADSTATE);
  if (&shared.domain() != &domain_) return Status(-FI_EDOMAIN);
  shared_receive_ = Ref<SharedReceive>(shared);
  return Status();
}

Status TransferEndpoint::enable_transfers() noexcept {
  if (enabled_) return Status();
  if (Status status = routes.check(caps_); !status.ok()) return status;
  if (Status status = open_queues(); !status.ok()) return status;
  {
    LightGuard sends(send_lock_);
    LightGuard receives(receive_lock_);
    note_routes_locked();
  }
  enabled_ = true;
  install(abi, states_.receiving);
  return Status();
}

void TransferEndpoint::note_routes_locked() noexcept {
  may_report_ = routes.transmit_queue ? Posted::kReport : 0;
  always_report_ = routes.transmit_selective ? 0 : may_report_;
  if (routes.send) counted_kinds_ |= FI_SEND;
  if (routes.read) counted_kinds_ |= FI_READ;
  if (routes.write) counted_kinds_ |= FI_WRITE;
  straight_.request.sg_list = &straight_.piece;
  straight_.request.num_sge = 1;
  straight_receive_.request.sg_list = straight_receive_.pieces;
  straight_receive_.request.num_sge = 1;
  straight_receive_.pieces[1] = domain_.spill();
  if (domain_.spill().length != 0 && sizes_.receive_sges > 1) straight_receive_.request.num_sge = 2;
  choose_ways_locked();
}

void TransferEndpoint::choose_ways_locked() noexcept {
  constexpr uint64_t kPlain = FI_COMPLETION | FI_INJECT_COMPLETE | FI_TRANSMIT_COMPLETE;
  straight_.report = always_report_ | (static_cast<uint32_t>(transmit_flags_ & FI_COMPLETION) & may_report_);
  straight_.allowed = (transmit_flags_ & ~kPlain) == 0 && counted_kinds_ == 0;
  sends_.block();
  straight_receive_.flags = receive_flags_of(receive_flags_);
  straight_receive_.allowed = qp_ != nullptr && !shared_receive_ && (receive_flags_ & FI_MULTI_RECV) == 0;
}

// A failure leaves what was reserved to abandon(), or to another try.
Status TransferEndpoint::open_queues() noexcept {
  for (CompletionChannel** channel : {&routes.transmit_channel, &routes.receive_channel}) {
    if (*channel != nullptr) continue;
    auto silent = domain_.channel_without_queue();
    if (!silent) return silent.error();
    *channel = *silent;
  }
  if (datagrams_) {
    LightGuard guard(send_lock_);
    if (Status status = prepare_sends(); !status.ok()) return status;
  }
  if ((datagrams_ || shared_receive_) && reserved_receive_ == 0) {
    const Status status = shared_receive_ ? routes.receive_channel->reserve(*shared_receive_)
                                          : routes.receive_channel->reserve(sizes_.receives);
    if (!status.ok()) return status;
    reserved_receive_ = sizes_.receives;
  }
  return Status();
}

Status TransferEndpoint::prepare_sends() noexcept {
  if (reserved_transmit_ != 0) return Status();
  const unsigned entries = sizes_.transmits + 1;  // the marker at the end
  if (Status status = routes.transmit_channel->reserve(entries); !status.ok()) return status;
  if (Status status = sends_.open(sizes_.transmits, *this); !status.ok()) {
    routes.transmit_channel->give_back(entries);
    return status;
  }
  reserved_transmit_ = entries;
  return Status();
}

Posted* TransferEndpoint::first_send() noexcept {
  if (reserved_transmit_ != 0 || sends_refusal_ == -FI_ENOTCONN) return nullptr;
  const Status status = prepare_sends();
  sends_refusal_ = status.code();
  return status.ok() ? sends_.next() : nullptr;
}

Status TransferEndpoint::prepare_receives() noexcept {
  if (Status status = routes.receive_channel->reserve(sizes_.receives); !status.ok()) return status;
  Status status;
  {
    LightGuard guard(receive_lock_);
    if (!receives_.opened() && !receives_.closed()) {
      status = receives_.open(sizes_.receives, this, nullptr);
      if (status.ok()) {
        reserved_receive_ = sizes_.receives;
        return status;
      }
    }
  }
  routes.receive_channel->give_back(sizes_.receives);
  return status;
}

ibv_qp_init_attr TransferEndpoint::qp_attributes() const noexcept {
  ibv_qp_init_attr attr{};
  attr.send_cq = routes.transmit_channel->cq();
  attr.recv_cq = routes.receive_channel->cq();
  attr.srq = shared_receive_ ? shared_receive_->srq() : nullptr;
  attr.cap.max_send_wr = sizes_.transmits + 1;
  attr.cap.max_send_sge = sizes_.transmit_iov;
  attr.cap.max_inline_data = sizes_.inline_bytes;
  attr.cap.max_recv_wr = shared_receive_ ? 0 : sizes_.receives;
  attr.cap.max_recv_sge = shared_receive_ ? 0 : sizes_.receive_sges;
  attr.qp_type = datagrams_ ? IBV_QPT_UD : IBV_QPT_RC;
  attr.sq_sig_all = 0;
  return attr;
}

// ---- Life ----

Status TransferEndpoint::adopt_qp(ibv_qp* qp) noexcept {
  qp_number_ = qp->qp_num;
  if (shared_receive_)
    if (Status status = routes.receive_channel->add_endpoint(qp_number_, *this); !status.ok()) return status;
  for (;;) {
    {
      LightGuard sends(send_lock_);
      LightGuard receives(receive_lock_);
      if (kept_ == nullptr || receives_.opened()) {
        qp_ = qp;
        choose_ways_locked();
        post_kept_locked();
        return Status();
      }
    }
    if (Status status = prepare_receives(); !status.ok()) return status;
  }
}

void TransferEndpoint::post_kept_locked() noexcept {
  const std::unique_ptr<KeptReceives> kept = std::move(kept_);
  for (size_t i = 0; kept != nullptr && i < kept->count(); ++i) {
    ReceiveWork& work = (*kept)[i];
    if (post_receive_locked(work) != 0)
      report_cancelled(routes.receive_queue.get(), routes.receive.get(), work.context, FI_RECV | FI_MSG);
  }
}

void TransferEndpoint::start() noexcept {
  install(abi, states_.open);
}

void TransferEndpoint::stop(int) noexcept {
  if (stopped_) return;
  stopped_ = true;
  install(abi, states_.after);
  {
    LightGuard guard(send_lock_);
    if (chain_ != nullptr && !chain_->empty()) {
      routes.transmit_channel->unstage(*this);
      flush_chain();
    }
    sends_.close();
    sends_refusal_ = -FI_ENOTCONN;
  }
  LightGuard guard(receive_lock_);
  receives_.close();
  cancel_kept();
}

void TransferEndpoint::cancel_kept() noexcept {
  const std::unique_ptr<KeptReceives> kept = std::move(kept_);
  for (size_t i = 0; kept != nullptr && i < kept->count(); ++i) {
    const ReceiveWork& work = (*kept)[i];
    report_cancelled(routes.receive_queue.get(), routes.receive.get(), work.context,
                     FI_RECV | FI_MSG | (work.flags & FI_MULTI_RECV));
  }
}

void TransferEndpoint::report_cancelled(CompletionQueueCore* queue, CounterCore* counter, void* context,
                                        uint64_t flags) noexcept {
  CompletionError cancelled;
  cancelled.context = context;
  cancelled.flags = flags;
  cancelled.err = FI_ECANCELED;
  cancelled.prov_errno = IBV_WC_WR_FLUSH_ERR;
  if (counter != nullptr) counter->add_error(1);
  if (queue != nullptr) queue->write_error(cancelled);
}

// Work requests that asked for no work completion get one when they are flushed, but not if they succeeded and nothing
// came after them. So something comes after them. Only in a queue pair that sends nothing any more.
void TransferEndpoint::post_marker() noexcept {
  // Again, if the caller did so already: some devices notice receives that came late only then.
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_ERR;
  const bool broken = ibv_modify_qp(qp_, &attr, IBV_QP_STATE) == 0;
  if (broken && probing_.load(std::memory_order_acquire)) return;  // its place is taken until that is flushed
  marker_tried_ = true;
  if (!broken || sends_.outstanding() == 0) return;
  marker_posted_ = post_own(Posted::Role::kMarker, IBV_WR_SEND);
}

bool TransferEndpoint::post_own(Posted::Role role, ibv_wr_opcode opcode) noexcept {
  own_.role = role;
  own_.endpoint = this;
  ibv_send_wr wr{};
  wr.wr_id = reinterpret_cast<uintptr_t>(&own_);
  wr.opcode = opcode;
  wr.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  return ibv_post_send(qp_, &wr, &bad) == 0;
}

bool TransferEndpoint::idle() noexcept {
  if (probing_.load(std::memory_order_acquire)) return false;
  {
    LightGuard guard(send_lock_);
    if (sends_.outstanding() != 0) return false;
  }
  LightGuard guard(receive_lock_);
  return receives_.outstanding() == 0;
}

bool TransferEndpoint::drain() noexcept {
  if (!enabled_ || abandoned_ || (!shared_receive_ && !marker_tried_ && idle())) return true;
  {
    LightGuard guard(send_lock_);
    if (!marker_tried_ && qp_ != nullptr) post_marker();
  }
  routes.transmit_channel->poll_all();
  if (routes.receive_channel != routes.transmit_channel) routes.receive_channel->poll_all();
  if (probing_.load(std::memory_order_acquire)) return false;
  {
    LightGuard guard(send_lock_);
    if (marker_posted_ ? !marker_seen_.load(std::memory_order_acquire) : sends_.outstanding() != 0) return false;
  }
  LightGuard guard(receive_lock_);
  return shared_receive_ || receives_.outstanding() == 0;
}

void TransferEndpoint::abandon() noexcept {
  if (abandoned_) return;
  abandoned_ = true;
  if (enabled_) {
    {
      LightGuard sends(send_lock_);
      LightGuard receives(receive_lock_);
      qp_ = nullptr;
      choose_ways_locked();
    }
    // Some devices keep the work completions of a queue pair that is gone: none may be left when its records go.
    routes.transmit_channel->poll_all();
    if (routes.receive_channel != routes.transmit_channel) routes.receive_channel->poll_all();
    if (marker_seen_.load(std::memory_order_acquire)) sends_.complete_all();
    cancel_left();
  }
  if (shared_receive_ && qp_number_ != 0) routes.receive_channel->remove_endpoint(qp_number_);
  if (reserved_transmit_ != 0) routes.transmit_channel->give_back(std::exchange(reserved_transmit_, 0));
  if (std::exchange(probe_reserved_, false)) routes.transmit_channel->give_back(1);
  if (std::exchange(reserved_receive_, 0) != 0) {
    if (shared_receive_)
      routes.receive_channel->give_back(*shared_receive_);
    else
      routes.receive_channel->give_back(sizes_.receives);
  }
}

// What no work completion came for. Transmissions that were to be silent may have succeeded: nothing is said of them.
void TransferEndpoint::cancel_left_sends() noexcept {
  while (Posted* slot = sends_.take_oldest()) {
    const bool counts = (slot->flags & Posted::kCount) != 0;
    if ((slot->flags & Posted::kFirstHalf) != 0 || (!counts && (slot->flags & Posted::kReport) == 0)) continue;
    const uint64_t flags = slot->flags & ~uint64_t{Posted::kOurs};
    report_cancelled(routes.transmit_queue.get(), counts ? routes.transmit_counter(flags) : nullptr, slot->context,
                     flags);
  }
}

void TransferEndpoint::cancel_left() noexcept {
  cancel_left_sends();
  while (Posted* slot = receives_.take_left())
    report_cancelled(routes.receive_queue.get(), routes.receive.get(), slot->context,
                     FI_RECV | FI_MSG | (slot->flags & FI_MULTI_RECV));
}

// ---- Options ----

ssize_t TransferEndpoint::rx_size_left() noexcept {
  if (!enabled_) return -FI_EOPBADSTATE;
  if (shared_receive_) return shared_receive_->rx_size_left();
  LightGuard guard(receive_lock_);
  const size_t kept = kept_ != nullptr ? kept_->count() : 0;
  const size_t room = receives_.opened() || receives_.closed() ? receives_.room() : sizes_.receives;
  return static_cast<ssize_t>(room - std::min(room, kept));
}

ssize_t TransferEndpoint::tx_size_left() noexcept {
  if (!enabled_) return -FI_EOPBADSTATE;
  LightGuard guard(send_lock_);
  return static_cast<ssize_t>(sends_refusal_ == -FI_ENOTCONN || reserved_transmit_ != 0 ? sends_.room()
                                                                                        : sizes_.transmits);
}

int TransferEndpoint::control_flags(int command, uint64_t* flags) noexcept {
  LightGuard sends(send_lock_);
  LightGuard receives(receive_lock_);
  const int result = control_default_flags(command, flags, transmit_flags_, receive_flags_, [](uint64_t) { return 0; });
  choose_ways_locked();
  return result;
}

int TransferEndpoint::getopt_transfer(int option, void* value, size_t* len) noexcept {
  size_t answer = 0;
  switch (option) {
    case FI_OPT_MIN_MULTI_RECV:
      answer = min_multi_receive_;
      break;
    case FI_OPT_TX_SIZE:
      answer = sizes_.transmits;
      break;
    case FI_OPT_RX_SIZE:
      answer = shared_receive_ ? shared_receive_->size() : sizes_.receives;
      break;
    case FI_OPT_MAX_MSG_SIZE:
    case FI_OPT_MAX_RMA_SIZE:
      answer = max_message_;
      break;
    case FI_OPT_MAX_ATOMIC_SIZE:
    case FI_OPT_INJECT_ATOMIC_SIZE:
      answer = sizeof(uint64_t);
      break;
    case FI_OPT_INJECT_MSG_SIZE:
    case FI_OPT_INJECT_RMA_SIZE:
      answer = sizes_.inline_bytes;
      break;
    case FI_OPT_MAX_TAGGED_SIZE:
    case FI_OPT_INJECT_TAGGED_SIZE:
      break;
    default:
      return -FI_ENOPROTOOPT;
  }
  return report_option(answer, value, len);
}

int TransferEndpoint::setopt_transfer(int option, const void* value, size_t len) noexcept {
  size_t wanted = 0;
  const bool readable = read_option(value, len, wanted) == 0;
  switch (option) {
    case FI_OPT_MIN_MULTI_RECV: {
      if (!readable) return -FI_EINVAL;
      LightGuard guard(receive_lock_);
      min_multi_receive_ = wanted;
      return 0;
    }
    case FI_OPT_TX_SIZE:
    case FI_OPT_RX_SIZE: {
      if (enabled_) return -FI_EOPBADSTATE;
      if (!readable || wanted == 0) return -FI_EINVAL;
      const size_t most = device_limit(domain_.device().attr().orig_attr.max_qp_wr - 1);
      if (wanted > std::min(most, kMaxQueueSize)) return -FI_EINVAL;
      (option == FI_OPT_TX_SIZE ? sizes_.transmits : sizes_.receives) =
          static_cast<std::uint32_t>(option == FI_OPT_TX_SIZE ? std::max<size_t>(wanted, 2) : wanted);
      return 0;
    }
    case FI_OPT_INJECT_MSG_SIZE:
    case FI_OPT_INJECT_RMA_SIZE:
      // The application tells how much it will inject at most.
      return readable && wanted <= sizes_.inline_bytes ? 0 : -FI_EINVAL;
    case FI_OPT_INJECT_TAGGED_SIZE:
      return readable && wanted == 0 ? 0 : -FI_EINVAL;
    case FI_OPT_INJECT_ATOMIC_SIZE:
    case FI_OPT_MAX_ATOMIC_SIZE:
      return readable && wanted <= sizeof(uint64_t) ? 0 : -FI_EINVAL;
    case FI_OPT_MAX_MSG_SIZE:
    case FI_OPT_MAX_TAGGED_SIZE:
    case FI_OPT_MAX_RMA_SIZE:
      return readable ? 0 : -FI_EINVAL;
    default:
      return -FI_ENOPROTOOPT;
  }
}

}  // namespace weft::verbs
