// SPDX-License-Identifier: BSD-2-Clause
// A domain without hardware: one progress engine drives all that is opened in it, and memory is registered in a table;
// fi_domain(3), fi_mr(3). A provider's domain derives from it and adds `endpoint` and its other slots.
#pragma once

#include <rdma/fi_atomic.h>

#include <memory>
#include <utility>

#include "base/mutex.h"
#include "objects/address_vector.h"
#include "objects/attributes.h"
#include "objects/completion_queue.h"
#include "objects/counter.h"
#include "objects/deferred_work.h"
#include "objects/domain_base.h"
#include "objects/engine_base.h"
#include "objects/event_queue.h"
#include "objects/memory_regions.h"
#include "objects/poll_set.h"

namespace weft {

// T: the provider's domain, F: its fabric, E: its engine, with a mutex that its handlers hold. Owner:
// the C handle of T. Thread-safe.
template <class T, class F, class E>
class SoftwareDomain : public DomainBase<T, F> {
  using Base = DomainBase<T, F>;

 public:
  // fi_domain.
  static int open(F& fabric, const fi_info* info, fid_domain** domain, void* context) {
    if (info == nullptr || domain == nullptr || info->domain_attr == nullptr) return -FI_EINVAL;
    auto engine = std::make_unique<E>(turns_of(*info->domain_attr));
    if (info->domain_attr->progress == FI_PROGRESS_AUTO)
      if (Status status = engine->start_service_thread(); !status.ok()) return status.code();
    *domain = &(new T(fabric, *info, std::move(engine), context))->abi;
    return 0;
  }

  E& engine() noexcept { return *engine_; }
  MemoryRegions& regions() noexcept { return regions_; }
  // Of endpoints that are bound to none; null: none.
  EventQueue<E>* default_events() noexcept { return events_.get(); }

  // Slots of fi_ops. `bind` takes an event queue: endpoints without one of their own report there, and with FI_REG_MR
  // it gets an event for each registration.
  int close() { return regions_.in_use() ? -FI_EBUSY : Base::close(); }
  int bind(::fid* object, uint64_t flags) {
    auto* queue = EventQueue<E>::from(object);
    if (queue == nullptr) return -FI_EINVAL;
    if ((flags & ~FI_REG_MR) != 0) return -FI_EBADFLAGS;
    if (events_) return -FI_EINVAL;
    events_ = Ref<EventQueue<E>>(*queue);
    if (flags & FI_REG_MR) regions_.report_to(queue);
    return 0;
  }
  int control(int command, void* argument) {
    if (DeferredWork::is_command(command)) {
      engine_->expect_groups();                                  // work starts in the thread that makes progress, ...
      if (const int fd = engine_->wait_fd(); fd < 0) return fd;  // ... which it wakes
      return engine_->deferred().control(command, argument);
    }
    return control_raw_keys<uint64_t>(command, argument);
  }

  // Slots of fi_ops_domain. Queues lock if the engine does.
  int av_open(fi_av_attr* attr, fid_av** av, void* context) {
    if (av == nullptr) return -FI_EINVAL;
    return release_to(AddressVector<E>::open(Ref<RefCounted>(*this), attr, this->addr_format(), context), av);
  }
  int cq_open(fi_cq_attr* attr, fid_cq** cq, void* context) {
    if (cq == nullptr) return -FI_EINVAL;
    return release_to(CompletionQueue<E>::open(Ref<RefCounted>(*this), attr, *engine_, this->api_version(),
                                               engine_->locking_with(attr), nullptr, context),
                      cq);
  }
  int cntr_open(fi_cntr_attr* attr, fid_cntr** cntr, void* context) {
    if (cntr == nullptr) return -FI_EINVAL;
    return release_to(Counter<E>::open(Ref<RefCounted>(*this), attr, *engine_, engine_->locking_with(attr), context),
                      cntr);
  }
  int poll_open(fi_poll_attr* attr, fid_poll** set) {
    if (set == nullptr) return -FI_EINVAL;
    return release_to(PollSet<E>::open(Ref<RefCounted>(*this), attr), set);
  }

  // No atomic operations, unless T has them.
  int query_atomic(fi_datatype, fi_op, fi_atomic_attr*, uint64_t) { return -FI_EOPNOTSUPP; }

  // Slots of fi_ops_mr, beside those of DomainBase.
  int regattr(const fi_mr_attr* attr, uint64_t flags, fid_mr** mr) { return regions_.regattr(attr, flags, mr); }

 protected:
  SoftwareDomain(F& fabric, const fi_info& info, std::unique_ptr<E> engine, void* context)
      : SoftwareDomain(fabric, info, std::move(engine), context,
                       effective_mr_mode(info.domain_attr->mr_mode, info.mode)) {}
  SoftwareDomain(F& fabric, const fi_info& info, std::unique_ptr<E> engine, void* context, int mr_mode)
      : Base(fabric, info, context),
        engine_(std::move(engine)),
        regions_({.mr_mode = mr_mode,
                  .key_size = sizeof(uint64_t),
                  .api_version = this->api_version(),
                  .counter_from = [](const ::fid* fid) -> CounterCore* { return Counter<E>::from(fid); },
                  .locking = engine_->turns() != Turns::kDomain,
                  .quiesce = [driven = engine_.get()] { driven->on_region_closed(); }}) {
    if (engine_->turns() == Turns::kDomain) engine_->lock_along(regions_.lock());
  }
  ~SoftwareDomain() = default;

 private:
  const std::unique_ptr<E> engine_;
  MemoryRegions regions_;
  Ref<EventQueue<E>> events_;
};

}  // namespace weft
