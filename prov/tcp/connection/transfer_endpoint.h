// SPDX-License-Identifier: BSD-2-Clause
// The data side of a connected endpoint: fi_msg(3), fi_tagged(3), fi_rma(3), and the bindings, queue sizes and
// cancellation of fi_endpoint(3). Connection management is the derived class's.
//
// Until enable_transfers() every slot answers -FI_EOPBADSTATE, then receives may be posted, and from start() on
// messages may be sent: the tables change, so the calls themselves check no state.
#pragma once

#include <rdma/fi_rma.h>

#include <cstdint>

#include "objects/completion_routes.h"
#include "objects/shared_transmit.h"
#include "objects/transfer_calls.h"
#include "tcp/connection/endpoint_receiver.h"

namespace weft::tcp {

class SharedReceive;

class TransferEndpoint : public TransferCalls<TransferEndpoint>, public EndpointReceiver {
 public:
  // Beside TransferCalls: completion data of a read has no receiver.
  ssize_t readmsg(const fi_msg_rma* msg, uint64_t flags) noexcept {
    return flags & FI_REMOTE_CQ_DATA ? -FI_EBADFLAGS : TransferCalls::readmsg(msg, flags);
  }

  // fi_endpoint(3)
  ssize_t cancel(void* context) noexcept;
  ssize_t rx_size_left() noexcept;
  ssize_t tx_size_left() noexcept;

  // ReceiveTarget and TransmitTarget.
  ssize_t post_receive(const ReceiveRequest& request, fi_addr_t source) noexcept;
  [[gnu::always_inline]] ssize_t transmit(const TransmitRequest& request) noexcept {
    if (!is_small(request)) [[unlikely]]
      return transmit_checked(request);
    Lock lock(engine().mutex());
    return unless_ended(request, stream_.send_small(request));
  }

  Engine& engine() noexcept { return stream_.engine(); }

 protected:
  TransferEndpoint(Domain& domain, const fi_info& info, void* context);
  virtual ~TransferEndpoint();

  // -FI_EDOMAIN for objects of another domain; -FI_EINVAL for flags that name no direction; -FI_EOPBADSTATE once
  // enabled.
  Status bind_cq(CompletionQueue& queue, uint64_t flags) noexcept;
  Status bind_counter(Counter& counter, uint64_t flags) noexcept;
  Status bind_shared_receive(SharedReceive& shared, uint64_t flags) noexcept;
  Status bind_shared_transmit(SharedTransmit& shared, uint64_t flags) noexcept;
  // -FI_ENOCQ when a direction of the endpoint's capabilities has neither queue nor counter.
  Status enable_transfers() noexcept;

  // With the engine's mutex held; see stream.h.
  void start(UniqueFd socket, bool swap_bytes, Watch* handshake) noexcept;
  void stop(int error) noexcept;

  // FI_GETOPSFLAG and FI_SETOPSFLAG of fi_control.
  int control_flags(int command, uint64_t* flags) noexcept;

  // -FI_ENOPROTOOPT for options that are not about transfers.
  int getopt_transfer(int option, void* value, size_t* len) noexcept;
  int setopt_transfer(int option, const void* value, size_t len) noexcept;

  const Ref<Domain> domain_;
  bool shares_memory_ = true;       // FI_OPT_SHARED_MEMORY_PERMITTED
  bool refuses_after_end_ = false;  // FI_OPT_WEFT_REFUSE_AFTER_END

 private:
  ssize_t transmit_checked(const TransmitRequest& request) noexcept;
  // `result`: of the stream.
  ssize_t unless_ended(const TransmitRequest& request, ssize_t result) noexcept {
    return result == -FI_ENOTCONN && !refuses_after_end_ ? fail_after_end(request) : result;
  }
  ssize_t fail_after_end(const TransmitRequest& request) noexcept;

  Ref<SharedReceive> shared_receive_;
  Ref<SharedTransmit> shared_transmit_;
  const std::uint16_t inject_limit_;  // bytes
  bool enabled_ = false;
};

}  // namespace weft::tcp
