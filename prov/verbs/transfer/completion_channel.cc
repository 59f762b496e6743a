// SPDX-License-Identifier: BSD-2-Clause
// Device completion queues: creation, size, polling, waiting; see completion_channel.h.
#include "verbs/transfer/completion_channel.h"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cerrno>

#include "base/standard_descriptors.h"
#include "verbs/device/event_targets.h"
#include "verbs/device/logging.h"
#include "verbs/transfer/domain_services.h"

namespace weft::verbs {
namespace {

constexpr unsigned kFirstEntries = 256;    // for a device queue without a requested size
constexpr unsigned kFixedEntries = 16384;  // at least, for a device queue that cannot be enlarged
constexpr unsigned kAcknowledgeAt = 1024;  // acknowledging takes a mutex inside libibverbs, so many at once

}  // namespace

CompletionChannel::CompletionChannel(DomainServices& domain, bool owned_by_queue) noexcept
    : domain_(domain), domain_ref_(owned_by_queue ? Ref(domain) : Ref<DomainServices>()) {
  if (!domain.progresses_by_itself()) cm_engine_ = &domain.engine();
}

Result<std::unique_ptr<CompletionChannel>> CompletionChannel::open(DomainServices& domain, const fi_cq_attr* attr) {
  std::unique_ptr<CompletionChannel> channel(new CompletionChannel(domain, attr != nullptr));
  if (Status status = channel->create(or_none(attr)); !status.ok()) return failure(status);
  if (Status status = domain.progress().add(*channel); !status.ok()) return failure(status);
  return channel;
}

CompletionChannel::~CompletionChannel() {
  if (watches_connections_) dismiss_watcher(*cm_engine_);
  domain_.progress().remove(*this);
  // Destroying the device queue would wait for unacknowledged events.
  if (cq_ != nullptr && unacknowledged_ != 0) ibv_ack_cq_events(cq_.get(), unacknowledged_);
  cq_.reset();
  EventTargets::remove(static_cast<OverrunHandler*>(this));
}

Status CompletionChannel::create(const fi_cq_attr& attr) {
  ibv_context* const context = domain_.device().context();
  const int vector = (attr.flags & FI_AFFINITY) != 0 ? attr.signaling_vector : 0;
  if ((attr.flags & FI_AFFINITY) != 0 && (vector < 0 || vector >= context->num_comp_vectors)) return Status(-FI_EINVAL);
  const StandardDescriptors held;
  events_.reset(ibv_create_comp_channel(context));
  if (events_ == nullptr) return Status::last_errno();
  if (Status status = open_descriptors(attr); !status.ok()) return status;
  const auto most = static_cast<unsigned>(std::max(domain_.device().attr().orig_attr.max_cqe, 1));
  const size_t asked = attr.size != 0 ? attr.size : kFirstEntries;
  const auto entries = static_cast<unsigned>(std::min<size_t>(asked, most));
  if (Status status = EventTargets::add(static_cast<OverrunHandler*>(this)); !status.ok()) return status;
  const auto make = [&](unsigned size) {
    cq_.reset(
        ibv_create_cq(context, static_cast<int>(size), static_cast<OverrunHandler*>(this), events_.get(), vector));
    return cq_ != nullptr ? Status() : Status::last_errno();
  };
  const Status made = make(entries);
  // Some devices cannot enlarge a queue (most iWARP ones, and hns, mana and qedr), so it has its size from the start.
  const unsigned fixed = std::min(std::max(entries, kFixedEntries), most);
  if (!made.ok() || static_cast<unsigned>(cq_->cqe) >= fixed || ibv_resize_cq(cq_.get(), cq_->cqe) == 0) return made;
  return make(fixed);
}

Status CompletionChannel::open_descriptors(const fi_cq_attr& attr) {
  if (Status status = set_nonblocking(events_->fd); !status.ok()) return status;
  wait_fds_[0] = events_->fd;
  if (cm_engine_ == nullptr || attr.wait_obj == FI_WAIT_NONE) return {};
  watches_connections_ = admit_watcher(*cm_engine_);
  if (watches_connections_)
    wait_fds_[1] = cm_engine_->wait_fd();
  else
    cm_engine_ = nullptr;  // a thread drives connections
  return {};
}

// ---- Size ----

Status CompletionChannel::grow_locked(unsigned entries) noexcept {
  const auto most = static_cast<unsigned>(std::max(domain_.device().attr().orig_attr.max_cqe, 1));
  const auto now = static_cast<unsigned>(cq_->cqe);
  if (entries > most) {
    if (now < most)
      FI_INFO(&provider(), FI_LOG_CQ, "%u operations may be outstanding at once; the completion queues of %s hold %u\n",
              entries, domain_.device().name(), most);
    entries = most;
  }
  if (entries <= now) return {};
  const unsigned wanted = std::min(std::max(entries, 2 * now), most);
  int error = status_of(ibv_resize_cq(cq_.get(), static_cast<int>(wanted))).error();
  if (error != 0 && wanted != entries) error = status_of(ibv_resize_cq(cq_.get(), static_cast<int>(entries))).error();
  if (error == 0) return {};
  FI_WARN(&provider(), FI_LOG_CQ, "cannot resize a completion queue of %s from %u to %u entries: %s; open it larger\n",
          domain_.device().name(), now, entries, fi_strerror(error));
  return Status(error == ENOMEM ? -FI_ENOMEM : -FI_ENOSPC);
}

Status CompletionChannel::reserve(unsigned entries) noexcept {
  LightGuard guard(lock_);
  if (Status status = grow_locked(reserved_ + entries); !status.ok()) return status;
  reserved_ += entries;
  return {};
}

void CompletionChannel::give_back(unsigned entries) noexcept {
  LightGuard guard(lock_);
  reserved_ -= entries;
}

Status CompletionChannel::reserve(const SharedReceive& shared, unsigned entries) noexcept try {
  LightGuard guard(lock_);
  SharedUse& use = shared_[&shared];
  if (use.endpoints == 0) {
    if (Status status = grow_locked(reserved_ + entries); !status.ok()) {
      shared_.erase(&shared);
      return status;
    }
    use.entries = entries;
    reserved_ += entries;
  }
  ++use.endpoints;
  return {};
} catch (const std::bad_alloc&) {
  return Status(-FI_ENOMEM);
}

void CompletionChannel::give_back(const SharedReceive& shared) noexcept {
  LightGuard guard(lock_);
  const auto found = shared_.find(&shared);
  if (found == shared_.end() || --found->second.endpoints != 0) return;
  reserved_ -= found->second.entries;
  shared_.erase(found);
}

Status CompletionChannel::add_receiver(std::uint32_t qp_number, ReceiveQueue& receiver) noexcept try {
  LightGuard guard(lock_);
  receivers_[qp_number] = &receiver;
  last_receiver_ = nullptr;
  return {};
} catch (const std::bad_alloc&) {
  return Status(-FI_ENOMEM);
}

void CompletionChannel::remove_receiver(std::uint32_t qp_number, const ReceiveQueue& receiver) noexcept {
  LightGuard guard(lock_);
  const auto found = receivers_.find(qp_number);
  if (found == receivers_.end() || found->second != &receiver) return;
  receivers_.erase(found);
  last_receiver_ = nullptr;
}

void CompletionChannel::on_overrun() noexcept {
  FI_WARN(&provider(), FI_LOG_CQ, "a completion queue of %s was overrun: completions are lost\n",
          domain_.device().name());
  if (queue_ != nullptr) queue_->overrun();
}

// ---- Polling ----

void CompletionChannel::poll_all_locked() noexcept {
  CompletionSink sink{.queue = queue_};
  while (poll_locked(sink) > 0) {
  }
}

void CompletionChannel::poll_all() noexcept {
  LightGuard guard(lock_);
  poll_all_locked();
}

void CompletionChannel::make_room() noexcept {
  if (queue_ != nullptr && queue_->full()) return;
  poll_all();
}

void CompletionChannel::drive() noexcept {
  if (cm_engine_ != nullptr) cm_engine_->drive();
  progress();
}

void CompletionChannel::progress() noexcept {
  if (staged_count_.load(std::memory_order_relaxed) != 0) flush_staged();
  LightGuard guard(lock_);
  poll_all_locked();
}

bool CompletionChannel::prepare_wait() noexcept {
  if (staged_count_.load(std::memory_order_relaxed) != 0) flush_staged();
  LightGuard guard(lock_);
  ibv_cq* cq = nullptr;
  void* context = nullptr;
  while (ibv_get_cq_event(events_.get(), &cq, &context) == 0) ++unacknowledged_;
  if (unacknowledged_ >= kAcknowledgeAt) ibv_ack_cq_events(cq_.get(), std::exchange(unacknowledged_, 0));
  if (ibv_req_notify_cq(cq_.get(), 0) != 0) return false;
  // Completions before the request raise no event.
  poll_all_locked();
  return true;
}

}  // namespace weft::verbs
