// SPDX-License-Identifier: BSD-2-Clause
// The host's interfaces, for frequent callers: the kernel announces changes of links and addresses, and without an
// announcement the last answer is still right; rtnetlink(7).
#pragma once

#include <sys/types.h>

#include <mutex>
#include <vector>

#include "base/status.h"
#include "base/unique_fd.h"
#include "objects/address.h"

namespace weft {

// Owner: a provider, for the life of the process. Thread-safe.
class InterfaceWatch {
 public:
  // As local_interfaces(), at the cost of three system calls if nothing has changed.
  Result<std::vector<Interface>> interfaces();

 private:
  bool unchanged() noexcept;

  std::mutex mutex_;  // guards the rest
  UniqueFd socket_;   // gets the announcements
  pid_t process_ = 0;
  ino_t network_ = 0;  // the network namespace
  std::vector<Interface> known_;
};

}  // namespace weft
