// SPDX-License-Identifier: BSD-2-Clause
// The peers of a reliable-datagram endpoint: one for each address that was ever used. Each has a number, which matching
// uses; fi_av(3).
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <unordered_map>
#include <vector>

#include "objects/address.h"

namespace weft::rdm {

struct PeerBase {
  Address address;
  std::uint64_t id = 0;
  fi_addr_t name = FI_ADDR_NOTAVAIL;  // its name in completions, ...
  std::uint64_t named_at = 0;         // ... valid for this version of the vector; 0: never looked up
};

// The result of a call for which PeerTable::find() has no peer.
template <class Vector>
ssize_t no_peer(Vector& vector, fi_addr_t named) noexcept {
  return vector.find(vector.without_context(named)) != nullptr ? -FI_EAGAIN : -FI_EINVAL;
}

// P derives from PeerBase. The owner's lock guards it; peers live as long as it does.
template <class P>
class PeerTable {
 public:
  // Peers that are added from now on get their numbers there. `numbers` outlives this table.
  void share_numbers_of(PeerTable<PeerBase>& numbers) noexcept { numbers_ = &numbers; }

  // The peer of a handle of the vector; nullptr: none, or memory runs out. Each send needs it, so a handle that was
  // found since the last change of the vector costs no call. Before a call with another vector: forget_handles().
  template <class Vector>
  [[gnu::always_inline]] P* find(Vector& vector, fi_addr_t named) noexcept {
    const fi_addr_t handle = vector.without_context(named);
    const std::uint64_t version = vector.version();
    if (handle < by_handle_.size() && by_handle_[handle].version == version) [[likely]]
      return by_handle_[handle].peer;
    return find_uncached(vector.find(handle), handle, version);
  }
  void forget_handles() noexcept { by_handle_.clear(); }

  // nullptr when memory runs out.
  P* at(const Address& address) noexcept {
    try {
      if (const auto known = peers_.find(address); known != peers_.end()) return known->second.get();
      const PeerBase* const numbered = numbers_ != nullptr ? numbers_->at(address) : nullptr;
      if (numbers_ != nullptr && numbered == nullptr) return nullptr;
      auto made = std::make_unique<P>();
      made->address = address;
      made->id = numbered != nullptr ? numbered->id : peers_.size() + 1;
      return (peers_[address] = std::move(made)).get();
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }

  template <class Vector>
  fi_addr_t name_of(Vector& vector, P& peer) noexcept {
    const std::uint64_t version = vector.version();
    if (peer.named_at != version) [[unlikely]] {
      peer.name = vector.source_of(peer.address);
      peer.named_at = version;
    }
    return peer.name;
  }

  template <class Visit>
  void for_each(Visit visit) noexcept {
    for (auto& [address, peer] : peers_) visit(*peer);
  }

 private:
  // The peer of a handle, valid for this version of the vector.
  struct CachedPeer {
    P* peer = nullptr;
    std::uint64_t version = 0;
  };
  static constexpr std::size_t kCachedHandles = 1 << 20;  // greater ones are looked up each time

  [[gnu::noinline]] P* find_uncached(const Address* address, fi_addr_t handle, std::uint64_t version) noexcept {
    if (address == nullptr) return nullptr;
    P* peer = handle < by_handle_.size() ? by_handle_[handle].peer : nullptr;
    if (peer == nullptr || peer->address != *address) peer = at(*address);
    if (peer == nullptr || handle >= kCachedHandles) return peer;
    try {
      if (handle >= by_handle_.size()) by_handle_.resize(std::max<std::size_t>(handle + 1, 2 * handle));
      by_handle_[handle] = {peer, version};
    } catch (const std::bad_alloc&) {
      // The handle stays uncached.
    }
    return peer;
  }

  PeerTable<PeerBase>* numbers_ = nullptr;  // null: numbered here
  std::unordered_map<Address, std::unique_ptr<P>> peers_;
  std::vector<CachedPeer> by_handle_;
};

}  // namespace weft::rdm
