// SPDX-License-Identifier: BSD-2-Clause
// A domain without hardware: one progress engine drives all that is opened in it, and memory is registered in a table;
// fi_domain(3), fi_mr(3). A provider's domain derives from it and adds `endpoint` and its other slots.
#pragma once

#include <rdma/fi_atomic.h>

#include <memory>
#include <utility>

#include "base/mutex.h"
#include "base/on_demand.h"
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

// The parts of a domain that its children share; a provider's may have more. Owner: the domain.
template <class E>
struct SoftwareParts {
  // `options`: those of the regions that do not depend on the engine; `args` are the engine's.
  template <class... Args>
  explicit SoftwareParts(const MemoryRegions::Options& options, Args&&... args)
      : engine(std::forward<Args>(args)...),
        regions({.mr_mode = options.mr_mode,
                 .key_size = sizeof(uint64_t),
                 .api_version = options.api_version,
                 .counter_from = [](const ::fid* fid) -> CounterCore* { return Counter<E>::from(fid); },
                 .locking = engine.turns() != Turns::kDomain,
                 .quiesce = [this] { engine.on_region_closed(); }}) {
    if (engine.turns() == Turns::kDomain) engine.lock_along(regions.lock());
  }

  E engine;  // with a mutex that its handlers hold
  MemoryRegions regions;
};

// T: the provider's domain, whose make_parts() returns a std::unique_ptr<P>; F: its fabric, P: its SoftwareParts. The
// parts are made for the first child that needs them, so a domain without children is small. Owner: the C handle of T.
// Thread-safe.
template <class T, class F, class P>
class SoftwareDomain : public DomainBase<T, F> {
  using Base = DomainBase<T, F>;
  using E = decltype(P::engine);

 public:
  // fi_domain.
  static int open(F& fabric, const fi_info* info, fid_domain** domain, void* context) {
    if (info == nullptr || domain == nullptr || info->domain_attr == nullptr) return -FI_EINVAL;
    return release(Opened(new T(fabric, *info, context)), *info, domain);
  }

  P& parts() {
    return parts_.get_or([this] { return static_cast<T*>(this)->make_parts(); });
  }
  E& engine() { return parts().engine; }
  MemoryRegions& regions() { return parts().regions; }
  // The queue that serves endpoints without a queue of their own; null: none.
  EventQueue<E>* default_events() noexcept { return events_.get(); }

  // Slots of fi_ops. `bind` takes an event queue: endpoints without one of their own report there, and with FI_REG_MR
  // it gets an event for each registration.
  int close() {
    const P* const made = parts_.get();
    return made != nullptr && made->regions.in_use() ? -FI_EBUSY : Base::close();
  }
  int bind(::fid* object, uint64_t flags) {
    auto* queue = EventQueue<E>::from(object);
    if (queue == nullptr) return -FI_EINVAL;
    if ((flags & ~FI_REG_MR) != 0) return -FI_EBADFLAGS;
    if (events_) return -FI_EINVAL;
    events_ = Ref<EventQueue<E>>(*queue);
    if (flags & FI_REG_MR) regions().report_to(queue);
    return 0;
  }
  int control(int command, void* argument) {
    if (DeferredWork::is_command(command)) {
      engine().expect_groups();                                  // work starts in the thread that makes progress, ...
      if (const int fd = engine().wait_fd(); fd < 0) return fd;  // ... which it wakes
      return engine().deferred().control(command, argument);
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
    return release_to(CompletionQueue<E>::open(Ref<RefCounted>(*this), attr, engine(), this->api_version(),
                                               engine().locking_with(attr), nullptr, context),
                      cq);
  }
  int cntr_open(fi_cntr_attr* attr, fid_cntr** cntr, void* context) {
    if (cntr == nullptr) return -FI_EINVAL;
    return release_to(Counter<E>::open(Ref<RefCounted>(*this), attr, engine(), engine().locking_with(attr), context),
                      cntr);
  }
  int poll_open(fi_poll_attr* attr, fid_poll** set) {
    if (set == nullptr) return -FI_EINVAL;
    return release_to(PollSet<E>::open(Ref<RefCounted>(*this), attr), set);
  }

  // No atomic operations, unless T has them.
  int query_atomic(fi_datatype, fi_op, fi_atomic_attr*, uint64_t) { return -FI_EOPNOTSUPP; }

  // Slots of fi_ops_mr, beside those of DomainBase.
  int regattr(const fi_mr_attr* attr, uint64_t flags, fid_mr** mr) { return regions().regattr(attr, flags, mr); }

 protected:
  struct Delete {
    void operator()(T* domain) const noexcept { delete domain; }
  };
  using Opened = std::unique_ptr<T, Delete>;
  // The end of fi_domain.
  static int release(Opened opened, const fi_info& info, fid_domain** domain) {
    if (info.domain_attr->progress == FI_PROGRESS_AUTO)
      if (Status status = opened->engine().start_service_thread(); !status.ok()) return status.code();
    *domain = &opened.release()->abi;
    return 0;
  }

  SoftwareDomain(F& fabric, const fi_info& info, void* context)
      : SoftwareDomain(fabric, info, context, effective_mr_mode(info.domain_attr->mr_mode, info.mode)) {}
  SoftwareDomain(F& fabric, const fi_info& info, void* context, int mr_mode)
      : Base(fabric, info, context), mr_mode_(mr_mode), turns_(turns_of(*info.domain_attr)) {}
  ~SoftwareDomain() = default;

  // For make_parts().
  MemoryRegions::Options region_options() const {
    MemoryRegions::Options options;
    options.mr_mode = mr_mode_;
    options.api_version = this->api_version();
    return options;
  }
  Turns turns() const noexcept { return turns_; }
  // Null: no child has needed them.
  P* made_parts() const noexcept { return parts_.get(); }

 private:
  const int mr_mode_;
  const Turns turns_;
  OnDemand<P> parts_;
  Ref<EventQueue<E>> events_;
};

}  // namespace weft
