// SPDX-License-Identifier: BSD-2-Clause
// Datagram endpoints (FI_EP_DGRAM) on unreliable datagram queue pairs: bindings and options of fi_endpoint(3), names
// and groups of fi_cm(3), messages of fi_msg(3) (message_calls.h, datagram_groups.cc).
//
// Owner: its C handle; close returns -FI_EBUSY while the endpoint is a member of groups. The mutex of the fabric's
// engine guards control; the queues have locks for the data path.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>

#include <atomic>
#include <string>
#include <utility>
#include <vector>

#include "base/ref.h"
#include "verbs/cm/cm_address.h"
#include "verbs/cm/cm_engine.h"
#include "verbs/datagram/lookup_data.h"
#include "verbs/datagram/peer_vector.h"
#include "verbs/device/gids.h"
#include "verbs/transfer/completion_routes.h"
#include "verbs/transfer/datagram_receives.h"
#include "verbs/transfer/domain_services.h"
#include "verbs/transfer/message_calls.h"
#include "verbs/transfer/queues.h"
#include "verbs/transfer/send_queue.h"
#include "verbs/transfer/transfer_sizes.h"

namespace weft::verbs {

class MulticastGroup;

class DatagramEndpoint final : public SendCalls<DatagramEndpoint>,
                               public RefCounted,
                               private TransferOwner,
                               private CmHandler {
 public:
  static int open(DomainServices& domain, const fi_info* info, fid_ep** ep, void* context);

  // Slots of fi_ops.
  int close();
  int bind(::fid* object, uint64_t flags);
  int control(int command, void* argument);

  // Slots of fi_ops_ep, beside those of SendCalls.
  int getopt(int level, int option, void* value, size_t* len);
  int setopt(int level, int option, const void* value, size_t len);

  // Slots of fi_ops_cm.
  int setname(void* name, size_t len);
  int getname(void* name, size_t* len);
  int join(const void* addr, uint64_t flags, fid_mc** mc, void* context);

  // Slot of fi_ops_msg, beside those of SendCalls and ReceiveCalls: receives are matched here, and need no descriptor.
  ssize_t recv(void* buf, size_t len, void*, fi_addr_t, void* context) noexcept {
    const iovec one{buf, len};
    return receives_.post_list(&one, nullptr, 1, context, receives_.flags());
  }

  // For groups, with the engine's mutex held.
  CmEngine& engine() const noexcept { return domain_->engine(); }
  DomainServices& domain() const noexcept { return *domain_; }
  EventQueueCore& events() noexcept { return *events_; }
  ibv_qp* queue_pair() const noexcept { return qp_handle_.get(); }
  const CmAddress& local() const noexcept { return local_; }
  bool is_member(const CmAddress& group) const noexcept;
  // Allows sending to the group; null: forbids it.
  void set_group_destination(const MulticastGroup& group, const Destination* to) noexcept;
  // Destroys the handle once no outstanding work request uses it.
  void retire(AddressHandle handle) noexcept;
  void forget(const MulticastGroup& group) noexcept;
  // An id that is bound to local() and has left its group, for reuse by the next join. Null: none.
  CmIdHandle take_group_id() noexcept { return std::move(spare_group_id_); }
  void keep_group_id(CmIdHandle id) noexcept {
    id->context = nullptr;
    spare_group_id_ = std::move(id);
  }

  // SendTarget.
  bool is_enabled() const noexcept { return enabled_; }
  SendQueue& sends() noexcept { return sends_; }
  DatagramReceives& receives() noexcept { return receives_; }
  bool aim(fi_addr_t dest) noexcept {
    const Destination* const to = sends_.is_clear() && vector_ ? vector_->destination_of(dest) : nullptr;
    if (to != nullptr) sends_.set_destination(*to);
    return to != nullptr;
  }
  ssize_t transmit(const SendWork& work, fi_addr_t dest) noexcept;

 private:
  // A slot of groups_. Its count of uses makes the names of past groups invalid.
  struct GroupSlot {
    MulticastGroup* group = nullptr;
    uint64_t uses = 0;
    bool may_send = false;
    Destination to;
  };
  struct Retired {
    AddressHandle handle;
    std::uint32_t moment;  // position in the send queue
  };

  DatagramEndpoint(DomainServices& domain, const fi_info& info, const CmAddress& local, void* context);
  ~DatagramEndpoint() = default;

  bool is_native() const noexcept { return addr_format_ == FI_ADDR_IB_UD; }
  Status bind_id() noexcept;
  Status enable();
  Status enable_queues() noexcept;
  Status create_queue_pair() noexcept;
  Status ready_queue_pair() noexcept;
  void find_own_gids();
  Result<std::uint16_t> pkey_index() const noexcept;
  IbUdAddress native_name() const noexcept;
  bool is_on_infiniband() const noexcept;
  Status check_join(const void* addr, uint64_t flags, const Result<CmAddress>& group) const noexcept;
  void restart_queue_pair() noexcept;
  void report_failure(int error, std::string why) noexcept {
    if (events_) failures_.post(*events_, {abi.fid, error, 0, std::move(why)});
  }

  void on_cm_event(const RdmaEvent& event) noexcept override;
  void on_note() noexcept override {
    if (broken_.exchange(false) && ready_ && qp_handle_ != nullptr) restart_queue_pair();
  }
  void on_device_event(ibv_event_type type, int port) noexcept override;
  void on_qp_event(ibv_event_type type) noexcept override;
  void on_transfer_failed(int) noexcept override {
    broken_ = true;
    engine().note(*this);
  }

  // With the send queue's lock held.
  const Destination* destination_of(fi_addr_t name, uint64_t flags) const noexcept;

  const Ref<DomainServices> domain_;
  const uint32_t addr_format_;
  const uint32_t qkey_;
  const uint64_t caps_;
  TransferSizes sizes_;
  CompletionRoutes routes_{*this};  // constant once the endpoint is enabled, except for counters
  bool enabled_ = false;            // the queues are
  bool ready_ = false;              // the queue pair is
  std::atomic<bool> broken_{false};
  DatagramPort port_;
  CmAddress local_;
  CmIdHandle id_;  // answers lookups of this endpoint
  LookupData lookup_data_;
  CmIdHandle spare_group_id_;
  QueuePairHandle qp_handle_;
  Ref<EventQueue> events_;
  FailureReports failures_;
  Ref<PeerVector> vector_;
  SendQueue sends_;
  DatagramReceives receives_;
  std::vector<GroupSlot> groups_;  // under the send queue's lock and the engine's mutex
  std::vector<Retired> retired_;   // under the send queue's lock
};

}  // namespace weft::verbs
