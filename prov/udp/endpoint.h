// SPDX-License-Identifier: BSD-2-Clause
// Datagram endpoints (FI_EP_DGRAM): bindings and options of fi_endpoint(3), names and groups of fi_cm(3), messages of
// fi_msg(3) (transfer_calls.cc).
//
// Until it is enabled every transfer call answers -FI_EOPBADSTATE: enabling replaces the tables, so the calls check no
// state. Owner: its C handle; close answers -FI_EBUSY while it has aliases or is a member of groups. The mutex of the
// domain's engine guards everything.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>

#include <optional>
#include <string>
#include <vector>

#include "base/ref.h"
#include "objects/address.h"
#include "objects/transfer_calls.h"
#include "udp/datagram_socket.h"
#include "udp/domain.h"
#include "udp/receiver.h"
#include "udp/transmit_batch.h"

namespace weft::udp {

class MulticastGroup;

class Endpoint final : public TransferCalls<Endpoint>, public RefCounted, private Sender {
 public:
  static int open(Domain& domain, const fi_info* info, fid_ep** ep, void* context);

  // Slots of fi_ops.
  int close();
  int bind(::fid* object, uint64_t flags);
  int control(int command, void* argument);

  // Slots of fi_ops_ep.
  ssize_t cancel(void* context) noexcept;
  int getopt(int level, int option, void* value, size_t* len);
  int setopt(int level, int option, const void* value, size_t len);
  ssize_t rx_size_left() noexcept;
  ssize_t tx_size_left() noexcept;

  // Slots of fi_ops_cm.
  int setname(void* name, size_t len);
  int getname(void* name, size_t* len);
  int join(const void* addr, uint64_t flags, fid_mc** mc, void* context);

  // Slots of fi_ops_msg, beside those of TransferCalls. Plain datagrams carry no completion data.
  ssize_t senddata(const void*, size_t, void*, uint64_t, fi_addr_t, void*) noexcept { return -FI_EOPNOTSUPP; }
  ssize_t injectdata(const void*, size_t, uint64_t, fi_addr_t) noexcept { return -FI_EOPNOTSUPP; }

  Engine& engine() noexcept { return receiver_.engine(); }
  // For groups, with the engine's mutex held.
  Receiver& receiver() noexcept { return receiver_; }
  EventQueueCore& events() noexcept { return *events_; }
  unsigned interface() const noexcept { return interface_; }
  std::string local_text() const { return local_.to_string(); }
  void tune(int fd) const noexcept;
  // An endpoint at the wildcard address and the port of one of its groups, of `joining` too (may be null), shares them:
  // members on this host, which bind to the group's address and port, would be excluded otherwise.
  void share_port(const MulticastGroup* joining) noexcept;
  bool coalesces_datagrams() const noexcept { return domain_->fabric().parameters.segmentation; }
  void remove_group(const MulticastGroup& group) noexcept;

  // ReceiveTarget and TransmitTarget, in transfer_calls.cc.
  ssize_t post_receive(const ReceiveRequest& request, fi_addr_t source) noexcept;
  ssize_t transmit(const TransmitRequest& message) noexcept;

 private:
  // A place in groups_; the use count makes names of groups that were left invalid.
  struct GroupSlot {
    MulticastGroup* group = nullptr;
    uint64_t uses = 0;
  };

  Endpoint(Domain& domain, const fi_info& info, const Address& local, void* context);
  ~Endpoint() = default;

  int enable();
  std::optional<std::size_t> limit_of(int option) const noexcept;
  Status open_socket();
  void choose_interface();
  void find_own_addresses();
  Status check_join(const void* addr, uint64_t flags, const Result<Address>& group) const noexcept;
  bool is_member(const Address& group) const noexcept;

  // transfer_calls.cc
  ssize_t send_now(const TransmitRequest& message, const Address& to) noexcept;
  ssize_t gather(const TransmitRequest& message, const Address& to, std::size_t len) noexcept;
  const Address* destination_of(const TransmitRequest& message) const noexcept;
  void flush() noexcept;

  const Ref<Domain> domain_;
  const uint32_t addr_format_;
  const uint64_t caps_;
  std::size_t max_message_;
  std::size_t tx_size_;
  bool enabled_ = false;
  unsigned interface_ = 0;  // that group messages leave by; 0: chosen by the system
  std::size_t mtu_ = 0;     // that interface's; 0: unknown
  Address local_;
  UniqueFd bound_;  // holds local_ until the endpoint is enabled
  CompletionRoutes routes_;
  Ref<EventQueue> events_;
  Ref<AddressVector> vector_;
  Receiver receiver_;
  TransmitBatch batch_;
  uint64_t last_round_ = 0;  // the last round in which a message was sent at once
  std::vector<GroupSlot> groups_;
  DatagramSocket socket_;
};

}  // namespace weft::udp
