// SPDX-License-Identifier: BSD-2-Clause
// Scalable endpoints of reliable datagrams: one name and one set of connections, with several contexts that transmit or
// receive, each with completions of its own; fi_endpoint(3), SCALABLE ENDPOINTS. The sender selects the
// receive context: fi_rx_addr of fi_av(3).
//
// Each scalable endpoint has an inner endpoint that no application sees. It does the transfers of the contexts, but
// completes them on the queues of the context; messages for a context are matched with the receives posted there.
#pragma once

#include <rdma/fi_endpoint.h>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "abi/ops.h"
#include "base/ref.h"
#include "objects/binding_check.h"
#include "objects/info.h"
#include "objects/send_injected.h"
#include "rdm/endpoint_calls.h"
#include "rdm/shared_contexts.h"

namespace weft::rdm {

// The part of a context that exists even while the context is not open.
struct ContextPlace {
  CompletionRoutes routes;
  ReceiveSide receives{routes};
  bool open = false;
};

template <class Core>
class ScalableEndpoint;

// A transmit or a receive context. Owner: its C handle. The engine's mutex guards it.
//
// Core: a ReliableEndpointCore.
template <class Core>
class EndpointContext final : public Core::template Calls<EndpointContext<Core>> {
  using Base = typename Core::template Calls<EndpointContext<Core>>;

 public:
  using Engine = typename Core::EngineType;

  // `index` within its kind.
  EndpointContext(ScalableEndpoint<Core>& parent, Core& core, ContextPlace& place, const fi_info& info, bool transmits,
                  int index, void* context) noexcept
      : Base(info, place.receives, core.directs(), core.tx_size()),
        parent_(parent),
        core_(core),
        place_(place),
        transmits_(transmits),
        reports_writes_(!transmits && index == 0),
        caps_(info.caps) {
    identify<EndpointContext>(this->abi, static_cast<size_t>(transmits ? FI_CLASS_TX_CTX : FI_CLASS_RX_CTX), context);
    place_.open = true;
    this->refuse_transfers();
    place_.routes.accept_triggers(caps_, engine().deferred());
  }

  CompletionRoutes& routes() noexcept { return place_.routes; }

  // Slots of fi_ops.
  int close() {
    if (this->in_use()) return -FI_EBUSY;
    place_.routes.drop_triggered(this->abi);
    if (transmits_) send_injected(engine(), [this] { return core_.holds_injected(&place_.routes); });
    {
      Lock lock(engine().mutex());
      place_.receives.cancel_all();  // first: abandon() may handle messages that would match them
      core_.abandon(place_.routes, place_.receives);
      if (reports_writes_) core_.routes().receive_queue = {};
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
      if (Status status = check_queue(*queue); !status.ok()) return status.code();
      // Programs bind a queue for both directions, though a context has one.
      const uint64_t direction = transmits_ ? FI_TRANSMIT : FI_RECV;
      if ((flags & direction) == 0) return -FI_EINVAL;
      Status bound = place_.routes.bind(*queue, (flags & ~uint64_t{FI_TRANSMIT | FI_RECV}) | direction);
      if (bound.ok() && reports_writes_) core_.routes().receive_queue = Ref<CompletionQueueCore>(*queue);
      return bound.code();
    }
    auto* counter = weft::Counter<Engine>::from(object);
    if (counter == nullptr) return -FI_EINVAL;  // the address vector is bound to the scalable endpoint
    if (Status status = check_queue(*counter); !status.ok()) return status.code();
    constexpr uint64_t kTransmits = FI_SEND | FI_READ | FI_WRITE;
    if ((flags & (FI_REMOTE_READ | FI_REMOTE_WRITE)) != 0) return -FI_ENOSYS;
    if ((flags & ~(transmits_ ? kTransmits : uint64_t{FI_RECV})) != 0) return -FI_EINVAL;
    return place_.routes.bind(*counter, flags).code();
  }

  // TransferTarget.
  Engine& engine() noexcept { return core_.engine(); }
  auto* peer_of(fi_addr_t handle) noexcept { return core_.peer_of(handle); }
  auto& vector() noexcept { return core_.vector(); }

  int enable() {
    if (this->enabled_) return 0;
    // Without messages a context receives nothing, and needs no queue for that.
    const bool completes = transmits_ || caps_ == 0 || (caps_ & (FI_MSG | FI_TAGGED)) != 0;
    if (Status status = place_.routes.check(transmits_ ? FI_SEND : FI_RECV); completes && !status.ok())
      return status.code();
    if (const int error = core_.enable_contexts(); error != 0) return error;
    this->enabled_ = true;
    this->take_transfers(caps_);
    restrict_to_context(this->abi, tables_, transmits_);
    return 0;
  }

  ssize_t transmit(TransmitRequest&& request) noexcept {
    request.routes = &place_.routes;
    return core_.transmit(std::move(request));
  }
  // AtomicTarget, for endpoints that are one.
  ssize_t update(const AtomicRequest& request) noexcept {
    AtomicRequest ours = request;
    ours.routes = &place_.routes;
    return core_.update(ours);
  }
  std::size_t atomic_count(AtomicKind kind, fi_datatype datatype, fi_op operation) noexcept {
    return core_.atomic_count(kind, datatype, operation);
  }

 private:
  ~EndpointContext() = default;

  template <class Queue>
  Status check_queue(Queue& queue) noexcept {
    return check_binding(
        Core::provider(),
        {.object = queue.abi.fid, .same_domain = &queue.engine() == &engine(), .enabled = this->enabled_});
  }

  const Ref<ScalableEndpoint<Core>> parent_;
  Core& core_;
  ContextPlace& place_;
  const bool transmits_;
  const bool reports_writes_;  // remote CQ data of a write names no context
  const uint64_t caps_;
  Ref<EventQueue<Engine>> events_;
  ContextTables tables_;
};

// Owner: its C handle; close answers -FI_EBUSY while contexts are open.
template <class Core>
class ScalableEndpoint final : public Object<fid_ep>, public RefCounted {
 public:
  // fi_scalable_ep. `make` opens the inner endpoint with an info of one context each.
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
    fid_ep* inner = nullptr;
    if (const int error = make(plain.get(), &inner); error != 0) return error;
    Core& core = object<Core>(inner);
    try {
      *sep = &(new ScalableEndpoint(core, std::move(plain), transmits, receives, context))->abi;
    } catch (...) {
      core.close();
      return -FI_ENOMEM;
    }
    return 0;
  }

  // Slots of fi_ops. `bind` takes the address vector, for all contexts, and an event queue.
  int close() {
    if (in_use()) return -FI_EBUSY;
    core_.close();  // before the receive sides that keep its messages
    delete this;
    return 0;
  }
  int bind(::fid* object, uint64_t flags) {
    if (weft::CompletionQueue<Engine>::from(object) != nullptr || weft::Counter<Engine>::from(object) != nullptr)
      return -FI_EINVAL;  // queues and counters are bound to contexts
    if (object_if<SharedTransmit>(object) != nullptr || object_if<SharedReceive<Core>>(object) != nullptr)
      return -FI_EINVAL;
    return core_.bind(object, flags);
  }
  int control(int command, void*) {
    Lock lock(core_.engine().mutex());
    return command == FI_ENABLE ? core_.enable_contexts() : -FI_ENOSYS;
  }

  // Slots of fi_ops_ep. -FI_EINVAL: no such context; -FI_EBUSY: the context is open already.
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
    for (std::size_t i = 0; i < transmits; ++i) transmits_.push_back(std::make_unique<ContextPlace>());
    std::vector<ReceiveSide*> sides;
    for (std::size_t i = 0; i < receives; ++i) {
      receives_.push_back(std::make_unique<ContextPlace>());
      sides.push_back(&receives_.back()->receives);
    }
    core.receive_side().set_contexts(std::move(sides));
    identify<ScalableEndpoint>(abi, FI_CLASS_SEP, context);
  }
  ~ScalableEndpoint() = default;

  // -FI_ENODATA: the attributes (may be null) request more than the provider has.
  Status check_context(fi_tx_attr* wanted) const {
    fi_info info = *info_;
    info.tx_attr = wanted;
    return core_.check(info);
  }
  Status check_context(fi_rx_attr* wanted) const {
    fi_info info = *info_;
    info.rx_attr = wanted;
    return core_.check(info);
  }
  template <class Attr>
  int open_context(Places& places, int index, Attr* wanted, Attr* usual, fid_ep** ep, bool transmits, void* context) {
    if (ep == nullptr || index < 0 || static_cast<std::size_t>(index) >= places.size()) return -FI_EINVAL;
    // Contexts have their indices always, so LFI may request FI_NAMED_RX_CTX here although its hints left it out.
    const uint64_t offered = usual->caps | info_->caps | FI_NAMED_RX_CTX;
    if (wanted != nullptr && (wanted->caps & ~offered) != 0) return -FI_EINVAL;
    if (Status status = check_context(wanted); !status.ok()) return status.code();
    Lock lock(core_.engine().mutex());
    ContextPlace& place = *places[static_cast<std::size_t>(index)];
    if (place.open) return -FI_EBUSY;
    // The attributes of the other direction do not matter, nor do its capabilities: MPICH requests FI_NAMED_RX_CTX of a
    // receive context.
    Attr actual = *usual;
    if (wanted != nullptr) {
      if (wanted->caps != 0) actual.caps = wanted->caps & usual->caps;
      actual.op_flags = wanted->op_flags;
    }
    fi_info info = *info_;
    if constexpr (std::is_same_v<Attr, fi_tx_attr>)
      info.tx_attr = &actual;
    else
      info.rx_attr = &actual;
    *ep = &(new EndpointContext<Core>(*this, core_, place, info, transmits, index, context))->abi;
    if (wanted != nullptr) report(actual, *wanted);
    return 0;
  }

  // The structure of a program that was built with headers before 1.9 ends in front of `tclass`.
  static void report(const fi_tx_attr& actual, fi_tx_attr& wanted) noexcept {
    std::memcpy(&wanted, &actual, offsetof(fi_tx_attr, tclass));
  }
  static void report(const fi_rx_attr& actual, fi_rx_attr& wanted) noexcept { wanted = actual; }

  Core& core_;
  const InfoPtr info_;
  Places transmits_, receives_;
};

// The completion routes of an endpoint or of a context; null: neither.
template <class Core>
CompletionRoutes* routes_of(const ::fid* fid) noexcept {
  if (auto* endpoint = object_if<Core>(fid)) return &endpoint->routes();
  if (auto* shared = object_if<SharedReceive<Core>>(fid)) return &shared->routes();
  auto* context = object_if<EndpointContext<Core>>(fid);
  return context != nullptr ? &context->routes() : nullptr;
}

}  // namespace weft::rdm
