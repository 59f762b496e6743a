// SPDX-License-Identifier: BSD-2-Clause
// Fabrics and domains of verbs, see domain.h; and the provider's table of calls, fi_provider(7), fi_verbs(7).
#include "verbs/domain.h"

#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>
#include <rdma/providers/fi_log.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "abi/provider.h"
#include "objects/address_vector.h"
#include "objects/attributes.h"
#include "objects/info.h"
#include "objects/reusable_regions.h"
#include "verbs/connection/endpoint.h"
#include "verbs/connection/passive_endpoint.h"
#include "verbs/datagram/datagram_endpoint.h"
#include "verbs/datagram/peer_vector.h"
#include "verbs/device/logging.h"
#include "verbs/discovery/discovery.h"
#include "verbs/transfer/completion_status.h"
#include "verbs/transfer/memory_region.h"
#include "verbs/transfer/shared_receive.h"

namespace weft::verbs {
namespace {

// Must precede the first registration of the process, so every opened domain tries it. libibverbs itself reads
// RDMAV_FORK_SAFE and IBV_FORK_SAFE. Kernels since 5.12 need nothing.
void prepare_for_fork(const Parameters& parameters) noexcept {
  if (!parameters.fork_safe || ibv_is_fork_initialized() != IBV_FORK_DISABLED) return;
  if (const int error = ibv_fork_init(); error != 0)
    FI_WARN(&provider(), FI_LOG_DOMAIN, "cannot make registered memory fork-safe: %s%s\n", fi_strerror(error),
            error == EINVAL ? " (memory was registered before; set RDMAV_FORK_SAFE=1)" : "");
}

bool wants_datagrams(const fi_info* info) noexcept {
  return info != nullptr && or_none(info->ep_attr).type == FI_EP_DGRAM;
}

}  // namespace

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

int Domain::bind(::fid* object, uint64_t flags) {
  auto* queue = EventQueue::from(object);
  if (queue == nullptr) return -FI_EINVAL;
  if ((flags & ~FI_REG_MR) != 0) return -FI_EBADFLAGS;
  std::lock_guard lock(mutex_);
  if (events_) return -FI_EINVAL;
  events_ = Ref<EventQueue>(*queue);
  if ((flags & FI_REG_MR) != 0) registrations_ = Ref<EventQueueCore>(*queue);
  return 0;
}

// FI_VAL_WEFT_MR_CACHE, beside the commands for raw keys.
int Domain::control(int command, void* argument) {
  if (command != FI_SET_VAL && command != FI_GET_VAL) return control_raw_keys<std::uint32_t>(command, argument);
  const auto* variable = static_cast<const fi_fid_var*>(argument);
  if (variable == nullptr || variable->val == nullptr) return -FI_EINVAL;
  if (variable->name != FI_VAL_WEFT_MR_CACHE) return -FI_ENOSYS;
  int& value = *static_cast<int*>(variable->val);
  if (command == FI_GET_VAL) {
    value = caches() ? 1 : 0;
    return 0;
  }
  if (value != 0 && value != 1) return -FI_EINVAL;
  set_caches(value == 1);
  return 0;
}

int Domain::query_atomic(fi_datatype datatype, fi_op operation, fi_atomic_attr* attr, uint64_t flags) {
  if (attr == nullptr) return -FI_EINVAL;
  if ((flags & ~(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC)) != 0) return -FI_EOPNOTSUPP;
  const auto kind = (flags & FI_COMPARE_ATOMIC) != 0 ? AtomicKind::kCompare
                    : (flags & FI_FETCH_ATOMIC) != 0 ? AtomicKind::kFetch
                                                     : AtomicKind::kUpdate;
  if ((flags & FI_COMPARE_ATOMIC) != 0 && (flags & FI_FETCH_ATOMIC) != 0) return -FI_EINVAL;
  spill();  // registers the memory that atomics need
  if (!has_atomic(kind, datatype, operation)) return -FI_EOPNOTSUPP;
  *attr = {.count = kAtomicCount, .size = sizeof(uint64_t)};
  return 0;
}

// ---- Children ----

// Connected endpoints use no address vector, but programs open one nevertheless.
int Domain::av_open(fi_av_attr* attr, fid_av** av, void* context) {
  if (av == nullptr) return -FI_EINVAL;
  if (for_datagrams_) return PeerVector::open(*this, addr_format(), attr, av, context);
  return release_to(AddressVector<CmEngine>::open(Ref<RefCounted>(*this), attr, addr_format(), context), av);
}

int Domain::cq_open(fi_cq_attr* attr, fid_cq** cq, void* context) {
  if (cq == nullptr || attr == nullptr) return -FI_EINVAL;
  auto channel = CompletionChannel::open(*this, attr);
  if (!channel) return channel.error().code();
  auto queue = CompletionQueue::open(Ref<RefCounted>(*this), attr, **channel, api_version(), true,
                                     &completion_error_text, context);
  if (!queue) return queue.error().code();
  channel->release()->serve(*queue);  // the queue destroys it
  *cq = &(*queue)->abi;
  return 0;
}

int Domain::cntr_open(fi_cntr_attr* attr, fid_cntr** cntr, void* context) {
  if (cntr == nullptr) return -FI_EINVAL;
  if (attr != nullptr && attr->wait_obj != FI_WAIT_NONE)
    if (Status status = progress().open_descriptor(); !status.ok()) return status.code();
  return release_to(Counter::open(Ref<RefCounted>(*this), attr, progress(), true, context), cntr);
}

int Domain::poll_open(fi_poll_attr* attr, fid_poll** set) {
  if (set == nullptr) return -FI_EINVAL;
  return release_to(PollSet::open(Ref<RefCounted>(*this), attr), set);
}

// The info of a connection request may come from a listener on another device.
int Domain::endpoint(fi_info* info, fid_ep** ep, void* context) {
  const bool own = info != nullptr && info->handle == nullptr;
  const fi_ep_type type = wants_datagrams(info) ? FI_EP_DGRAM : FI_EP_MSG;
  if (own && describes_endpoint(*info, type, {.receive = type == FI_EP_MSG}))
    if (Status status = check(*info, device(), api_version(), fabric().parameters); !status.ok()) return status.code();
  return wants_datagrams(info) ? DatagramEndpoint::open(*this, info, ep, context)
                               : Endpoint::open(*this, info, ep, context);
}

int Domain::srx_ctx(fi_rx_attr* attr, fid_ep** ep, void* context) {
  return ep == nullptr ? -FI_EINVAL : SharedReceive::open(*this, attr, ep, context);
}

int Domain::regv(const iovec* iov, size_t count, uint64_t access, uint64_t offset, uint64_t requested_key,
                 uint64_t flags, fid_mr** mr, void* context) {
  if ((flags & FI_MR_DMABUF) != 0) return -FI_EBADFLAGS;  // only fi_mr_regattr can describe one
  return DomainBase::regv(iov, count, access, offset, requested_key, flags, mr, context);
}

int Domain::ops_open(const char* name, uint64_t flags, void** ops, void*) {
  if (name == nullptr || ops == nullptr) return -FI_EINVAL;
  if (flags != 0) return -FI_EBADFLAGS;
  if (std::strcmp(name, kReusableRegions) != 0) return -FI_ENOSYS;
  static constexpr auto kRegister = [](fid_domain* domain, const fi_mr_attr* attr, uint64_t mr_flags, fid_mr** mr) {
    return guarded([&] { return object<Domain>(domain).register_memory(attr, mr_flags, Reuse::kAllRights, mr); });
  };
  static ReusableRegionOps table{sizeof table, kRegister};
  *ops = &table;
  return 0;
}

int Domain::register_memory(const fi_mr_attr* attr, uint64_t flags, Reuse reuse, fid_mr** mr) {
  const bool device_memory = attr != nullptr && is_device_memory(*attr, flags, api_version());
  if (device_memory && (caps() & FI_HMEM) == 0) return -FI_ENOSYS;
  // The cache cannot recognise such an address by /proc/self/maps. The kernel may have a driver that registers it.
  if (device_memory) flags |= FI_MR_WEFT_UNCACHED;
  std::unique_lock lock(mutex_);
  const Ref<EventQueueCore> events = registrations_;
  lock.unlock();
  EventQueueCore::Reserved event = events ? EventQueueCore::reserve_result() : nullptr;
  if (events && event == nullptr) return -FI_ENOMEM;
  if (int result = MemoryRegion::open(*this, caps(), attr, flags, reuse, mr); result != 0) return result;
  if (events) events->post(std::move(event), FI_MR_COMPLETE, {&(*mr)->fid, attr->context, 0});
  return 0;
}

fi_provider& provider() noexcept {
  static fi_provider verbs = make_provider<Fabric, &getinfo>("verbs");
  return verbs;
}

Result<Fabric*> Fabric::make(const fi_fabric_attr& attr, void* context) {
  Parameters parameters = Parameters::read();
  auto engine = CmEngine::open(parameters.max_connecting);
  if (!engine) {
    FI_WARN(&provider(), FI_LOG_FABRIC, "cannot open the RDMA connection manager: %s\n",
            fi_strerror(engine.error().error()));
    return failure(engine.error());
  }
  return new Fabric(std::move(parameters), std::move(*engine), attr, context);
}

Fabric::~Fabric() {
  Lock lock(engine().mutex());
  passive().requests.remove_all(static_cast<FabricServices*>(this),
                                [](::fid* handle) noexcept { delete &object<ConnectRequest>(handle); });
}

int Fabric::domain(fi_info* info, fid_domain** domain, void* context) {
  return Domain::open(*this, info, domain, context);
}

int Fabric::passive_ep(fi_info* info, fid_pep** pep, void* context) {
  return PassiveEndpoint::open(*this, info, pep, context);
}

}  // namespace weft::verbs
