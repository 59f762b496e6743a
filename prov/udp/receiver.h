// SPDX-License-Identifier: BSD-2-Clause
// The receiving side of a datagram endpoint, which its sockets share: posted receives, datagrams that wait for one, and
// the names of senders; fi_msg(3), fi_av(3).
#pragma once

#include <algorithm>
#include <cstddef>
#include <new>
#include <span>
#include <vector>

#include "messages/receive_queue.h"
#include "objects/address.h"
#include "objects/completion_routes.h"
#include "udp/engine.h"

namespace weft::udp {

// Datagrams that were read in a batch and found no posted receive, in one buffer, oldest first. At most one batch of
// them is stored; the buffer grows to that size once. Guarded by the engine's mutex.
class KeptDatagrams {
 public:
  // `origin`: the socket that it was read from. If memory runs out the datagram is lost.
  void push(std::span<const std::byte> datagram, const Address& source, bool multicast, const void* origin) noexcept
      try {
    kept_.reserve(kept_.size() + 1);
    bytes_.insert(bytes_.end(), datagram.begin(), datagram.end());
    kept_.push_back({source, multicast, origin, bytes_.size() - datagram.size(), datagram.size()});
  } catch (const std::bad_alloc&) {
  }
  bool empty() const noexcept { return next_ == kept_.size(); }
  struct Kept {
    std::span<const std::byte> datagram;
    Address source;
    bool multicast;
  };
  // The oldest one; valid until the next call except drop_first().
  Kept first() const noexcept {
    const Place& place = kept_[next_];
    return {{bytes_.data() + place.at, place.len}, place.source, place.multicast};
  }
  void drop_first() noexcept {
    ++next_;
    clear_if_empty();
  }
  // Drops the datagrams of a socket that is being closed.
  void drop_from(const void* origin) noexcept {
    kept_.erase(kept_.begin(), kept_.begin() + static_cast<std::ptrdiff_t>(next_));
    next_ = 0;
    std::erase_if(kept_, [&](const Place& place) { return place.origin == origin; });
    clear_if_empty();
  }

 private:
  struct Place {
    Address source;
    bool multicast;
    const void* origin;
    std::size_t at, len;  // where its bytes are
  };
  // The memory stays for the next time.
  void clear_if_empty() noexcept {
    if (!empty()) return;
    bytes_.clear();
    kept_.clear();
    next_ = 0;
  }

  std::vector<std::byte> bytes_;
  std::vector<Place> kept_;
  std::size_t next_ = 0;  // the oldest one
};

// Owner: the endpoint. Guarded by the engine's mutex.
class Receiver {
 public:
  Receiver(Engine& engine, messages::DatagramPool& pool, std::size_t size, CompletionRoutes& routes) noexcept
      : queue(pool, size), engine_(engine), routes_(routes) {}

  Engine& engine() noexcept { return engine_; }

  // Posts a receive, and delivers datagrams that waited for one.
  ssize_t post(const ReceiveRequest& request) noexcept {
    if (const ssize_t result = queue.post(request); result != 0) return result;
    while (!kept_.empty() && !queue.empty()) {
      const KeptDatagrams::Kept kept = kept_.first();
      queue.deliver(kept.datagram,
                    {.len = kept.datagram.size(), .name = name_of(kept.source), .multicast = kept.multicast}, routes_);
      kept_.drop_first();
    }
    return 0;
  }
  void received(std::span<const std::byte> datagram, const Address& source, fi_addr_t name, bool multicast,
                const void* from) noexcept {
    if (!queue.deliver(datagram, {.len = datagram.size(), .name = name, .multicast = multicast}, routes_))
      kept_.push(datagram, source, multicast, from);
  }
  // The next datagram, already in queue.lone_buffer().
  void received_in_place(std::size_t len, const Address& source) noexcept {
    const messages::Envelope envelope{.len = len, .name = name_of(source)};
    queue.complete(queue.match(envelope), envelope, routes_);
  }
  // Drops the datagrams of a socket that is being closed.
  void drop_kept(const void* from) noexcept { kept_.drop_from(from); }

  // Completions name senders by this address vector (FI_SOURCE); null: not at all.
  void set_vector(const AddressVector* vector) noexcept { vector_ = vector; }
  fi_addr_t name_of(const Address& source) const noexcept {
    return vector_ != nullptr ? vector_->source_of(source) : FI_ADDR_NOTAVAIL;
  }
  // Whether a group's message was sent by this endpoint and has to be dropped.
  bool is_own(const Address& source) const noexcept {
    return !loopback && std::find(own_addresses.begin(), own_addresses.end(), source) != own_addresses.end();
  }

  messages::DatagramQueue queue;
  bool loopback = false;               // FI_OPT_WEFT_MULTICAST_LOOPBACK
  std::vector<Address> own_addresses;  // the source addresses of the endpoint's messages

 private:
  Engine& engine_;
  CompletionRoutes& routes_;
  const AddressVector* vector_ = nullptr;
  KeptDatagrams kept_;
};

}  // namespace weft::udp
