// SPDX-License-Identifier: BSD-2-Clause
// The parts that all objects of kfabric share: the map from libfabric's fids, binding and control.
#include <algorithm>
#include <mutex>
#include <unordered_set>

#include "kfabric/fabric.h"

namespace weft::kfabric {
namespace {

struct Live {
  std::mutex mutex;
  Handles map;
  std::unordered_set<const kfid*> requests;
};

// Never destroyed, because objects may outlive static destructors. In static memory, so that no allocation can fail.
Live& live() {
  alignas(Live) static char room[sizeof(Live)];
  static auto* all = new (room) Live;
  return *all;
}

}  // namespace

Handles::node_type make_place() {
  Handles one;
  return one.extract(one.emplace(nullptr, nullptr).first);
}

void remember(Handles::node_type place, fid* below, kfid* handle) noexcept {
  place.key() = below;
  place.mapped() = handle;
  std::lock_guard lock(live().mutex);
  live().map.insert(std::move(place));
}

Handles::node_type forget(fid* below) noexcept {
  std::lock_guard lock(live().mutex);
  return live().map.extract(below);
}

kfid* handle_of(fid* below) noexcept {
  std::lock_guard lock(live().mutex);
  auto found = live().map.find(below);
  return found == live().map.end() ? nullptr : found->second;
}

bool is_open(const kfid* handle) noexcept {
  std::lock_guard lock(live().mutex);
  return std::ranges::any_of(live().map, [&](const auto& place) { return place.second == handle; });
}

ConnectionRequest::ConnectionRequest() : kfid{} {
  std::lock_guard lock(live().mutex);
  live().requests.insert(this);
}
ConnectionRequest::~ConnectionRequest() {
  std::lock_guard lock(live().mutex);
  live().requests.erase(this);
}

ConnectionRequest* request_of(kfid* handle) noexcept {
  std::lock_guard lock(live().mutex);
  return live().requests.contains(handle) ? static_cast<ConnectionRequest*>(handle) : nullptr;
}

bool is_1_1(const Fabric* fabric) {
  return fabric->is_1_1;
}

void close_later(Fabric* fabric, kfid* handle) {
  std::lock_guard lock(fabric->mutex);
  fabric->closed_early.push_back(handle);
}

// One thread at a time. It waits for the handlers of those queues, which may close objects or accept requests
// themselves: so it does not hold the mutex meanwhile, and looks again for them.
void close_waiting(Fabric* fabric) {
  std::unique_lock lock(fabric->mutex);
  fabric->look_again = true;
  if (fabric->closing_early) {
    if (!Dispatcher::in_handler()) fabric->closed.wait(lock, [&] { return !fabric->closing_early; });
    return;
  }
  fabric->closing_early = true;
  while (std::exchange(fabric->look_again, false)) {
    for (size_t i = 0; i < fabric->closed_early.size();) {  // others only append
      kfid* const handle = fabric->closed_early[i];
      lock.unlock();
      const int result =
          handle->fclass == KFI_CLASS_EQ ? close_now<EventQueue>(handle) : close_now<CompletionQueue>(handle);
      lock.lock();
      if (result != 0)
        ++i;
      else
        fabric->closed_early.erase(fabric->closed_early.begin() + static_cast<ptrdiff_t>(i));
    }
  }
  fabric->closing_early = false;
  fabric->closed.notify_all();
}

int bind_below(kfid* handle, kfid* other, uint64_t flags) {
  if (int result = lower_binding(handle, other, flags)) return result;
  fid* below = fi_of(handle);
  const int result = below->ops->bind(below, fi_of(other), flags);
  if (result == 0) note_binding(handle, other, flags);
  return result;
}

Waiting* waiting_of(kfid* queue) {
  switch (queue->fclass) {
    case KFI_CLASS_EQ:
      return of<EventQueue>(queue);
    case KFI_CLASS_CQ:
      return of<CompletionQueue>(queue);
    case KFI_CLASS_CNTR:
      return of<Counter>(queue);
    default:
      return nullptr;
  }
}

std::atomic<int>* bound_count(kfid* queue) {
  Waiting* const waiting = waiting_of(queue);
  return waiting == nullptr ? nullptr : &waiting->bound;
}

int control(kfid* handle, int command, void* argument) {
  if (handle->fclass == KFI_CLASS_MR) return control_region(of<MemoryRegion>(handle), command, argument);
  switch (command) {
    case FI_GETWAIT:
      if (Waiting* const waiting = waiting_of(handle); waiting != nullptr && waiting->head) {
        *static_cast<wait_queue_head**>(argument) = waiting->head.get();
        return 0;
      }
      return fi_control(fi_of(handle), command, argument);
    case FI_ALIAS:
      return open_alias(handle, static_cast<struct kfi_alias*>(argument));
    case FI_GETFIDFLAG:
    case FI_SETFIDFLAG:
    case FI_GETOPSFLAG:
    case FI_SETOPSFLAG:
    case FI_ENABLE:
    case FI_BACKLOG:
    case FI_GET_RAW_MR:
    case FI_MAP_RAW_MR:
    case FI_UNMAP_KEY:
      return fi_control(fi_of(handle), command, argument);
    default:
      return -KFI_ENOSYS;
  }
}

int no_ops(kfid*, const char*, uint64_t, void**, void*) {
  return -KFI_ENOSYS;
}

}  // namespace weft::kfabric
