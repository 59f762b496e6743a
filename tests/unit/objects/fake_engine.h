// SPDX-License-Identifier: BSD-2-Clause
// A provider's engine for tests of the shared queues: counts its calls and runs the test's functions.
#pragma once

#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

#include "base/ref.h"
#include "base/unique_fd.h"
#include "objects/polling_turns.h"
#include "objects/progress.h"

namespace weft {

class FakeEngine {
 public:
  void drive() noexcept {
    drives.fetch_add(1);
    if (on_drive) on_drive();
  }
  bool prepare_wait() noexcept {
    prepares.fetch_add(1);
    return may_sleep.load();
  }
  void expect_sleepers() noexcept { expects_sleepers = true; }
  int wait_fd() const noexcept { return fd_.get(); }
  const std::shared_ptr<PollingTurns>& polling_turns() const noexcept { return turns_; }

  // Makes wait_fd() readable, as traffic from the network would, until quiet().
  void stir() const {
    const uint64_t one = 1;
    [[maybe_unused]] const auto written = ::write(fd_.get(), &one, sizeof one);
  }
  void quiet() const {
    uint64_t count;
    [[maybe_unused]] const auto got = ::read(fd_.get(), &count, sizeof count);
  }

  std::function<void()> on_drive;
  std::atomic<int> drives{0};
  std::atomic<int> prepares{0};
  std::atomic<bool> may_sleep{true};
  std::atomic<bool> expects_sleepers{false};

 private:
  const std::shared_ptr<PollingTurns> turns_ = std::make_shared<PollingTurns>();
  UniqueFd fd_{::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)};
};
static_assert(ProgressEngine<FakeEngine>);

// Stands for the domain or fabric.
struct FakeParent : RefCounted {
  Ref<RefCounted> ref() { return Ref<RefCounted>(*this); }
};

}  // namespace weft
