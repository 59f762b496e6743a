// SPDX-License-Identifier: BSD-2-Clause
// Fabrics and domains of ofi_rxm: fi_fabric(3), fi_domain(3).
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_ext.h>

#include <memory>

#include "messages/unexpected_memory.h"
#include "objects/fabric_base.h"
#include "objects/shared_info.h"
#include "objects/software_domain.h"
#include "rxm/device_memory.h"
#include "rxm/engine.h"
#include "rxm/local_side.h"
#include "rxm/parameters.h"

namespace weft::rxm {

// A fabric of ofi_rxm: one fabric of the lower provider. Owner: its C handle; close answers -FI_EBUSY while domains,
// event queues or wait sets live. Thread-safe.
class Fabric final : public FabricBase<Fabric, Engine> {
 public:
  static Result<Fabric*> make(const fi_fabric_attr& attr, void* context);

  fid_fabric* lower() const noexcept { return lower_.get(); }

  const Parameters parameters = Parameters::read();
  SharedInfo lower_infos{SharedInfo::Addresses::kMatter};  // for the domains

  // Slots of fi_ops_fabric, beside those of FabricBase.
  int domain(fi_info* info, fid_domain** domain, void* context);

 private:
  friend FabricBase;
  Fabric(const fi_fabric_attr& attr, Lower<fid_fabric> lower, void* context) noexcept
      : FabricBase(attr, context), lower_(std::move(lower)) {}
  ~Fabric() = default;

  const Lower<fid_fabric> lower_;
};

struct DomainParts : SoftwareParts<Engine> {
  DomainParts(const MemoryRegions::Options& options, Turns turns, std::size_t unexpected_bytes)
      : SoftwareParts(options, turns), unexpected(unexpected_bytes), copies(unexpected_bytes) {}

  // The engine's mutex guards them.
  messages::UnexpectedMemory unexpected;
  messages::UnexpectedMemory copies;  // messages that peers have not fetched
};

// A domain of ofi_rxm: one domain of the lower provider, and the engine of its endpoints. The lower provider registers
// the application's memory; regions() is for the peers' atomic operations. Owner: its C handle; close answers -FI_EBUSY
// while an object opened in it exists. Thread-safe.
class Domain final : public SoftwareDomain<Domain, Fabric, DomainParts> {
 public:
  static int open(Fabric& fabric, const fi_info* info, fid_domain** domain, void* context);

  LowerSide& lower() noexcept { return lower_; }
  // For peers of this host; null: the lower provider serves them, too.
  LowerSide* local() noexcept { return local_ != nullptr ? &local_->side : nullptr; }
  const fi_info& lower_info() const noexcept { return *lower_.info; }
  // The bits of completion data.
  uint64_t data_mask() const noexcept { return data_mask_; }
  // Bytes of arrays that an atomic operation may carry.
  std::size_t atomic_limit() const noexcept;
  // FI_RMA_EVENT: the lower provider counts accesses by peers.
  bool counts_accesses() const noexcept { return (lower_info().caps & FI_RMA_EVENT) != 0; }

  // LowerSide::register_memory(); memory of an accelerator is registered already. Any thread.
  Result<Lower<fid_mr>> register_memory(LowerSide& side, const void* buf, size_t len, uint64_t access,
                                        uint64_t flags = 0) noexcept;
  // The application's memory of accelerators; nullptr without FI_HMEM.
  DeviceMemory* devices() noexcept { return devices_.get(); }

  // An endpoint's info, compared with the offer (info.cc); -FI_ENODATA: it requests more.
  Status check(const fi_info& info) const;

  // Slots of fi_ops. `bind` takes an event queue.
  int close();
  int bind(::fid* object, uint64_t flags);
  int control(int command, void* argument);

  // Slots of fi_ops_domain, beside those of SoftwareDomain.
  int cq_open(fi_cq_attr* attr, fid_cq** cq, void* context);
  int endpoint(fi_info* info, fid_ep** ep, void* context);
  int scalable_ep(fi_info* info, fid_ep** sep, void* context);
  int stx_ctx(fi_tx_attr* attr, fid_stx** stx, void* context);
  int srx_ctx(fi_rx_attr* attr, fid_ep** srx, void* context);
  int query_atomic(fi_datatype datatype, fi_op operation, fi_atomic_attr* attr, uint64_t flags);

  // Slots of fi_ops_mr, beside those of DomainBase.
  int regattr(const fi_mr_attr* attr, uint64_t flags, fid_mr** mr);

 private:
  friend DomainBase;
  friend SoftwareDomain;
  Domain(Fabric& fabric, const fi_info& info, std::shared_ptr<const fi_info> lower_info, uint64_t levels,
         Lower<fid_domain> lower, void* context);
  ~Domain() = default;
  std::unique_ptr<DomainParts> make_parts();

  const uint64_t data_mask_;
  LowerSide lower_;
  std::unique_ptr<DeviceMemory> devices_;
  std::unique_ptr<LocalSide> local_;
};

}  // namespace weft::rxm
