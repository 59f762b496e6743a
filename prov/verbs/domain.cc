// SPDX-License-Identifier: BSD-2-Clause
// A verbs domain; see domain.h.
#include "verbs/domain.h"

#include <rdma/fi_errno.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <utility>

#include "verbs/device/logging.h"
#include "verbs/discovery/discovery.h"
#include "verbs/transfer/queues.h"

namespace weft::verbs {
namespace {

// Must precede the first registration of the process, so every opened domain tries it. libibverbs itself observes
// RDMAV_FORK_SAFE and IBV_FORK_SAFE. Kernels since 5.12 need nothing.
void prepare_for_fork(const Parameters& parameters) noexcept {
  if (!parameters.fork_safe || ibv_is_fork_initialized() != IBV_FORK_DISABLED) return;
  if (const int error = ibv_fork_init(); error != 0)
    FI_WARN(&provider(), FI_LOG_DOMAIN, "cannot make registered memory fork-safe: %s%s\n", fi_strerror(error),
            error == EINVAL ? " (memory was registered before; set RDMAV_FORK_SAFE=1)" : "");
}

}  // namespace

bool wants_datagrams(const fi_info* info) noexcept {
  return info != nullptr && info->ep_attr != nullptr && info->ep_attr->type == FI_EP_DGRAM;
}

int Domain::open(Fabric& fabric, const fi_info* info, fid_domain** domain, void* context) {
  if (info == nullptr || domain == nullptr || info->domain_attr == nullptr || info->domain_attr->name == nullptr)
    return -FI_EINVAL;
  auto device = open_device(device_name(info->domain_attr->name));
  if (!device) return device.error().code();
  prepare_for_fork(fabric.parameters);
  ProtectionDomainHandle pd(ibv_alloc_pd((*device)->context()));
  if (pd == nullptr) {
    const Status status = Status::last_errno();
    FI_WARN(&provider(), FI_LOG_DOMAIN, "cannot allocate a protection domain on %s: %s\n", (*device)->name(),
            fi_strerror(status.error()));
    return status.code();
  }
  std::unique_ptr<Domain> opened(new Domain(fabric, std::move(*device), std::move(pd), *info, context));
  if (opened->progresses_by_itself())
    if (Status status = fabric.engine().start_service_thread(); !status.ok()) return status.code();
  *domain = &opened.release()->abi;
  return 0;
}

Domain::Domain(Fabric& fabric, Ref<Device> device, ProtectionDomainHandle pd, const fi_info& info, void* context)
    : DomainBase(fabric, info, context, fabric, std::move(device), std::move(pd), info),
      for_datagrams_(wants_datagrams(&info)) {}

Domain::~Domain() = default;

void Domain::report_registration(::fid* region, void* context) noexcept {
  std::unique_lock lock(mutex_);
  const Ref<EventQueueCore> events = registrations_;
  lock.unlock();
  if (!events) return;
  const fi_eq_entry entry{region, context, 0};
  events->post(FI_MR_COMPLETE, &entry, sizeof entry);
}

int Domain::bind(::fid* object, uint64_t flags) {
  auto* queue = EventQueue::from(object);
  if (queue == nullptr) return -FI_EINVAL;
  if ((flags & ~FI_REG_MR) != 0) return -FI_EBADFLAGS;
  std::lock_guard lock(mutex_);
  if (events_) return -FI_EINVAL;
  events_ = Ref<EventQueueCore>(*queue);
  if ((flags & FI_REG_MR) != 0) registrations_ = events_;
  return 0;
}

int Domain::control(int command, void* argument) {
  if (argument == nullptr) return -FI_EINVAL;
  switch (command) {
    case FI_MAP_RAW_MR: {
      const auto* map = static_cast<const struct fi_mr_map_raw*>(argument);
      std::uint32_t key = 0;
      if (map->raw_key == nullptr || map->key == nullptr || map->key_size != sizeof key) return -FI_EINVAL;
      std::memcpy(&key, map->raw_key, sizeof key);
      *map->key = key;
      return 0;
    }
    case FI_UNMAP_KEY:
      return 0;
    default:
      return -FI_ENOSYS;
  }
}

int Domain::query_atomic(fi_datatype datatype, fi_op operation, fi_atomic_attr* attr, uint64_t flags) {
  if (attr == nullptr) return -FI_EINVAL;
  if ((flags & ~(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC)) != 0) return -FI_EOPNOTSUPP;
  using messages::AtomicKind;
  const auto kind = (flags & FI_COMPARE_ATOMIC) != 0 ? AtomicKind::kCompare
                    : (flags & FI_FETCH_ATOMIC) != 0 ? AtomicKind::kFetch
                                                     : AtomicKind::kUpdate;
  if ((flags & FI_COMPARE_ATOMIC) != 0 && (flags & FI_FETCH_ATOMIC) != 0) return -FI_EINVAL;
  spill();  // registers the memory that atomics need
  if (!has_atomic(kind, datatype, operation)) return -FI_EOPNOTSUPP;
  *attr = {.count = kAtomicCount, .size = sizeof(uint64_t)};
  return 0;
}

}  // namespace weft::verbs
