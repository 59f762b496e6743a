// SPDX-License-Identifier: BSD-2-Clause
// Driving all completion channels of a domain; see domain_progress.h.
#include "verbs/domain_progress.h"

#include <sys/epoll.h>

#include <algorithm>

#include "verbs/cm_engine.h"
#include "verbs/completion_channel.h"

namespace weft::verbs {

Status DomainProgress::open(CmEngine* cm_engine) noexcept {
  cm_engine_ = cm_engine;
  epoll_.reset(::epoll_create1(EPOLL_CLOEXEC));
  return epoll_ ? Status() : Status::last_errno();
}

Status DomainProgress::add(CompletionChannel& channel) {
  std::lock_guard lock(mutex_);
  channels_.push_back(&channel);
  epoll_event event{};
  event.events = EPOLLIN;
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, channel.wait_fd(), &event) == 0) return {};
  channels_.pop_back();
  return Status::last_errno();
}

void DomainProgress::remove(CompletionChannel& channel) noexcept {
  std::lock_guard lock(mutex_);
  const auto found = std::find(channels_.begin(), channels_.end(), &channel);
  if (found == channels_.end()) return;
  channels_.erase(found);
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, channel.wait_fd(), nullptr);
}

void DomainProgress::drive() noexcept {
  if (cm_engine_ != nullptr) cm_engine_->drive();
  std::lock_guard lock(mutex_);
  for (CompletionChannel* channel : channels_) channel->progress();
}

bool DomainProgress::prepare_wait() noexcept {
  std::lock_guard lock(mutex_);
  bool ready = true;
  for (CompletionChannel* channel : channels_) ready = channel->prepare_wait() && ready;
  return ready;
}

}  // namespace weft::verbs
