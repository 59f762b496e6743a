// SPDX-License-Identifier: BSD-2-Clause
// A domain of ofi_rxm; see domain.h.
#include "rxm/domain.h"

#include <utility>

#include "objects/poll_set.h"
#include "rxm/endpoint.h"
#include "rxm/limits.h"
#include "rxm/memory_region.h"

namespace weft::rxm {
int Domain::open(Fabric& fabric, const fi_info* info, fid_domain** domain, void* context) {
  if (info == nullptr || domain == nullptr || info->domain_attr == nullptr || info->fabric_attr == nullptr)
    return -FI_EINVAL;
  auto lower_info = lower_of(*info, fabric.abi.api_version);
  if (!lower_info) return lower_info.error().code();
  fid_domain* lower = nullptr;
  if (const int error = fi_domain(fabric.lower(), lower_info->get(), &lower, nullptr); error != 0) return error;
  Lower<fid_domain> opened(lower);
  auto engine = Engine::open(fabric.lower(), turns_of(*info->domain_attr));
  if (!engine) return engine.error().code();
  if (info->domain_attr->progress == FI_PROGRESS_AUTO)
    if (Status status = (*engine)->start_service_thread(); !status.ok()) return status.code();
  *domain = &(new Domain(fabric, *info, std::move(*lower_info), std::move(opened), std::move(*engine), context))->abi;
  return 0;
}

Domain::Domain(Fabric& fabric, const fi_info& info, InfoPtr lower_info, Lower<fid_domain> lower,
               std::unique_ptr<Engine> engine, void* context)
    : DomainBase(fabric, info, context),
      lower_info_(std::move(lower_info)),
      levels_(std::exchange(lower_info_->tx_attr->op_flags, 0)),
      lower_(std::move(lower)),
      engine_(std::move(engine)),
      registers_locally_(needs_local_registration(*lower_info_)),
      virtual_addresses_((lower_info_->domain_attr->mr_mode & (FI_MR_VIRT_ADDR | FI_MR_BASIC)) != 0),
      chooses_keys_((lower_info_->domain_attr->mr_mode & (FI_MR_PROV_KEY | FI_MR_BASIC)) == 0),
      // Keys are the lower provider's: here they are given.
      regions_({.mr_mode = virtual_addresses_ ? FI_MR_VIRT_ADDR : 0,
                .api_version = api_version(),
                .counter_from = [](const ::fid* fid) -> CounterCore* { return Counter::from(fid); },
                .locking = engine_->turns() != Turns::kDomain,
                .quiesce = [driven = engine_.get()] { driven->mutex().wait_for_others(); }}) {
  if (engine_->turns() == Turns::kDomain) engine_->lock_along(regions_.lock());
  engine_->deferred().serve({.counter = Counter::if_of, .routes = [](const ::fid* fid) -> CompletionRoutes* {
                               return rdm::routes_of<Endpoint>(fid);
                             }});
}

// Regions that the application registered keep the lower domain open.
int Domain::close() {
  if (in_use()) return -FI_EBUSY;
  engine_->stop_service();
  if (const int error = fi_close(&lower_->fid); error != 0) return error;
  lower_.release();
  delete this;
  return 0;
}

int Domain::bind(::fid* object, uint64_t flags) {
  auto* queue = EventQueue::from(object);
  if (queue == nullptr) return -FI_EINVAL;
  if (flags != 0) return flags == FI_REG_MR ? -FI_ENOSYS : -FI_EBADFLAGS;
  if (events_) return -FI_EINVAL;
  events_ = Ref<EventQueueCore>(*queue);
  return 0;
}

int Domain::control(int command, void* argument) {
  if (DeferredWork::is_command(command)) {
    engine_->expect_groups();  // work starts in whichever thread is at hand
    return engine_->deferred().control(command, argument);
  }
  if (argument == nullptr) return -FI_EINVAL;
  if (command != FI_MAP_RAW_MR && command != FI_UNMAP_KEY) return -FI_ENOSYS;
  return fi_control(&lower_->fid, command, argument);
}

int Domain::av_open(fi_av_attr* attr, fid_av** av, void* context) {
  if (av == nullptr) return -FI_EINVAL;
  return release_to(AddressVector::open(Ref<RefCounted>(*this), attr, addr_format(), context), av);
}

Result<Lower<fid_cq>> Domain::open_lower_queue(std::optional<int> signaling_vector) noexcept {
  fi_cq_attr attr{};
  attr.format = FI_CQ_FORMAT_TAGGED;
  attr.wait_obj = FI_WAIT_FD;
  if (signaling_vector) {
    attr.flags = FI_AFFINITY;
    attr.signaling_vector = *signaling_vector;
  }
  fid_cq* queue = nullptr;
  if (const int error = fi_cq_open(lower_.get(), &attr, &queue, nullptr); error != 0) return failure(Status(error));
  return Lower<fid_cq>(queue);
}

// Endpoints open the lower queues. Whether there is such an interrupt is to be known here all the same.
int Domain::cq_open(fi_cq_attr* attr, fid_cq** cq, void* context) {
  if (cq == nullptr) return -FI_EINVAL;
  if (attr != nullptr && (attr->flags & FI_AFFINITY) != 0)
    if (const auto tried = open_lower_queue(attr->signaling_vector); !tried) return tried.error().code();
  return release_to(CompletionQueue::open(Ref<RefCounted>(*this), attr, *engine_, api_version(),
                                          engine_->locking_with(attr), nullptr, context),
                    cq);
}

int Domain::cntr_open(fi_cntr_attr* attr, fid_cntr** cntr, void* context) {
  if (cntr == nullptr) return -FI_EINVAL;
  return release_to(Counter::open(Ref<RefCounted>(*this), attr, *engine_, engine_->locking_with(attr), context), cntr);
}

int Domain::poll_open(fi_poll_attr* attr, fid_poll** set) {
  if (set == nullptr) return -FI_EINVAL;
  return release_to(PollSet<Engine>::open(Ref<RefCounted>(*this), attr), set);
}

int Domain::endpoint(fi_info* info, fid_ep** ep, void* context) {
  return Endpoint::open(*this, info, ep, context);
}

int Domain::scalable_ep(fi_info* info, fid_ep** sep, void* context) {
  engine_->expect_groups();
  return Endpoint::open_scalable(*this, info, sep, context);
}

int Domain::stx_ctx(fi_tx_attr* attr, fid_stx** stx, void* context) {
  return SharedTransmit::open(*this, attr, stx, context);
}

int Domain::srx_ctx(fi_rx_attr* attr, fid_ep** srx, void* context) {
  engine_->expect_groups();
  return rdm::SharedReceive<Endpoint>::open(*this, attr, srx, context);
}

int Domain::query_atomic(fi_datatype datatype, fi_op operation, fi_atomic_attr* attr, uint64_t flags) {
  return rdm::query_atomic(atomic_limit(), datatype, operation, attr, flags);
}

// As much as goes behind a header into an eager packet.
std::size_t Domain::atomic_limit() const noexcept {
  const std::size_t limit = fabric().parameters.eager_limit;
  return limit < sizeof(AtomicHeader) ? 0 : limit - sizeof(AtomicHeader);
}

Result<Lower<fid_mr>> Domain::register_memory(const void* buf, size_t len, uint64_t access) noexcept {
  const uint64_t key = chooses_keys_ ? kOwnKeys | next_key_.fetch_add(1, std::memory_order_relaxed) : 0;
  fid_mr* region = nullptr;
  const int error = fi_mr_reg(lower_.get(), buf, len, access, 0, key, 0, &region, nullptr);
  if (error != 0) return failure(Status(error));
  return Lower<fid_mr>(region);
}

int Domain::regattr(const fi_mr_attr* attr, uint64_t flags, fid_mr** mr) {
  return MemoryRegion::open(*this, attr, flags, mr);
}

}  // namespace weft::rxm
