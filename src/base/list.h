// SPDX-License-Identifier: BSD-2-Clause
// An intrusive doubly linked list: membership costs two pointers inside the element, insertion and removal never
// allocate, and an element can leave from anywhere (a closing endpoint leaves every queue it is in).
#pragma once

namespace weft {

// Base of a list element. An element that sits in several lists at once derives from several tagged hooks.
template <class Tag>
class ListHook {
 public:
  ListHook() noexcept = default;
  ListHook(const ListHook&) = delete;
  ListHook& operator=(const ListHook&) = delete;
  ~ListHook() { unlink(); }

  bool linked() const noexcept { return next_ != nullptr; }
  void unlink() noexcept {
    if (!linked()) return;
    previous_->next_ = next_;
    next_->previous_ = previous_;
    next_ = previous_ = nullptr;
  }

 private:
  template <class T, class>
  friend class List;
  ListHook* next_ = nullptr;
  ListHook* previous_ = nullptr;
};

// T derives from ListHook<Tag>. Not thread-safe. The list does not own its elements.
template <class T, class Tag = T>
class List {
  using Hook = ListHook<Tag>;

 public:
  List() noexcept { root_.next_ = root_.previous_ = &root_; }
  ~List() {
    clear();
    root_.next_ = root_.previous_ = nullptr;
  }

  bool empty() const noexcept { return root_.next_ == &root_; }
  T& front() noexcept { return element(root_.next_); }
  T& back() noexcept { return element(root_.previous_); }
  // For elements of several lists: of this list alone.
  static bool linked(const T& value) noexcept { return static_cast<const Hook&>(value).linked(); }
  static void unlink(T& value) noexcept { static_cast<Hook&>(value).unlink(); }

  void push_back(T& value) noexcept { link(value, root_.previous_, &root_); }
  void push_front(T& value) noexcept { link(value, &root_, root_.next_); }
  T& pop_front() noexcept {
    T& value = front();
    unlink(value);
    return value;
  }
  void clear() noexcept {
    while (!empty()) root_.next_->unlink();
  }
  // Moves all elements of `other`, in order, to the end of this list.
  void splice_back(List& other) noexcept {
    if (other.empty()) return;
    Hook* first = other.root_.next_;
    Hook* last = other.root_.previous_;
    first->previous_ = root_.previous_;
    root_.previous_->next_ = first;
    last->next_ = &root_;
    root_.previous_ = last;
    other.root_.next_ = other.root_.previous_ = &other.root_;
  }

  // `visit` may unlink the element that it gets.
  template <class Visit>
  void for_each(Visit&& visit) noexcept {
    for (Hook* at = root_.next_; at != &root_;) {
      T& value = element(at);
      at = at->next_;
      visit(value);
    }
  }

  class iterator {
   public:
    explicit iterator(Hook* at) noexcept : at_(at) {}
    T& operator*() const noexcept { return element(at_); }
    iterator& operator++() noexcept {
      at_ = at_->next_;
      return *this;
    }
    bool operator==(const iterator&) const noexcept = default;

   private:
    Hook* at_;
  };
  iterator begin() noexcept { return iterator(root_.next_); }
  iterator end() noexcept { return iterator(&root_); }

 private:
  static T& element(Hook* hook) noexcept { return static_cast<T&>(*hook); }
  static void link(T& value, Hook* before, Hook* after) noexcept {
    Hook& hook = value;
    hook.previous_ = before;
    hook.next_ = after;
    before->next_ = &hook;
    after->previous_ = &hook;
  }

  Hook root_;
};

}  // namespace weft
