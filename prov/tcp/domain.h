// SPDX-License-Identifier: BSD-2-Clause
// Fabrics and domains of tcp: fi_fabric(3), fi_domain(3).
#pragma once

#include <rdma/fi_domain.h>

#include "base/on_demand.h"
#include "base/pool.h"
#include "messages/tag_list.h"
#include "messages/unexpected_memory.h"
#include "objects/fabric_base.h"
#include "objects/passive_handles.h"
#include "objects/shared_info.h"
#include "objects/software_domain.h"
#include "tcp/engine.h"
#include "tcp/local/local_host.h"
#include "tcp/parameters.h"
#include "tcp/spare_socket.h"
#include "tcp/stream/transmit.h"

namespace weft::tcp {

// A tcp fabric: one IP network. Owner: its C handle; close answers -FI_EBUSY while domains, passive endpoints, event
// queues or wait sets live. Thread-safe.
class Fabric final : public FabricBase<Fabric, Engine> {
 public:
  const Parameters parameters = Parameters::read();
  // Shared by all fabrics: a program may accept a request in a domain of another fabric object than its listener's.
  static PassiveHandles& passive() noexcept;
  SharedInfo& passive_infos() {
    return passive_infos_.get_or([] { return std::make_unique<SharedInfo>(); });
  }

  // An endpoint's info, compared with the offer of this type (info.cc); -FI_ENODATA: it requests more.
  Status check(fi_ep_type type, const fi_info& info) const;

  // Slots of fi_ops_fabric, beside those of FabricBase.
  int domain(fi_info* info, fid_domain** domain, void* context);
  int passive_ep(fi_info* info, fid_pep** pep, void* context);

 private:
  friend FabricBase;
  using FabricBase::FabricBase;
  ~Fabric();

  OnDemand<SharedInfo> passive_infos_;
};

// Records of transfers and the memory of unexpected messages, shared by the endpoints of a domain: an idle endpoint
// owns none. The engine's mutex guards them.
struct TransferPools {
  explicit TransferPools(std::size_t unexpected_bytes) noexcept
      : unexpected(unexpected_bytes), copies(unexpected_bytes) {}

  messages::UnexpectedMemory unexpected;
  messages::UnexpectedMemory copies;  // messages that peers have not fetched
  TransmitRecords transmits;
  Pool<messages::TagList::Receive> receives;
};

struct DomainParts : SoftwareParts<Engine> {
  DomainParts(const MemoryRegions::Options& options, Turns turns, std::size_t unexpected_bytes)
      : SoftwareParts(options, turns), pools(unexpected_bytes) {}

  // Under the engine's mutex.
  TransferPools pools;
  SpareSocket spare_socket;
  LocalHost local_host;
};

// A tcp domain: one network interface, its progress engine and its registered memory. Owner: its C handle; close
// answers -FI_EBUSY while anything opened in it lives. Thread-safe.
class Domain final : public SoftwareDomain<Domain, Fabric, DomainParts> {
 public:
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
  Domain(Fabric& fabric, const fi_info& info, void* context)
      : SoftwareDomain(fabric, info, context), reliable_(or_none(info.ep_attr).type == FI_EP_RDM) {}
  ~Domain() = default;
  std::unique_ptr<DomainParts> make_parts();

  const bool reliable_;  // opened for FI_EP_RDM
};

}  // namespace weft::tcp
