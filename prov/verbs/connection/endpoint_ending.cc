// SPDX-License-Identifier: BSD-2-Clause
// The end of a connection: posted operations are flushed and reported, then FI_SHUTDOWN or an error is posted, once;
// fi_cm(3) fi_shutdown. Nothing here waits for the peer, and waiting for the device is bounded. Keepalive finds
// connections that have ended unnoticed.
#include <rdma/providers/fi_log.h>

#include <thread>

#include "verbs/connection/endpoint.h"
#include "verbs/device/device.h"
#include "verbs/device/event_targets.h"
#include "verbs/device/logging.h"

namespace weft::verbs {
namespace {

using namespace std::chrono_literals;

constexpr Clock::duration kFlushTimeout = 2s;  // for the device to flush posted operations
constexpr Clock::duration kFlushCheck = 1ms;   // interval between checks of that
constexpr Clock::duration kCallTimeout = 1s;   // fi_shutdown and fi_close wait for the flush

constexpr Clock::duration kProbeCheck = 1s;  // from a probe until the check for its completion
constexpr int kStepsPerPeriod = 16;          // the checks of all connections are aligned to this many times in a period

// For calls that wait for the device. Releases the engine's mutex meanwhile.
void pause(UniqueLock& lock) noexcept {
  constexpr std::chrono::microseconds kPause{50};
  lock.unlock();
  std::this_thread::sleep_for(kPause);
  lock.lock();
}

}  // namespace

int Endpoint::shutdown(uint64_t flags) {
  if (flags != 0) return -FI_EBADFLAGS;
  UniqueLock lock(engine().mutex());
  if (Status status = admit(CmEvent::kShutdown); !status.ok()) return status.code();
  if (attempt_ != nullptr)
    fail({FI_ECONNABORTED, FI_ECONNABORTED, "the application shut the endpoint down"});
  else if (!ending())
    enter(CmEvent::kShutdown);
  // "All canceled completions will be written before fi_shutdown returns."
  settle_within(kCallTimeout, lock);
  return 0;
}

// The kernel may take long to destroy the queue pair and the id. That happens without the mutex, when nothing refers to
// the endpoint any more.
int Endpoint::close() {
  if (in_use()) return -FI_EBUSY;
  CmIdHandle id;
  QueuePairHandle queue_pair;
  {
    UniqueLock lock(engine().mutex());
    if (attempt_ != nullptr && !id_lingers()) id = std::move(id_);  // a peer that has the request is notified
    enter(CmEvent::kClose);
    flush_limit_ = {};
    request_.reset();
    engine().forget(*this);
    if (id_ != nullptr && peer_may_wait_)
      engine().send_idle_close(std::move(id_));
    else if (id_ != nullptr)
      id = std::move(id_);
    if (id != nullptr) id->context = nullptr;
    if (transfers_enabled()) {
      stop();
      if (!idle()) break_queue_pair(qp_.get());
      if (!drain()) {
        const auto limit = Clock::now() + kCallTimeout;
        do pause(lock);
        while (!drain() && Clock::now() < limit);
      }
    }
    queue_pair = std::move(qp_);
  }
  queue_pair.reset();
  id.reset();
  {
    Lock lock(engine().mutex());
    if (transfers_enabled()) abandon();
    engine().forget(*this);  // the queue pair may have raised events until it was destroyed
  }
  EventTargets::remove(static_cast<CmHandler*>(this));
  release_events(events_, engine(), abi.fid);
  delete this;
  return 0;
}

// An established connection has ended. `error` is a positive errno with its reason `why`; null: the peer closed it.
void Endpoint::lose_connection(int error, const char* why) noexcept {
  if (ending()) return;
  if (why != nullptr)
    FI_WARN(&provider(), FI_LOG_EP_CTRL, "connection with %s closed: %s (device %s)\n", peer_.to_string().c_str(), why,
            domain_->device().name());
  begin_ending();
  stop_transfers(why == nullptr && !has_shared_receive());
  if (error == FI_ENODEV) {  // the kernel waits until every object of the device is destroyed
    qp_.reset();
    abandon();
    id_.reset();
  }
  settle();
}

// Idempotent. The connection manager notifies the peer. `may_stand`: the queue pair may stay out of the error state if
// nothing is posted, because it is about to be destroyed, or the peer has disconnected. drain() flushes operations that
// are posted until stop().
void Endpoint::stop_transfers(bool may_stand) noexcept {
  if (!transfers_enabled()) return;
  if (!may_stand || !idle()) break_queue_pair(qp_.get());
  // If disconnecting fails, destroying the id notifies the peer.
  if (id_ != nullptr && attempt_ == nullptr && qp_ != nullptr && rdma_disconnect(id_.get()) != 0) id_.reset();
  stop();
}

// On iWARP the kernel destroys the id of a request only once it is answered, which may take ten seconds.
bool Endpoint::id_lingers() const noexcept {
  return attempt_ != nullptr && attempt_->phase == CmPhase::kRequest && domain_->device().is_iwarp();
}

// Drops an unfinished connection. Destroying the id notifies a peer that has the request.
void Endpoint::disconnect() noexcept {
  const bool lingers = id_lingers();
  attempt_.reset();
  engine().end_turn(*this);
  engine().clear_deadline(*this);
  if (lingers && id_ != nullptr)
    engine().send_idle_close(std::move(id_));
  else
    id_.reset();
}

void Endpoint::begin_ending() noexcept {
  if (!ending()) flush_limit_ = Clock::now() + kFlushTimeout;
}

// Reports the end once everything posted has completed; until then it sets a deadline for the next check.
void Endpoint::settle() noexcept {
  if (transfers_enabled() && !drain()) {
    const Clock::time_point now = Clock::now();
    if (now < flush_limit_) return engine().set_deadline(*this, now + kFlushCheck);
    FI_WARN(&provider(), FI_LOG_EP_CTRL, "%s did not flush a queue pair in time\n", domain_->device().name());
    qp_.reset();
    abandon();
  }
  report_end();
}

void Endpoint::settle_within(Clock::duration timeout, UniqueLock& lock) noexcept {
  const Clock::time_point limit = Clock::now() + timeout;
  while (ending()) {
    if (Clock::now() >= limit) flush_limit_ = limit;
    settle();
    if (ending()) pause(lock);
  }
}

void Endpoint::report_end() noexcept {
  flush_limit_ = {};
  engine().clear_deadline(*this);
  state_ = next(state_, CmEvent::kStreamEnd).state;
  events_->post_end(std::move(last_event_), &abi.fid);
}

// ---- Notes of other threads ----

void Endpoint::on_note() noexcept {
  if (attempt_ != nullptr && attempt_->phase == CmPhase::kWaiting && state_ == CmState::kConnecting &&
      !attempt_->paused)
    return start_connecting();
  if (peer_has_sent_.exchange(false) && state_ == CmState::kAnswering) rdma_notify(id_.get(), IBV_EVENT_COMM_EST);
  const int error = broken_.exchange(0);
  if (error == 0) return;
  const char* const why = error == FI_ETIMEDOUT ? "the peer does not answer" : "the queue pair broke";
  if (state_ == CmState::kConnected) lose_connection(error, why);
  if (state_ == CmState::kAnswering) fail({error, error, why});
}

void Endpoint::on_transfer_failed(int wc_status) noexcept {
  broken_ = wc_status == IBV_WC_RETRY_EXC_ERR ? FI_ETIMEDOUT : FI_EIO;
  engine().note(*this);
}

void Endpoint::on_qp_event(ibv_event_type type) noexcept {
  if (type == IBV_EVENT_COMM_EST)
    peer_has_sent_ = true;
  else
    broken_ = FI_EIO;
  engine().note(*this);
}

void Endpoint::on_device_event(ibv_event_type type, int port) noexcept {
  if (type == IBV_EVENT_DEVICE_FATAL) {
    if (state_ == CmState::kConnected) lose_connection(FI_EIO, "the device reports a fatal error");
    return;
  }
  if (id_ == nullptr || id_->port_num != port) return;
  port_down_ = type == IBV_EVENT_PORT_ERR;
  if (port_down_ && state_ == CmState::kConnected && !ending()) await_port();
}

// If the port is up again, nothing is lost: the device retries the transfers that were under way.
void Endpoint::check_port() noexcept {
  if (state_ != CmState::kConnected) return;
  if (std::exchange(port_down_, false)) {
    const auto port = domain_->device().port(id_->port_num);
    if (!port || !port->active()) return lose_connection(FI_ENETDOWN, "the port is down");
  }
  schedule_keepalive(std::chrono::seconds(parameters().keepalive_s));  // the port's deadline has replaced it
}

// ---- Keepalive ----

// Detects that the peer's host died or that the wire was cut on a connection that sends nothing. It probes the peer's
// device now and then with an RDMA write of no bytes, which needs no memory there and which no application sees.
// Without an answer the device breaks the queue pair after its retries. ibv_post_send(3).
void Endpoint::on_keepalive() noexcept {
  if (state_ != CmState::kConnected || ending()) return;
  const Clock::duration period = std::chrono::seconds(parameters().keepalive_s);
  schedule_keepalive(probe() ? std::min(period / 4, kProbeCheck) : period);
}

void Endpoint::schedule_keepalive(Clock::duration pause) noexcept {
  const Clock::duration period = std::chrono::seconds(parameters().keepalive_s);
  if (period == 0s) return;
  const Clock::duration step = period / kStepsPerPeriod;
  const Clock::time_point at = Clock::now() + pause;
  engine().set_keepalive(*this, at + (step - at.time_since_epoch() % step));
}

}  // namespace weft::verbs
