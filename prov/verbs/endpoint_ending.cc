// SPDX-License-Identifier: BSD-2-Clause
// How a connection ends: what is posted is flushed and reported, then the application hears of the end, once; fi_cm(3)
// fi_shutdown. Nothing here waits for the peer, and for the device only a bounded time.
#include <rdma/providers/fi_log.h>

#include <thread>

#include "verbs/device.h"
#include "verbs/endpoint.h"
#include "verbs/fabric.h"
#include "verbs/provider.h"

namespace weft::verbs {
namespace {

using namespace std::chrono_literals;

constexpr Clock::duration kFlushPatience = 2s;  // that long a device may take to flush what was posted
constexpr Clock::duration kLookAgain = 1ms;     // meanwhile
constexpr Clock::duration kCallPatience = 1s;   // the same for fi_shutdown and fi_close, which wait for it

// In calls that wait for the device. Others go on meanwhile.
void nap(UniqueLock& lock) noexcept {
  constexpr std::chrono::microseconds kNap{50};
  lock.unlock();
  std::this_thread::sleep_for(kNap);
  lock.lock();
}

}  // namespace

int Endpoint::shutdown(uint64_t flags) {
  if (flags != 0) return -FI_EBADFLAGS;
  UniqueLock lock(engine().mutex());
  if (Status status = admit(CmEvent::kShutdown); !status.ok()) return status.code();
  if (attempt_ != nullptr)
    fail({FI_ECONNABORTED, FI_ECONNABORTED, "the application shut the endpoint down"});
  else if (ending_ == nullptr)
    enter(CmEvent::kShutdown);
  // "All canceled completions will be written before fi_shutdown returns."
  settle_within(kCallPatience, lock);
  return 0;
}

// The mutex is free while the kernel destroys what we had: that may take long, and meanwhile nobody knows of us any
// more.
int Endpoint::close() {
  CmIdHandle id;
  QueuePairHandle queue_pair;
  {
    UniqueLock lock(engine().mutex());
    if (attempt_ != nullptr) id = std::move(id_);  // its end tells a peer that has heard of us
    closing_ = true;
    enter(CmEvent::kClose);
    ending_.reset();
    request_.reset();
    engine().forget(*this);
    if (id_ != nullptr && peer_may_wait_)
      engine().bid_farewell(std::move(id_));
    else if (id_ != nullptr)
      id = std::move(id_);
    if (id != nullptr) id->context = nullptr;
    if (transfers_enabled()) {
      stop(0);
      if (!idle()) break_queue_pair();
      const auto limit = Clock::now() + kCallPatience;
      while (!drain() && Clock::now() < limit) nap(lock);
    }
    queue_pair = std::move(qp_);
  }
  queue_pair.reset();
  id.reset();
  {
    Lock lock(engine().mutex());
    if (transfers_enabled()) abandon();
    engine().forget(*this);  // the queue pair may have raised events until it was gone
  }
  release_events(events_, engine(), abi.fid);
  delete this;
  return 0;
}

// A connection that stood has ended, for a positive errno and a reason unless the peer just closed it.
void Endpoint::lose_connection(int error, const char* why) noexcept {
  if (ending_ != nullptr) return;
  if (why != nullptr)
    FI_WARN(&provider(), FI_LOG_EP_CTRL, "the connection over %s is lost: %s\n", domain_.device().name(), why);
  ending_.reset(new (std::nothrow) Ending);
  stop_transfers(error, why == nullptr);
  if (error == FI_ENODEV) {  // the kernel waits until everything on the device is gone
    qp_.reset();
    abandon();
    id_.reset();
  }
  if (ending_ == nullptr) return enter(CmEvent::kStreamEnd);
  settle();
}

// Idempotent. The peer learns of it from the connection manager.
void Endpoint::stop_transfers(int error, bool peer_left) noexcept {
  if (!transfers_enabled()) return;
  // Where nothing is posted, there is nothing to flush; whatever is until stop(), drain() finds and flushes. Then it is
  // the destruction of the queue pair that stops the peer, unless that has left already.
  const bool may_stand = closing_ || (peer_left && !has_shared_receive());
  if (!may_stand || !idle()) break_queue_pair();
  // Where that fails, the end of the id tells the peer.
  if (id_ != nullptr && attempt_ == nullptr && qp_ != nullptr && rdma_disconnect(id_.get()) != 0) id_.reset();
  stop(error);
}

// Drops a half-made connection: the id's end tells a peer that has heard of us.
void Endpoint::hang_up() noexcept {
  attempt_.reset();
  engine().end_turn(*this);
  engine().clear_deadline(*this);
  id_.reset();
}

// Looks whether everything posted has completed; else comes back.
void Endpoint::settle() noexcept {
  const Clock::time_point now = Clock::now();
  if (ending_->limit == Clock::time_point()) ending_->limit = now + kFlushPatience;
  if (transfers_enabled() && !drain()) {
    if (now < ending_->limit) return engine().set_deadline(*this, now + kLookAgain);
    FI_WARN(&provider(), FI_LOG_EP_CTRL, "%s does not flush a queue pair\n", domain_.device().name());
    qp_.reset();
    abandon();
  }
  report_end();
}

void Endpoint::settle_within(Clock::duration patience, UniqueLock& lock) noexcept {
  const Clock::time_point limit = Clock::now() + patience;
  while (ending_ != nullptr) {
    if (Clock::now() >= limit) ending_->limit = limit;
    settle();
    if (ending_ != nullptr) nap(lock);
  }
}

void Endpoint::report_end() noexcept {
  const std::unique_ptr<Ending> ending = std::move(ending_);
  engine().clear_deadline(*this);
  state_ = next(state_, CmEvent::kStreamEnd).state;
  if (ending->failed)
    events_->post_error(std::move(ending->failure));
  else
    events_->post_cm(FI_SHUTDOWN, &abi.fid, nullptr, nullptr, 0);
}

// ---- Notes from elsewhere ----

void Endpoint::on_note() noexcept {
  if (attempt_ != nullptr && attempt_->phase == CmPhase::kWaiting && state_ == CmState::kConnecting &&
      !attempt_->paused)
    return dial();
  if (peer_is_talking_.exchange(false) && state_ == CmState::kAnswering) rdma_notify(id_.get(), IBV_EVENT_COMM_EST);
  if (const int error = broken_.exchange(0); error != 0 && state_ == CmState::kConnected)
    lose_connection(error, error == FI_ETIMEDOUT ? "the peer does not answer" : "the queue pair broke");
}

void Endpoint::on_transfer_failed(int wc_status) noexcept {
  broken_ = wc_status == IBV_WC_RETRY_EXC_ERR ? FI_ETIMEDOUT : FI_EIO;
  engine().note(*this);
}

void Endpoint::on_qp_event(ibv_event_type type) noexcept {
  if (type == IBV_EVENT_COMM_EST)
    peer_is_talking_ = true;
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
  if (port_down_ && state_ == CmState::kConnected && ending_ == nullptr) await_port();
}

void Endpoint::await_port() noexcept {
  engine().set_deadline(*this, Clock::now() + std::chrono::milliseconds(parameters().port_down_grace_ms));
}

// A port that came back in time has lost nothing: what was under way is sent again.
void Endpoint::check_port() noexcept {
  const auto port = domain_.device().port(id_->port_num);
  port_down_ = false;
  if (!port || !port->active()) lose_connection(FI_ENETDOWN, "the port is down");
}

}  // namespace weft::verbs
