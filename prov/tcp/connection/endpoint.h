// SPDX-License-Identifier: BSD-2-Clause
// Connected endpoints (FI_EP_MSG): creation, bindings and options of fi_endpoint(3), connections of fi_cm(3). Transfers
// are TransferEndpoint's. cm_state.h decides the transitions; this class carries out their actions.
//
// Owner: its C handle. The mutex of the domain's engine guards everything.
#pragma once

#include <rdma/fi_endpoint.h>

#include <memory>

#include "objects/address.h"
#include "objects/connected_endpoint.h"
#include "tcp/connection/cm_message.h"
#include "tcp/connection/connect_request.h"
#include "tcp/connection/handshake.h"
#include "tcp/connection/shared_receive.h"
#include "tcp/connection/transfer_endpoint.h"

namespace weft::tcp {

// Types that ConnectedEndpoint is built from.
struct ConnectedTypes {
  using TransferEndpoint = tcp::TransferEndpoint;
  using Domain = tcp::Domain;
  using Address = weft::Address;
  using ConnectRequest = tcp::ConnectRequest;
  using Engine = tcp::Engine;
  using CompletionQueue = tcp::CompletionQueue;
  using Counter = tcp::Counter;
  using SharedReceive = tcp::SharedReceive;
  static constexpr bool kSharesTransmits = true;
  static constexpr std::size_t kCmDataSize = tcp::kCmDataSize;
};

class Endpoint final : public ConnectedEndpoint<Endpoint, ConnectedTypes> {
 public:
  // info->handle may name a connection request, or a passive endpoint whose address is inherited; -FI_EINVAL for
  // others.
  static int open(Domain& domain, const fi_info* info, fid_ep** ep, void* context);

  // Slots of fi_ops, beside those of ConnectedEndpoint.
  int close();
  int ops_open(const char* name, uint64_t flags, void** ops, void* context);

  // Slots of fi_ops_cm, beside those of ConnectedEndpoint.
  int setname(void* name, size_t len);
  int getname(void* name, size_t* len);
  int connect(const void* peer, const void* data, size_t len);
  int accept(const void* data, size_t len);
  int shutdown(uint64_t flags);

  void on_stream_end(int error) noexcept override;
  void on_half_shutdown() noexcept override { report_end(); }
  LocalHost& local_host() noexcept override { return domain_->parts().local_host; }

 private:
  friend ConnectedEndpoint;

  // Leads from the handshake's watch to the endpoint.
  struct OwnHandshake : Handshake {
    OwnHandshake(Endpoint& owner, UniqueFd opened) noexcept;
    Endpoint& endpoint;
    EventQueueCore::Reserved event;  // FI_CONNECTED
  };

  using ConnectedEndpoint::ConnectedEndpoint;
  ~Endpoint() override = default;

  void enter(CmEvent event, EqError* failure = nullptr) noexcept;
  // Once: the peer's half shutdown is reported as FI_SHUTDOWN already.
  void report_end() noexcept {
    if (last_event_ != nullptr) events_->post_end(std::move(last_event_), &abi.fid);
  }
  Result<UniqueFd> open_active_socket(const Address& peer) noexcept;
  int shut_down_half(uint64_t half) noexcept;
  bool is_readable() noexcept;
  int read_peer(std::span<const iovec> to, std::uint64_t from, std::size_t len) noexcept;
  // The handshake's socket became ready.
  void proceed() noexcept { settle(handshake_->proceed(peer_)); }
  void settle(Handshake::Step step) noexcept;
  void on_answer() noexcept;
  void agree(const CmMessage& theirs, bool active) noexcept;
  void start_transfers(bool answered) noexcept;
  void fail(int error, const char* why) noexcept;
  EqError describe(int error, const char* why) const noexcept;
  void on_rejected() noexcept;

  bool swap_bytes_ = false;
  bool starting_ = false;
  bool ended_early_ = false;  // the stream ended while it was being started
  UniqueFd bound_;            // bound to local_ until connect()
  std::unique_ptr<OwnHandshake> handshake_;
};

}  // namespace weft::tcp
