// SPDX-License-Identifier: BSD-2-Clause
// The part of a domain that its children use; see domain_services.h.
#include "verbs/transfer/domain_services.h"

#include <rdma/fi_domain.h>
#include <sys/epoll.h>
#include <sys/mman.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/readiness.h"
#include "objects/progress.h"
#include "verbs/device/gids.h"
#include "verbs/device/limits.h"
#include "verbs/device/logging.h"
#include "verbs/transfer/completion_channel.h"

namespace weft::verbs {
namespace {

constexpr size_t kDiscardSize = 64;
constexpr size_t kScratchSize = kSpillSize + kDiscardSize;

// The port that has the GID of the info's source, otherwise the first active port with the GID of FI_VERBS_GID_IDX.
DatagramPort find_port(const Device& device, const fi_info& info, const Parameters& parameters) {
  IbUdAddress source{};
  if (info.src_addr != nullptr && info.src_addrlen >= sizeof source) std::memcpy(&source, info.src_addr, sizeof source);
  std::vector<Device::Port> ports;  // a port's number may be the greatest that its type has
  for (int number = 1; number <= device.port_count(); ++number)
    if (const auto port = device.port(static_cast<std::uint8_t>(number))) ports.push_back(*port);
  for (const Device::Port& port : ports)
    if (GidTable::of(device, port).contains(source.gid)) return {port.number, source.gid};
  DatagramPort first;
  const auto index = static_cast<std::uint32_t>(std::max(parameters.gid_index, 0));
  const auto active = std::ranges::find_if(ports, &Device::Port::active);
  if (active != ports.end()) first.number = active->number;
  const GidTable table = GidTable::of(device, first.number);
  for (const ibv_gid_entry& entry : table.entries())
    if (entry.gid_index == index) first.gid = entry.gid;
  return first;
}

}  // namespace

DomainServices::DomainServices(FabricServices& fabric, Ref<Device> device, ProtectionDomainHandle pd,
                               const fi_info& info)
    : fabric_(fabric),
      device_(std::move(device)),
      local_(CmAddress::from(info.addr_format, info.src_addr, info.src_addrlen).value_or(CmAddress())),
      datagram_port_(info.addr_format == FI_ADDR_IB_UD ? find_port(*device_, info, fabric.parameters) : DatagramPort()),
      progresses_by_itself_(info.domain_attr->control_progress == FI_PROGRESS_AUTO ||
                            info.domain_attr->progress == FI_PROGRESS_AUTO),
      pd_(std::move(pd)),
      progress_(progresses_by_itself_ ? nullptr : &engine()) {}

DomainCache* DomainServices::cache() noexcept {
  std::call_once(cache_once_, [this] { cache_ = DomainCache::open(*pd_); });
  return cache_.get();
}

void DomainServices::set_caches(bool caches) noexcept {
  caches_ = caches;
  if (DomainCache* opened = caches ? nullptr : cache(); opened != nullptr) opened->trim();
}

// Without the memory (a low limit of locked memory) the domain lacks only spill and discard. All domains of the process
// share it: nothing reads it.
void DomainServices::register_scratch() noexcept {
  static void* const memory = ::mmap(nullptr, kScratchSize, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return;
  scratch_region_.reset(ibv_reg_mr(pd(), memory, kScratchSize, IBV_ACCESS_LOCAL_WRITE));
  if (scratch_region_ == nullptr) {
    FI_INFO(&provider(), FI_LOG_DOMAIN,
            "cannot register %zu bytes (see ulimit -l): a message that is longer than its receive buffer will "
            "end the connection\n",
            kScratchSize);
    return;
  }
  const auto base = reinterpret_cast<uintptr_t>(memory);
  spill_ = {base, kSpillSize, scratch_region_->lkey};
  discard_ = {base + kSpillSize, kDiscardSize, scratch_region_->lkey};
  has_scratch_.store(true, std::memory_order_release);
}

Result<CompletionChannel*> DomainServices::channel_without_queue() noexcept try {
  std::lock_guard lock(channel_mutex_);
  if (channel_without_queue_ == nullptr) {
    auto opened = CompletionChannel::open(*this, nullptr);
    if (!opened) return failure(opened.error());
    channel_without_queue_ = std::move(*opened);
  }
  return channel_without_queue_.get();
} catch (const std::bad_alloc&) {
  return failure(FI_ENOMEM);
}

// ---- Progress ----

DomainProgress::~DomainProgress() {
  if (watches_connections_) dismiss_watcher(*cm_engine_);
}

Status DomainProgress::open_descriptor() {
  std::lock_guard opening(opening_mutex_);
  if (wait_fd() >= 0) return Status();
  UniqueFd epoll(net::epoll_create());
  if (!epoll) return Status(epoll.get());  // -errno
  if (cm_engine_ != nullptr && !watches_connections_) watches_connections_ = admit_watcher(*cm_engine_);
  int result = watches_connections_ ? net::epoll_add(epoll.get(), cm_engine_->wait_fd(), EPOLLIN, nullptr) : 0;
  std::lock_guard lock(mutex_);
  for (const CompletionChannel* channel : channels_)
    if (result >= 0) result = net::epoll_add(epoll.get(), channel->wait_fd(), EPOLLIN, nullptr);
  if (result >= 0) epoll_ = std::move(epoll);
  return Status(std::min(0, result));
}

Status DomainProgress::add(CompletionChannel& channel) {
  std::lock_guard lock(mutex_);
  const int result = epoll_ ? net::epoll_add(epoll_.get(), channel.wait_fd(), EPOLLIN, nullptr) : 0;
  if (result < 0) return Status(result);
  channels_.push_back(&channel);
  // A thread may sleep on a counter already, and has requested interrupts of the other channels only.
  if (epoll_) (void)channel.prepare_wait();
  return Status();
}

void DomainProgress::remove(CompletionChannel& channel) noexcept {
  std::lock_guard lock(mutex_);
  const auto found = std::find(channels_.begin(), channels_.end(), &channel);
  if (found == channels_.end()) return;
  channels_.erase(found);
  if (epoll_) net::epoll_remove(epoll_.get(), channel.wait_fd());
}

void DomainProgress::drive() noexcept {
  if (cm_engine_ != nullptr) cm_engine_->drive();
  std::lock_guard lock(mutex_);
  for (CompletionChannel* channel : channels_) channel->progress();
}

bool DomainProgress::prepare_wait() noexcept {
  std::lock_guard lock(mutex_);
  bool ready = true;
  for (CompletionChannel* channel : channels_) ready = channel->prepare_wait() && ready;
  return ready;
}

}  // namespace weft::verbs
