// SPDX-License-Identifier: BSD-2-Clause
// Bindings, enabling, options and the end of transfers; the calls are in message_calls.h, rma_calls.h and atomics.cc.
#include "verbs/transfer/transfer_endpoint.h"

#include <rdma/fi_ext.h>

#include "objects/binding_check.h"
#include "objects/endpoint_options.h"
#include "verbs/device/logging.h"
#include "verbs/transfer/domain_services.h"

namespace weft::verbs {
namespace {

constexpr TransferTables kOpen = make_tables<TransferEndpoint, FI_ENOSYS>();

// Queries about atomics work in every state.
constexpr TransferTables with_queries(TransferTables tables) noexcept {
  tables.atomic.writevalid = kOpen.atomic.writevalid;
  tables.atomic.readwritevalid = kOpen.atomic.readwritevalid;
  tables.atomic.compwritevalid = kOpen.atomic.compwritevalid;
  return tables;
}
constexpr TransferTables kClosed = with_queries(make_tables<NoCalls, FI_EOPBADSTATE>());
constexpr TransferTables kReceiving = {with_receives(kClosed.msg, kOpen.msg), kClosed.rma, kClosed.atomic};

}  // namespace

TransferEndpoint::TransferEndpoint(DomainServices& domain, const fi_info& info, void* context) noexcept
    : domain_(domain),
      sizes_(domain, info),
      caps_(info.caps),
      sends_(routes, sizes_, or_none(info.tx_attr).op_flags),
      receives_(routes, sizes_, domain.spill(), or_none(info.rx_attr).op_flags),
      takes_cq_data_(info.domain_attr == nullptr || info.domain_attr->cq_data_size != 0) {
  abi.fid.fclass = FI_CLASS_EP;
  abi.fid.context = context;
  install(abi, kClosed);
}

// ---- Bindings ----

Status TransferEndpoint::bind_cq(CompletionQueue& queue, uint64_t flags) noexcept {
  return routes.bind_queue(*domain_, queue, flags, enabled_);
}

Status TransferEndpoint::bind_counter(Counter& counter, uint64_t flags) noexcept {
  return verbs::bind_counter(routes, *domain_, counter, flags, enabled_, sends_, receives_);
}

Status TransferEndpoint::bind_shared_receive(SharedReceive& shared, uint64_t flags) noexcept {
  const Status status = check_binding(provider(), shared, *domain_, enabled_, flags, has_shared_receive());
  if (status.ok()) receives_.share(shared);
  return status;
}

Status TransferEndpoint::enable_transfers() noexcept {
  if (enabled_) return Status();
  if (Status status = routes.check(caps_); !status.ok()) return status;
  if (Status status = routes.open_channels(*domain_); !status.ok()) return status;
  if (Status status = receives_.enable(); !status.ok()) return status;
  sends_.enable();
  enabled_ = true;
  install(abi, kReceiving);
  return Status();
}

ibv_qp_init_attr TransferEndpoint::qp_attributes() const noexcept {
  ibv_qp_init_attr attr = sizes_.queue_pair(routes, IBV_QPT_RC);
  if (const SharedReceive* shared = receives_.shared(); shared != nullptr) {
    attr.srq = shared->srq();
    attr.cap.max_recv_wr = attr.cap.max_recv_sge = 0;
  }
  return attr;
}

// ---- Life ----

Status TransferEndpoint::adopt_qp(ibv_qp* qp) noexcept {
  if (Status status = receives_.use(*qp); !status.ok()) return status;
  sends_.use(qp);
  return Status();
}

void TransferEndpoint::start() noexcept {
  install(abi, kOpen);
}

void TransferEndpoint::stop() noexcept {
  sends_.stop();
  receives_.stop();
}

bool TransferEndpoint::drain() noexcept {
  if (!enabled_ || abandoned_ || (!has_shared_receive() && !sends_.marked() && idle())) return true;
  sends_.mark_end();
  routes.poll_all();
  return sends_.drained() && receives_.idle();
}

void TransferEndpoint::abandon() noexcept {
  if (!enabled_ || abandoned_) return;
  abandoned_ = true;
  sends_.use(nullptr);
  receives_.detach();
  // Some devices keep the work completions of a destroyed queue pair: all must be polled before their records go.
  routes.poll_all();
  sends_.cancel_left();
  receives_.cancel_left();
  sends_.release();
  receives_.release();
}

// ---- Options ----

int TransferEndpoint::getopt_transfer(int option, void* value, size_t* len) noexcept {
  if (option == FI_OPT_MIN_MULTI_RECV) return receives_.get_minimum(value, len);
  if (option == FI_OPT_WEFT_REFUSE_AFTER_END) return report_option(int{routes.refuses_after_end}, value, len);
  if (option == FI_OPT_RX_SIZE && has_shared_receive()) return report_option(receives_.shared()->size(), value, len);
  return sizes_.getopt(option, value, len);
}

int TransferEndpoint::setopt_transfer(int option, const void* value, size_t len) noexcept {
  if (option == FI_OPT_MIN_MULTI_RECV) return receives_.set_minimum(value, len);
  if (option == FI_OPT_WEFT_REFUSE_AFTER_END) return read_switch(value, len, routes.refuses_after_end);
  return sizes_.setopt(option, value, len, enabled_);
}

}  // namespace weft::verbs
