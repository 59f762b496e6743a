// SPDX-License-Identifier: BSD-2-Clause
// Driving all completion channels of a domain; see domain_progress.h.
#include "verbs/transfer/domain_progress.h"

#include <sys/epoll.h>

#include <algorithm>

#include "base/readiness.h"
#include "objects/progress.h"
#include "verbs/cm/cm_engine.h"

namespace weft::verbs {

DomainProgress::~DomainProgress() {
  if (watches_connections_) dismiss_watcher(*cm_engine_);
}

Status DomainProgress::open_descriptor() {
  std::lock_guard opening(opening_mutex_);
  if (wait_fd() >= 0) return Status();
  UniqueFd epoll(net::epoll_create());
  if (!epoll) return Status(epoll.get());  // -errno
  if (cm_engine_ != nullptr && !watches_connections_) watches_connections_ = admit_watcher(*cm_engine_);
  int result = watches_connections_ ? net::epoll_add(epoll.get(), cm_engine_->wait_fd(), EPOLLIN, nullptr) : 0;
  std::lock_guard lock(mutex_);
  for (const DrivenChannel* channel : channels_)
    if (result >= 0) result = net::epoll_add(epoll.get(), channel->wait_fd(), EPOLLIN, nullptr);
  if (result >= 0) epoll_ = std::move(epoll);
  return Status(std::min(0, result));
}

Status DomainProgress::add(DrivenChannel& channel) {
  std::lock_guard lock(mutex_);
  const int result = epoll_ ? net::epoll_add(epoll_.get(), channel.wait_fd(), EPOLLIN, nullptr) : 0;
  if (result >= 0) channels_.push_back(&channel);
  return Status(std::min(0, result));
}

void DomainProgress::remove(DrivenChannel& channel) noexcept {
  std::lock_guard lock(mutex_);
  const auto found = std::find(channels_.begin(), channels_.end(), &channel);
  if (found == channels_.end()) return;
  channels_.erase(found);
  if (epoll_) net::epoll_remove(epoll_.get(), channel.wait_fd());
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
