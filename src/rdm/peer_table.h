// SPDX-License-Identifier: BSD-2-Clause
// Whom a reliable-datagram endpoint knows: everybody with an address that was ever used, under a number of its own,
// which matching goes by; fi_av(3).
#pragma once

#include <rdma/fi_domain.h>

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
  fi_addr_t name = FI_ADDR_NOTAVAIL;  // what completions call it, ...
  std::uint64_t named_at = 0;         // ... as long as this is the vector's version; 0: never looked up
};

// P derives from PeerBase. The owner's lock guards it; peers live as long as it does.
template <class P>
class PeerTable {
 public:
  // Whoever is added from now on gets the number that it has there. `numbers` outlives this table.
  void take_numbers_of(PeerTable<PeerBase>& numbers) noexcept { numbers_ = &numbers; }

  // Whom the vector knows by this handle; nullptr: nobody, or memory runs out. Each send asks, so it is without a call
  // for whom was found since the vector changed. It is the same vector each time, or forget_handles() comes between.
  template <class Vector>
  [[gnu::always_inline]] P* find(Vector& vector, fi_addr_t named) noexcept {
    const fi_addr_t handle = vector.without_context(named);
    const std::uint64_t version = vector.version();
    if (handle < by_handle_.size() && by_handle_[handle].version == version) [[likely]]
      return by_handle_[handle].peer;
    return find_anew(vector.find(handle), handle, version);
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
  // Whom a handle stands for, as long as the vector has this version.
  struct Known {
    P* peer = nullptr;
    std::uint64_t version = 0;
  };
  static constexpr std::size_t kCachedHandles = 1 << 20;  // greater ones are looked up each time

  [[gnu::noinline]] P* find_anew(const Address* address, fi_addr_t handle, std::uint64_t version) noexcept {
    if (address == nullptr) return nullptr;
    P* peer = handle < by_handle_.size() ? by_handle_[handle].peer : nullptr;
    if (peer == nullptr || peer->address != *address) peer = at(*address);
    if (peer == nullptr || handle >= kCachedHandles) return peer;
    try {
      if (handle >= by_handle_.size()) by_handle_.resize(std::max<std::size_t>(handle + 1, 2 * handle));
      by_handle_[handle] = {peer, version};
    } catch (const std::bad_alloc&) {
      // It is looked up again next time.
    }
    return peer;
  }

  PeerTable<PeerBase>* numbers_ = nullptr;  // null: it numbers them itself
  std::unordered_map<Address, std::unique_ptr<P>> peers_;
  std::vector<Known> by_handle_;
};

}  // namespace weft::rdm
