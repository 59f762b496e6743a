// SPDX-License-Identifier: BSD-2-Clause
// The data side of a connected endpoint: fi_msg(3), fi_tagged(3), fi_rma(3), and what fi_endpoint(3) says of bindings,
// queue sizes and cancellation. Connection management is the derived class's.
//
// Until enable_transfers() every slot answers -FI_EOPBADSTATE, then receives may be posted, and from start() on
// messages may be sent: the tables change, so the calls themselves check no state.
#pragma once

#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/providers/fi_prov.h>

#include <span>

#include "objects/completion_routes.h"
#include "objects/shared_transmit.h"
#include "tcp/queues.h"
#include "tcp/receive_calls.h"
#include "tcp/receive_queue.h"
#include "tcp/stream.h"

namespace weft::tcp {

class Domain;
class SharedReceive;

class TransferEndpoint : public ReceiveCalls<TransferEndpoint> {
 public:
  // fi_msg(3), beside ReceiveCalls
  ssize_t send(const void* buf, size_t len, void* desc, fi_addr_t dest, void* context) noexcept;
  ssize_t sendv(const iovec* iov, void** desc, size_t count, fi_addr_t dest, void* context) noexcept;
  ssize_t sendmsg(const fi_msg* msg, uint64_t flags) noexcept;
  ssize_t inject(const void* buf, size_t len, fi_addr_t dest) noexcept;
  ssize_t senddata(const void* buf, size_t len, void* desc, uint64_t data, fi_addr_t dest, void* context) noexcept;
  ssize_t injectdata(const void* buf, size_t len, uint64_t data, fi_addr_t dest) noexcept;

  // fi_tagged(3), likewise
  ssize_t tsend(const void* buf, size_t len, void* desc, fi_addr_t dest, uint64_t tag, void* context) noexcept;
  ssize_t tsendv(const iovec* iov, void** desc, size_t count, fi_addr_t dest, uint64_t tag, void* context) noexcept;
  ssize_t tsendmsg(const fi_msg_tagged* msg, uint64_t flags) noexcept;
  ssize_t tinject(const void* buf, size_t len, fi_addr_t dest, uint64_t tag) noexcept;
  ssize_t tsenddata(const void* buf, size_t len, void* desc, uint64_t data, fi_addr_t dest, uint64_t tag,
                    void* context) noexcept;
  ssize_t tinjectdata(const void* buf, size_t len, uint64_t data, fi_addr_t dest, uint64_t tag) noexcept;

  // fi_rma(3)
  ssize_t read(void* buf, size_t len, void* desc, fi_addr_t src, uint64_t addr, uint64_t key, void* context) noexcept;
  ssize_t readv(const iovec* iov, void** desc, size_t count, fi_addr_t src, uint64_t addr, uint64_t key,
                void* context) noexcept;
  ssize_t readmsg(const fi_msg_rma* msg, uint64_t flags) noexcept;
  ssize_t write(const void* buf, size_t len, void* desc, fi_addr_t dest, uint64_t addr, uint64_t key,
                void* context) noexcept;
  ssize_t writev(const iovec* iov, void** desc, size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
                 void* context) noexcept;
  ssize_t writemsg(const fi_msg_rma* msg, uint64_t flags) noexcept;
  ssize_t rma_inject(const void* buf, size_t len, fi_addr_t dest, uint64_t addr, uint64_t key) noexcept;
  ssize_t writedata(const void* buf, size_t len, void* desc, uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key,
                    void* context) noexcept;
  ssize_t rma_injectdata(const void* buf, size_t len, uint64_t data, fi_addr_t dest, uint64_t addr,
                         uint64_t key) noexcept;

  // fi_endpoint(3)
  ssize_t cancel(void* context) noexcept;
  ssize_t rx_size_left() noexcept;
  ssize_t tx_size_left() noexcept;

  // For streams and shared contexts, with the engine's mutex held.
  ReceiveQueue& receive_queue() noexcept { return *receive_queue_; }
  void cancel_posted_receives(int native) noexcept;
  // The peer closed (0) or the connection broke (errno); every completion has been written. Not called after stop().
  virtual void on_stream_end(int error) noexcept = 0;
  bool matches_tags() const noexcept { return caps_ == 0 || (caps_ & FI_TAGGED) != 0; }

  CompletionRoutes routes;

 protected:
  TransferEndpoint(Domain& domain, const fi_info& info, void* context) noexcept;
  virtual ~TransferEndpoint();

  // -FI_EDOMAIN for what another domain drives; -FI_EINVAL for flags that name no direction; -FI_EOPBADSTATE once
  // enabled.
  Status bind_cq(CompletionQueue& queue, uint64_t flags) noexcept;
  Status bind_counter(Counter& counter, uint64_t flags) noexcept;
  Status bind_shared_receive(SharedReceive& shared) noexcept;
  Status bind_shared_transmit(SharedTransmit& shared) noexcept;
  // -FI_ENOCQ when a direction that the endpoint is capable of has neither queue nor counter.
  Status enable_transfers() noexcept;
  bool transfers_enabled() const noexcept { return enabled_; }

  // With the engine's mutex held; see stream.h.
  void start(UniqueFd socket, bool swap_bytes, std::span<const std::byte> early, Watch* handshake) noexcept;
  void stop(int error) noexcept;
  void drop_triggered() noexcept;   // before the endpoint closes, without the mutex
  void ask_when_silent() noexcept;  // of the side that asked for the connection, once it has started
  bool started() const noexcept { return started_; }

  // FI_GETOPSFLAG and FI_SETOPSFLAG of fi_control: `flags` names FI_TRANSMIT or FI_RECV, not both.
  int control_flags(int command, uint64_t* flags) noexcept;

  // -FI_ENOPROTOOPT for options that are not about transfers.
  int getopt_transfer(int option, void* value, size_t* len) noexcept;
  int setopt_transfer(int option, const void* value, size_t len) noexcept;

  Engine& engine() noexcept;
  Domain& domain_;

 private:
  friend class SharedReceive;
  friend ReceiveCalls;
  ssize_t transmit(const TransmitRequest& request) noexcept;
  ssize_t inject_request(TransmitRequest request) noexcept;
  ssize_t send_one(Op op, const void* buf, size_t len, uint64_t tag, void* context, bool silent) noexcept;
  ssize_t rma_message(Op op, const fi_msg_rma* msg, uint64_t flags) noexcept;
  ssize_t post(const ReceiveRequest& request) noexcept;
  uint64_t receive_flags() const noexcept { return receive_flags_; }

  const uint64_t caps_;
  uint64_t transmit_flags_;  // what calls without flags use (tx_attr->op_flags)
  uint64_t receive_flags_;
  bool enabled_ = false;
  bool started_ = false;
  ReceiveQueue own_receives_;
  ReceiveQueue* receive_queue_ = &own_receives_;
  Ref<SharedReceive> shared_receive_;
  Ref<SharedTransmit> shared_transmit_;
  Stream stream_;
};

}  // namespace weft::tcp
