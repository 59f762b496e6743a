// SPDX-License-Identifier: BSD-2-Clause
// Address vectors of datagram peers; fi_av(3). A peer is a queue pair with a GID: FI_ADDR_IB_UD names both, an IP
// address and port are looked up (peer_lookup.h), which waits for the peer unless the vector was opened with FI_EVENT.
// A handle is an index for FI_AV_TABLE and FI_AV_MAP alike.
#pragma once

#include <rdma/fi_domain.h>

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <vector>

#include "abi/ops.h"
#include "base/ref.h"
#include "base/status.h"
#include "objects/background_tasks.h"
#include "objects/insertion_report.h"
#include "objects/peer_names.h"
#include "verbs/device/verbs_handles.h"
#include "verbs/transfer/peer_table.h"
#include "verbs/transfer/queues.h"

namespace weft::verbs {

class DomainServices;
class PeerLookup;

// Owner: its C handle; close answers -FI_EBUSY while endpoints use it. Thread-safe.
class PeerVector final : public Object<fid_av>, public RefCounted {
 public:
  static int open(DomainServices& domain, uint32_t addr_format, fi_av_attr* attr, fid_av** av, void* context);
  static PeerVector* from(const ::fid* fid) noexcept { return object_if<PeerVector>(fid); }

  DomainServices& domain() const noexcept { return domain_; }
  // Null: no such peer. Takes no lock: data path.
  const Destination* find(fi_addr_t handle) const noexcept {
    const Peer* peer = table_.find(handle & index_mask_);
    return peer != nullptr ? &peer->to : nullptr;
  }
  const PeerTable& peers() const noexcept { return table_; }

  // Slots of fi_ops.
  int close();
  int bind(::fid* object, uint64_t flags);

  // Slots of fi_ops_av.
  int insert(const void* addr, size_t count, fi_addr_t* handles, uint64_t flags, void* context);
  int insertsvc(const char* node, const char* service, fi_addr_t* handles, uint64_t flags, void* context);
  int insertsym(const char* node, size_t nodes, const char* service, size_t services, fi_addr_t* handles,
                uint64_t flags, void* context);
  int remove(fi_addr_t* handles, size_t count, uint64_t flags);
  int lookup(fi_addr_t handle, void* addr, size_t* length) noexcept;
  int lookup2(fi_addr_t handle, void* buf, size_t* length, uint64_t flags, fid_xpu_ctx*) noexcept {
    return flags == 0 ? lookup(handle, buf, length) : -FI_ENOSYS;
  }
  const char* straddr(const void* addr, char* buf, size_t* length) noexcept;
  int set_user_id(fi_addr_t handle, fi_addr_t user_id, uint64_t flags) noexcept;

 private:
  using Addresses = std::vector<Result<Address>>;
  PeerVector(DomainServices& domain, uint32_t addr_format, const fi_av_attr& attr, void* context) noexcept;
  ~PeerVector() = default;

  bool is_native() const noexcept;
  int insert_native(InsertionReport& report, const IbUdAddress* addresses, size_t count);
  void insert_one(InsertionReport& report, Peer& peer, ibv_ah_attr& path, const Status& found,
                  const std::string& sentence);
  void look_up(InsertionReport& report, const Addresses& addresses);
  template <class Work>
  int run(InsertionReport&& report, Work work);

  DomainServices& domain_;
  const Ref<DomainServices> domain_ref_;
  const uint32_t addr_format_;
  const uint64_t index_mask_;
  const bool asynchronous_;  // FI_EVENT
  Ref<EventQueueCore> events_;
  PeerTable table_;
  std::mutex mutex_;  // guards the next
  std::unordered_map<uint64_t, AddressHandle> handles_;
  std::atomic<bool> closing_{false};
  BackgroundTasks lookups_;  // with FI_EVENT
};

}  // namespace weft::verbs
