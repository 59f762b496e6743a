// SPDX-License-Identifier: BSD-2-Clause
// Fabrics and domains of ofi_rxm: fi_fabric(3), fi_domain(3).
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_ext.h>

#include <atomic>
#include <memory>
#include <optional>

#include "messages/unexpected_memory.h"
#include "objects/fabric_base.h"
#include "objects/reusable_regions.h"
#include "objects/shared_info.h"
#include "objects/software_domain.h"
#include "rxm/device_memory.h"
#include "rxm/engine.h"
#include "rxm/lower.h"
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
  DomainParts(const MemoryRegions::Options& options, fid_fabric* lower, fid_domain* shared, Turns turns,
              std::size_t unexpected_bytes)
      : SoftwareParts(options, lower, shared, turns), unexpected(unexpected_bytes), copies(unexpected_bytes) {}

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

  fid_domain* lower() const noexcept { return lower_.get(); }
  const fi_info& lower_info() const noexcept { return *lower_info_; }
  // Bytes of completion data.
  std::size_t data_size() const noexcept { return data_size_; }
  // Bytes of arrays that an atomic operation may carry.
  std::size_t atomic_limit() const noexcept;
  bool registers_locally() const noexcept { return registers_locally_; }
  // FI_RMA_EVENT: the lower provider counts accesses by peers.
  bool counts_accesses() const noexcept { return (lower_info_->caps & FI_RMA_EVENT) != 0; }

  // A queue of the lower provider for that endpoint, with FI_AFFINITY if a vector is given.
  Result<Lower<fid_cq>> open_lower_queue(std::optional<int> signaling_vector, Driven* owner) noexcept;
  // FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE: those that the lower provider supports.
  uint64_t levels() const noexcept { return levels_; }

  // Registers memory with the lower provider: that of a message, whose registration the lower provider may keep for the
  // next message; or buffers of our own, with FI_MR_WEFT_UNCACHED. Any thread.
  Result<Lower<fid_mr>> register_memory(const void* buf, size_t len, uint64_t access, uint64_t flags = 0) noexcept;
  // The application's memory of accelerators; nullptr without FI_HMEM.
  DeviceMemory* devices() noexcept { return devices_.get(); }
  // The address by which a peer accesses the beginning of such memory.
  uint64_t remote_address(const void* buf) const noexcept {
    return virtual_addresses_ ? reinterpret_cast<uint64_t>(buf) : 0;
  }

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

  const std::shared_ptr<const fi_info> lower_info_;
  const std::size_t data_size_;
  const uint64_t levels_;
  Lower<fid_domain> lower_;
  const bool registers_locally_;
  const bool virtual_addresses_;
  const bool chooses_keys_;
  const ReusableRegionOps* reusable_ = nullptr;  // the lower provider keeps registrations for the next use
  std::unique_ptr<DeviceMemory> devices_;
  std::atomic<uint64_t> next_key_{0};
};

}  // namespace weft::rxm
