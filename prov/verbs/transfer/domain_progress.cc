// SPDX-License-Identifier: BSD-2-Clause
// Driving all completion channels of a domain; see domain_progress.h.
#include "verbs/transfer/domain_progress.h"

#include <sys/epoll.h>

#include <algorithm>

#include "verbs/cm/cm_engine.h"

namespace weft::verbs {

Status DomainProgress::open(CmEngine* cm_engine) noexcept {
  cm_engine_ = cm_engine;
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll_) return Status::last_errno();
  return cm_engine_ != nullptr ? watch(cm_engine_->wait_fd()) : Status();
}

Status DomainProgress::watch(int fd) noexcept {
  epoll_event event{};
  event.events = EPOLLIN;
  return ::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) == 0 ? Status() : Status::last_errno();
}

Status DomainProgress::add(DrivenChannel& channel) {
  std::lock_guard lock(mutex_);
  channels_.push_back(&channel);
  Status status = watch(channel.wait_fd());
  if (!status.ok()) channels_.pop_back();
  return status;
}

void DomainProgress::remove(DrivenChannel& channel) noexcept {
  std::lock_guard lock(mutex_);
  const auto found = std::find(channels_.begin(), channels_.end(), &channel);
  if (found == channels_.end()) return;
  channels_.erase(found);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, channel.wait_fd(), nullptr);
}

void DomainProgress::drive() noexcept {
  if (cm_engine_ != nullptr) cm_engine_->drive();
  std::lock_guard lock(mutex_);
  for (DrivenChannel* channel : channels_) channel->progress();
}

bool DomainProgress::prepare_wait() noexcept {
  std::lock_guard lock(mutex_);
  bool ready = true;
  for (DrivenChannel* channel : channels_) ready = channel->prepare_wait() && ready;
  return ready;
}

}  // namespace weft::verbs
