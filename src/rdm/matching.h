// SPDX-License-Identifier: BSD-2-Clause
// Which message goes to which receive: the matching rules of fi_msg(3) and fi_tagged(3) for endpoints with many peers,
// as a pure data structure. Messages of one source match in the order in which they came, receives in the order in
// which they were posted.
//
// Receives that name a tag exactly, and messages, are hashed, so that matching costs the same with one entry as with a
// hundred thousand. Receives that ignore bits of the tag lie in a list of their own; messages are searched for them in
// order of arrival. Not thread-safe. Elements are their owner's and must be removed before they go away.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>

#include "base/list.h"

namespace weft::rdm {

// No peer has this number: a receive from anybody.
inline constexpr std::uint64_t kAnySource = ~std::uint64_t{0};

// What a receive asks for. Untagged receives have tag and ignore 0.
struct Wanted {
  std::uint64_t source = kAnySource;
  std::uint64_t tag = 0;
  std::uint64_t ignore = 0;

  bool takes(std::uint64_t from, std::uint64_t with) const noexcept {
    return ((tag ^ with) & ~ignore) == 0 && (source == kAnySource || source == from);
  }
};

struct PlaceTag;    // bucket or list where matching looks
struct PostedTag;   // all posted receives
struct ByTagTag;    // messages by tag alone
struct ArrivalTag;  // all messages

// Base of a posted receive.
struct PostedEntry : ListHook<PlaceTag>, ListHook<PostedTag> {
  Wanted wanted;
  std::uint64_t sequence = 0;

  bool in(std::uint64_t source, std::uint64_t tag) const noexcept {
    return wanted.tag == tag && wanted.source == source;
  }
};

// Base of a message that no receive was posted for.
struct ArrivedEntry : ListHook<PlaceTag>, ListHook<ByTagTag>, ListHook<ArrivalTag> {
  std::uint64_t source = 0;
  std::uint64_t tag = 0;
};

// Lists of entries by the hash of (source, tag); entries of one bucket keep their order when the table grows.
template <class T, class Tag>
class Buckets {
 public:
  List<T, Tag>* at(std::uint64_t source, std::uint64_t tag) noexcept {
    return lists_ == nullptr ? nullptr : &lists_[hash(source, tag) & (count_ - 1)];
  }
  // False when memory runs out and there is no table at all.
  template <class Key>
  bool insert(T& entry, Key key) noexcept {
    if (size_ >= 2 * count_) grow(key);
    if (lists_ == nullptr) return false;
    const auto [source, tag] = key(entry);
    at(source, tag)->push_back(entry);
    ++size_;
    return true;
  }
  void removed() noexcept { --size_; }
  bool empty() const noexcept { return size_ == 0; }

 private:
  static std::size_t hash(std::uint64_t source, std::uint64_t tag) noexcept {
    std::uint64_t mixed = (tag + 0x9e3779b97f4a7c15) ^ (source * 0xff51afd7ed558ccd);
    mixed = (mixed ^ (mixed >> 32)) * 0xd6e8feb86659fd93;
    return mixed ^ (mixed >> 29);
  }
  template <class Key>
  void grow(Key key) noexcept {
    const std::size_t count = count_ == 0 ? kFirst : 2 * count_;
    std::unique_ptr<List<T, Tag>[]> lists(new (std::nothrow) List<T, Tag>[count]);
    if (lists == nullptr) return;
    for (std::size_t i = 0; i < count_; ++i) {
      while (!lists_[i].empty()) {
        T& entry = lists_[i].pop_front();
        const auto [source, tag] = key(entry);
        lists[hash(source, tag) & (count - 1)].push_back(entry);
      }
    }
    lists_ = std::move(lists);
    count_ = count;
  }

  static constexpr std::size_t kFirst = 64;
  std::unique_ptr<List<T, Tag>[]> lists_;
  std::size_t count_ = 0;
  std::size_t size_ = 0;
};

// T derives from PostedEntry.
template <class T>
class PostedReceives {
 public:
  bool empty() const noexcept { return count_ == 0; }
  std::size_t size() const noexcept { return count_; }

  // False when memory runs out.
  bool post(T& receive) noexcept {
    receive.sequence = next_++;
    if (receive.wanted.ignore != 0) {
      wild_.push_back(receive);
    } else {
      if (!exact_.insert(receive, key_of)) return false;
      if (receive.wanted.source == kAnySource) ++any_source_;
    }
    order_.push_back(receive);
    ++count_;
    return true;
  }

  // The oldest receive that takes such a message; it stays posted. nullptr: none.
  T* match(std::uint64_t source, std::uint64_t tag) noexcept {
    if (count_ == 0) return nullptr;
    T* best = nullptr;
    if (!exact_.empty()) {
      if (any_source_ != count_) best = first_in(source, tag);
      if (any_source_ != 0) best = older(best, first_in(kAnySource, tag));
    }
    for (T& receive : wild_) {
      if (best != nullptr && best->sequence < receive.sequence) break;
      if (receive.wanted.takes(source, tag)) return &receive;
    }
    return best;
  }

  void remove(T& receive) noexcept {
    static_cast<ListHook<PlaceTag>&>(receive).unlink();
    static_cast<ListHook<PostedTag>&>(receive).unlink();
    --count_;
    if (receive.wanted.ignore != 0) return;
    exact_.removed();
    if (receive.wanted.source == kAnySource) --any_source_;
  }

  // In the order of posting.
  List<T, PostedTag>& all() noexcept { return order_; }

 private:
  struct Key {
    std::uint64_t source, tag;
  };
  static Key key_of(const T& receive) noexcept { return {receive.wanted.source, receive.wanted.tag}; }
  static T* older(T* a, T* b) noexcept {
    if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
    return a->sequence < b->sequence ? a : b;
  }
  T* first_in(std::uint64_t source, std::uint64_t tag) noexcept {
    for (T& receive : *exact_.at(source, tag))
      if (receive.in(source, tag)) return &receive;
    return nullptr;
  }

  Buckets<T, PlaceTag> exact_;
  List<T, PlaceTag> wild_;
  List<T, PostedTag> order_;
  std::size_t any_source_ = 0;  // of exact_: those that take messages of anybody
  std::size_t count_ = 0;
  std::uint64_t next_ = 0;
};

// T derives from ArrivedEntry.
template <class T>
class ArrivedMessages {
 public:
  bool empty() const noexcept { return count_ == 0; }
  std::size_t size() const noexcept { return count_; }

  // False when memory runs out.
  bool keep(T& message) noexcept {
    if (!exact_.insert(message, [](const T& m) { return Key{m.source, m.tag}; })) return false;
    if (!by_tag_.insert(message, [](const T& m) { return Key{kAnySource, m.tag}; })) {
      static_cast<ListHook<PlaceTag>&>(message).unlink();
      exact_.removed();
      return false;
    }
    order_.push_back(message);
    ++count_;
    return true;
  }

  // The oldest message that such a receive takes; it stays kept. nullptr: none.
  T* find(const Wanted& wanted) noexcept {
    if (count_ == 0) return nullptr;
    if (wanted.ignore == 0 && wanted.source != kAnySource) {
      for (T& message : *exact_.at(wanted.source, wanted.tag))
        if (wanted.takes(message.source, message.tag)) return &message;
      return nullptr;
    }
    if (wanted.ignore == 0) {
      for (T& message : *by_tag_.at(kAnySource, wanted.tag))
        if (wanted.takes(message.source, message.tag)) return &message;
      return nullptr;
    }
    for (T& message : order_)
      if (wanted.takes(message.source, message.tag)) return &message;
    return nullptr;
  }

  void remove(T& message) noexcept {
    static_cast<ListHook<PlaceTag>&>(message).unlink();
    static_cast<ListHook<ByTagTag>&>(message).unlink();
    static_cast<ListHook<ArrivalTag>&>(message).unlink();
    exact_.removed();
    by_tag_.removed();
    --count_;
  }

  // In the order of arrival.
  List<T, ArrivalTag>& all() noexcept { return order_; }

 private:
  struct Key {
    std::uint64_t source, tag;
  };

  Buckets<T, PlaceTag> exact_;
  Buckets<T, ByTagTag> by_tag_;
  List<T, ArrivalTag> order_;
  std::size_t count_ = 0;
};

}  // namespace weft::rdm
