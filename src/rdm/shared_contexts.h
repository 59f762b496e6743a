// SPDX-License-Identifier: BSD-2-Clause
// The shared contexts that an endpoint of reliable datagrams is bound to, and their effect on its calls;
// fi_endpoint(3), SHARED CONTEXTS.
#pragma once

#include <rdma/fi_endpoint.h>

#include "base/ref.h"
#include "objects/binding_check.h"
#include "objects/shared_transmit.h"
#include "rdm/context_tables.h"
#include "rdm/shared_receive.h"

namespace weft::rdm {

// Belongs to the endpoint, a Core of SharedReceive. The engine's mutex guards it.
template <class Core>
class SharedContexts {
 public:
  explicit SharedContexts(const fi_info& info) noexcept
      : needs_transmit_(info.ep_attr != nullptr && info.ep_attr->tx_ctx_cnt == FI_SHARED_CONTEXT),
        needs_receive_(info.ep_attr != nullptr && info.ep_attr->rx_ctx_cnt == FI_SHARED_CONTEXT) {}

  static bool is_context(const ::fid* object) noexcept {
    return object_if<SharedTransmit>(object) != nullptr || object_if<SharedReceive<Core>>(object) != nullptr;
  }
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
    leave_receives_to_context(endpoint.abi, tables_);
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
  ContextTables tables_;
};

}  // namespace weft::rdm
