// SPDX-License-Identifier: BSD-2-Clause
// Scalable endpoints of reliable datagrams: one name and one set of connections, with several contexts that transmit or
// receive, each with completions of its own; fi_endpoint(3), SCALABLE ENDPOINTS. A peer chooses the context that gets
// its message: fi_rx_addr of fi_av(3).
//
// Behind one stands an endpoint that no application sees. Transfers of a context are that endpoint's, but completed
// where the context's are; what arrives for a context is matched with the receives posted there.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "abi/cm_ops.h"
#include "abi/ep_ops.h"
#include "abi/fid_ops.h"
#include "base/ref.h"
#include "objects/attributes.h"
#include "objects/event_binding.h"
#include "rdm/atomic_calls.h"
#include "rdm/context_tables.h"
#include "rdm/endpoint_calls.h"
#include "rdm/shared_contexts.h"

namespace weft::rdm {

// What there is of a context also while it is not open.
struct ContextPlace {
  CompletionRoutes routes;
  ReceiveSide receives{routes};
  bool open = false;
};

template <class Core>
class ScalableEndpoint;

// A transmit or a receive context. Owner: its C handle. The engine's mutex guards it.
//
// Core: the provider's endpoint, a friend, with what TransferCalls and EndpointCalls say, and
//   Calls<T>                   EndpointCalls<T>, or what derives from it
//   void abandon(routes)       ends what was to complete there; with the mutex held
//   Status enable_contexts()   as enable(), but without queues of its own
template <class Core>
class EndpointContext final : public Core::template Calls<EndpointContext<Core>> {
  using Base = typename Core::template Calls<EndpointContext<Core>>;

 public:
  using Engine = typename Core::EngineType;

  // `index` within its kind.
  EndpointContext(ScalableEndpoint<Core>& parent, Core& core, ContextPlace& place, const fi_info& info, bool transmits,
                  int index, void* context) noexcept
      : Base(info),
        parent_(parent),
        core_(core),
        place_(place),
        transmits_(transmits),
        hears_of_writes_(!transmits && index == 0),
        caps_(info.caps),
        receives_(place.receives),
        directs_(core.directs_),
        tx_size_(core.tx_size_) {
    static constexpr fi_ops_ep kEpOps = make_ep_ops<EndpointContext>();
    this->abi.fid = {static_cast<size_t>(transmits ? FI_CLASS_TX_CTX : FI_CLASS_RX_CTX), context,
                     const_cast<fi_ops*>(fid_ops())};
    this->abi.ops = const_cast<fi_ops_ep*>(&kEpOps);
    place_.open = true;
    this->refuse_transfers();
    this->take_triggers(caps_);
  }
  static const fi_ops* fid_ops() noexcept {
    static constexpr fi_ops kOps = make_fid_ops<EndpointContext>();
    return &kOps;
  }

  CompletionRoutes& routes() noexcept { return place_.routes; }

  // Slots of fi_ops.
  int close() {
    this->drop_triggered();
    {
      Lock lock(engine().mutex());
      if (transmits_) core_.abandon(place_.routes);
      if (hears_of_writes_) core_.routes().receive_queue = {};
      place_.receives.cancel_all();
      place_.routes = {};
      place_.open = false;
    }
    release_events(events_, engine(), this->abi.fid);
    delete this;
    return 0;
  }
  int bind(::fid* object, uint64_t flags) {
    if (auto* queue = EventQueue<Engine>::from(object)) return bind_events(*queue, flags, engine(), events_).code();
    Lock lock(engine().mutex());
    if (auto* queue = weft::CompletionQueue<Engine>::from(object)) {
      if (&queue->engine() != &engine()) return -FI_EDOMAIN;
      if (enabled_) return -FI_EOPBADSTATE;
      const uint64_t direction = transmits_ ? FI_TRANSMIT : FI_RECV;
      if ((flags & (FI_TRANSMIT | FI_RECV)) != direction) return -FI_EINVAL;
      Status bound = place_.routes.bind(*queue, flags);
      if (bound.ok() && hears_of_writes_) core_.routes().receive_queue = Ref<CompletionQueueCore>(*queue);
      return bound.code();
    }
    auto* counter = weft::Counter<Engine>::from(object);
    if (counter == nullptr) return -FI_EINVAL;  // the address vector is the whole endpoint's
    if (&counter->engine() != &engine()) return -FI_EDOMAIN;
    if (enabled_) return -FI_EOPBADSTATE;
    constexpr uint64_t kTransmits = FI_SEND | FI_READ | FI_WRITE;
    if ((flags & (FI_REMOTE_READ | FI_REMOTE_WRITE)) != 0) return -FI_ENOSYS;
    if ((flags & ~(transmits_ ? kTransmits : uint64_t{FI_RECV})) != 0) return -FI_EINVAL;
    return place_.routes.bind(*counter, flags).code();
  }

 private:
  friend TransferCalls<EndpointContext>;
  friend EndpointCalls<EndpointContext>;
  friend Base;
  ~EndpointContext() = default;

  Engine& engine() noexcept { return core_.engine(); }
  void progress() noexcept { core_.progress(); }
  auto* peer_of(fi_addr_t handle) noexcept { return core_.peer_of(handle); }

  int enable() {
    if (enabled_) return 0;
    // Of an endpoint without messages a context receives nothing, and needs no queue for that.
    const bool completes = transmits_ || caps_ == 0 || (caps_ & (FI_MSG | FI_TAGGED)) != 0;
    if (Status status = place_.routes.check(transmits_ ? FI_SEND : FI_RECV); completes && !status.ok())
      return status.code();
    if (const int error = core_.enable_contexts(); error != 0) return error;
    enabled_ = true;
    this->take_transfers(caps_);
    restrict_to_context(this->abi, tables_, transmits_);
    return 0;
  }

  ssize_t transmit(TransmitRequest&& request) noexcept {
    request.routes = &place_.routes;
    return core_.transmit(std::move(request));
  }
  // These two for those with atomic operations.
  ssize_t update(const AtomicRequest& request) noexcept {
    AtomicRequest ours = request;
    ours.routes = &place_.routes;
    return core_.update(ours);
  }
  std::size_t atomic_count(AtomicKind kind, fi_datatype datatype, fi_op operation) noexcept {
    return core_.atomic_count(kind, datatype, operation);
  }

  const Ref<ScalableEndpoint<Core>> parent_;
  Core& core_;
  ContextPlace& place_;
  const bool transmits_;
  const bool hears_of_writes_;  // data that comes with a peer's write names no context
  const uint64_t caps_;
  ReceiveSide& receives_;
  const bool directs_;  // FI_DIRECTED_RECV
  const std::size_t tx_size_;
  bool enabled_ = false;
  Ref<EventQueue<Engine>> events_;
  ContextTables tables_;
};

// Owner: its C handle; close answers -FI_EBUSY while contexts are open.
template <class Core>
class ScalableEndpoint final : public Object<fid_ep>, public RefCounted {
 public:
  // fi_scalable_ep. `make` opens the endpoint behind it with an info of one context each.
  template <class Make>
  static int open(const fi_info* info, fid_ep** sep, void* context, Make make) {
    if (info == nullptr || sep == nullptr || info->ep_attr == nullptr || info->tx_attr == nullptr ||
        info->rx_attr == nullptr)
      return -FI_EINVAL;
    const std::size_t transmits = std::max<std::size_t>(info->ep_attr->tx_ctx_cnt, 1);
    const std::size_t receives = std::max<std::size_t>(info->ep_attr->rx_ctx_cnt, 1);
    if (transmits > kMaxContexts || receives > kMaxContexts) return -FI_EINVAL;
    InfoPtr plain(duplicate_info(info));
    if (plain == nullptr) return -FI_ENOMEM;
    plain->ep_attr->tx_ctx_cnt = plain->ep_attr->rx_ctx_cnt = 1;
    plain->handle = nullptr;
    fid_ep* behind = nullptr;
    if (const int error = make(plain.get(), &behind); error != 0) return error;
    Core& core = object<Core>(behind);
    try {
      *sep = &(new ScalableEndpoint(core, std::move(plain), transmits, receives, context))->abi;
    } catch (...) {
      core.close();
      return -FI_ENOMEM;
    }
    return 0;
  }
  static const fi_ops* fid_ops() noexcept {
    static constexpr fi_ops kOps = make_fid_ops<ScalableEndpoint>();
    return &kOps;
  }

  // Slots of fi_ops. `bind` takes the address vector, for all contexts, and an event queue.
  int close() {
    if (in_use()) return -FI_EBUSY;
    core_.close();  // while there is still where its messages lie
    delete this;
    return 0;
  }
  int bind(::fid* object, uint64_t flags) {
    if (weft::CompletionQueue<Engine>::from(object) != nullptr || weft::Counter<Engine>::from(object) != nullptr)
      return -FI_EINVAL;  // those are the contexts'
    if (SharedContexts<Core>::is_one(object)) return -FI_EINVAL;
    return core_.bind(object, flags);
  }
  int control(int command, void*) {
    Lock lock(core_.engine().mutex());
    return command == FI_ENABLE ? core_.enable_contexts() : -FI_ENOSYS;
  }

  // Slots of fi_ops_ep. -FI_EINVAL: there is no such context; -FI_EBUSY: it is open already.
  int tx_ctx(int index, fi_tx_attr* attr, fid_ep** ep, void* context) {
    return open_context(transmits_, index, attr, info_->tx_attr, ep, true, context);
  }
  int rx_ctx(int index, fi_rx_attr* attr, fid_ep** ep, void* context) {
    return open_context(receives_, index, attr, info_->rx_attr, ep, false, context);
  }

  // Slots of fi_ops_cm.
  int setname(void* name, size_t len) { return core_.setname(name, len); }
  int getname(void* name, size_t* len) { return core_.getname(name, len); }

 private:
  using Engine = typename Core::EngineType;
  using Places = std::vector<std::unique_ptr<ContextPlace>>;

  ScalableEndpoint(Core& core, InfoPtr info, std::size_t transmits, std::size_t receives, void* context)
      : core_(core), info_(std::move(info)) {
    static constexpr fi_ops_ep kEpOps = make_ep_ops<ScalableEndpoint>();
    static constexpr fi_ops_cm kCmOps = make_cm_ops<ScalableEndpoint>();
    for (std::size_t i = 0; i < transmits; ++i) transmits_.push_back(std::make_unique<ContextPlace>());
    std::vector<ReceiveSide*> sides;
    for (std::size_t i = 0; i < receives; ++i) {
      receives_.push_back(std::make_unique<ContextPlace>());
      sides.push_back(&receives_.back()->receives);
    }
    core.receives_.name_contexts(std::move(sides));
    abi.fid = {FI_CLASS_SEP, context, const_cast<fi_ops*>(fid_ops())};
    abi.ops = const_cast<fi_ops_ep*>(&kEpOps);
    abi.cm = const_cast<fi_ops_cm*>(&kCmOps);
    refuse_everything(abi);  // messages are the contexts'
  }
  ~ScalableEndpoint() = default;

  template <class Attr>
  int open_context(Places& places, int index, Attr* wanted, Attr* usual, fid_ep** ep, bool transmits, void* context) {
    if (ep == nullptr || index < 0 || static_cast<std::size_t>(index) >= places.size()) return -FI_EINVAL;
    if (wanted != nullptr && (wanted->caps & ~usual->caps) != 0) return -FI_EINVAL;
    Lock lock(core_.engine().mutex());
    ContextPlace& place = *places[static_cast<std::size_t>(index)];
    if (place.open) return -FI_EBUSY;
    // The one of the two that is the other direction's does not matter.
    Attr actual = *usual;
    if (wanted != nullptr) {
      if (wanted->caps != 0) actual.caps = wanted->caps;
      actual.op_flags = wanted->op_flags;
    }
    fi_info info = *info_;
    if constexpr (std::is_same_v<Attr, fi_tx_attr>)
      info.tx_attr = &actual;
    else
      info.rx_attr = &actual;
    *ep = &(new EndpointContext<Core>(*this, core_, place, info, transmits, index, context))->abi;
    if (wanted != nullptr) *wanted = actual;
    return 0;
  }

  Core& core_;
  const InfoPtr info_;
  Places transmits_, receives_;
};

// Where the completions of an endpoint or of a context go; null: it is neither.
template <class Core>
CompletionRoutes* routes_of(const ::fid* fid) noexcept {
  if (auto* endpoint = object_if<Core>(fid)) return &endpoint->routes();
  if (auto* shared = object_if<SharedReceive<Core>>(fid)) return &shared->routes();
  auto* context = object_if<EndpointContext<Core>>(fid);
  return context != nullptr ? &context->routes() : nullptr;
}

}  // namespace weft::rdm
