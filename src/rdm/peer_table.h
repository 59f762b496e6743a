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
#include "rdm/host_addresses.h"

namespace weft::rdm {

struct PeerBase {
  Address address;
  std::uint64_t id = 0;
  fi_addr_t name = FI_ADDR_NOTAVAIL;  // its name in completions, ...
  std::uint64_t named_at = 0;         // ... valid for this version of the vector; 0: never looked up
  bool everywhere = false;            // it is at each address of this host, with one port
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
    if (P* const found = known(address)) return found;
    try {
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

  // The peer that sent a request from that address; nullptr when memory runs out. `everywhere`: it is at the wildcard
  // address. If it is on this host, all addresses of the host with its port lead to it from now on.
  P* requester(const Address& from, bool everywhere) noexcept {
    if (!everywhere || !is_of_this_host(from)) return at(from);
    if (numbers_ != nullptr && numbers_->requester(from, true) == nullptr) return nullptr;
    P* peer = known(from);
    if (peer == nullptr) peer = known_elsewhere(from);
    if (peer == nullptr) peer = at(from);
    if (peer == nullptr) return nullptr;
    try {
      everywhere_[Address::any(from.family(), from.port())] = peer;
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
    peer->everywhere = true;
    return peer;
  }

  template <class Vector>
  fi_addr_t name_of(Vector& vector, P& peer) noexcept {
    const std::uint64_t version = vector.version();
    if (peer.named_at != version) [[unlikely]] {
      peer.name = source_of(vector, peer);
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

  P* known(const Address& address) const noexcept {
    if (const auto found = peers_.find(address); found != peers_.end()) return found->second.get();
    if (everywhere_.empty()) [[likely]]
      return nullptr;
    const auto found = everywhere_.find(Address::any(address.family(), address.port()));
    return found != everywhere_.end() && is_of_this_host(address) ? found->second : nullptr;
  }
  P* known_elsewhere(const Address& address) const noexcept {
    for (const Address& each : same_port_on_this_host(address))
      if (const auto found = peers_.find(each); found != peers_.end()) return found->second.get();
    return nullptr;
  }

  template <class Vector>
  static fi_addr_t source_of(Vector& vector, const P& peer) noexcept {
    fi_addr_t name = vector.source_of(peer.address);
    if (name != FI_ADDR_NOTAVAIL || !peer.everywhere) return name;
    for (const Address& each : same_port_on_this_host(peer.address))
      if (name = vector.source_of(each); name != FI_ADDR_NOTAVAIL) break;
    return name;
  }

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
  std::unordered_map<Address, P*> everywhere_;  // peers on this host, by the wildcard address with their port
  std::vector<CachedPeer> by_handle_;
};

}  // namespace weft::rdm
