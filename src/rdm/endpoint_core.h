// SPDX-License-Identifier: BSD-2-Clause
// The functions that scalable endpoints and shared contexts require of a provider's reliable-datagram endpoint;
// fi_endpoint(3), SCALABLE ENDPOINTS and SHARED CONTEXTS. Classes that are templates on it call it directly.
#pragma once

#include <concepts>

#include "rdm/endpoint_calls.h"
#include "rdm/peer_table.h"

namespace weft::rdm {

// Beside bind(), setname(), getname() and close(), which take it, all are called with the mutex of engine() held.
template <class Core>
concept ReliableEndpointCore = TransferTarget<Core> && std::derived_from<Core, EndpointCalls<Core>> &&
    requires(Core& core, CompletionRoutes& routes, PeerTable<PeerBase>& numbers) {
  typename Core::EngineType;
  typename Core::VectorType;
  { Core::provider() } -> std::same_as<fi_provider&>;  // for log lines
  // EndpointCalls<T>, or a class derived from it, for contexts.
  typename Core::template Calls<Core>;
  // Ends all operations that complete there.
  { core.abandon(routes) }
  noexcept;
  // As enable(), but without queues of its own. 0 or an error.
  { core.enable_contexts() } -> std::same_as<int>;
  // Its address vector; null until one is bound.
  { core.vector() } -> std::same_as<Ref<typename Core::VectorType>&>;
  // New peers get their numbers there; see PeerTable.
  { core.share_numbers_of(numbers) }
  noexcept;
};

}  // namespace weft::rdm
