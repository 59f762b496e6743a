// SPDX-License-Identifier: BSD-2-Clause
// What counters of a domain drive: every completion channel there, because a counter may count the operations of
// endpoints with different completion queues, or with none. Meets ProgressEngine.
#pragma once

#include <mutex>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace weft::verbs {

class CmEngine;
class CompletionChannel;

// Owner: the domain. Thread-safe; its lock comes behind the connection engine's mutex and before those of channels.
class DomainProgress {
 public:
  // `cm_engine`: what drives connections if no thread does, else null.
  Status open(CmEngine* cm_engine) noexcept;
  Status add(CompletionChannel& channel);
  void remove(CompletionChannel& channel) noexcept;

  void drive() noexcept;
  bool prepare_wait() noexcept;
  int wait_fd() const noexcept { return epoll_.get(); }

 private:
  Status watch(int fd) noexcept;

  CmEngine* cm_engine_ = nullptr;
  UniqueFd epoll_;
  std::mutex mutex_;  // guards channels_
  std::vector<CompletionChannel*> channels_;
};

}  // namespace weft::verbs
