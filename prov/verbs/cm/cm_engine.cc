// SPDX-License-Identifier: BSD-2-Clause
// The connection engine; see cm_engine.h.
#include "verbs/cm/cm_engine.h"

#include <rdma/providers/fi_log.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "base/kept.h"
#include "base/standard_descriptors.h"
#include "verbs/device/event_targets.h"
#include "verbs/device/logging.h"

namespace weft::verbs {
namespace {

constexpr int kBatch = 16;
constexpr unsigned kLoneEvents = 32;  // after this many single events, try to read more than one at a time
constexpr unsigned kMostEvents = 256;
constexpr unsigned kMostRoundsWithoutPoll = 16;  // bounds the delay of the other sources

// The kernel repeats the message every few seconds.
constexpr std::chrono::seconds kIdleCloseTimeout{30};
constexpr std::size_t kMostIdleCloses = 256;

// Every engine of the process. All of them share the descriptors of the devices' asynchronous events, so the engine
// that reads an event passes it on to the others.
struct Engines {
  std::mutex mutex;
  std::vector<CmEngine*> list;
};
Engines& engines() noexcept {
  static Kept<Engines> all;
  return all.object;
}

Status watch_descriptor(int epoll, int fd, void* tag) noexcept {
  return Status(std::min(0, net::epoll_add(epoll, fd, EPOLLIN, tag)));
}

void copy_event(const rdma_cm_event& from, RdmaEvent& to) noexcept {
  to.type = from.event;
  to.status = from.status;
  to.id = from.id;
  to.param = {};
  to.ud = {};
  switch (from.event) {
    case RDMA_CM_EVENT_CONNECT_REQUEST:
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
    case RDMA_CM_EVENT_ESTABLISHED:
    case RDMA_CM_EVENT_REJECTED:
    case RDMA_CM_EVENT_DISCONNECTED:
      break;
    case RDMA_CM_EVENT_MULTICAST_JOIN:
    case RDMA_CM_EVENT_MULTICAST_ERROR:
      to.ud = from.param.ud;
      return;
    default:
      return;  // other events carry no parameters
  }
  if (from.id->ps == RDMA_PS_UDP) {
    to.ud = from.param.ud;
    to.param.private_data = std::exchange(to.ud.private_data, nullptr);
    to.param.private_data_len = std::exchange(to.ud.private_data_len, std::uint8_t{0});
  } else {
    to.param = from.param.conn;
  }
  if (to.param.private_data == nullptr) to.param.private_data_len = 0;
  static_assert(std::tuple_size_v<decltype(to.private_data)> > UINT8_MAX);
  if (to.param.private_data_len != 0)
    std::memcpy(to.private_data.data(), to.param.private_data, to.param.private_data_len);
  to.param.private_data = nullptr;
}

}  // namespace

// A device whose asynchronous events this engine reads.
struct CmEngine::Watched {
  Ref<Device> device;
  List<CmHandler, CmDeviceTag> handlers;
};

// An id whose endpoint has been closed. Owner: the engine.
class CmEngine::IdleClose final : public CmHandler, public ListHook<IdleClose> {
 public:
  IdleClose(CmEngine& engine, CmIdHandle id) noexcept : engine_(engine), id_(std::move(id)) {
    id_->context = static_cast<CmHandler*>(this);
  }
  void detach_id() noexcept { id_->context = nullptr; }

  void on_cm_event(const RdmaEvent&) noexcept override { engine_.end_idle_close(*this); }
  void on_deadline() noexcept override { engine_.end_idle_close(*this); }

 private:
  CmEngine& engine_;
  const CmIdHandle id_;
};

Result<std::unique_ptr<CmEngine>> CmEngine::open(int max_connecting) {
  std::unique_ptr<CmEngine> engine(new CmEngine(max_connecting));
  if (Status status = engine->open_descriptors(); !status.ok()) return failure(status);
  Engines& all = engines();
  std::lock_guard lock(all.mutex);
  all.list.push_back(engine.get());
  return engine;
}

CmEngine::CmEngine(int max_connecting) noexcept : turns_left_(max_connecting) {}

Status CmEngine::open_descriptors() noexcept {
  const StandardDescriptors held;
  channel_.reset(rdma_create_event_channel());
  if (channel_ == nullptr) return Status::last_errno();
  if (Status status = set_nonblocking(channel_->fd); !status.ok()) return status;
  ::fcntl(channel_->fd, F_SETFD, FD_CLOEXEC);
  if (Status status = timer_.open(); !status.ok()) return status;
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  wake_.reset(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC));
  if (!epoll_ || !wake_) return Status::last_errno();
  if (Status status = watch_descriptor(epoll_.get(), channel_->fd, channel_.get()); !status.ok()) return status;
  if (Status status = watch_descriptor(epoll_.get(), timer_.fd(), &timer_); !status.ok()) return status;
  return watch_descriptor(epoll_.get(), wake_.get(), &wake_);
}

CmEngine::~CmEngine() {
  {
    Engines& all = engines();
    std::lock_guard lock(all.mutex);
    std::erase(all.list, this);
  }
  service_.stop(wake_.get());
  ended_idle_closes_.splice_back(idle_closes_);
  while (!ended_idle_closes_.empty()) delete &ended_idle_closes_.pop_front();
}

// ---- Progress ----

void CmEngine::drive() noexcept {
  List<IdleClose> ended;
  {
    Lock lock(mutex_);
    progress();
    ended.splice_back(ended_idle_closes_);
  }
  while (!ended.empty()) delete &ended.pop_front();
}

// After a wake-up, rdma_cm is tried before the sources are polled; any other source keeps the descriptor readable.
void CmEngine::progress() noexcept {
  if (slept_.load(std::memory_order_relaxed) && slept_.exchange(false, std::memory_order_relaxed) &&
      rounds_without_poll_ < kMostRoundsWithoutPoll && run_cm_events()) {
    ++rounds_without_poll_;
    return;
  }
  rounds_without_poll_ = 0;
  epoll_event events[kBatch];
  const int count = net::epoll_wait(epoll_.get(), events, kBatch);
  for (int i = 0; i < count; ++i) {
    void* source = events[i].data.ptr;
    if (source == channel_.get()) {
      run_cm_events();
    } else if (source == &timer_) {
      timer_.drain();
      deadlines_.run(Clock::now(), [](CmHandler& handler) noexcept { handler.on_deadline(); });
      keepalives_.run(Clock::now(), [](CmHandler& handler) noexcept { handler.on_keepalive(); });
    } else if (source == &wake_) {
      net::event_drain(wake_.get());
      run_notes();
    } else {
      run_async_events(*static_cast<Watched*>(source));
    }
  }
}

bool CmEngine::run_cm_event() noexcept {
  rdma_cm_event* original = nullptr;
  if (rdma_get_cm_event(channel_.get(), &original) != 0) return false;
  RdmaEvent event;
  copy_event(*original, event);
  // A request's id has inherited its listener's context. The context is read before the acknowledgement, while the id
  // cannot be destroyed: a thread that is about to destroy it has set the context to null.
  auto* const handler = static_cast<CmHandler*>(event.id->context);
  rdma_ack_cm_event(original);
  if (handler != nullptr) handler->on_cm_event(event);
  return true;
}

// The descriptor is readable, so one event is certain. Trying to read another costs as much as the poll that follows
// anyway, so more are tried only where events arrive in numbers, and now and then to find out whether they do.
bool CmEngine::run_cm_events() noexcept {
  unsigned found = 0;
  while (found < events_expected_ && run_cm_event()) ++found;
  if (found < events_expected_) {
    events_expected_ = std::max(found, 1u);
    lone_events_ = 0;
  } else if (found > 1 || ++lone_events_ == kLoneEvents) {
    events_expected_ = std::min(2 * events_expected_, kMostEvents);
  }
  return found != 0;
}

void CmEngine::run_notes() noexcept {
  List<CmHandler, CmNoteTag> noted;
  std::vector<DeviceEvent> device_events;
  {
    std::lock_guard lock(notes_mutex_);
    noted.splice_back(notes_);
    device_events.swap(device_events_);
  }
  // A handler that closes meanwhile leaves the list that it is in: forget() takes the same lock.
  for (;;) {
    CmHandler* handler = nullptr;
    {
      std::lock_guard lock(notes_mutex_);
      if (noted.empty()) break;
      handler = &noted.pop_front();
    }
    handler->on_note();
  }
  for (const DeviceEvent& event : device_events) {
    const auto watched = std::find_if(watched_.begin(), watched_.end(),
                                      [&](const auto& each) { return each->device->context() == event.context; });
    if (watched == watched_.end()) continue;
    List<CmHandler, CmDeviceTag> to_notify;
    to_notify.splice_back((*watched)->handlers);
    while (!to_notify.empty()) {
      CmHandler& handler = to_notify.pop_front();
      (*watched)->handlers.push_back(handler);
      handler.on_device_event(event.type, event.port);
    }
  }
}

Status CmEngine::start_service_thread() {
  Lock lock(mutex_);
  if (service_.running()) return Status();
  return service_.start(epoll_.get(), [this]() noexcept { drive(); });
}

// ---- Asynchronous events of devices ----

void CmEngine::run_async_events(Watched& watched) noexcept {
  ibv_async_event event;
  while (ibv_get_async_event(watched.device->context(), &event) == 0) {
    switch (event.event_type) {
      case IBV_EVENT_QP_FATAL:
      case IBV_EVENT_QP_REQ_ERR:
      case IBV_EVENT_QP_ACCESS_ERR:
      case IBV_EVENT_COMM_EST:
        // The queue pair's destruction waits for the acknowledgement below, so its owner is alive.
        if (EventTargets::contains(event.element.qp->qp_context))
          static_cast<CmHandler*>(event.element.qp->qp_context)->on_qp_event(event.event_type);
        break;
      case IBV_EVENT_CQ_ERR:
        if (EventTargets::contains(event.element.cq->cq_context))
          static_cast<OverrunHandler*>(event.element.cq->cq_context)->on_overrun();
        break;
      case IBV_EVENT_DEVICE_FATAL:
      case IBV_EVENT_PORT_ACTIVE:
      case IBV_EVENT_PORT_ERR:
        notify_all({watched.device->context(), event.event_type,
                    event.event_type == IBV_EVENT_DEVICE_FATAL ? 0 : event.element.port_num});
        break;
      default:
        break;
    }
    FI_INFO(&provider(), FI_LOG_EP_CTRL, "%s: %s\n", watched.device->name(), ibv_event_type_str(event.event_type));
    ibv_ack_async_event(&event);
  }
  // The descriptor of a removed device stays readable, and has no events.
  if (errno == EIO || errno == ENODEV) net::epoll_remove(epoll_.get(), watched.device->context()->async_fd);
}

void CmEngine::notify_all(const DeviceEvent& event) noexcept {
  Engines& all = engines();
  std::lock_guard lock(all.mutex);
  for (CmEngine* engine : all.list) {
    {
      std::lock_guard notes(engine->notes_mutex_);
      try {
        engine->device_events_.push_back(event);
      } catch (const std::bad_alloc&) {
        continue;  // transfers over the port will fail on their own
      }
    }
    engine->wake();
  }
}

Status CmEngine::watch_device(Device& device, CmHandler& handler) noexcept {
  auto watched =
      std::find_if(watched_.begin(), watched_.end(), [&](const auto& each) { return each->device.get() == &device; });
  if (watched == watched_.end()) {
    const int fd = device.context()->async_fd;
    if (Status status = set_nonblocking(fd); !status.ok()) return status;
    try {
      auto added = std::make_unique<Watched>();
      added->device = Ref<Device>(device);
      watched_.push_back(std::move(added));
    } catch (const std::bad_alloc&) {
      return Status(-FI_ENOMEM);
    }
    watched = watched_.end() - 1;
    if (Status status = watch_descriptor(epoll_.get(), fd, watched->get()); !status.ok()) {
      watched_.pop_back();
      return status;
    }
  }
  handler.ListHook<CmDeviceTag>::unlink();
  (*watched)->handlers.push_back(handler);
  return Status();
}

// ---- Handlers ----

void CmEngine::note(CmHandler& handler) noexcept {
  {
    std::lock_guard lock(notes_mutex_);
    if (handler.ListHook<CmNoteTag>::linked()) return;
    notes_.push_back(handler);
  }
  wake();
}

Result<CmIdHandle> CmEngine::create_id(CmHandler& handler, rdma_port_space space) noexcept {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(channel_.get(), &id, &handler, space) != 0) return failure(Status::last_errno());
  return CmIdHandle(id);
}

Result<CmIdHandle> CmEngine::create_bound_id(CmHandler& handler, CmAddress& local) noexcept {
  auto id = create_id(handler, local.port_space());
  if (!id) return id;
  if (rdma_bind_addr(id->get(), local.data()) != 0) return failure(Status::last_errno());
  local = CmAddress::from(rdma_get_local_addr(id->get()));
  return id;
}

Status CmEngine::adopt(rdma_cm_id& id) noexcept {
  return id.channel == channel_.get() ? Status() : status_of(rdma_migrate_id(&id, channel_.get()));
}

bool CmEngine::take_turn(CmHandler& handler) noexcept {
  if (handler.has_turn_) return true;
  if (turns_left_ == 0 || !waiting_turns_.empty()) {
    if (!handler.ListHook<CmTurnTag>::linked()) waiting_turns_.push_back(handler);
    return false;
  }
  --turns_left_;
  handler.has_turn_ = true;
  return true;
}

void CmEngine::end_turn(CmHandler& handler) noexcept {
  handler.ListHook<CmTurnTag>::unlink();
  if (!std::exchange(handler.has_turn_, false)) return;
  if (waiting_turns_.empty()) {
    ++turns_left_;
    return;
  }
  // Through a note, because the caller is in the middle of its own work.
  CmHandler& next = waiting_turns_.pop_front();
  next.has_turn_ = true;
  note(next);
}

void CmEngine::send_idle_close(CmIdHandle id) noexcept {
  auto* idle_close = new (std::nothrow) IdleClose(*this, std::move(id));
  if (idle_close == nullptr) return;
  idle_closes_.push_back(*idle_close);
  set_deadline(*idle_close, Clock::now() + kIdleCloseTimeout);
  if (++idle_close_count_ > kMostIdleCloses) end_idle_close(idle_closes_.front());
}

void CmEngine::end_idle_close(IdleClose& idle_close) noexcept {
  forget(idle_close);
  idle_close.detach_id();
  List<IdleClose>::unlink(idle_close);
  --idle_close_count_;
  ended_idle_closes_.push_back(idle_close);
}

void CmEngine::forget(CmHandler& handler) noexcept {
  end_turn(handler);
  clear_deadline(handler);
  handler.ListHook<CmDeviceTag>::unlink();
  std::lock_guard lock(notes_mutex_);
  handler.ListHook<CmNoteTag>::unlink();
}

PassiveHandles& FabricServices::passive() noexcept {
  static Kept<PassiveHandles> kept;
  return kept.object;
}

}  // namespace weft::verbs
