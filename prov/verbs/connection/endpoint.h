// SPDX-License-Identifier: BSD-2-Clause
// Connected endpoints (FI_EP_MSG) on reliable-connected queue pairs: creation, bindings and options of fi_endpoint(3),
// connections of fi_cm(3). Transfers are in TransferEndpoint. objects/cm_state.h decides the steps of a connection;
// this class carries them out with librdmacm.
//
// Owner: its C handle. The mutex of the fabric's engine guards everything.
#pragma once

#include <rdma/fi_endpoint.h>

#include <atomic>
#include <memory>
#include <span>

#include "objects/connected_endpoint.h"
#include "verbs/cm/cm_address.h"
#include "verbs/cm/cm_engine.h"
#include "verbs/cm/cm_errors.h"
#include "verbs/cm/private_data.h"
#include "verbs/connection/connection_properties.h"
#include "verbs/connection/passive_endpoint.h"
#include "verbs/device/parameters.h"
#include "verbs/device/verbs_handles.h"
#include "verbs/transfer/domain_services.h"
#include "verbs/transfer/queues.h"
#include "verbs/transfer/shared_receive.h"
#include "verbs/transfer/transfer_endpoint.h"

namespace weft::verbs {

// The types that ConnectedEndpoint is instantiated with.
struct ConnectedTypes {
  using TransferEndpoint = verbs::TransferEndpoint;
  using Domain = verbs::DomainServices;
  using Address = CmAddress;
  using ConnectRequest = verbs::ConnectRequest;
  using Engine = verbs::CmEngine;
  using CompletionQueue = verbs::CompletionQueue;
  using Counter = verbs::Counter;
  using SharedReceive = verbs::SharedReceive;
  static constexpr bool kSharesTransmits = false;  // the device has a send queue per endpoint
  static constexpr std::size_t kCmDataSize = verbs::kCmDataSize;
};

class Endpoint final : public ConnectedEndpoint<Endpoint, ConnectedTypes>, private CmHandler {
 public:
  // info->handle may name a connection request, or a passive endpoint whose address is inherited. -FI_EINVAL: another.
  static int open(DomainServices& domain, const fi_info* info, fid_ep** ep, void* context);

  // Slots of fi_ops, beside those of ConnectedEndpoint.
  int close();

  // Slots of fi_ops_ep, beside those of ConnectedEndpoint.
  int getopt(int level, int option, void* value, size_t* len);
  int setopt(int level, int option, const void* value, size_t len);

  // Slots of fi_ops_cm, beside those of ConnectedEndpoint.
  int setname(void* name, size_t len);
  int getname(void* name, size_t* len);
  int connect(const void* peer, const void* data, size_t len);
  int accept(const void* data, size_t len);
  int shutdown(uint64_t flags);

 private:
  friend ConnectedEndpoint;

  // State of a connection attempt. It exists only during the attempt, so that an idle endpoint stays small.
  struct Attempt {
    const Clock::time_point started_at = Clock::now();
    Clock::time_point deadline = Clock::time_point::max();  // the present step's, or that of all
    Clock::time_point last_try = Clock::time_point::max();  // no further try starts later
    // Deadlines for resolving the address, then the route; zero: not begun, or done.
    Clock::time_point address_limit, route_limit;
    CmPhase phase = CmPhase::kWaiting;
    unsigned tries = 0;
    bool paused = false;                                          // until the next try
    CmAddress local;                                              // before the first try resolved it
    const char* last_reason = nullptr;                            // why the previous try failed
    PrivateData message;                                          // for the peer
    std::span<const std::byte> answer;                            // from the peer, in the event that is being handled
    EventQueueCore::Reserved event = EventQueueCore::reserve(0);  // FI_CONNECTED, with room for the answer
  };

  Endpoint(DomainServices& domain, const fi_info& info, const CmAddress& local, void* context);
  ~Endpoint() override = default;
  // For open().
  Status take_request(ConnectRequest& request) noexcept;
  Status take_id(PassiveEndpoint& passive) noexcept;
  CmEngine& engine() const noexcept { return domain_->engine(); }
  const Parameters& parameters() const noexcept { return domain_->fabric().parameters; }

  void on_cm_event(const RdmaEvent& event) noexcept override;
  void on_deadline() noexcept override;
  void on_keepalive() noexcept override;
  void on_note() noexcept override;
  void on_device_event(ibv_event_type type, int port) noexcept override;
  void on_qp_event(ibv_event_type type) noexcept override;
  void on_transfer_failed(int wc_status) noexcept override;

  // endpoint_connection.cc
  void enter(CmEvent event, EqError* failure = nullptr) noexcept;
  Status bind_id() noexcept;
  Status start_attempt(const void* data, size_t len) noexcept;
  void limit_attempt(int timeout_ms) noexcept;
  void start_connecting() noexcept;
  void set_options() noexcept;
  int begin_phase(CmPhase phase) noexcept;
  void limit_reads(int responder_resources, int initiator_depth) noexcept;
  rdma_conn_param connection_parameters() const noexcept;
  void send_request() noexcept;
  void send_acceptance() noexcept;
  void on_address_resolved() noexcept;
  Status keep_answer(const RdmaEvent& event) noexcept;
  void on_answer(const RdmaEvent& event) noexcept;
  void on_established(const RdmaEvent& event) noexcept;
  void on_failed_event(const RdmaEvent& event) noexcept;
  void retry_or_fail(const CmFailure& why) noexcept;
  void start_transfers() noexcept;
  void log_connection(const Attempt& attempt) const noexcept;
  void fail(const CmFailure& why, std::span<const std::byte> peer_data = {}) noexcept;
  EqError describe(const CmFailure& why) const noexcept;

  // endpoint_ending.cc
  void schedule_keepalive(Clock::duration pause) noexcept;
  void lose_connection(int error, const char* why) noexcept;
  bool ending() const noexcept { return flush_limit_ != Clock::time_point(); }
  void begin_ending() noexcept;
  void stop_transfers(bool may_stand = false) noexcept;
  bool id_lingers() const noexcept;
  void disconnect() noexcept;
  void settle() noexcept;
  void settle_within(Clock::duration timeout, UniqueLock& lock) noexcept;
  void report_end() noexcept;
  void await_port() noexcept {
    engine().set_deadline(*this, Clock::now() + std::chrono::milliseconds(parameters().port_down_grace_ms));
  }
  void check_port() noexcept;

  // endpoint.cc: creates the queue pair and changes its state; a failure is the errno.
  Status create_queue_pair() noexcept;
  Status ready_queue_pair() noexcept;

  bool port_down_ = false;
  bool peer_may_wait_ = false;  // the connection was established, and the peer has not confirmed its end
  std::uint8_t qp_port_ = 0;    // the queue pair's, as the next one
  std::uint16_t qp_pkey_index_ = 0;
  // Set by other threads for on_note().
  std::atomic<bool> peer_has_sent_{false};
  std::atomic<std::uint16_t> broken_{0};  // fi_errno of the queue pair's failure
  ConnectionProperties properties_;
  CmIdHandle id_;       // bound, connecting or connected
  QueuePairHandle qp_;  // destroyed before the id
  std::unique_ptr<Attempt> attempt_;
  // Until this time the last event waits for the last completion; zero: the connection is not ending.
  Clock::time_point flush_limit_;
};

}  // namespace weft::verbs
