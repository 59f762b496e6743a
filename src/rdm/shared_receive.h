// SPDX-License-Identifier: BSD-2-Clause
// Shared receive contexts of reliable datagrams: receives for the messages of many endpoints, which keep names, peers
// and completions of their own; fi_endpoint(3), SHARED CONTEXTS.
//
// Messages wait here as well, each with the endpoint that it came to. What concerns no endpoint in particular, a
// receive that is cancelled or a look for a message that is not there, is reported where the oldest endpoint's
// receives are.
#pragma once

#include <rdma/fi_endpoint.h>

#include <algorithm>
#include <vector>

#include "abi/ep_ops.h"
#include "abi/fid_ops.h"
#include "base/ref.h"
#include "objects/attributes.h"
#include "rdm/context_tables.h"
#include "rdm/endpoint_calls.h"
#include "rdm/peer_table.h"

namespace weft::rdm {

// Core: the provider's endpoint, a friend, with what TransferCalls and EndpointCalls say, and `vector_`, `enabled_`.
// Owner: its C handle; close answers -FI_EBUSY while endpoints are bound. The engine's mutex guards it.
template <class Core>
class SharedReceive final : public EndpointCalls<SharedReceive<Core>>, public RefCounted {
  using Base = EndpointCalls<SharedReceive<Core>>;

 public:
  using Engine = typename Core::EngineType;
  using Vector = typename Core::VectorType;

  // fi_srx_context. Capabilities that are not named are those of the domain.
  template <class Domain>
  static int open(Domain& domain, const fi_rx_attr* attr, fid_ep** srx, void* context) {
    if (srx == nullptr) return -FI_EINVAL;
    fi_rx_attr actual = attr != nullptr ? *attr : fi_rx_attr{};
    if (actual.caps == 0) actual.caps = domain.caps();
    fi_info info{};
    info.rx_attr = &actual;
    *srx = &(new SharedReceive(domain, domain.engine(), info, context))->abi;
    return 0;
  }
  static const fi_ops* fid_ops() noexcept {
    static constexpr fi_ops kOps = make_fid_ops<SharedReceive>();
    return &kOps;
  }

  Engine& engine() noexcept { return engine_; }
  CompletionRoutes& routes() noexcept { return routes_; }

  // For endpoints, with the engine's mutex held.
  // -FI_EINVAL: they have to share their address vector too, and may name sources only if the context does.
  Status admit(const Core& endpoint) const noexcept {
    if (endpoint.directs_ && !directs_) return Status(-FI_EINVAL);
    return endpoint.vector_ ? admit(*endpoint.vector_) : Status();
  }
  Status admit(const Vector& vector) const noexcept {
    const bool all = std::all_of(endpoints_.begin(), endpoints_.end(),
                                 [&](const Core* each) { return !each->vector_ || each->vector_.get() == &vector; });
    return Status(all ? 0 : -FI_EINVAL);
  }
  void add(Core& endpoint) {
    endpoints_.push_back(&endpoint);
    endpoint.peers_.take_numbers_of(sources_);
    endpoint.receives_.share(receives_);
  }
  void remove(Core& endpoint) noexcept {
    std::erase(endpoints_, &endpoint);
    sources_.forget_handles();  // other endpoints may bring another vector
    borrow_routes();
  }
  void on_enabled() noexcept { borrow_routes(); }

  // Slot of fi_ops. Receives that are still posted belong to nobody whose queue could be told.
  int close() {
    if (in_use()) return -FI_EBUSY;
    this->drop_triggered();
    delete this;
    return 0;
  }
  // Slot of fi_ops_ep.
  ssize_t rx_size_left() noexcept { return kDefaultReceives; }

 private:
  friend TransferCalls<SharedReceive>;
  friend EndpointCalls<SharedReceive>;

  static constexpr ssize_t kDefaultReceives = 2048;  // a deprecated question; memory limits them

  SharedReceive(RefCounted& domain, Engine& engine, const fi_info& info, void* context) noexcept
      : Base(info),
        domain_ref_(domain),
        engine_(engine),
        directs_((info.rx_attr->caps & FI_DIRECTED_RECV) != 0),
        receives_(routes_) {
    static constexpr fi_ops_ep kEpOps = make_ep_ops<SharedReceive>();
    this->abi.fid = {FI_CLASS_SRX_CTX, context, const_cast<fi_ops*>(fid_ops())};
    this->abi.ops = const_cast<fi_ops_ep*>(&kEpOps);
    this->take_triggers(info.rx_attr->caps);
    this->take_transfers(info.rx_attr->caps);
    restrict_to_context(this->abi, tables_, false);
  }
  ~SharedReceive() = default;

  int enable() noexcept { return 0; }  // it is from the beginning
  ssize_t transmit(TransmitRequest&&) noexcept { return -FI_ENOSYS; }
  void progress() noexcept {
    for (Core* each : endpoints_) each->progress();
  }
  // Nobody is known before an endpoint brings the vector.
  const PeerBase* peer_of(fi_addr_t handle) noexcept {
    for (Core* each : endpoints_)
      if (each->vector_) return sources_.find(*each->vector_, handle);
    return nullptr;
  }
  void borrow_routes() noexcept {
    const auto oldest =
        std::find_if(endpoints_.begin(), endpoints_.end(), [](const Core* each) { return each->enabled_; });
    const CompletionRoutes none;
    const CompletionRoutes& from = oldest != endpoints_.end() ? (*oldest)->routes() : none;
    routes_.receive_queue = from.receive_queue;
    routes_.receive = from.receive;
  }

  const Ref<RefCounted> domain_ref_;
  Engine& engine_;
  const bool directs_;  // FI_DIRECTED_RECV
  const std::size_t tx_size_ = 0;
  CompletionRoutes routes_;
  PeerTable<PeerBase> sources_;  // of all endpoints, which number their peers alike
  std::vector<Core*> endpoints_;
  ReceiveSide receives_;
  ContextTables tables_;
};

}  // namespace weft::rdm
