// SPDX-License-Identifier: BSD-2-Clause
// The connection engine of a fabric: one rdma event channel for all endpoints, their deadlines, the devices'
// asynchronous events, and notes from the data path, all behind one descriptor. Reading an event queue drives it; with
// FI_PROGRESS_AUTO a thread does. rdma_cm(7), fi_cm(3), fi_domain(3) PROGRESS.
//
// Every event is copied and acknowledged before its handler runs, so rdma_destroy_id never waits for an
// acknowledgement. It may be slow in the kernel, so ids are destroyed without the mutex where possible; their `context`
// is null then.
#pragma once

#include <rdma/rdma_cma.h>

#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/deadline.h"
#include "base/deadline_queue.h"
#include "base/list.h"
#include "base/mutex.h"
#include "base/ref.h"
#include "base/service_thread.h"
#include "base/status.h"
#include "base/unique_fd.h"
#include "objects/passive_handles.h"
#include "objects/shared_info.h"
#include "verbs/cm/cm_address.h"
#include "verbs/device/device.h"
#include "verbs/device/parameters.h"
#include "verbs/device/verbs_handles.h"

namespace weft::verbs {

// An event of librdmacm; rdma_get_cm_event(3).
struct RdmaEvent {
  rdma_cm_event_type type;
  int status;
  rdma_cm_id* id;         // RDMA_CM_EVENT_CONNECT_REQUEST: a new one, owned by the handler from then on
  rdma_conn_param param;  // its private data is below
  rdma_ud_param ud;       // instead of `param` for datagram services and groups; the same for its private data
  std::array<std::byte, 256> private_data;

  std::span<const std::byte> data() const noexcept { return {private_data.data(), param.private_data_len}; }
};

struct CmTimerTag;
struct CmNoteTag;
struct CmTurnTag;
struct CmDeviceTag;

// An owner of an rdma_cm_id, such as an endpoint or a listener. Its functions are called with the engine's mutex held
// and may destroy the handler.
class CmHandler : public ListHook<CmTimerTag>,
                  public ListHook<CmNoteTag>,
                  public ListHook<CmTurnTag>,
                  public ListHook<CmDeviceTag> {
 public:
  virtual void on_cm_event(const RdmaEvent& event) noexcept = 0;
  virtual void on_deadline() noexcept {}
  virtual void on_keepalive() noexcept {}  // the time given to set_keepalive() has passed
  // note() was called, or a turn became free (take_turn()).
  virtual void on_note() noexcept {}
  // The device or one of its ports changed: IBV_EVENT_DEVICE_FATAL, _PORT_ERR, _PORT_ACTIVE.
  virtual void on_device_event(ibv_event_type, int /*port*/) noexcept {}
  // IBV_EVENT_QP_FATAL or another event of a queue pair whose qp_context is this handler. Called from any thread, under
  // another engine's mutex: an override may only call note().
  virtual void on_qp_event(ibv_event_type) noexcept {}

 protected:
  ~CmHandler() = default;

 private:
  friend class CmEngine;
  Clock::time_point timer_;  // the deadline, or the time of on_keepalive()
  bool has_turn_ = false;
};

// Owner: the fabric. Satisfies ProgressEngine.
class CmEngine {
 public:
  // -FI_ENODEV: no /dev/infiniband/rdma_cm; -FI_EACCES: no permission to open it.
  static Result<std::unique_ptr<CmEngine>> open(int max_connecting);
  ~CmEngine();

  Mutex& mutex() noexcept { return mutex_; }

  // ProgressEngine.
  void drive() noexcept;
  static constexpr bool kShowsAllWork = true;
  bool prepare_wait() noexcept {
    slept_.store(true, std::memory_order_relaxed);
    return true;
  }
  int wait_fd() const noexcept { return epoll_.get(); }

  std::atomic<unsigned> watchers{0};  // see objects/progress.h

  // Starts the thread of FI_PROGRESS_AUTO; it ends with the engine.
  Status start_service_thread();

  // Schedules a call of on_note(). From any thread, under any lock but this engine's.
  void note(CmHandler& handler) noexcept;

  // The functions below need the mutex.
  // Handles events that have arrived already. Cheap for a program that starts many connects: usually there are some.
  void drive_connections() noexcept { run_cm_events(); }
  Result<CmIdHandle> create_id(CmHandler& handler, rdma_port_space space) noexcept;
  // create_id() bound to `local`, in which the chosen port is stored.
  Result<CmIdHandle> create_bound_id(CmHandler& handler, CmAddress& local) noexcept;
  // From now on this engine reports the events of `id`, which another fabric's may have reported until now. Events that
  // it has not handled yet come here as well.
  Status adopt(rdma_cm_id& id) noexcept;
  // One deadline per handler; a new one replaces it, and the keepalive as well.
  void set_deadline(CmHandler& handler, Clock::time_point at) noexcept { deadlines_.set(handler, at); }
  void clear_deadline(CmHandler& handler) noexcept { deadlines_.cancel(handler); }
  // Replaces the deadline. A queue apart: every connection has one, all about equally far ahead, so setting one is
  // cheap.
  void set_keepalive(CmHandler& handler, Clock::time_point at) noexcept { keepalives_.set(handler, at); }
  // Admission: at most max_connecting requests are on the wire at once. true: the caller may start. false: on_note()
  // will be called.
  bool take_turn(CmHandler& handler) noexcept;
  void end_turn(CmHandler& handler) noexcept;
  // Asynchronous events of the device (CmHandler::on_device_event) until forget().
  Status watch_device(Device& device, CmHandler& handler) noexcept;
  // Takes the id of a disconnected connection and keeps it until the peer has confirmed, within limits: the kernel
  // repeats the disconnect message only as long as the id exists.
  void send_idle_close(CmIdHandle id) noexcept;
  // Before a handler is destroyed. Its ids must have been destroyed, or have another context.
  void forget(CmHandler& handler) noexcept;

 private:
  struct Watched;
  class IdleClose;
  struct DeviceEvent {
    ibv_context* context;
    ibv_event_type type;
    int port;
  };
  explicit CmEngine(int max_connecting) noexcept;
  Status open_descriptors() noexcept;
  void progress() noexcept;
  bool run_cm_events() noexcept;  // whether any arrived
  bool run_cm_event() noexcept;
  void run_notes() noexcept;
  void end_idle_close(IdleClose& idle_close) noexcept;
  void run_async_events(Watched& watched) noexcept;
  static void notify_all(const DeviceEvent& event) noexcept;
  void wake() noexcept { net::event_signal(wake_.get()); }

  Mutex mutex_;
  UniqueFd epoll_, wake_;
  EventChannelHandle channel_;
  // A handler is in one of the two at most.
  DeadlineTimer timer_;
  DeadlineQueue<CmHandler, CmTimerTag, &CmHandler::timer_> deadlines_{timer_}, keepalives_{timer_};
  List<CmHandler, CmTurnTag> waiting_turns_;
  int turns_left_;
  List<IdleClose> idle_closes_;        // oldest first
  List<IdleClose> ended_idle_closes_;  // to be destroyed without the mutex
  std::size_t idle_close_count_ = 0;
  std::vector<std::unique_ptr<Watched>> watched_;
  unsigned events_expected_ = 1;      // events of rdma_cm to read when its descriptor is readable
  unsigned lone_events_ = 0;          // reads in a row that found exactly one event
  std::atomic<bool> slept_{false};    // the next drive() follows a wake-up, most likely by an event of rdma_cm
  unsigned rounds_without_poll_ = 0;  // calls of progress() since it polled all sources

  MutexLock notes_mutex_;  // guards the next two; innermost
  List<CmHandler, CmNoteTag> notes_;
  std::vector<DeviceEvent> device_events_;

  ServiceThread service_;
};

// The part of a fabric that its children use: parameters, the connection engine, and the handles that an fi_info may
// carry. Base of Fabric. Thread-safe.
class FabricServices : public RefCounted {
 public:
  CmEngine& engine() const noexcept { return *engine_; }

  const Parameters parameters;
  // Shared by all fabrics: a program may accept a request in a domain of another fabric object than its listener's.
  static PassiveHandles& passive() noexcept;
  SharedInfo& passive_infos() noexcept { return passive_infos_; }

 protected:
  FabricServices(Parameters values, std::unique_ptr<CmEngine> engine) noexcept
      : parameters(std::move(values)), engine_(std::move(engine)) {}
  ~FabricServices() = default;

 private:
  SharedInfo passive_infos_;
  const std::unique_ptr<CmEngine> engine_;
};

}  // namespace weft::verbs
