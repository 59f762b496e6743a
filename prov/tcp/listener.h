// SPDX-License-Identifier: BSD-2-Clause
// A listening socket at work: accepts connections, collects their requests, announces them as FI_CONNREQ; fi_cm(3),
// fi_listen. Nobody can wear it down: silent connections are bounded in number and time, and requests that the
// application has not answered stay within its backlog, while later ones wait in the system's queue.
//
// Shared by the passive endpoint and by the requests that the application still holds. The engine's mutex guards it.
#pragma once

#include <memory>

#include "base/list.h"
#include "base/ref.h"
#include "objects/event_queue.h"
#include "objects/info.h"
#include "tcp/connect_request.h"
#include "tcp/engine.h"
#include "tcp/fabric.h"

namespace weft::tcp {

class Listener final : public Watch, public std::enable_shared_from_this<Listener> {
 public:
  // `prototype`: the passive endpoint's info, from which those of its requests are made.
  Listener(std::unique_ptr<Engine> engine, Fabric& fabric, ::fid* endpoint, EventQueueCore& events, InfoPtr prototype,
           UniqueFd socket, const Address& local, int backlog) noexcept;

  Engine& engine() noexcept { return *engine_; }

  // These take the engine's mutex.
  Status start() noexcept;
  void set_backlog(int backlog) noexcept;
  // Rejects what is pending and accepts no more.
  void close() noexcept;
  // The application has decided on a request of ours; the caller owns it from now on.
  static void release(ConnectRequest& request) noexcept;

 private:
  void accept_connections() noexcept;
  bool has_room() noexcept;
  bool admit(UniqueFd socket, const Address& peer) noexcept;
  void proceed(ConnectRequest& request) noexcept;
  void announce(ConnectRequest& request) noexcept;
  void drop(ConnectRequest& request, int error) noexcept;
  void pause(int error) noexcept;
  void leave_half_open(ConnectRequest& request) noexcept;

  const std::unique_ptr<Engine> engine_;
  Fabric& fabric_;
  ::fid* const endpoint_;
  const Ref<EventQueueCore> events_;
  const InfoPtr prototype_;
  UniqueFd socket_;
  const Address local_;
  const Clock::duration patience_;  // how long a connection may take to send its request
  std::size_t backlog_;
  bool paused_ = false;  // connections may be waiting in the system's queue
  std::size_t half_open_count_ = 0;
  std::size_t pending_count_ = 0;
  List<ConnectRequest, RequestTag> half_open_;  // oldest first
  List<ConnectRequest, RequestTag> pending_;
};

}  // namespace weft::tcp
