// SPDX-License-Identifier: BSD-2-Clause
// A tcp domain: one network interface, its progress engine and its registered memory; fi_domain(3). Owner: its C
// handle; close answers -FI_EBUSY while anything opened in it lives. Thread-safe.
#pragma once

#include <rdma/fi_domain.h>

#include "objects/software_domain.h"
#include "tcp/engine.h"
#include "tcp/fabric.h"
#include "tcp/spare_socket.h"
#include "tcp/transfer_pools.h"

namespace weft::tcp {

class Domain final : public SoftwareDomain<Domain, Fabric, Engine> {
 public:
  // Under the engine's mutex.
  TransferPools& pools() noexcept { return pools_; }
  SpareSocket& spare_socket() noexcept { return spare_socket_; }

  // Slots of fi_ops_domain, beside those of SoftwareDomain. Atomic operations and shared receive contexts are for
  // endpoints of the type that the domain was opened for; only reliable datagrams have atomic operations.
  int endpoint(fi_info* info, fid_ep** ep, void* context);
  int scalable_ep(fi_info* info, fid_ep** sep, void* context);
  int stx_ctx(fi_tx_attr* attr, fid_stx** stx, void* context);
  int srx_ctx(fi_rx_attr* attr, fid_ep** ep, void* context);
  int query_atomic(fi_datatype datatype, fi_op operation, fi_atomic_attr* attr, uint64_t flags);

 private:
  friend DomainBase;
  friend SoftwareDomain;
  Domain(Fabric& fabric, const fi_info& info, std::unique_ptr<Engine> engine, void* context);
  ~Domain() = default;

  const bool reliable_;  // opened for FI_EP_RDM
  TransferPools pools_;
  SpareSocket spare_socket_;
};

}  // namespace weft::tcp
