// SPDX-License-Identifier: BSD-2-Clause
// Fabrics and domains of verbs: fi_fabric(3), fi_domain(3).
#pragma once

#include <rdma/fi_atomic.h>
#include <rdma/fi_domain.h>

#include <memory>
#include <mutex>

#include "base/ref.h"
#include "objects/domain_base.h"
#include "objects/event_queue.h"
#include "objects/fabric_base.h"
#include "verbs/cm/cm_engine.h"
#include "verbs/transfer/domain_services.h"
#include "verbs/transfer/memory_region.h"
#include "verbs/transfer/queues.h"

namespace weft::verbs {

// A verbs fabric: one subnet. Owner: its C handle; close returns -FI_EBUSY while domains, passive endpoints, event
// queues or wait sets live. Thread-safe.
class Fabric final : public FabricBase<Fabric, CompletionChannel, DomainProgress, CmEngine, FabricServices> {
 public:
  static Result<Fabric*> make(const fi_fabric_attr& attr, void* context);

  // Slots of fi_ops_fabric, beside those of FabricBase.
  int domain(fi_info* info, fid_domain** domain, void* context);
  int passive_ep(fi_info* info, fid_pep** pep, void* context);

 private:
  friend FabricBase;
  Fabric(Parameters values, std::unique_ptr<CmEngine> engine, const fi_fabric_attr& attr, void* context) noexcept
      : FabricBase(attr, context, std::move(values), std::move(engine)) {}
  ~Fabric();
};

// A verbs domain: one device with a protection domain, its memory regions and its completion channels. Owner: its C
// handle; close returns -FI_EBUSY while anything opened in it lives. Thread-safe.
class Domain final : public DomainBase<Domain, Fabric, DomainServices> {
 public:
  static int open(Fabric& fabric, const fi_info* info, fid_domain** domain, void* context);

  // Slots of fi_ops, beside those of DomainBase. `bind` takes an event queue; FI_REG_MR: registrations are posted to
  // it.
  int bind(::fid* object, uint64_t flags);
  int ops_open(const char* name, uint64_t flags, void** ops, void* context);
  int control(int command, void* argument);

  // Slots of fi_ops_domain, beside that of DomainBase.
  int av_open(fi_av_attr* attr, fid_av** av, void* context);
  int cq_open(fi_cq_attr* attr, fid_cq** cq, void* context);
  int cntr_open(fi_cntr_attr* attr, fid_cntr** cntr, void* context);
  int poll_open(fi_poll_attr* attr, fid_poll** set);
  int endpoint(fi_info* info, fid_ep** ep, void* context);
  int srx_ctx(fi_rx_attr* attr, fid_ep** ep, void* context);
  int query_atomic(fi_datatype datatype, fi_op operation, fi_atomic_attr* attr, uint64_t flags);

  // Slots of fi_ops_mr, beside that of DomainBase.
  int regv(const iovec* iov, size_t count, uint64_t access, uint64_t offset, uint64_t requested_key, uint64_t flags,
           fid_mr** mr, void* context);
  int regattr(const fi_mr_attr* attr, uint64_t flags, fid_mr** mr) {
    return register_memory(attr, flags, Reuse::kOwnRights, mr);
  }

 private:
  int register_memory(const fi_mr_attr* attr, uint64_t flags, Reuse reuse, fid_mr** mr);

  Domain(Fabric& fabric, Ref<Device> device, ProtectionDomainHandle pd, const fi_info& info, void* context);

  const bool for_datagrams_;
  std::mutex mutex_;                   // guards the rest, and the binding of an event queue
  Ref<EventQueueCore> registrations_;  // that queue if bound with FI_REG_MR
};

}  // namespace weft::verbs
