// SPDX-License-Identifier: BSD-2-Clause
// A listening socket: accepts connections and receives their requests; fi_cm(3), fi_listen. Peers cannot exhaust it:
// silent connections are bounded in number and time, and unanswered requests are bounded by the backlog, while later
// ones wait in the system's queue.
#pragma once

#include <memory>

#include "base/list.h"
#include "base/ref.h"
#include "objects/event_queue.h"
#include "objects/info.h"
#include "tcp/connection/connect_request.h"
#include "tcp/domain.h"

namespace weft::tcp {

// The engine's mutex guards it.
class Listener : public Watch {
 public:
  Engine& engine() noexcept { return engine_; }

  // With the engine's mutex held.
  Status start() noexcept;
  void set_backlog(std::size_t backlog) noexcept;
  // Stops accepting; half-open connections are dropped.
  void close() noexcept;

 protected:
  Listener(Engine& engine, UniqueFd socket, const Address& local, const Parameters& parameters,
           std::size_t backlog) noexcept;
  virtual ~Listener() = default;

  // The request is complete. The override keeps it after leave_half_open(), or calls drop().
  virtual void on_request(ConnectRequest& request) noexcept = 0;
  // No connection is waiting. An override may prepare for the next one.
  virtual void on_quiet() noexcept {}

  void drop(ConnectRequest& request, int error) noexcept;
  void leave_half_open(ConnectRequest& request) noexcept;
  // Requests that the application has not answered yet.
  void add_pending() noexcept { ++pending_count_; }
  void remove_pending() noexcept;

  const Address local_;

 private:
  void accept_connections() noexcept;
  bool has_room() noexcept;
  void admit(UniqueFd socket, const Address& peer) noexcept;
  void proceed(ConnectRequest& request) noexcept;
  void pause(int error) noexcept;

  Engine& engine_;
  UniqueFd socket_;
  const Clock::duration request_timeout_;  // for a connection to send its request
  std::size_t backlog_;
  bool paused_ = false;    // connections may be waiting in the system's queue
  bool notified_ = false;  // a request became complete since connections were last accepted
  std::size_t half_open_count_ = 0;
  std::size_t pending_count_ = 0;
  List<ConnectRequest, RequestTag> half_open_;  // oldest first
};

// The listener of a passive endpoint: reports requests as FI_CONNREQ. Shared by the endpoint and by the requests that
// the application still holds; its engine is the event queue's own.
class EventListener final : public Listener, public std::enable_shared_from_this<EventListener> {
 public:
  // `prototype`: the passive endpoint's info; requests' infos are copies of it, made until stop().
  EventListener(Engine& engine, Fabric& fabric, ::fid& endpoint, EventQueueCore& events, const fi_info& prototype,
                UniqueFd socket, const Address& local, std::size_t backlog) noexcept;
  ~EventListener() override = default;

  // The end, in three steps, which take the engine's mutex: stops accepting; rejects the requests in `unread`; leaves
  // the others to the application, which may still open endpoints for them, and to the fabric.
  void stop() noexcept {
    Lock lock(engine().mutex());
    Listener::close();
  }
  void reject(InfoPtr unread) noexcept;
  void leave_requests() noexcept;
  // The application has decided on a request; the caller owns it from now on. Takes the engine's mutex.
  static void release(ConnectRequest& request) noexcept;

 private:
  void on_request(ConnectRequest& request) noexcept override;
  void on_quiet() noexcept override {
    if (spare_ == nullptr) spare_.reset(duplicate_info(&prototype_));
  }

  Fabric& fabric_;
  ::fid& endpoint_;
  const Ref<EventQueueCore> events_;
  const fi_info& prototype_;
  InfoPtr spare_;  // a copy made in advance for the next request
  List<ConnectRequest, RequestTag> pending_;
};

}  // namespace weft::tcp
