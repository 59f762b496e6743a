// SPDX-License-Identifier: BSD-2-Clause
// The part of a domain that its children use: the device with a protection domain, registered memory of the provider,
// and the progress of transfers. Base of Domain. Thread-safe.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/fabric.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "base/ref.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "objects/atomic_request.h"
#include "objects/event_queue.h"
#include "verbs/cache/domain_cache.h"
#include "verbs/cm/cm_address.h"
#include "verbs/cm/cm_engine.h"
#include "verbs/device/device.h"
#include "verbs/device/verbs_handles.h"

namespace weft::verbs {

class CompletionChannel;

// The port and GID that datagram queue pairs send from.
struct DatagramPort {
  std::uint8_t number = 1;
  ibv_gid gid{};
};

// The progress engine of a domain's counters: it drives every completion channel of the domain, because a counter may
// count operations of endpoints with different completion queues, or with none. Satisfies ProgressEngine.
//
// Owner: the domain. Thread-safe; mutex_ is taken after the connection engine's mutex and before those of channels.
class DomainProgress {
 public:
  // `cm_engine`: drives connections; null: a thread does.
  explicit DomainProgress(CmEngine* cm_engine) noexcept : cm_engine_(cm_engine) {}
  ~DomainProgress();
  // Opens the descriptor, which only counters that threads sleep on need, unless it is open.
  Status open_descriptor();
  Status add(CompletionChannel& channel);
  void remove(CompletionChannel& channel) noexcept;

  void drive() noexcept;
  bool prepare_wait() noexcept;
  int wait_fd() noexcept {
    std::lock_guard lock(mutex_);
    return epoll_.get();
  }

 private:
  CmEngine* const cm_engine_;
  std::mutex opening_mutex_;  // taken before the connection engine's mutex
  bool watches_connections_ = false;
  std::mutex mutex_;  // guards the rest
  UniqueFd epoll_;
  std::vector<CompletionChannel*> channels_;
};

class DomainServices : public RefCounted {
 public:
  FabricServices& fabric() const noexcept { return *fabric_; }
  CmEngine& engine() const noexcept { return fabric_->engine(); }
  Device& device() const noexcept { return *device_; }
  ibv_pd* pd() const noexcept { return pd_.get(); }
  // The cache of registrations, which the first call opens; nullptr: there is none.
  DomainCache* cache() noexcept;
  bool caches() const noexcept { return caches_; }
  // false: registrations are no longer cached.
  void set_caches(bool caches) noexcept;
  // The address of this family that the domain was opened with, port 0; empty: none.
  CmAddress local_address(int family) const noexcept { return local_.family() == family ? local_ : CmAddress(); }
  // For FI_ADDR_IB_UD.
  const DatagramPort& datagram_port() const noexcept { return datagram_port_; }

  // The queue that serves endpoints which are bound to none; null: none.
  weft::EventQueue<CmEngine>* default_events() noexcept { return events_.get(); }

  DomainProgress& progress() noexcept { return progress_; }
  // FI_PROGRESS_AUTO: a thread drives connections.
  bool progresses_by_itself() const noexcept { return progresses_by_itself_; }
  // Memory for the part of a message that exceeds its receive buffer; length 0: none. Registered by the first call.
  const ibv_sge& spill() noexcept {
    // Every endpoint comes here, and std::call_once is slow even when nothing is left to do.
    if (!has_scratch_.load(std::memory_order_acquire)) std::call_once(scratch_once_, [this] { register_scratch(); });
    return spill_;
  }
  // Memory for unneeded results of atomics; length 0: none, or spill() was not called yet.
  const ibv_sge& discard() const noexcept { return discard_; }

  // See atomics.cc.
  bool has_atomic(AtomicKind kind, fi_datatype datatype, fi_op operation) const noexcept;

  // The channel of endpoints that have a counter but no completion queue for a direction.
  Result<CompletionChannel*> channel_without_queue() noexcept;

 protected:
  DomainServices(FabricServices& fabric, Ref<Device> device, ProtectionDomainHandle pd, const fi_info& info);
  ~DomainServices() = default;

  Ref<weft::EventQueue<CmEngine>> events_;

 private:
  void register_scratch() noexcept;

  const Ref<FabricServices> fabric_;
  const Ref<Device> device_;
  const CmAddress local_;
  const DatagramPort datagram_port_;
  const bool progresses_by_itself_;
  ProtectionDomainHandle pd_;
  std::atomic<bool> caches_{true};
  std::once_flag cache_once_;
  std::unique_ptr<DomainCache> cache_;
  std::once_flag scratch_once_;
  std::atomic<bool> has_scratch_{false};
  MemoryRegionHandle scratch_region_;
  ibv_sge spill_{};
  ibv_sge discard_{};
  DomainProgress progress_;
  std::mutex channel_mutex_;  // guards the next
  std::shared_ptr<CompletionChannel> channel_without_queue_;
};

}  // namespace weft::verbs
