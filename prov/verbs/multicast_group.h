// SPDX-License-Identifier: BSD-2-Clause
// An endpoint's membership in a multicast group: fi_join, fi_close and fi_mc_addr of fi_cm(3), on rdma_cm's
// rdma_join_multicast_ex(3).
//
// Each membership has an rdma_cm_id of its own, so that the memberships of one endpoint do not meet, and leaving can be
// the end of that id, whatever state the join is in. That of a membership that stood serves the endpoint's next one.
// Receiving members attach the endpoint's queue pair; senders get an address handle. A group is a GID: the port of its
// address means nothing to the network. On InfiniBand it may be named by that GID (AF_IB).
#pragma once

#include <rdma/fi_cm.h>

#include <string>

#include "abi/bridge.h"
#include "base/deadline.h"
#include "base/ref.h"
#include "base/unique_fd.h"
#include "objects/address.h"
#include "objects/datagram_bindings.h"
#include "verbs/cm_engine.h"
#include "verbs/cm_errors.h"
#include "verbs/verbs_handles.h"

namespace weft::verbs {

class DatagramEndpoint;

// Names of groups lie beyond what an address vector gives out, so neither passes for the other.
inline constexpr unsigned kGroupIndexBits = 24;
inline constexpr fi_addr_t kGroupIndexMask = (fi_addr_t{1} << kGroupIndexBits) - 1;
constexpr fi_addr_t group_name(uint64_t uses, uint64_t index) noexcept {
  return fi_addr_t{1} << 62 | uses << kGroupIndexBits | index;
}

// Owner: its C handle. The endpoint's close answers -FI_EBUSY while it lives. The engine's mutex guards everything.
class MulticastGroup final : public Object<fid_mc>, private CmHandler {
 public:
  MulticastGroup(DatagramEndpoint& endpoint, const CmAddress& group, JoinRole role, fi_addr_t name,
                 void* context) noexcept;
  ~MulticastGroup();
  static const fi_ops* fid_ops() noexcept;

  // Joins; how that went is an event.
  void start() noexcept;
  // The device's port went down or came back.
  void on_port(bool active) noexcept;

  // Slot of fi_ops: leaves the group.
  int close();

  const CmAddress& address() const noexcept { return address_; }
  bool receives() const noexcept { return role_.receives; }

 private:
  enum class State { kJoining, kMember, kFailed, kInterrupted };

  void on_cm_event(const RdmaEvent& event) noexcept override;
  void on_deadline() noexcept override;
  void on_note() noexcept override {}
  void on_device_event(ibv_event_type, int) noexcept override {}
  void on_qp_event(ibv_event_type) noexcept override {}

  Status ask() noexcept;
  Status take_id() noexcept;
  // Without the connection manager, which knows no IPv6 groups on RoCEv2: the kernel joins for a socket of ours.
  Status join_by_socket() noexcept;
  void on_joined(const rdma_ud_param& group) noexcept;
  // `keep_id`: nothing is wrong with it, and another membership may use it.
  void leave(bool keep_id = false) noexcept;
  void interrupt(int error, const char* why) noexcept;
  void try_again() noexcept;
  void fail(const CmFailure& why) noexcept;
  void report_error(int error, int native, std::string sentence) noexcept;
  CmFailure explain_attach(int error) const noexcept;

  const Ref<DatagramEndpoint> endpoint_;
  const CmAddress address_;  // with the port that was asked for
  const JoinRole role_;
  const fi_addr_t name_;
  State state_ = State::kJoining;
  bool restoring_ = false;  // it was a member before
  bool full_member_ = true;
  const char* step_ = "";
  Clock::duration pause_{};
  CmIdHandle id_;
  bool asked_ = false;    // by rdma_join_multicast_ex
  bool used_id_ = false;  // another membership had it before
  UniqueFd socket_;
  bool attached_ = false;
  ibv_gid gid_{};
  std::uint16_t lid_ = 0;
  AddressHandle handle_;
};

}  // namespace weft::verbs
