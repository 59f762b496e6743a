// SPDX-License-Identifier: BSD-2-Clause
// What drives connections: one rdma event channel for all endpoints of a fabric, their deadlines, the devices'
// asynchronous events, and notes from the data path, all behind one descriptor. Event queues drive it when they are
// read, and with FI_PROGRESS_AUTO a thread does. rdma_cm(7), fi_cm(3), fi_domain(3) PROGRESS.
//
// Every event is copied and acknowledged before it is acted on, so destroying an id never waits for us. The kernel may
// take its time, so an id that is given up is destroyed without the mutex where that can be; `context` is null then.
#pragma once

#include <rdma/rdma_cma.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "base/deadline.h"
#include "base/deadline_queue.h"
#include "base/list.h"
#include "base/mutex.h"
#include "base/service_thread.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "verbs/cm_address.h"
#include "verbs/cm_event.h"
#include "verbs/device.h"

namespace weft::verbs {

struct CmDeadlineTag;
struct CmNoteTag;
struct CmTurnTag;
struct CmDeviceTag;
struct CmKeepaliveTag;

// Whoever owns an rdma_cm_id: endpoints and listeners. Its functions are called with the engine's mutex held, and may
// destroy it.
class CmHandler : public ListHook<CmDeadlineTag>,
                  public ListHook<CmNoteTag>,
                  public ListHook<CmTurnTag>,
                  public ListHook<CmDeviceTag>,
                  public ListHook<CmKeepaliveTag> {
 public:
  virtual void on_cm_event(const RdmaEvent& event) noexcept = 0;
  virtual void on_deadline() noexcept = 0;
  virtual void on_keepalive() noexcept {}  // the moment of set_keepalive() has come
  // note() was called, or it is its turn now (take_turn()).
  virtual void on_note() noexcept = 0;
  // The device or one of its ports changed: IBV_EVENT_DEVICE_FATAL, _PORT_ERR, _PORT_ACTIVE.
  virtual void on_device_event(ibv_event_type type, int port) noexcept = 0;
  // IBV_EVENT_QP_FATAL and its like, of a queue pair whose qp_context this handler is. From any thread, under another
  // engine's mutex: it may do no more than note().
  virtual void on_qp_event(ibv_event_type type) noexcept = 0;

 protected:
  ~CmHandler() = default;

 private:
  friend class CmEngine;
  Clock::time_point deadline_;
  Clock::time_point keepalive_;
  bool has_turn_ = false;
};

// Owner: the fabric. Meets ProgressEngine.
class CmEngine {
 public:
  // -FI_ENODEV, -FI_EACCES: no /dev/infiniband/rdma_cm, or it may not be opened.
  static Result<std::unique_ptr<CmEngine>> open(int max_connecting);
  ~CmEngine();
  CmEngine(const CmEngine&) = delete;
  CmEngine& operator=(const CmEngine&) = delete;

  Mutex& mutex() noexcept { return mutex_; }

  // Meets ProgressEngine.
  void drive() noexcept;
  static constexpr bool kShowsAllWork = true;
  bool prepare_wait() noexcept {
    slept_.store(true, std::memory_order_relaxed);
    return true;
  }
  int wait_fd() const noexcept { return epoll_.get(); }

  // Whether one more queue may watch wait_fd(). The kernel limits the ways that an event may take through epoll
  // descriptors (EINVAL), and wakes all of them: beyond a few, false, and a thread drives from then on.
  bool admit_watcher() noexcept;
  void dismiss_watcher() noexcept { watchers_.fetch_sub(1, std::memory_order_relaxed); }

  // From now on a thread drives (FI_PROGRESS_AUTO); it ends with the engine.
  Status start_service_thread();

  // From any thread, under any lock but this engine's: on_note() will be called soon.
  void note(CmHandler& handler) noexcept;

  // The rest: with the mutex held.
  // Events of connections that are there already. Whoever starts many connects asks in vain less often than not.
  void drive_connections() noexcept { run_cm_events(); }
  Result<CmIdHandle> create_id(CmHandler& handler, rdma_port_space space) noexcept;
  // The same, bound to `local`, which receives the port that was chosen.
  Result<CmIdHandle> create_bound_id(CmHandler& handler, CmAddress& local) noexcept;
  // One deadline a handler; setting another replaces it.
  void set_deadline(CmHandler& handler, Clock::time_point at) noexcept { deadlines_.set(handler, at); }
  void clear_deadline(CmHandler& handler) noexcept { deadlines_.cancel(handler); }
  // Apart from deadlines: every connection has one of these, all about as far ahead, so that each is set in no time.
  void set_keepalive(CmHandler& handler, Clock::time_point at) noexcept { keepalives_.set(handler, at); }
  // Admission: at most max_connecting requests are on the wire at once. true: now. false: on_note() will be called.
  bool take_turn(CmHandler& handler) noexcept;
  void end_turn(CmHandler& handler) noexcept;
  // Asynchronous events of the device (CmHandler::on_device_event) until forget().
  Status watch_device(Device& device, CmHandler& handler) noexcept;
  // The id of a connection that has been disconnected: it lives on for as long as the peer has not confirmed that,
  // within limits, because the message is repeated only while there is an id.
  void bid_farewell(CmIdHandle id) noexcept;
  // Before a handler goes away; its ids must be gone already, or have another context.
  void forget(CmHandler& handler) noexcept;

 private:
  struct Watched;
  class Farewell;
  struct DeviceEvent {
    ibv_context* context;
    ibv_event_type type;
    int port;
  };
  explicit CmEngine(int max_connecting) noexcept;
  Status open_descriptors() noexcept;
  void progress() noexcept;
  bool run_cm_events() noexcept;  // whether there was one
  bool run_cm_event() noexcept;
  void run_notes() noexcept;
  void end_farewell(Farewell& farewell) noexcept;
  void run_async_events(Watched& watched) noexcept;
  static void tell_all(const DeviceEvent& event) noexcept;
  void wake() noexcept { net::event_signal(wake_.get()); }

  Mutex mutex_;
  UniqueFd epoll_, wake_;
  struct DestroyChannel {
    void operator()(rdma_event_channel* channel) const noexcept { rdma_destroy_event_channel(channel); }
  };
  std::unique_ptr<rdma_event_channel, DestroyChannel> channel_;
  DeadlineQueue<CmHandler, CmDeadlineTag, &CmHandler::deadline_> deadlines_;
  DeadlineQueue<CmHandler, CmKeepaliveTag, &CmHandler::keepalive_> keepalives_;
  List<CmHandler, CmTurnTag> waiting_turns_;
  int turns_left_;
  List<Farewell> farewells_;  // oldest first
  List<Farewell> answered_;   // and those that are over, to be destroyed without the mutex
  std::size_t farewell_count_ = 0;
  std::vector<std::unique_ptr<Watched>> watched_;
  unsigned events_expected_ = 1;    // of rdma_cm, whenever there is one
  unsigned lone_events_ = 0;        // that came one at a time, one after the other
  std::atomic<bool> slept_{false};  // whoever drives next was woken, by an event of rdma_cm most likely
  unsigned rounds_unasked_ = 0;     // of progress(), since it asked for all sources

  MutexLock notes_mutex_;  // guards these two; innermost
  List<CmHandler, CmNoteTag> notes_;
  std::vector<DeviceEvent> device_events_;

  std::atomic<unsigned> watchers_{0};
  ServiceThread service_;
};

}  // namespace weft::verbs
