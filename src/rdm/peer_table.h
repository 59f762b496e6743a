// SPDX-License-Identifier: BSD-2-Clause
// The peers of a reliable-datagram endpoint, by their addresses. Each has a number, which matching uses; fi_av(3). A
// server has other clients every day: peers that the vector no longer has, and that nothing else uses, are forgotten.
#pragma once

#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <unordered_map>
#include <utility>
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
  bool has_alias = false;             // a handle leads to it whose address is another one
  PeerBase* numbered = nullptr;       // in the table that `id` comes from; null: this is it
  std::uint32_t numbers = 0;          // peers of other tables that are numbered here

  // P may have more reasons to stay.
  bool in_use() const noexcept { return numbers != 0; }
};

// The result of a call for which PeerTable::find() has no peer.
template <class Vector>
ssize_t no_peer(Vector& vector, fi_addr_t named) noexcept {
  return vector.find(vector.without_context(named)) != nullptr ? -FI_EAGAIN : -FI_EINVAL;
}

// P derives from PeerBase. The owner's lock guards it. Only find(), and requester() with a vector, forget peers.
template <class P>
class PeerTable {
 public:
  // Peers that are added from now on get their numbers there; null: here. `numbers` stays until then.
  void share_numbers_of(PeerTable<PeerBase>* numbers) noexcept {
    for (auto& [address, peer] : peers_) return_number(*peer);
    numbers_ = numbers;
  }

  // The peer of a handle of the vector; nullptr: none, or memory runs out. Each send needs it, so a handle that was
  // found since the last change of the vector costs no call. Before a call with another vector: forget_handles().
  template <class Vector>
  [[gnu::always_inline]] P* find(Vector& vector, fi_addr_t named) noexcept {
    const fi_addr_t handle = vector.without_context(named);
    const std::uint64_t version = vector.version();
    if (handle < by_handle_.size() && by_handle_[handle].version == version) [[likely]]
      return by_handle_[handle].peer;
    return find_uncached(vector, handle, version);
  }
  void forget_handles() noexcept { by_handle_.clear(); }

  // nullptr when memory runs out.
  P* at(const Address& address) noexcept {
    if (P* const found = known(address)) return found;
    try {
      PeerBase* const numbered = numbers_ != nullptr ? numbers_->at(address) : nullptr;
      if (numbers_ != nullptr && numbered == nullptr) return nullptr;
      auto made = std::make_unique<P>();
      made->address = address;
      made->id = numbered != nullptr ? numbered->id : ++last_id_;
      P* const peer = (peers_[address] = std::move(made)).get();
      peer->numbered = numbered;
      if (numbered != nullptr) ++numbered->numbers;
      return peer;
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }

  // The peer that sent a request from that address; nullptr when memory runs out. `everywhere`: it is at the wildcard
  // address. If it is on this host, all addresses of the host with its port lead to it from now on.
  template <class Vector>
  P* requester(Vector& vector, const Address& from, bool everywhere) noexcept {
    forget_unused(vector);
    return requester(from, everywhere);
  }
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
  template <class>
  friend class PeerTable;

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

  // Runs when the table has doubled, so that each peer is looked at a few times at most.
  template <class Vector>
  void forget_unused(Vector& vector) noexcept {
    if (numbers_ != nullptr) numbers_->forget_unused(vector);
    if (peers_.size() < forgets_at_) [[likely]]
      return;
    const auto forgotten = [&](P& peer) {
      return !peer.in_use() && !peer.has_alias && name_of(vector, peer) == FI_ADDR_NOTAVAIL;
    };
    by_handle_.clear();
    std::erase_if(everywhere_, [&](const auto& each) { return forgotten(*each.second); });
    std::erase_if(peers_, [&](const auto& each) {
      const bool goes = forgotten(*each.second);
      if (goes) return_number(*each.second);
      return goes;
    });
    forgets_at_ = std::max(kFirstForgotten, 2 * peers_.size());
  }
  static void return_number(P& peer) noexcept {
    if (peer.numbered != nullptr) --std::exchange(peer.numbered, nullptr)->numbers;
  }

  template <class Vector>
  static fi_addr_t source_of(Vector& vector, const P& peer) noexcept {
    fi_addr_t name = vector.source_of(peer.address);
    if (name != FI_ADDR_NOTAVAIL || !peer.everywhere) return name;
    for (const Address& each : same_port_on_this_host(peer.address))
      if (name = vector.source_of(each); name != FI_ADDR_NOTAVAIL) break;
    return name;
  }

  template <class Vector>
  [[gnu::noinline]] P* find_uncached(Vector& vector, fi_addr_t handle, std::uint64_t version) noexcept {
    const Address* const address = vector.find(handle);
    if (address == nullptr) return nullptr;
    forget_unused(vector);
    P* peer = handle < by_handle_.size() ? by_handle_[handle].peer : nullptr;
    if (peer == nullptr || peer->address != *address) peer = at(*address);
    if (peer != nullptr) peer->has_alias |= peer->address != *address;
    if (peer == nullptr || handle >= kCachedHandles) return peer;
    try {
      if (handle >= by_handle_.size()) by_handle_.resize(std::max<std::size_t>(handle + 1, 2 * handle));
      by_handle_[handle] = {peer, version};
    } catch (const std::bad_alloc&) {
      // The handle stays uncached.
    }
    return peer;
  }

  static constexpr std::size_t kFirstForgotten = 1024;

  PeerTable<PeerBase>* numbers_ = nullptr;  // null: numbered here
  std::uint64_t last_id_ = 0;
  std::size_t forgets_at_ = kFirstForgotten;  // peers
  std::unordered_map<Address, std::unique_ptr<P>> peers_;
  std::unordered_map<Address, P*> everywhere_;  // peers on this host, by the wildcard address with their port
  std::vector<CachedPeer> by_handle_;
};

}  // namespace weft::rdm
