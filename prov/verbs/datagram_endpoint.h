// SPDX-License-Identifier: BSD-2-Clause
// Datagram endpoints (FI_EP_DGRAM) on unreliable datagram queue pairs: bindings and options of fi_endpoint(3), names
// and groups of fi_cm(3), messages of fi_msg(3) (datagram_calls.cc). Sending is TransferEndpoint's.
//
// Messages arrive in memory of ours and are copied to the receives that the application has posted, so a message may
// come before its receive, receives can be cancelled and messages of our own that a group returns cost none of them
// (docs/decisions/0011).
//
// Owner: its C handle; close answers -FI_EBUSY while it is a member of groups. The mutex of the fabric's engine guards
// control; locks on the data path are TransferEndpoint's.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>

#include <atomic>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "base/ref.h"
#include "objects/receive_queue.h"
#include "verbs/cm_address.h"
#include "verbs/cm_engine.h"
#include "verbs/datagram_buffers.h"
#include "verbs/domain.h"
#include "verbs/gids.h"
#include "verbs/peer_vector.h"
#include "verbs/queues.h"
#include "verbs/transfer_endpoint.h"

namespace weft::verbs {

class MulticastGroup;

class DatagramEndpoint final : public TransferEndpoint, public RefCounted, private CmHandler {
 public:
  static int open(Domain& domain, const fi_info* info, fid_ep** ep, void* context);
  static const fi_ops* fid_ops() noexcept;

  // Slots of fi_ops.
  int close();
  int bind(::fid* object, uint64_t flags);
  int control(int command, void* argument);

  // Slots of fi_ops_ep.
  ssize_t cancel(void* context) noexcept;
  int getopt(int level, int option, void* value, size_t* len);
  int setopt(int level, int option, const void* value, size_t len);
  ssize_t rx_size_left() noexcept;

  // Slots of fi_ops_cm.
  int setname(void* name, size_t len);
  int getname(void* name, size_t* len);
  int join(const void* addr, uint64_t flags, fid_mc** mc, void* context);

  // Slots of fi_ops_msg.
  ssize_t recv(void* buf, size_t len, void* desc, fi_addr_t src, void* context) noexcept;
  ssize_t recvv(const iovec* iov, void** desc, size_t count, fi_addr_t src, void* context) noexcept;
  ssize_t recvmsg(const fi_msg* msg, uint64_t flags) noexcept;
  ssize_t send(const void* buf, size_t len, void* desc, fi_addr_t dest, void* context) noexcept;
  ssize_t sendv(const iovec* iov, void** desc, size_t count, fi_addr_t dest, void* context) noexcept;
  ssize_t sendmsg(const fi_msg* msg, uint64_t flags) noexcept;
  ssize_t inject(const void* buf, size_t len, fi_addr_t dest) noexcept;
  ssize_t senddata(const void* buf, size_t len, void* desc, uint64_t data, fi_addr_t dest, void* context) noexcept;
  ssize_t injectdata(const void* buf, size_t len, uint64_t data, fi_addr_t dest) noexcept;

  // A receive of ours has completed; with its channel's lock held. Routes: see ReceiveQueue.
  // The first is for messages of which there is nothing to say but their length, and answers whether this is one: then
  // the receive with that context has it.
  bool take_plain(const ibv_wc& wc, Posted& slot, void*& context, size_t& len) noexcept;
  template <class Routes>
  void on_datagram(const ibv_wc& wc, Posted& slot, Routes& to) noexcept;

  // For groups, with the engine's mutex held.
  CmEngine& engine() const noexcept { return domain_.engine(); }
  Domain& domain() const noexcept { return domain_; }
  EventQueueCore& events() noexcept { return *events_; }
  ibv_qp* queue_pair() const noexcept { return qp_handle_.get(); }
  const CmAddress& local() const noexcept { return local_; }
  bool is_member(const CmAddress& group) const noexcept;
  // Messages to it may be sent from now on, or no more; null: not.
  void set_group_destination(const MulticastGroup& group, const Destination* to) noexcept;
  // Destroys the handle once no work request uses it.
  void retire(AddressHandle handle) noexcept;
  void forget(const MulticastGroup& group) noexcept;
  // An id that is bound to local() and has left its group: the next join needs no new one. Null: there is none.
  CmIdHandle take_group_id() noexcept { return std::move(spare_group_id_); }
  void keep_group_id(CmIdHandle id) noexcept {
    id->context = nullptr;
    spare_group_id_ = std::move(id);
  }

 private:
  // A place in groups_; the number of its uses makes the names of groups that are gone invalid.
  struct GroupSlot {
    MulticastGroup* group = nullptr;
    uint64_t uses = 0;
    bool may_send = false;
    Destination to;
  };
  struct Retired {
    AddressHandle handle;
    std::uint32_t moment;  // of the send queue
  };

  DatagramEndpoint(Domain& domain, const fi_info& info, const CmAddress& local, void* context);
  ~DatagramEndpoint() override;

  bool is_native() const noexcept { return addr_format_ == FI_ADDR_IB_UD; }
  Status bind_id() noexcept;
  Status enable();
  Status create_queue_pair() noexcept;
  Status ready_queue_pair() noexcept;
  void find_own_gids();
  Result<std::uint16_t> pkey_index() const noexcept;
  IbUdAddress native_name() const noexcept;
  bool is_on_infiniband() const noexcept;
  Status check_join(const void* addr, uint64_t flags, const Result<CmAddress>& group) const noexcept;
  void revive() noexcept;
  void tell(int error, const std::string& sentence) noexcept;

  void on_cm_event(const RdmaEvent& event) noexcept override;
  void on_deadline() noexcept override {}
  void on_note() noexcept override;
  void on_device_event(ibv_event_type type, int port) noexcept override;
  void on_qp_event(ibv_event_type type) noexcept override;
  void on_transfer_failed(int wc_status) noexcept override;

  // datagram_calls.cc
  ssize_t transmit(const SendWork& work, fi_addr_t destination) noexcept;
  // As in TransferEndpoint.
  ssize_t send_slowly(const void* buf, size_t len, void* desc, fi_addr_t dest, void* context, bool locked) noexcept;
  ssize_t inject_slowly(const void* buf, size_t len, fi_addr_t dest, bool locked) noexcept;
  const Destination* destination_of(fi_addr_t name, uint64_t flags) const noexcept;
  ssize_t post_receive(const iovec* iov, size_t count, void* context, uint64_t flags) noexcept;
  static void copy_word(void* to, const std::byte* from) noexcept { std::memcpy(to, from, sizeof(uint64_t)); }
  void deliver_kept() noexcept;  // with receive_lock_ held
  template <class Routes>
  void deliver(const Arrival& arrival, Routes& to) noexcept;
  bool is_own_to_group(std::uint32_t slot) const noexcept;
  fi_addr_t source_of(const std::byte* header, std::uint32_t qp_number) const noexcept;

  const Ref<Domain> domain_ref_;
  const uint32_t addr_format_;
  const size_t prefix_;  // FI_MSG_PREFIX: bytes in front of every message received
  const uint32_t qkey_;
  bool ready_ = false;
  bool names_sources_ = false;  // FI_SOURCE
  bool plain_ = false;          // each receive is reported, and neither counted nor told its source
  std::atomic<bool> loopback_{false};
  std::atomic<bool> broken_{false};
  DatagramPort port_;
  CmAddress local_;
  std::vector<ibv_gid> own_gids_;
  CmIdHandle id_;  // answers who looks for us
  CmIdHandle spare_group_id_;
  QueuePairHandle qp_handle_;
  Ref<EventQueue> events_;
  Ref<PeerVector> vector_;
  ReceivePool receive_pool_;  // these three under receive_lock_
  ReceiveQueue receives_;
  DatagramBuffers buffers_;
  std::vector<GroupSlot> groups_;  // under send_lock_ and the engine's mutex
  std::vector<Retired> retired_;
};

template <class Routes>
[[gnu::always_inline]] inline void DatagramEndpoint::deliver(const Arrival& arrival, Routes& to) noexcept {
  const std::byte* const bytes = buffers_.bytes(arrival.slot);
  Completion done;
  if (arrival.has_data) done.flags = FI_REMOTE_CQ_DATA, done.data = arrival.data;
  if (names_sources_ && arrival.has_header) done.src_addr = source_of(bytes, arrival.source_qp);
  const size_t skipped = DatagramBuffers::kHeader - prefix_;
  receives_.deliver({bytes + skipped, arrival.len - skipped}, done, to);
  buffers_.give_back(arrival.slot, qp_);
}

[[gnu::always_inline]] inline bool DatagramEndpoint::take_plain(const ibv_wc& wc, Posted& slot, void*& context,
                                                                size_t& len) noexcept {
  if (!plain_ || wc.status != IBV_WC_SUCCESS || (wc.wc_flags & IBV_WC_WITH_IMM) != 0) [[unlikely]]
    return false;
  LightGuard guard(receive_lock_);
  const iovec* const place = receives_.lone_buffer();
  const std::byte* const bytes = buffers_.bytes(slot);
  const size_t skipped = DatagramBuffers::kHeader - prefix_;
  len = wc.byte_len - skipped;
  if (place == nullptr || len > place->iov_len) [[unlikely]]
    return false;
  if (wc.src_qp == qp_number_ && RouteHeader::may_name_group(bytes)) [[unlikely]]
    return false;
  if (len - sizeof(uint64_t) <= sizeof(uint64_t)) {
    // A call of memcpy takes longer.
    copy_word(place->iov_base, bytes + skipped);
    copy_word(static_cast<std::byte*>(place->iov_base) + len - sizeof(uint64_t),
              bytes + skipped + len - sizeof(uint64_t));
  } else if (len != 0) {
    std::memcpy(place->iov_base, bytes + skipped, len);
  }
  context = receives_.take_lone();
  buffers_.give_back(buffers_.take(slot), qp_);
  return true;
}

template <class Routes>
[[gnu::always_inline]] inline void DatagramEndpoint::on_datagram(const ibv_wc& wc, Posted& slot, Routes& to) noexcept {
  LightGuard guard(receive_lock_);
  Arrival arrival{.slot = buffers_.take(slot), .len = wc.byte_len, .source_qp = wc.src_qp};
  if (wc.status != IBV_WC_SUCCESS) [[unlikely]] {
    if (wc.status != IBV_WC_WR_FLUSH_ERR) on_transfer_failed(wc.status);
    return buffers_.give_back(arrival.slot, nullptr);
  }
  if ((wc.wc_flags & IBV_WC_WITH_IMM) != 0) {
    arrival.has_data = true;
    arrival.data = be32toh(wc.imm_data);
  }
  arrival.has_header = (wc.wc_flags & IBV_WC_GRH) != 0;
  if (arrival.source_qp == qp_number_ && RouteHeader::may_name_group(buffers_.bytes(arrival.slot)) &&
      arrival.has_header && is_own_to_group(arrival.slot)) [[unlikely]]
    return buffers_.give_back(arrival.slot, qp_);
  if (receives_.empty()) [[unlikely]]
    return buffers_.keep(arrival);
  deliver(arrival, to);
}

}  // namespace weft::verbs
