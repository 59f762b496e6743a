// SPDX-License-Identifier: BSD-2-Clause
// What an endpoint of reliable datagrams has to do with shared contexts: which it is bound to, and what follows for its
// calls; fi_endpoint(3), SHARED CONTEXTS.
#pragma once

#include <rdma/fi_endpoint.h>

#include <optional>

#include "base/ref.h"
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

  static bool is_one(const ::fid* object) noexcept {
    return object_if<SharedTransmit>(object) != nullptr || object_if<SharedReceive<Core>>(object) != nullptr;
  }
  // fi_ep_bind, before the endpoint is enabled; none: the object is no context. -FI_EINVAL for a second one of a kind,
  // and for endpoints that the context does not suit.
  std::optional<Status> bind(Core& endpoint, const RefCounted& domain, ::fid* object, uint64_t flags) {
    auto* const transmit = object_if<SharedTransmit>(object);
    auto* const receive = object_if<SharedReceive<Core>>(object);
    if (transmit == nullptr && receive == nullptr) return std::nullopt;
    if (flags != 0) return Status(-FI_EBADFLAGS);
    if (transmit != nullptr) return bind(endpoint, domain, *transmit);
    if (&receive->engine() != &endpoint.engine()) return Status(-FI_EDOMAIN);
    if (receive_) return Status(-FI_EINVAL);
    if (Status status = receive->admit(endpoint); !status.ok()) return status;
    receive->add(endpoint);
    receive_ = Ref<SharedReceive<Core>>(*receive);
    return Status();
  }
  template <class Vector>
  Status admit(const Vector& vector) const noexcept {
    return receive_ ? receive_->admit(vector) : Status();
  }

  // -FI_EINVAL when one is missing that the endpoint was opened for.
  Status check() const noexcept {
    return Status((needs_transmit_ && !transmit_) || (needs_receive_ && !receive_) ? -FI_EINVAL : 0);
  }
  // The endpoint has its tables; receives are posted to the context.
  void on_enabled(Core& endpoint) noexcept {
    if (!receive_) return;
    leave_receives_to_context(endpoint.abi, tables_);
    receive_->on_enabled();
  }
  // The endpoint closes, and has given up all receives and messages.
  void leave(Core& endpoint) noexcept {
    if (receive_) receive_->remove(endpoint);
  }

 private:
  Status bind(Core& endpoint, const RefCounted& domain, SharedTransmit& transmit) noexcept {
    if (&transmit.domain() != &domain) return Status(-FI_EDOMAIN);
    if (transmit_) return Status(-FI_EINVAL);
    transmit_ = Ref<SharedTransmit>(transmit);
    endpoint.tx_size_ = transmit.size(endpoint.tx_size_);
    return Status();
  }

  const bool needs_transmit_, needs_receive_;
  Ref<SharedTransmit> transmit_;
  Ref<SharedReceive<Core>> receive_;
  ContextTables tables_;
};

}  // namespace weft::rdm
