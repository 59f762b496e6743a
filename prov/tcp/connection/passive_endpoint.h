// SPDX-License-Identifier: BSD-2-Clause
// Passive endpoints: fi_passive_ep and fi_pep_bind of fi_endpoint(3), fi_listen, fi_reject and names of fi_cm(3).
// Owner: its C handle. Thread-safe.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>

#include <memory>
#include <mutex>

#include "abi/bridge.h"
#include "base/unique_fd.h"
#include "objects/endpoint_names.h"
#include "objects/passive_endpoint_base.h"
#include "tcp/connection/listener.h"
#include "tcp/fabric.h"
#include "tcp/queues.h"

namespace weft::tcp {

class PassiveEndpoint final : public PassiveEndpointBase<PassiveEndpoint, Fabric, Address> {
 public:
  // The bound socket and its name, for an active endpoint that inherits them (fi_info.handle). Afterwards only close()
  // remains. -FI_EOPBADSTATE when listening.
  Result<UniqueFd> give_away(Address& local);

  // Slots of fi_ops. `control`: FI_BACKLOG.
  int close();
  int bind(::fid* object, uint64_t flags);
  int control(int command, void* argument);

  // Slots of fi_ops_cm.
  int setname(void* name, size_t len);
  int getname(void* name, size_t* len);
  int listen();
  int reject(::fid* handle, const void* data, size_t len);

 private:
  friend PassiveEndpointBase;
  static constexpr std::size_t kDataSize = kCmDataSize;
  static Result<Address> source(const fi_info& info) noexcept { return source_name(info); }
  PassiveEndpoint(Fabric& fabric, InfoPtr info, const Address& local, void* context);
  Status bind_socket_locked() noexcept;

  std::mutex mutex_;  // guards the rest
  UniqueFd socket_;   // bound; until it listens or is given away
  bool given_away_ = false;
  int backlog_;
  Ref<EventQueue> events_;
  std::shared_ptr<EventListener> listener_;
};

}  // namespace weft::tcp
