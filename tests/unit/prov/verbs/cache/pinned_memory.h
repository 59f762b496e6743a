// SPDX-License-Identifier: BSD-2-Clause
// Registrations that hold the pages of their memory as a device does: the kernel puts them into a pipe (vmsplice(2)),
// so a registration shows the pages that it was made for, whatever the addresses mean now.
#pragma once

#include <fcntl.h>
#include <sys/uio.h>
#include <unistd.h>

#include <atomic>
#include <string>

#include "verbs/cache/registration_cache.h"

namespace weft::verbs {

inline constexpr std::size_t kPage = 4096;

struct PinnedRegion : ibv_mr {
  int pipe[2] = {-1, -1};
  ~PinnedRegion() {
    ::close(pipe[0]);
    ::close(pipe[1]);
  }
};

class PinnedMemory final : public Registrar {
 public:
  ibv_mr* add(const MemoryRange& range, int access) noexcept override {
    (void)access;
    if (fails) return nullptr;
    auto* region = new PinnedRegion{};
    region->addr = reinterpret_cast<void*>(range.start);
    region->length = range.size();
    if (::pipe2(region->pipe, O_CLOEXEC | O_NONBLOCK) == 0) {
      const iovec memory{region->addr, region->length};
      region->handle = ::vmsplice(region->pipe[1], &memory, 1, 0) == static_cast<ssize_t>(range.size()) ? 1 : 0;
    }
    ++made;
    ++live;
    if (on_add) on_add();
    return region;
  }
  void remove(ibv_mr& mr) noexcept override {
    delete static_cast<PinnedRegion*>(&mr);
    --live;
  }

  // Reads by the registration, like a device.
  static std::string read(const CachedRegion& region, const void* at, std::size_t size) {
    const auto& pinned = static_cast<const PinnedRegion&>(*region.mr);
    int copy[2];
    if (pinned.handle == 0 || ::pipe2(copy, O_CLOEXEC | O_NONBLOCK) != 0) return {};
    std::string bytes(pinned.length, '\0');
    const ssize_t teed = ::tee(pinned.pipe[0], copy[1], bytes.size(), 0);
    const ssize_t got = teed > 0 ? ::read(copy[0], bytes.data(), bytes.size()) : 0;
    ::close(copy[0]);
    ::close(copy[1]);
    if (got != static_cast<ssize_t>(bytes.size())) return {};
    return bytes.substr(reinterpret_cast<std::uintptr_t>(at) - reinterpret_cast<std::uintptr_t>(pinned.addr), size);
  }

  std::atomic<int> made{0}, live{0};
  bool fails = false;
  void (*on_add)() = nullptr;  // while the registration is made
};

}  // namespace weft::verbs
