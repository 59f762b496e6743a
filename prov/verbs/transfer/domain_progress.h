// SPDX-License-Identifier: BSD-2-Clause
// The progress engine of a domain's counters: it drives every completion channel of the domain, because a counter may
// count operations of endpoints with different completion queues, or with none. Satisfies ProgressEngine.
#pragma once

#include <mutex>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"

namespace weft::verbs {

class CmEngine;

// A completion channel, as far as DomainProgress drives it.
class DrivenChannel {
 public:
  virtual void progress() noexcept = 0;
  virtual bool prepare_wait() noexcept = 0;
  virtual int wait_fd() const noexcept = 0;

 protected:
  ~DrivenChannel() = default;
};

// Owner: the domain. Thread-safe; mutex_ is taken after the connection engine's mutex and before those of channels.
class DomainProgress {
 public:
  // `cm_engine`: drives connections; null: a thread does.
  explicit DomainProgress(CmEngine* cm_engine) noexcept : cm_engine_(cm_engine) {}
  ~DomainProgress();
  // Opens the descriptor, which only counters that threads sleep on need, unless it is open.
  Status open_descriptor();
  Status add(DrivenChannel& channel);
  void remove(DrivenChannel& channel) noexcept;

  void drive() noexcept;
  bool prepare_wait() noexcept;
  int wait_fd() noexcept {
    std::lock_guard lock(mutex_);
    return epoll_.get();
  }

 private:
  CmEngine* const cm_engine_;
  std::mutex opening_mutex_;  // taken before the connection engine's mutex
  bool watches_connections_ = false;
  std::mutex mutex_;  // guards the rest
  UniqueFd epoll_;
  std::vector<DrivenChannel*> channels_;
};

}  // namespace weft::verbs
