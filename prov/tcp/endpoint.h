// SPDX-License-Identifier: BSD-2-Clause
// Connected endpoints (FI_EP_MSG): creation, bindings and options of fi_endpoint(3), connections of fi_cm(3). Transfers
// are TransferEndpoint's. cm_state.h says what follows from what; here it is carried out.
//
// Owner: its C handle. The mutex of the domain's engine guards everything.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>

#include <memory>

#include "objects/address.h"
#include "objects/cm_state.h"
#include "tcp/cm_message.h"
#include "tcp/connect_request.h"
#include "tcp/domain.h"
#include "tcp/transfer_endpoint.h"

namespace weft::tcp {

class Endpoint final : public TransferEndpoint {
 public:
  // info->handle may name a connection request, or a passive endpoint whose address is inherited; -FI_EINVAL for
  // others.
  static int open(Domain& domain, const fi_info* info, fid_ep** ep, void* context);
  static const fi_ops* fid_ops() noexcept;

  // Slots of fi_ops.
  int close();
  int bind(::fid* object, uint64_t flags);
  int control(int command, void* argument);

  // Slots of fi_ops_ep, beside those of TransferEndpoint.
  int getopt(int level, int option, void* value, size_t* len);
  int setopt(int level, int option, const void* value, size_t len);

  // Slots of fi_ops_cm.
  int setname(void* name, size_t len);
  int getname(void* name, size_t* len);
  int getpeer(void* name, size_t* len);
  int connect(const void* peer, const void* data, size_t len);
  int accept(const void* data, size_t len);
  int shutdown(uint64_t flags);

  void on_stream_end(int error) noexcept override;

 private:
  // A connection in the making. It exists only meanwhile, so that an idle endpoint stays small.
  struct Handshake : Watch {
    Handshake(Endpoint& owner, UniqueFd opened) noexcept;
    Endpoint& endpoint;
    UniqueFd socket;
    const Clock::time_point started_at;
    bool dialled = false;
    CmMessage message;
  };

  Endpoint(Domain& domain, const fi_info& info, const Address& local, void* context);
  ~Endpoint() override = default;

  // endpoint_connection.cc
  Status admit(CmEvent call) noexcept;
  void enter(CmEvent event, EqError* failure = nullptr) noexcept;
  Result<UniqueFd> open_active_socket(const Address& peer) noexcept;
  void proceed() noexcept;
  void dial() noexcept;
  void send_message() noexcept;
  void receive_answer() noexcept;
  void expect_more() noexcept;
  void start_transfers(bool answered) noexcept;
  void fail(int error, const char* why) noexcept;
  EqError describe(int error, const char* why) const noexcept;
  void on_rejected() noexcept;

  const Ref<Domain> domain_ref_;
  const uint32_t addr_format_;
  CmState state_ = CmState::kIdle;
  bool swap_bytes_ = false;
  bool starting_ = false;
  bool ended_early_ = false;  // the stream ended while it was being started
  int connect_timeout_ms_;
  int socket_ = -1;  // of the stream, for names; not owned
  Address local_;
  Address peer_;
  UniqueFd bound_;                           // holds local_ until we connect
  std::unique_ptr<ConnectRequest> request_;  // what we were opened to accept
  std::unique_ptr<Handshake> handshake_;
  Ref<EventQueue> events_;
};

}  // namespace weft::tcp
