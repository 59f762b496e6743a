// SPDX-License-Identifier: BSD-2-Clause
// Address vectors of datagram peers; fi_av(3). A peer is a queue pair with a GID: FI_ADDR_IB_UD names both, an IP
// address and port are looked up, which waits for the peer unless the vector was opened with FI_EVENT.
// A handle is an index for FI_AV_TABLE and FI_AV_MAP alike.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_ext.h>

#include <atomic>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "objects/address_vector.h"
#include "verbs/device/verbs_handles.h"
#include "verbs/transfer/datagram_receives.h"
#include "verbs/transfer/queues.h"

namespace weft::verbs {

class DomainServices;

// Owner: its C handle; close answers -FI_EBUSY while endpoints use it. Thread-safe.
class PeerVector final : public AddressVectorBase<PeerVector, Peer> {
 public:
  static int open(DomainServices& domain, uint32_t addr_format, fi_av_attr* attr, fid_av** av, void* context);
  static PeerVector* from(const ::fid* fid) noexcept { return object_if<PeerVector>(fid); }

  DomainServices& domain() const noexcept { return *domain_; }
  // Null: no such peer. Takes no lock: data path.
  const Destination* destination_of(fi_addr_t handle) const noexcept {
    const Peer* peer = find(handle);
    return peer != nullptr ? &peer->to : nullptr;
  }
  const PeerTable& peers() const noexcept { return table_; }

  // Slots of fi_ops.
  int close();
  int bind(::fid* object, uint64_t flags) { return bind_events(EventQueue::from(object), flags); }
  int control(int command, void* argument);

  // Slots of fi_ops_av, beside those of AddressVectorBase.
  int insertsym(const char* node, size_t nodes, const char* service, size_t services, fi_addr_t* handles,
                uint64_t flags, void* context);
  const char* straddr(const void* addr, char* buf, size_t* length) noexcept;

 private:
  friend AddressVectorBase;
  using Addresses = std::vector<Result<Address>>;
  PeerVector(DomainServices& domain, uint32_t addr_format, const fi_av_attr& attr, void* context);
  ~PeerVector() = default;

  bool is_native() const noexcept { return addr_format_ == FI_ADDR_IB_UD; }
  int insert_listed(InsertionReport&& report, const std::byte* next, size_t count);
  void insert_native(InsertionReport& report, const std::byte* next, size_t count);
  void insert_named(InsertionReport& report, const PeerNames& names);
  void insert_one(InsertionReport& report, Peer& peer, ibv_ah_attr& path, const Status& found,
                  const std::string& sentence, std::string answer);
  void look_up(InsertionReport& report, const Addresses& addresses);
  bool erase(uint64_t index);
  int set_lookup_data(const iovec& wanted);
  int get_lookup_answer(fi_weft_lookup_answer& answer);
  std::span<const std::byte> bytes_of(const Peer& peer) const noexcept;

  const Ref<DomainServices> domain_;
  std::mutex mutex_;  // guards the next
  // Where messages to a peer go, and the private data of its answer, without the zeros at its end.
  struct Known {
    AddressHandle handle;
    std::string answer;
  };
  std::unordered_map<uint64_t, Known> known_;
  std::string lookup_data_;
  std::atomic<bool> closing_{false};
};

}  // namespace weft::verbs
