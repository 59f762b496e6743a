// SPDX-License-Identifier: BSD-2-Clause
// The peers of a reliable-datagram endpoint, by their addresses. Each has a number, which matching uses; fi_av(3). A
// server's clients change: peers that the vector no longer has, and that nothing else uses, are dropped.
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

// The addresses of a peer at the wildcard address of this host; see host_addresses.h.
struct PeerAliases {
  std::vector<Address> addresses;
  Address inserted;  // one of them, which a handle has; empty: none was used
};

struct PeerBase {
  Address address;  // its requests come from there, and ours go there
  std::uint64_t id = 0;
  fi_addr_t name = FI_ADDR_NOTAVAIL;  // its name in completions, ...
  std::uint64_t named_at = 0;         // ... valid for this version of the vector; 0: never looked up
  std::unique_ptr<PeerAliases> aliases;
  PeerBase* numbered = nullptr;  // in the table that `id` comes from; null: this is it
  std::uint32_t numbers = 0;     // peers of other tables that are numbered here

  // P may have more reasons to stay.
  bool in_use() const noexcept { return numbers != 0; }
  // For a request of ours: the program may have inserted an address other than that of the peer's last request.
  void use_inserted_address() noexcept {
    if (aliases != nullptr && aliases->inserted) address = aliases->inserted;
  }
};

// For PeerTable::requester(): the number is that of one endpoint in any case.
struct AnyRequest {
  bool operator()(const PeerBase&) const noexcept { return true; }
};

// The result of a call for which PeerTable::find() has no peer.
template <class Vector>
ssize_t no_peer(Vector& vector, fi_addr_t named) noexcept {
  return vector.find(vector.without_context(named)) != nullptr ? -FI_EAGAIN : -FI_EINVAL;
}

// P derives from PeerBase. The owner's lock guards it. Only find() and requester() drop peers.
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
    P* const found = known(address);
    return found != nullptr ? found : make(address, nullptr);
  }

  // The peer that sent a request from that address; nullptr when memory runs out. `everywhere`: it is at the wildcard
  // address. If it is on this host, all addresses of the host with its port lead to it from now on, except those that
  // were used before. `serves`: whether the request may be about a peer that is known by another address. If not, that
  // peer and the result share one number.
  template <class Vector, class Serves>
  P* requester(Vector& vector, const Address& from, bool everywhere, Serves serves) noexcept {
    forget_unused(vector);
    return requester(from, everywhere, serves);
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

  template <class Vector>
  [[gnu::noinline]] P* find_uncached(Vector& vector, fi_addr_t handle, std::uint64_t version) noexcept {
    const Address* const address = vector.find(handle);
    if (address == nullptr) return nullptr;
    forget_unused(vector);
    P* peer = handle < by_handle_.size() ? by_handle_[handle].peer : nullptr;
    if (peer == nullptr || peer->address != *address) peer = at(*address);
    if (peer != nullptr && peer->aliases != nullptr) add_inserted(*peer, *address);
    if (peer == nullptr || handle >= kCachedHandles) return peer;
    try {
      if (handle >= by_handle_.size()) by_handle_.resize(std::max<std::size_t>(handle + 1, 2 * handle));
      by_handle_[handle] = {peer, version};
    } catch (const std::bad_alloc&) {
      // The handle stays uncached.
    }
    return peer;
  }

  template <class Serves>
  P* requester(const Address& from, bool everywhere, Serves serves) noexcept {
    P* peer = known_exactly(from);
    std::vector<Address> addresses;
    if (everywhere && (peer == nullptr || peer->aliases == nullptr)) addresses = same_port_on_this_host(from);
    const bool is_here = from.is_loopback() ? !addresses.empty() : std::ranges::count(addresses, from) != 0;
    if (!is_here) return peer != nullptr ? peer : make(from, nullptr);
    if (numbers_ != nullptr) (void)numbers_->requester(from, true, AnyRequest());
    if (peer == nullptr) {
      P* const same = known_elsewhere(from, addresses);
      peer = same != nullptr && serves(*same) ? same : make(from, same);
    }
    if (peer != nullptr) add_aliases(*peer, from, std::move(addresses));
    return peer;
  }

  P* known_exactly(const Address& address) const noexcept {
    const auto found = peers_.find(address);
    return found != peers_.end() ? found->second.get() : nullptr;
  }
  // All loopback addresses lead to the same peer as the usual one.
  P* known(const Address& address) const noexcept {
    if (P* const exact = known_exactly(address); exact != nullptr || aliases_ == nullptr) [[likely]]
      return exact;
    auto found = aliases_->find(address);
    if (found == aliases_->end() && address.is_loopback())
      found = aliases_->find(Address::loopback(address.family(), address.port()));
    return found != aliases_->end() ? found->second : nullptr;
  }
  P* known_elsewhere(const Address& from, const std::vector<Address>& addresses) const noexcept {
    P* found = known(from);
    for (auto each = addresses.begin(); found == nullptr && each != addresses.end(); ++each)
      found = known_exactly(*each);
    return found;
  }

  // `same`: another record of the peer; null: the first one.
  P* make(const Address& address, const P* same) noexcept {
    try {
      PeerBase* const numbered = numbers_ != nullptr ? numbers_->at(address) : nullptr;
      if (numbers_ != nullptr && numbered == nullptr) return nullptr;
      auto made = std::make_unique<P>();
      made->address = address;
      made->id = numbered != nullptr ? numbered->id : same != nullptr ? same->id : ++last_id_;
      P* const peer = (peers_[address] = std::move(made)).get();
      peer->numbered = numbered;
      if (numbered != nullptr) ++numbered->numbers;
      return peer;
    } catch (const std::bad_alloc&) {
      return nullptr;
    }
  }

  // When memory runs out, the peer has fewer of them.
  void add_aliases(P& peer, const Address& from, std::vector<Address> addresses) noexcept {
    try {
      if (aliases_ == nullptr) aliases_ = std::make_unique<Aliases>();
      addresses.push_back(from);
      peer.aliases.reset(new PeerAliases{std::move(addresses), {}});
      for (const Address& each : peer.aliases->addresses) aliases_->emplace(each, &peer);
      peer.named_at = 0;
    } catch (const std::bad_alloc&) {
    }
  }
  void add_inserted(P& peer, const Address& address) noexcept {
    peer.aliases->inserted = address;
    if (aliases_->contains(address)) return;
    try {
      peer.aliases->addresses.push_back(address);
      aliases_->emplace(address, &peer);
      peer.named_at = 0;
    } catch (const std::bad_alloc&) {
    }
  }

  template <class Vector>
  static fi_addr_t source_of(Vector& vector, const P& peer) noexcept {
    fi_addr_t name = vector.source_of(peer.address);
    if (peer.aliases == nullptr) return name;
    for (auto each = peer.aliases->addresses.begin(); name == FI_ADDR_NOTAVAIL && each != peer.aliases->addresses.end();
         ++each)
      name = vector.source_of(*each);
    return name;
  }

  // Runs when the table has doubled, so that each peer is checked a few times at most.
  template <class Vector>
  void forget_unused(Vector& vector) noexcept {
    if (numbers_ != nullptr) numbers_->forget_unused(vector);
    if (peers_.size() < forgets_at_) [[likely]]
      return;
    by_handle_.clear();
    std::erase_if(peers_, [&](const auto& each) {
      P& peer = *each.second;
      if (peer.in_use() || name_of(vector, peer) != FI_ADDR_NOTAVAIL) return false;
      return_number(peer);
      drop_aliases(peer);
      return true;
    });
    forgets_at_ = std::max(kFirstForgotten, 2 * peers_.size());
  }
  void drop_aliases(const P& peer) noexcept {
    if (peer.aliases == nullptr) return;
    for (const Address& each : peer.aliases->addresses)
      if (const auto found = aliases_->find(each); found != aliases_->end() && found->second == &peer)
        aliases_->erase(found);
  }
  static void return_number(P& peer) noexcept {
    if (peer.numbered != nullptr) --std::exchange(peer.numbered, nullptr)->numbers;
  }

  static constexpr std::size_t kFirstForgotten = 1024;
  using Aliases = std::unordered_map<Address, P*>;

  PeerTable<PeerBase>* numbers_ = nullptr;  // null: numbered here
  std::uint64_t last_id_ = 0;
  std::size_t forgets_at_ = kFirstForgotten;  // peers
  std::unordered_map<Address, std::unique_ptr<P>> peers_;
  std::unique_ptr<Aliases> aliases_;  // a peer's own address comes first, in peers_; null: no peer has any
  std::vector<CachedPeer> by_handle_;
};

}  // namespace weft::rdm
