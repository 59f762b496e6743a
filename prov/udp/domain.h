// SPDX-License-Identifier: BSD-2-Clause
// A udp domain: one network interface, its progress engine and registered memory; fi_domain(3). Owner: its C
// handle; close answers -FI_EBUSY while anything opened in it lives. Thread-safe.
#pragma once

#include <rdma/fi_domain.h>

#include <memory>
#include <string>

#include "abi/bridge.h"
#include "base/ref.h"
#include "objects/memory_regions.h"
#include "udp/engine.h"
#include "udp/fabric.h"
#include "udp/queues.h"
#include "udp/receive_queue.h"

namespace weft::udp {

class Domain final : public Object<fid_domain>, public RefCounted {
 public:
  static int open(Fabric& fabric, const fi_info* info, fid_domain** domain, void* context);
  static const fi_ops* fid_ops() noexcept;

  Fabric& fabric() const noexcept { return *fabric_; }
  const fi_domain_attr& attr() const noexcept { return attr_; }
  uint32_t api_version() const noexcept { return fabric_->abi.api_version; }
  Engine& engine() noexcept { return *engine_; }
  ReceivePool& receive_pool() noexcept { return receive_pool_; }  // under the engine's mutex

  // Slots of fi_ops. `bind` takes an event queue: with FI_REG_MR it hears of registrations.
  int close();
  int bind(::fid* object, uint64_t flags);
  int control(int command, void* argument);

  // Slots of fi_ops_domain. There are no atomics, and contexts are not shared.
  int av_open(fi_av_attr* attr, fid_av** av, void* context);
  int cq_open(fi_cq_attr* attr, fid_cq** cq, void* context);
  int cntr_open(fi_cntr_attr* attr, fid_cntr** cntr, void* context);
  int poll_open(fi_poll_attr* attr, fid_poll** set);
  int endpoint(fi_info* info, fid_ep** ep, void* context);
  int endpoint2(fi_info* info, fid_ep** ep, uint64_t flags, void* context);
  int query_atomic(fi_datatype datatype, fi_op operation, fi_atomic_attr* attr, uint64_t flags);

  // Slots of fi_ops_mr.
  int reg(const void* buf, size_t len, uint64_t access, uint64_t offset, uint64_t requested_key, uint64_t flags,
          fid_mr** mr, void* context);
  int regv(const iovec* iov, size_t count, uint64_t access, uint64_t offset, uint64_t requested_key, uint64_t flags,
           fid_mr** mr, void* context);
  int regattr(const fi_mr_attr* attr, uint64_t flags, fid_mr** mr);

 private:
  Domain(Fabric& fabric, const fi_info& info, std::unique_ptr<Engine> engine, void* context);

  const Ref<Fabric> fabric_;
  const std::string name_;
  const fi_domain_attr attr_;  // its name is name_
  const uint32_t addr_format_;
  const std::unique_ptr<Engine> engine_;
  ReceivePool receive_pool_;
  MemoryRegions regions_;
  Ref<EventQueueCore> events_;
};

}  // namespace weft::udp
