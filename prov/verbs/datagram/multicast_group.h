// SPDX-License-Identifier: BSD-2-Clause
// An endpoint's membership in a multicast group: fi_join, fi_close and fi_mc_addr of fi_cm(3), on rdma_cm's
// rdma_join_multicast_ex(3).
//
// Each membership has its own rdma_cm_id, so that the memberships of an endpoint are independent and destroying the id
// leaves the group in every state of the join. The id of a membership that ended in order is used by the endpoint's
// next one. Receiving members attach the endpoint's queue pair; senders have an address handle. The network identifies
// a group by its GID and ignores the port of its address. On InfiniBand the GID may be its name (AF_IB).
#pragma once

#include <rdma/fi_cm.h>

#include <string_view>

#include "abi/bridge.h"
#include "base/deadline.h"
#include "base/ref.h"
#include "base/unique_fd.h"
#include "objects/address.h"
#include "objects/datagram_bindings.h"
#include "objects/event_queue.h"
#include "verbs/cm/cm_engine.h"
#include "verbs/cm/cm_errors.h"
#include "verbs/device/verbs_handles.h"

namespace weft::verbs {

class DatagramEndpoint;

// Owner: its C handle. The endpoint's close answers -FI_EBUSY while it lives. The engine's mutex guards everything.
class MulticastGroup final : public Object<fid_mc>, private CmHandler {
 public:
  MulticastGroup(DatagramEndpoint& endpoint, const CmAddress& group, JoinRole role, fi_addr_t name,
                 void* context) noexcept;
  ~MulticastGroup();

  // Before start(); false: no memory for the events.
  bool reserve() noexcept;
  // Joins the group; the result is an event.
  void start() noexcept;
  // The device's port went down, or is active again.
  void on_port(bool active) noexcept;

  // Slot of fi_ops: leaves the group.
  int close();

  const CmAddress& address() const noexcept { return address_; }
  // Whether it receives now, or will once it has joined.
  bool receives() const noexcept { return state_ != State::kFailed && role_.receives; }

 private:
  enum class State { kJoining, kMember, kFailed, kInterrupted };

  void on_cm_event(const RdmaEvent& event) noexcept override;
  void on_deadline() noexcept override;

  Status join() noexcept;
  Status take_id() noexcept;
  // Joins with a socket, because the connection manager does not support IPv6 groups on RoCEv2.
  Status join_by_socket() noexcept;
  void on_joined(const rdma_ud_param& group) noexcept;
  // `keep_id`: the id is good and another membership may use it.
  void leave(bool keep_id = false) noexcept;
  void interrupt(int error, const char* why) noexcept;
  void retry_later() noexcept;
  void fail(const CmFailure& why) noexcept;
  EventQueueCore::Reserved take_event() noexcept { return std::move(result_ != nullptr ? result_ : end_); }
  void report_error(int error, int native, std::string_view reason) noexcept;
  CmFailure explain_attach(int error) const noexcept;

  const Ref<DatagramEndpoint> endpoint_;
  const CmAddress address_;  // with the port of fi_join
  const JoinRole role_;
  const fi_addr_t name_;
  State state_ = State::kJoining;
  bool restoring_ = false;  // was a member before
  // Both events that a join may lead to: its result, and the end of the membership.
  EventQueueCore::Reserved result_, end_;
  bool full_member_ = true;
  const char* step_ = "";
  Clock::duration pause_{};
  CmIdHandle id_;
  bool cm_join_ = false;  // rdma_join_multicast_ex succeeded and needs rdma_leave_multicast
  bool used_id_ = false;  // id_ is from an earlier membership
  UniqueFd socket_;
  bool attached_ = false;
  ibv_gid gid_{};
  std::uint16_t lid_ = 0;
  AddressHandle handle_;
};

}  // namespace weft::verbs
