// SPDX-License-Identifier: BSD-2-Clause
// Shared receive contexts of reliable datagrams: receives for the messages of many endpoints, which keep names, peers
// and completions of their own; and the shared contexts that an endpoint is bound to, with their effect on its calls;
// fi_endpoint(3), SHARED CONTEXTS.
//
// Unexpected messages are kept here as well, each with the endpoint that received it. A cancelled receive, or FI_PEEK
// without a match, concerns no endpoint in particular: it is reported on the queue of the oldest enabled endpoint.
#pragma once

#include <rdma/fi_endpoint.h>

#include <algorithm>
#include <concepts>
#include <memory>
#include <new>
#include <vector>

#include "abi/ops.h"
#include "base/ref.h"
#include "objects/binding_check.h"
#include "objects/shared_transmit.h"
#include "rdm/endpoint_calls.h"
#include "rdm/peer_table.h"

namespace weft::rdm {

// The functions that scalable endpoints and shared contexts require of a provider's reliable-datagram endpoint;
// templates on it call it directly. Beside bind(), setname(), getname() and close(), which take it, all are called with
// the mutex of engine() held.
template <class Core>
concept ReliableEndpointCore = TransferTarget<Core> && std::derived_from<Core, EndpointCalls<Core>> &&
    requires(Core& core, CompletionRoutes& routes, ReceiveSide& receives, PeerTable<PeerBase>* numbers) {
  typename Core::EngineType;
  typename Core::VectorType;
  { Core::provider() } -> std::same_as<fi_provider&>;  // for log lines
  // An info that describes a context, compared with what the provider offers.
  { core.check(std::declval<const fi_info&>()) } -> std::same_as<Status>;
  // EndpointCalls<T>, or a class derived from it, for contexts.
  typename Core::template Calls<Core>;
  // Ends all operations that complete there. Messages that arrive in a receive of `receives` are discarded from now on.
  { core.abandon(routes, receives) }
  noexcept;
  // Whether injected operations wait for a connection; see linked_peer.h.
  { core.holds_injected(&routes) } -> std::same_as<bool>;
  // As enable(), but without queues of its own. 0 or an error.
  { core.enable_contexts() } -> std::same_as<int>;
  // Its address vector; null until one is bound.
  { core.vector() } -> std::same_as<Ref<typename Core::VectorType>&>;
  // New peers get their numbers there, or in its own table; see PeerTable.
  { core.share_numbers_of(numbers) }
  noexcept;
};

// Core: a ReliableEndpointCore.
// Owner: its C handle; close answers -FI_EBUSY while endpoints are bound. The engine's mutex guards it.
template <class Core>
class SharedReceive final : public EndpointCalls<SharedReceive<Core>> {
  using Base = EndpointCalls<SharedReceive<Core>>;

 public:
  using Engine = typename Core::EngineType;
  using Vector = typename Core::VectorType;

  // fi_srx_context. Without capabilities in `attr` the context gets those of the domain.
  template <class Domain>
  static int open(Domain& domain, const fi_rx_attr* attr, fid_ep** srx, void* context) {
    if (srx == nullptr) return -FI_EINVAL;
    fi_rx_attr actual = or_none(attr);
    if (actual.caps == 0) actual.caps = domain.caps();
    fi_info info{};
    info.rx_attr = &actual;
    *srx = &(new SharedReceive(domain, domain.engine(), info, context))->abi;
    return 0;
  }

  Engine& engine() noexcept { return engine_; }
  CompletionRoutes& routes() noexcept { return routes_; }

  // For endpoints, with the engine's mutex held.
  // -FI_EINVAL unless they share their address vector too; FI_DIRECTED_RECV of an endpoint needs that of the context.
  Status admit(Core& endpoint) const noexcept {
    if (endpoint.directs() && !this->directs()) return Status(-FI_EINVAL);
    return endpoint.vector() ? admit(*endpoint.vector()) : Status();
  }
  Status admit(const Vector& vector) const noexcept {
    const bool all = std::all_of(endpoints_.begin(), endpoints_.end(),
                                 [&](Core* each) { return !each->vector() || each->vector().get() == &vector; });
    return Status(all ? 0 : -FI_EINVAL);
  }
  void add(Core& endpoint) {
    endpoints_.reserve(endpoints_.size() + 1);
    endpoint.receive_side().share(receives_);  // nothing fails after this
    endpoints_.push_back(&endpoint);
    // Deferred receives that are posted here may complete there.
    if (routes_.deferred != nullptr) endpoint.routes().deferred = routes_.deferred;
    endpoint.share_numbers_of(&sources_);
  }
  void remove(Core& endpoint) noexcept {
    std::erase(endpoints_, &endpoint);
    endpoint.share_numbers_of(nullptr);
    sources_.forget_handles();  // the next endpoints may have another vector
    use_oldest_routes();
  }
  void use_oldest_routes() noexcept {
    const auto oldest =
        std::find_if(endpoints_.begin(), endpoints_.end(), [](const Core* each) { return each->enabled(); });
    const CompletionRoutes none;
    const CompletionRoutes& from = oldest != endpoints_.end() ? (*oldest)->routes() : none;
    routes_.receive_queue = from.receive_queue;
    routes_.receive = from.receive;
  }

  // Slot of fi_ops. No queue is left where cancelled receives could be reported: only deferred work ends with them.
  int close() {
    if (this->in_use()) return -FI_EBUSY;
    routes_.drop_triggered(this->abi);
    {
      Lock lock(engine_.mutex());
      receives_.cancel_all();
    }
    delete this;
    return 0;
  }
  // Slot of fi_ops_ep.
  ssize_t rx_size_left() noexcept { return kNominalReceives; }

  // TransferTarget.
  int enable() noexcept { return 0; }  // enabled from the beginning
  ssize_t transmit(TransmitRequest&&) noexcept { return -FI_ENOSYS; }
  // No source has a number before an endpoint with an address vector is bound.
  const PeerBase* peer_of(fi_addr_t handle) noexcept {
    auto* const found = vector();
    return found != nullptr ? sources_.find(*found, handle) : nullptr;
  }
  typename Core::VectorType* vector() noexcept {
    for (Core* each : endpoints_)
      if (each->vector()) return each->vector().get();
    return nullptr;
  }

 private:
  SharedReceive(RefCounted& domain, Engine& engine, const fi_info& info, void* context) noexcept
      : Base(info, receives_, (info.rx_attr->caps & FI_DIRECTED_RECV) != 0, 0),
        domain_ref_(domain),
        engine_(engine),
        receives_(routes_) {
    static_assert(ReliableEndpointCore<Core>);
    identify<SharedReceive>(this->abi, FI_CLASS_SRX_CTX, context);
    routes_.accept_triggers(info.rx_attr->caps, engine.deferred());
    this->take_transfers(info.rx_attr->caps);
    restrict_to_context(this->abi, tables_, false);
  }
  ~SharedReceive() = default;

  const Ref<RefCounted> domain_ref_;
  Engine& engine_;
  CompletionRoutes routes_;
  PeerTable<PeerBase> sources_;  // numbers the peers of all endpoints
  std::vector<Core*> endpoints_;
  ReceiveSide receives_;
  ContextTables tables_;
};

// The shared contexts that an endpoint is bound to. Belongs to the endpoint, a Core of SharedReceive. The engine's
// mutex guards it.
template <class Core>
class SharedContexts {
 public:
  explicit SharedContexts(const fi_info& info) noexcept
      : needs_transmit_(or_none(info.ep_attr).tx_ctx_cnt == FI_SHARED_CONTEXT),
        needs_receive_(or_none(info.ep_attr).rx_ctx_cnt == FI_SHARED_CONTEXT) {}

  // fi_ep_bind of a context; -FI_EINVAL for other objects, and for an endpoint that does not fit the context.
  Status bind(Core& endpoint, const RefCounted& domain, ::fid* object, uint64_t flags) {
    auto* const transmit = object_if<SharedTransmit>(object);
    auto* const receive = object_if<SharedReceive<Core>>(object);
    if (transmit != nullptr) return bind(endpoint, domain, *transmit, flags);
    if (receive == nullptr) return Status(-FI_EINVAL);
    Status status = check_binding(Core::provider(), {.object = *object,
                                                     .same_domain = &receive->engine() == &endpoint.engine(),
                                                     .enabled = endpoint.enabled(),
                                                     .flags = flags,
                                                     .second = static_cast<bool>(receive_)});
    if (status.ok()) status = receive->admit(endpoint);
    if (!status.ok()) return status;
    tables_.reset(new (std::nothrow) ContextTables);
    if (tables_ == nullptr) return Status(-FI_ENOMEM);
    receive->add(endpoint);
    receive_ = Ref<SharedReceive<Core>>(*receive);
    return Status();
  }
  // fi_ep_bind of an address vector.
  template <class Vector>
  Status bind_vector(Core& endpoint, const RefCounted& domain, Vector& vector, uint64_t flags) noexcept {
    Status status = check_binding(Core::provider(), vector, domain, endpoint.enabled(), flags,
                                  static_cast<bool>(endpoint.vector()));
    if (status.ok() && receive_) status = receive_->admit(vector);
    if (status.ok()) endpoint.vector() = Ref<Vector>(vector);
    return status;
  }

  // -FI_EINVAL when a context is missing that the attributes of the endpoint require.
  Status check() const noexcept {
    return Status((needs_transmit_ && !transmit_) || (needs_receive_ && !receive_) ? -FI_EINVAL : 0);
  }
  // Call it when the tables of the endpoint are installed: receives are posted to the context.
  void on_enabled(Core& endpoint) noexcept {
    if (!receive_) return;
    leave_receives_to_context(endpoint.abi, *tables_);
    receive_->use_oldest_routes();
  }
  void on_counter_bound() noexcept {
    if (receive_) receive_->use_oldest_routes();
  }
  // The endpoint closes; its receives and messages are gone.
  void leave(Core& endpoint) noexcept {
    if (receive_) receive_->remove(endpoint);
  }

 private:
  Status bind(Core& endpoint, const RefCounted& domain, SharedTransmit& transmit, uint64_t flags) noexcept {
    const Status status =
        check_binding(Core::provider(), transmit, domain, endpoint.enabled(), flags, static_cast<bool>(transmit_));
    if (!status.ok()) return status;
    transmit_ = Ref<SharedTransmit>(transmit);
    endpoint.set_tx_size(transmit.size(endpoint.tx_size()));
    return Status();
  }

  const bool needs_transmit_, needs_receive_;
  Ref<SharedTransmit> transmit_;
  Ref<SharedReceive<Core>> receive_;
  std::unique_ptr<ContextTables> tables_;  // with receive_
};

}  // namespace weft::rdm
