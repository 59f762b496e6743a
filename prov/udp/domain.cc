// SPDX-License-Identifier: BSD-2-Clause
// A udp domain; see domain.h.
#include "udp/domain.h"

#include "abi/domain_ops.h"
#include "abi/fid_ops.h"
#include "abi/mr_ops.h"
#include "objects/poll_set.h"
#include "udp/endpoint.h"

namespace weft::udp {
namespace {

// Hands a newly opened object to the application.
template <class T, class Handle>
int release_to(Result<T*> opened, Handle** handle) noexcept {
  if (!opened) return opened.error().code();
  *handle = &(*opened)->abi;
  return 0;
}

MemoryRegions::Options region_options(const fi_info& info, uint32_t api_version, Engine& engine) {
  return {.mr_mode = effective_mr_mode(info.domain_attr->mr_mode, info.mode),
          .key_size = sizeof(uint64_t),
          .api_version = api_version,
          .counter_from = [](const ::fid* fid) -> CounterCore* { return Counter::from(fid); },
          .quiesce = [&engine] { Lock lock(engine.mutex()); }};
}

}  // namespace

int Domain::open(Fabric& fabric, const fi_info* info, fid_domain** domain, void* context) {
  if (info == nullptr || domain == nullptr || info->domain_attr == nullptr) return -FI_EINVAL;
  auto engine = Engine::open();
  if (!engine) return engine.error().code();
  if (info->domain_attr->progress == FI_PROGRESS_AUTO)
    if (Status status = (*engine)->start_service_thread(); !status.ok()) return status.code();
  *domain = &(new Domain(fabric, *info, std::move(*engine), context))->abi;
  return 0;
}

Domain::Domain(Fabric& fabric, const fi_info& info, std::unique_ptr<Engine> engine, void* context)
    : fabric_(fabric),
      name_(info.domain_attr->name != nullptr ? info.domain_attr->name : ""),
      attr_([&] {
        fi_domain_attr attr = *info.domain_attr;
        attr.domain = &abi;
        attr.name = const_cast<char*>(name_.c_str());
        attr.auth_key = nullptr;
        attr.auth_key_size = 0;
        return attr;
      }()),
      addr_format_(info.addr_format),
      engine_(std::move(engine)),
      regions_(region_options(info, fabric.abi.api_version, *engine_)) {
  static constexpr fi_ops_domain kOps = make_domain_ops<Domain>();
  static constexpr fi_ops_mr kRegionOps = make_mr_ops<Domain>();
  abi.fid = {FI_CLASS_DOMAIN, context, const_cast<fi_ops*>(fid_ops())};
  abi.ops = const_cast<fi_ops_domain*>(&kOps);
  abi.mr = const_cast<fi_ops_mr*>(&kRegionOps);
}

const fi_ops* Domain::fid_ops() noexcept {
  static constexpr fi_ops kOps = make_fid_ops<Domain>();
  return &kOps;
}

int Domain::close() {
  if (in_use() || regions_.in_use()) return -FI_EBUSY;
  delete this;
  return 0;
}

int Domain::bind(::fid* object, uint64_t flags) {
  auto* queue = EventQueue::from(object);
  if (queue == nullptr) return -FI_EINVAL;
  if ((flags & ~FI_REG_MR) != 0) return -FI_EBADFLAGS;
  if (events_) return -FI_EINVAL;
  events_ = Ref<EventQueueCore>(*queue);
  if (flags & FI_REG_MR) regions_.report_to(queue);
  return 0;
}

int Domain::control(int command, void* argument) {
  if (argument == nullptr) return -FI_EINVAL;
  switch (command) {
    case FI_MAP_RAW_MR:
      return regions_.map_raw(static_cast<const struct fi_mr_map_raw*>(argument));
    case FI_UNMAP_KEY:
      return regions_.unmap_key(static_cast<const uint64_t*>(argument));
    default:
      return -FI_ENOSYS;
  }
}

int Domain::av_open(fi_av_attr* attr, fid_av** av, void* context) {
  if (av == nullptr) return -FI_EINVAL;
  return release_to(AddressVector::open(Ref<RefCounted>(*this), attr, addr_format_, context), av);
}

int Domain::cq_open(fi_cq_attr* attr, fid_cq** cq, void* context) {
  if (cq == nullptr) return -FI_EINVAL;
  // Always locked: an event queue belongs to no domain, so its reader may drive the engine whatever the threading
  // model.
  return release_to(
      CompletionQueue::open(Ref<RefCounted>(*this), attr, *engine_, api_version(), true, nullptr, context), cq);
}

int Domain::cntr_open(fi_cntr_attr* attr, fid_cntr** cntr, void* context) {
  if (cntr == nullptr) return -FI_EINVAL;
  return release_to(Counter::open(Ref<RefCounted>(*this), attr, *engine_, true, context), cntr);
}

int Domain::poll_open(fi_poll_attr* attr, fid_poll** set) {
  if (set == nullptr) return -FI_EINVAL;
  return release_to(PollSet<Engine>::open(Ref<RefCounted>(*this), attr), set);
}

int Domain::endpoint(fi_info* info, fid_ep** ep, void* context) {
  return Endpoint::open(*this, info, ep, context);
}

int Domain::endpoint2(fi_info* info, fid_ep** ep, uint64_t flags, void* context) {
  return flags == 0 ? Endpoint::open(*this, info, ep, context) : -FI_EBADFLAGS;
}

int Domain::query_atomic(fi_datatype, fi_op, fi_atomic_attr*, uint64_t) {
  return -FI_EOPNOTSUPP;
}

int Domain::reg(const void* buf, size_t len, uint64_t access, uint64_t offset, uint64_t requested_key, uint64_t flags,
                fid_mr** mr, void* context) {
  return regions_.reg(buf, len, access, offset, requested_key, flags, mr, context);
}

int Domain::regv(const iovec* iov, size_t count, uint64_t access, uint64_t offset, uint64_t requested_key,
                 uint64_t flags, fid_mr** mr, void* context) {
  return regions_.regv(iov, count, access, offset, requested_key, flags, mr, context);
}

int Domain::regattr(const fi_mr_attr* attr, uint64_t flags, fid_mr** mr) {
  return regions_.regattr(attr, flags, mr);
}

}  // namespace weft::udp
