// SPDX-License-Identifier: BSD-2-Clause
// A verbs domain; see domain.h.
#include "verbs/domain.h"

#include <sys/mman.h>

#include <cstring>

#include "objects/address_vector.h"
#include "objects/poll_set.h"
#include "verbs/atomics.h"
#include "verbs/completion_status.h"
#include "verbs/datagram_endpoint.h"
#include "verbs/device.h"
#include "verbs/endpoint.h"
#include "verbs/fabric.h"
#include "verbs/gids.h"
#include "verbs/limits.h"
#include "verbs/offer.h"
#include "verbs/peer_vector.h"
#include "verbs/provider.h"
#include "verbs/queues.h"
#include "verbs/shared_receive.h"

namespace weft::verbs {
namespace {

constexpr size_t kDiscardSize = 64;
constexpr size_t kScratchSize = kSpillSize + kDiscardSize;

// libibverbs heeds RDMAV_FORK_SAFE and IBV_FORK_SAFE by itself. Too late once memory was registered, so it is tried
// whenever a domain is opened and the first one counts. Kernels since 5.12 need nothing.
void prepare_for_fork(const Parameters& parameters) noexcept {
  if (!parameters.fork_safe || ibv_is_fork_initialized() != IBV_FORK_DISABLED) return;
  if (const int error = ibv_fork_init(); error != 0)
    FI_WARN(&provider(), FI_LOG_DOMAIN, "registered memory cannot be made safe from forks: %s%s\n", fi_strerror(error),
            error == EINVAL ? " (memory was registered before; set RDMAV_FORK_SAFE=1)" : "");
}

bool wants_datagrams(const fi_info* info) noexcept {
  return info != nullptr && info->ep_attr != nullptr && info->ep_attr->type == FI_EP_DGRAM;
}

bool asks_for_progress(const fi_domain_attr& attr) noexcept {
  return attr.control_progress == FI_PROGRESS_AUTO || attr.progress == FI_PROGRESS_AUTO;
}

// The port that has the GID of the info's source, or that the parameters choose.
DatagramPort find_port(const Device& device, const fi_info& info, const Parameters& parameters) {
  IbUdAddress source{};
  if (info.src_addr != nullptr && info.src_addrlen >= sizeof source) std::memcpy(&source, info.src_addr, sizeof source);
  for (std::uint8_t number = 1; number <= device.port_count(); ++number)
    if (GidTable::of(device, number).contains(source.gid)) return {number, source.gid};
  DatagramPort first;
  const auto index = static_cast<std::uint32_t>(std::max(parameters.gid_index, 0));
  for (std::uint8_t number = 1; number <= device.port_count(); ++number) {
    const auto port = device.port(number);
    if (!port || !port->active()) continue;
    first.number = number;
    break;
  }
  const GidTable table = GidTable::of(device, first.number);
  for (const ibv_gid_entry& entry : table.entries())
    if (entry.gid_index == index) first.gid = entry.gid;
  return first;
}

}  // namespace

void Domain::Unmap::operator()(void* memory) const noexcept {
  ::munmap(memory, kScratchSize);
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
  if (asks_for_progress(*info->domain_attr))
    if (Status status = fabric.engine().start_service_thread(); !status.ok()) return status.code();
  std::unique_ptr<Domain> opened(new Domain(fabric, std::move(*device), std::move(pd), *info, context));
  if (Status status = opened->progress_.open(opened->progresses_by_itself_ ? nullptr : &fabric.engine()); !status.ok())
    return status.code();
  opened->register_scratch();
  *domain = &opened.release()->abi;
  return 0;
}

Domain::Domain(Fabric& fabric, Ref<Device> device, ProtectionDomainHandle pd, const fi_info& info, void* context)
    : DomainBase(fabric, info, context),
      device_(std::move(device)),
      local_(CmAddress::from(info.addr_format, info.src_addr, info.src_addrlen).value_or(CmAddress())),
      datagram_port_(info.addr_format == FI_ADDR_IB_UD ? find_port(*device_, info, fabric.parameters) : DatagramPort()),
      for_datagrams_(wants_datagrams(&info)),
      caps_(info.caps),
      progresses_by_itself_(asks_for_progress(*info.domain_attr)),
      pd_(std::move(pd)) {}

Domain::~Domain() = default;

// Registered memory of our own. Without it (a low limit of locked memory) the domain lacks a few comforts only.
void Domain::register_scratch() noexcept {
  void* memory = ::mmap(nullptr, kScratchSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  scratch_.reset(memory);
  scratch_region_.reset(ibv_reg_mr(pd(), memory, kScratchSize, IBV_ACCESS_LOCAL_WRITE));
  if (scratch_region_ == nullptr) {
    FI_INFO(&provider(), FI_LOG_DOMAIN,
            "cannot register %zu bytes (see ulimit -l): messages that are too long for their buffer will end the "
            "connection\n",
            kScratchSize);
    return;
  }
  const auto base = reinterpret_cast<uintptr_t>(memory);
  spill_ = {base, kSpillSize, scratch_region_->lkey};
  discard_ = {base + kSpillSize, kDiscardSize, scratch_region_->lkey};
}

CmEngine& Domain::engine() const noexcept {
  return fabric().engine();
}

AccessRules Domain::access_rules() const noexcept {
  const bool wanted = caps_ == 0 || (caps_ & FI_ATOMIC) != 0;
  return {.atomics = wanted && device_->attr().orig_attr.atomic_cap != IBV_ATOMIC_NONE, .iwarp = device_->is_iwarp()};
}

Result<CompletionChannel*> Domain::channel_without_queue() noexcept try {
  std::lock_guard lock(mutex_);
  if (channel_without_queue_ == nullptr) {
    auto channel = CompletionChannel::open(*this, nullptr);
    if (!channel) return failure(channel.error());
    channel_without_queue_ = std::move(*channel);
  }
  return channel_without_queue_.get();
} catch (const std::bad_alloc&) {
  return failure(FI_ENOMEM);
}

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

// Connected endpoints have no use for one, but programs open it all the same.
int Domain::av_open(fi_av_attr* attr, fid_av** av, void* context) {
  if (av == nullptr) return -FI_EINVAL;
  if (for_datagrams_) return PeerVector::open(*this, attr, av, context);
  return release_to(AddressVector<CmEngine>::open(Ref<RefCounted>(*this), attr, addr_format(), context), av);
}

int Domain::cq_open(fi_cq_attr* attr, fid_cq** cq, void* context) {
  if (cq == nullptr || attr == nullptr) return -FI_EINVAL;
  auto channel = CompletionChannel::open(*this, attr);
  if (!channel) return channel.error().code();
  auto queue = CompletionQueue::open(Ref<RefCounted>(*this), attr, **channel, api_version(), true,
                                     &completion_error_text, context);
  if (!queue) return queue.error().code();
  channel->release()->serve(*queue);  // which ends it
  *cq = &(*queue)->abi;
  return 0;
}

int Domain::cntr_open(fi_cntr_attr* attr, fid_cntr** cntr, void* context) {
  if (cntr == nullptr) return -FI_EINVAL;
  return release_to(Counter::open(Ref<RefCounted>(*this), attr, progress_, true, context), cntr);
}

int Domain::poll_open(fi_poll_attr* attr, fid_poll** set) {
  if (set == nullptr) return -FI_EINVAL;
  return release_to(PollSet::open(Ref<RefCounted>(*this), attr), set);
}

int Domain::endpoint(fi_info* info, fid_ep** ep, void* context) {
  return wants_datagrams(info) ? DatagramEndpoint::open(*this, info, ep, context)
                               : Endpoint::open(*this, info, ep, context);
}

int Domain::srx_ctx(fi_rx_attr* attr, fid_ep** ep, void* context) {
  return ep == nullptr ? -FI_EINVAL : SharedReceive::open(*this, attr, ep, context);
}

int Domain::query_atomic(fi_datatype datatype, fi_op operation, fi_atomic_attr* attr, uint64_t flags) {
  if (attr == nullptr) return -FI_EINVAL;
  if ((flags & ~(FI_FETCH_ATOMIC | FI_COMPARE_ATOMIC)) != 0) return -FI_EOPNOTSUPP;
  const auto kind = (flags & FI_COMPARE_ATOMIC) != 0 ? AtomicKind::kCompare
                    : (flags & FI_FETCH_ATOMIC) != 0 ? AtomicKind::kFetch
                                                     : AtomicKind::kUpdate;
  if ((flags & FI_COMPARE_ATOMIC) != 0 && (flags & FI_FETCH_ATOMIC) != 0) return -FI_EINVAL;
  if (!has_atomic(*this, kind, datatype, operation)) return -FI_EOPNOTSUPP;
  *attr = {.count = kAtomicCount, .size = sizeof(uint64_t)};
  return 0;
}

int Domain::regv(const iovec* iov, size_t count, uint64_t access, uint64_t offset, uint64_t requested_key,
                 uint64_t flags, fid_mr** mr, void* context) {
  if ((flags & FI_MR_DMABUF) != 0) return -FI_EBADFLAGS;  // only attributes can tell of one
  return DomainBase::regv(iov, count, access, offset, requested_key, flags, mr, context);
}

int Domain::regattr(const fi_mr_attr* attr, uint64_t flags, fid_mr** mr) {
  return MemoryRegion::open(*this, attr, flags, mr);
}

}  // namespace weft::verbs
