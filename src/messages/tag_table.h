// SPDX-License-Identifier: BSD-2-Clause
// The matcher of endpoints with many peers: tags of many sources; fi_msg(3), fi_tagged(3).
//
// Many receives that name a tag exactly, and messages, are hashed, so that matching costs the same with a few entries
// as with a hundred thousand. Receives that ignore bits of the tag have a list of their own; for such a receive the
// messages are searched in order of arrival. The owner of an element removes it before destroying it.
#pragma once

#include <sys/auxv.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <utility>

#include "base/list.h"
#include "messages/matcher.h"

namespace weft::messages {

struct PostedTag;  // all posted receives of a kind

struct Key {
  std::uint64_t source, tag;
};

// A secret of the process: the random bytes that the kernel passes to its C library, getauxval(3), mixed so that a hash
// does not reveal them.
struct HashSecret {
  HashSecret() noexcept {
    const auto* const random = reinterpret_cast<const void*>(::getauxval(AT_RANDOM));
    std::uint64_t words[2] = {0x9e3779b97f4a7c15, 0xff51afd7ed558ccd};
    if (random != nullptr) std::memcpy(words, random, sizeof words);
    tag = (words[0] ^ (words[1] >> 23)) * 0xd6e8feb86659fd93;
    source = (words[1] ^ (words[0] >> 29)) * 0xff51afd7ed558ccd | 1;
  }
  std::uint64_t tag, source;
};
inline const HashSecret kHashSecret;

// Lists of entries by the hash of (source, tag); entries of one bucket keep their order when the table grows. A few
// entries are one list. While a table grows, each insertion moves two buckets, and a search moves those that it reads,
// so that no insertion takes long. When memory for a table, or for a larger one, runs out, the lists grow longer.
template <class T, class Tag, Key (*key_of)(const T&) noexcept>
class Buckets {
 public:
  List<T, Tag>& at(std::uint64_t source, std::uint64_t tag) noexcept {
    const std::size_t hashed = hash(source, tag);
    if (smaller_ != nullptr) [[unlikely]]
      move(smaller_[hashed & (count_ / 2 - 1)]);
    return lists_ == nullptr ? only_ : lists_[hashed & (count_ - 1)];
  }
  void insert(T& entry) noexcept {
    if (size_ >= (lists_ == nullptr ? kFew : std::size_t{2} * count_)) [[unlikely]]
      grow();
    if (smaller_ != nullptr) [[unlikely]]
      move_some();
    const auto [source, tag] = key_of(entry);
    at(source, tag).push_back(entry);
    ++size_;
  }
  void remove(T& entry) noexcept {
    List<T, Tag>::unlink(entry);
    --size_;
  }
  std::size_t size() const noexcept { return size_; }
  bool empty() const noexcept { return size_ == 0; }

 private:
  using Lists = std::unique_ptr<List<T, Tag>[]>;

  // Peers choose the tags, but the secret is random, so they cannot choose many that share a bucket.
  static std::size_t hash(std::uint64_t source, std::uint64_t tag) noexcept {
    __extension__ using Product = unsigned __int128;
    const Product product = Product{tag ^ kHashSecret.tag} * (source ^ kHashSecret.source);
    const auto mixed = static_cast<std::uint64_t>(product) ^ static_cast<std::uint64_t>(product >> 64);
    return mixed ^ (mixed >> 32);
  }
  void grow() noexcept {
    while (smaller_ != nullptr) move_some();
    const std::uint32_t count = std::max(kFirst, 2 * count_);
    Lists table(new (std::nothrow) List<T, Tag>[count]);
    if (table == nullptr) return;
    smaller_ = std::exchange(lists_, std::move(table));
    count_ = count;
    moved_ = 0;
    if (smaller_ == nullptr) move(only_);
  }
  void move_some() noexcept {
    for (int i = 0; i < 2 && moved_ != count_ / 2; ++i) move(smaller_[moved_++]);
    if (moved_ == count_ / 2) smaller_.reset();
  }
  void move(List<T, Tag>& bucket) noexcept {
    while (!bucket.empty()) {
      T& entry = bucket.pop_front();
      const auto [source, tag] = key_of(entry);
      lists_[hash(source, tag) & (count_ - 1)].push_back(entry);
    }
  }

  static constexpr std::size_t kFew = 8;
  static constexpr std::uint32_t kFirst = 64;
  List<T, Tag> only_;  // until a table exists
  Lists lists_;
  Lists smaller_;  // half as many, of which the first `moved_` are empty; null: all were moved
  std::uint32_t moved_ = 0;
  std::uint32_t count_ = 1;  // in lists_
  std::size_t size_ = 0;
};

struct HashedReceive : ListHook<PlaceTag>, ListHook<PostedTag>, PostedReceive {
  Wanted wanted;
  std::uint64_t sequence = 0;

  std::uint64_t tag() const noexcept { return wanted.tag; }
  bool names(std::uint64_t source, std::uint64_t tag) const noexcept {
    return wanted.tag == tag && wanted.source == source;
  }
};

// Receives of one kind, tagged or untagged. A few are searched one by one. Once there are more, all of them are sorted
// into the other lists, until none is left.
class HashedReceives {
 public:
  void post(HashedReceive& receive, const Wanted& wanted) noexcept {
    receive.wanted = wanted;
    receive.sequence = next_++;
    order_.push_back(receive);
    ++count_;
    if (sorted_ || count_ > kFew) [[unlikely]]
      sort_in(receive);
  }

  // The oldest receive that matches such a message; it stays posted. nullptr: none.
  HashedReceive* match(std::uint64_t source, std::uint64_t tag) noexcept {
    if (order_.empty()) return nullptr;
    if (order_.front().wanted.takes(source, tag)) [[likely]]
      return &order_.front();
    return sorted_ ? match_sorted(source, tag) : match_unsorted(source, tag);
  }

  void remove(HashedReceive& receive) noexcept {
    order_.unlink(receive);
    --count_;
    if (sorted_) [[unlikely]]
      sort_out(receive);
  }

  // In the order of posting.
  List<HashedReceive, PostedTag>& all() noexcept { return order_; }

 private:
  static constexpr std::size_t kFew = 8;

  static Key key_of(const HashedReceive& receive) noexcept { return {receive.wanted.source, receive.wanted.tag}; }
  static HashedReceive* older(HashedReceive* a, HashedReceive* b) noexcept {
    if (a == nullptr || b == nullptr) return a == nullptr ? b : a;
    return a->sequence < b->sequence ? a : b;
  }
  HashedReceive* match_unsorted(std::uint64_t source, std::uint64_t tag) noexcept {
    for (HashedReceive& receive : order_)
      if (receive.wanted.takes(source, tag)) return &receive;
    return nullptr;
  }
  [[gnu::noinline]] HashedReceive* match_sorted(std::uint64_t source, std::uint64_t tag) noexcept {
    HashedReceive* best = nullptr;
    if (!exact_.empty()) {
      if (any_source_ != exact_.size()) best = first_in(source, tag);
      if (any_source_ != 0) best = older(best, first_in(kAnySource, tag));
    }
    for (HashedReceive& receive : wild_) {
      if (best != nullptr && best->sequence < receive.sequence) break;
      if (receive.wanted.takes(source, tag)) return &receive;
    }
    return best;
  }
  // `youngest`: was posted last.
  [[gnu::noinline]] void sort_in(HashedReceive& youngest) noexcept {
    if (std::exchange(sorted_, true)) return add_sorted(youngest);
    for (HashedReceive& receive : order_) add_sorted(receive);
  }
  void add_sorted(HashedReceive& receive) noexcept {
    if (receive.wanted.ignore != 0) return wild_.push_back(receive);
    exact_.insert(receive);
    if (receive.wanted.source == kAnySource) ++any_source_;
  }
  [[gnu::noinline]] void sort_out(HashedReceive& receive) noexcept {
    if (receive.wanted.ignore != 0) {
      wild_.unlink(receive);
    } else {
      exact_.remove(receive);
      if (receive.wanted.source == kAnySource) --any_source_;
    }
    sorted_ = count_ != 0;
  }
  HashedReceive* first_in(std::uint64_t source, std::uint64_t tag) noexcept {
    for (HashedReceive& receive : exact_.at(source, tag))
      if (receive.names(source, tag)) return &receive;
    return nullptr;
  }

  List<HashedReceive, PostedTag> order_;
  std::size_t count_ = 0;
  bool sorted_ = false;  // all are in exact_ or wild_, too
  Buckets<HashedReceive, PlaceTag, key_of> exact_;
  List<HashedReceive, PlaceTag> wild_;
  std::size_t any_source_ = 0;  // receives of exact_ for every source
  std::uint64_t next_ = 0;
};

// Messages of one kind, tagged or untagged.
class HashedMessages {
 public:
  bool empty() noexcept { return order_.empty(); }

  void keep(UnexpectedMessage& message) noexcept {
    exact_.insert(message);
    by_tag_.insert(message);
    order_.push_back(message);
  }

  // The oldest message that matches such a receive; it stays kept. nullptr: none.
  UnexpectedMessage* find(const Wanted& wanted) noexcept {
    if (empty()) return nullptr;
    if (wanted.ignore != 0) return first_of(order_, wanted);
    if (wanted.source == kAnySource) return first_of(by_tag_.at(kAnySource, wanted.tag), wanted);
    return first_of(exact_.at(wanted.source, wanted.tag), wanted);
  }

  void remove(UnexpectedMessage& message) noexcept {
    exact_.remove(message);
    by_tag_.remove(message);
    order_.unlink(message);
  }

  // In the order of arrival.
  List<UnexpectedMessage, ArrivalTag>& all() noexcept { return order_; }

 private:
  template <class Messages>
  static UnexpectedMessage* first_of(Messages& messages, const Wanted& wanted) noexcept {
    for (UnexpectedMessage& message : messages)
      if (wanted.takes(message.envelope.source, message.envelope.matched_tag())) return &message;
    return nullptr;
  }

  static Key key_of(const UnexpectedMessage& message) noexcept {
    return {message.envelope.source, message.envelope.matched_tag()};
  }
  static Key tag_of(const UnexpectedMessage& message) noexcept { return {kAnySource, message.envelope.matched_tag()}; }

  Buckets<UnexpectedMessage, PlaceTag, key_of> exact_;
  Buckets<UnexpectedMessage, ByTagTag, tag_of> by_tag_;
  List<UnexpectedMessage, ArrivalTag> order_;
};

class TagTable {
 public:
  using Receive = HashedReceive;

  void post(Receive& receive, const Wanted& wanted) noexcept { posted(receive.tagged).post(receive, wanted); }
  Receive* match(const Envelope& envelope) noexcept {
    return posted(envelope.matches_by_tag()).match(envelope.source, envelope.matched_tag());
  }
  void remove(Receive& receive) noexcept { posted(receive.tagged).remove(receive); }
  Receive* first() noexcept {
    for (HashedReceives* each : {&untagged_, &tagged_})
      if (!each->all().empty()) return &each->all().front();
    return nullptr;
  }
  Receive* find_context(void* context) noexcept {
    for (HashedReceives* each : {&untagged_, &tagged_})
      for (Receive& receive : each->all())
        if (receive.context == context) return &receive;
    return nullptr;
  }

  void keep(UnexpectedMessage& message) noexcept { kept(message.envelope.matches_by_tag()).keep(message); }
  UnexpectedMessage* find(bool tagged, const Wanted& wanted) noexcept { return kept(tagged).find(wanted); }
  void remove(UnexpectedMessage& message) noexcept { kept(message.envelope.matches_by_tag()).remove(message); }
  bool has_messages(bool tagged) noexcept { return !kept(tagged).empty(); }
  template <class Visit>
  void for_each_message(Visit&& visit) noexcept {
    untagged_messages_.all().for_each(visit);
    tagged_messages_.all().for_each(visit);
  }

 private:
  HashedReceives& posted(bool tagged) noexcept { return tagged ? tagged_ : untagged_; }
  HashedMessages& kept(bool tagged) noexcept { return tagged ? tagged_messages_ : untagged_messages_; }

  HashedReceives untagged_, tagged_;
  HashedMessages untagged_messages_, tagged_messages_;
};

}  // namespace weft::messages
