// SPDX-License-Identifier: BSD-2-Clause
// The parts of a reliable-datagram endpoint that no protocol changes: its handle, bindings, enabling and closing;
// fi_endpoint(3).
#pragma once

#include "abi/ops.h"
#include "objects/binding_check.h"
#include "objects/send_injected.h"
#include "rdm/scalable_endpoint.h"
#include "rdm/shared_contexts.h"

namespace weft::rdm {

// T: the ReliableEndpointCore that derives from this. E: its engine, whose mutex guards everything.
template <class T, class E>
class EndpointBase : public AtomicCalls<T> {
 public:
  using EngineType = E;
  using VectorType = weft::AddressVector<E>;
  template <class U>
  using Calls = AtomicCalls<U>;

  template <class Domain>
  static int open_scalable(Domain& domain, const fi_info* info, fid_ep** sep, void* context) {
    return ScalableEndpoint<T>::open(info, sep, context, [&](const fi_info* plain, fid_ep** behind) {
      return T::open(domain, plain, behind, nullptr);
    });
  }

  // Slot of fi_ops. T may have bind_queue() and bind_counter() of its own.
  int bind(::fid* object, uint64_t flags) {
    if (auto* queue = EventQueue<E>::from(object)) return bind_events(*queue, flags, engine_, events_).code();
    Lock lock(engine_.mutex());
    if (auto* queue = weft::CompletionQueue<E>::from(object)) return self().bind_queue(*queue, flags).code();
    if (auto* counter = weft::Counter<E>::from(object)) return self().bind_counter(*counter, flags).code();
    if (auto* vector = VectorType::from(object)) return shared_.bind_vector(self(), *domain_, *vector, flags).code();
    return shared_.bind(self(), *domain_, object, flags).code();
  }

  // Slot of fi_ops_ep.
  ssize_t rx_size_left() noexcept { return this->enabled_ ? kNominalReceives : -FI_EOPBADSTATE; }

  // For ReliableEndpointCore.
  E& engine() noexcept { return engine_; }
  CompletionRoutes& routes() noexcept { return routes_; }
  Ref<VectorType>& vector() noexcept { return vector_; }
  int enable() {
    if (this->enabled_) return 0;
    if (Status status = routes_.check(caps_); !status.ok()) return status.code();
    if (Status status = shared_.check(); !status.ok()) return status.code();
    if (const int error = self().enable_contexts(); error != 0) return error;
    shared_.on_enabled(self());
    engine_.on_enabled(routes_.bound());
    return 0;
  }

 protected:
  // `receives` may still be under construction.
  template <class Domain>
  EndpointBase(Domain& domain, const fi_info& info, ReceiveSide& receives, std::size_t usual_tx_size, void* context)
      : AtomicCalls<T>(info, receives, (info.caps & FI_DIRECTED_RECV) != 0, queue_size(info.tx_attr, usual_tx_size)),
        domain_(domain),
        engine_(domain.engine()),
        caps_(info.caps),
        shared_(info) {
    identify<T>(this->abi, FI_CLASS_EP, context);
    this->refuse_transfers();
    routes_.accept_triggers(caps_, engine_.deferred());
    engine_.on_endpoint_opened();
  }
  ~EndpointBase() { engine_.on_endpoint_closed(); }

  // fi_close: `end` ends everything, with the mutex held; then the endpoint is destroyed.
  template <class End>
  int close_after(End end) {
    if (this->in_use()) return -FI_EBUSY;
    routes_.drop_triggered(this->abi);
    send_injected(engine_, [this] { return self().holds_injected(nullptr); });
    {
      Lock lock(engine_.mutex());
      end();
      shared_.leave(self());
    }
    release_events(events_, engine_, this->abi.fid);
    delete &self();
    return 0;
  }
  Status bind_queue(weft::CompletionQueue<E>& queue, uint64_t flags) noexcept {
    return bind_route(T::provider(), routes_, queue, flags, engine_, this->enabled_);
  }
  Status bind_counter(weft::Counter<E>& counter, uint64_t flags) noexcept {
    const Status status = bind_route(T::provider(), routes_, counter, flags, engine_, this->enabled_);
    shared_.on_counter_bound();
    return status;
  }

 private:
  const Ref<RefCounted> domain_;
  E& engine_;
  Ref<EventQueue<E>> events_;

 protected:
  const uint64_t caps_;
  CompletionRoutes routes_;
  Ref<VectorType> vector_;

 private:
  T& self() noexcept { return static_cast<T&>(*this); }

  SharedContexts<T> shared_;
};

}  // namespace weft::rdm
