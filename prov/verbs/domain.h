// SPDX-License-Identifier: BSD-2-Clause
// A verbs domain: one device with a protection domain, its memory regions and its completion channels; fi_domain(3).
// Owner: its C handle; close answers -FI_EBUSY while anything opened in it lives. Thread-safe.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_domain.h>

#include <memory>
#include <mutex>

#include "base/ref.h"
#include "base/status.h"
#include "objects/domain_base.h"
#include "objects/event_queue.h"
#include "verbs/cm_address.h"
#include "verbs/domain_progress.h"
#include "verbs/memory_region.h"
#include "verbs/verbs_handles.h"

namespace weft::verbs {

class CmEngine;
class CompletionChannel;
class Device;
class Fabric;

// Where datagram queue pairs send from.
struct DatagramPort {
  std::uint8_t number = 1;
  ibv_gid gid{};
};

class Domain final : public DomainBase<Domain, Fabric> {
 public:
  static int open(Fabric& fabric, const fi_info* info, fid_domain** domain, void* context);
  ~Domain();

  Device& device() const noexcept { return *device_; }
  CmEngine& engine() const noexcept;
  ibv_pd* pd() const noexcept { return pd_.get(); }
  // The domain's own address of this family, port 0; empty: it has none in particular.
  CmAddress local_address(int family) const noexcept { return local_.family() == family ? local_ : CmAddress(); }
  // For FI_ADDR_IB_UD.
  const DatagramPort& datagram_port() const noexcept { return datagram_port_; }

  DomainProgress& progress() noexcept { return progress_; }
  // FI_PROGRESS_AUTO: a thread drives connections.
  bool progresses_by_itself() const noexcept { return progresses_by_itself_; }
  AccessRules access_rules() const noexcept;
  // Serves endpoints that have a counter but no completion queue for a direction.
  Result<CompletionChannel*> channel_without_queue() noexcept;
  // Where what a message has too much for its buffer goes; length 0: there is none.
  const ibv_sge& spill() const noexcept { return spill_; }
  // Where the old values of atomics go whose caller does not want them, and the bytes of delivery checks; length 0:
  // there is none.
  const ibv_sge& discard() const noexcept { return discard_; }
  // FI_MR_COMPLETE of a registration, if an event queue was bound for them.
  void report_registration(::fid* region, void* context) noexcept;

  // Slots of fi_ops, beside those of DomainBase. `bind` takes an event queue: with FI_REG_MR it hears of registrations.
  int bind(::fid* object, uint64_t flags);
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
  int regattr(const fi_mr_attr* attr, uint64_t flags, fid_mr** mr);

 private:
  struct Unmap {
    void operator()(void* memory) const noexcept;
  };
  using ScratchMemory = std::unique_ptr<void, Unmap>;

  Domain(Fabric& fabric, Ref<Device> device, ProtectionDomainHandle pd, const fi_info& info, void* context);
  void register_scratch() noexcept;

  const Ref<Device> device_;
  const CmAddress local_;
  const DatagramPort datagram_port_;
  const bool for_datagrams_;
  const uint64_t caps_;  // of the info it was opened with
  const bool progresses_by_itself_;
  ProtectionDomainHandle pd_;
  ScratchMemory scratch_;
  MemoryRegionHandle scratch_region_;
  ibv_sge spill_{};
  ibv_sge discard_{};
  DomainProgress progress_;
  std::mutex mutex_;  // guards the rest
  std::unique_ptr<CompletionChannel> channel_without_queue_;
  Ref<EventQueueCore> events_;
  Ref<EventQueueCore> registrations_;  // the same, with FI_REG_MR
};

}  // namespace weft::verbs
