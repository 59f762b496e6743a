// SPDX-License-Identifier: BSD-2-Clause
// Event queues: the one list of events and errors; fi_eq(3).
#include "objects/event_queue.h"

#include <cassert>
#include <cstring>

#include "objects/sentence.h"

namespace weft {

EventQueueCore::EventQueueCore(Ref<RefCounted> parent, const fi_eq_attr& attr, uint32_t api_version) noexcept
    : parent_(std::move(parent)),
      writable_((attr.flags & FI_WRITE) != 0),
      gives_pointers_(FI_VERSION_LT(api_version, FI_VERSION(1, 5))) {}

EventQueueCore::~EventQueueCore() {
  while (!entries_.empty()) {
    const Reserved entry(&entries_.pop_front());
    assert(entry->info == nullptr);  // see remove()
  }
}

Status EventQueueCore::check(const fi_eq_attr* attr) {
  if (attr == nullptr) return Status(-FI_EINVAL);
  if ((attr->flags & ~uint64_t{FI_WRITE | FI_AFFINITY}) != 0) return Status(-FI_EBADFLAGS);
  return {};
}

EventQueueCore::Reserved EventQueueCore::make_event(uint32_t number, size_t size) noexcept {
  if (size > UINT32_MAX) return nullptr;
  Reserved entry(new (size) Entry);
  if (entry == nullptr) return entry;
  entry->number = number;
  entry->size = static_cast<uint32_t>(size);
  return entry;
}

EventQueueCore::Reserved EventQueueCore::reserve_result() noexcept {
  auto entry = make_event(0, sizeof(fi_eq_entry));
  if (entry != nullptr) entry->error.reset(new (std::nothrow) EqError);
  return entry != nullptr && entry->error != nullptr ? std::move(entry) : nullptr;
}

void EventQueueCore::append(Reserved entry) noexcept {
  {
    std::lock_guard lock(mutex_);
    entries_.push_back(*entry.release());
    unread_.fetch_add(1);
  }
  wait_.signal();
}

void EventQueueCore::post(Reserved entry, uint32_t event, const fi_eq_entry& result) noexcept {
  assert(entry->size >= sizeof result);
  entry->number = event;
  entry->fid = result.fid;
  entry->size = sizeof result;
  std::memcpy(entry->bytes(), &result, sizeof result);
  append(std::move(entry));
}

void EventQueueCore::post_cm(Reserved entry, uint32_t event, fid_t fid, fi_info* info, const void* data,
                             size_t len) noexcept {
  assert(len <= entry->size);
  entry->number = event;
  entry->fid = fid;
  entry->info = info;
  entry->head = sizeof(fi_eq_cm_entry);
  entry->size = static_cast<uint32_t>(len);
  if (len != 0) std::memcpy(entry->bytes(), data, len);
  append(std::move(entry));
}

void EventQueueCore::hold(Entry& entry, EqError&& error) noexcept {
  entry.fid = error.fid;
  entry.err = error.err;
  if (entry.error == nullptr) entry.error.reset(new (std::nothrow) EqError);
  if (entry.error != nullptr) *entry.error = std::move(error);
}

void EventQueueCore::post_end(Reserved entry, fid_t fid) noexcept {
  if (entry->err != 0) return append(std::move(entry));
  post_cm(std::move(entry), FI_SHUTDOWN, fid, nullptr, nullptr, 0);
}

ssize_t EventQueueCore::insert(uint32_t event, const void* buf, size_t len, uint64_t flags) {
  if (!writable_) return -FI_EINVAL;
  if (flags != 0) return -FI_EBADFLAGS;
  if (buf == nullptr && len != 0) return -FI_EINVAL;
  auto made = make_event(event, len);
  if (made == nullptr) return -FI_ENOMEM;
  if (len != 0) std::memcpy(made->bytes(), buf, len);
  append(std::move(made));
  return static_cast<ssize_t>(len);
}

InfoPtr EventQueueCore::remove(fid_t fid) noexcept {
  InfoPtr infos;
  if (!ready()) return infos;
  List<Entry> removed;
  {
    std::lock_guard lock(mutex_);
    for (auto next = entries_.begin(); next != entries_.end();) {
      Entry& entry = *next;
      ++next;
      if (entry.fid != fid) continue;
      entry.unlink();
      removed.push_back(entry);
      unread_.fetch_sub(1);
    }
  }
  while (!removed.empty()) {
    const Reserved entry(&removed.pop_front());
    if (entry->info == nullptr) continue;
    entry->info->next = infos.release();
    infos.reset(entry->info);
  }
  return infos;
}

ssize_t EventQueueCore::take(uint32_t* event, void* buf, size_t len, bool peek) noexcept {
  if (!ready()) return -FI_EAGAIN;
  Reserved taken;  // freed without the lock
  std::lock_guard lock(mutex_);
  if (entries_.empty()) return -FI_EAGAIN;
  Entry& front = entries_.front();
  if (front.err != 0) return -FI_EAVAIL;
  if (len < (front.head != 0 ? front.head : front.size)) return -FI_ETOOSMALL;
  const fi_eq_cm_entry head{.fid = front.fid, .info = front.info};
  const size_t size = std::min<size_t>(len, front.head + front.size);
  if (event != nullptr) *event = front.number;
  if (front.head != 0) std::memcpy(buf, &head, front.head);
  if (size != front.head) std::memcpy(static_cast<std::byte*>(buf) + front.head, front.bytes(), size - front.head);
  if (!peek) {
    front.unlink();
    taken.reset(&front);
    unread_.fetch_sub(1);
  }
  return static_cast<ssize_t>(size);
}

ssize_t EventQueueCore::take_error(fi_eq_err_entry* out, bool peek) noexcept {
  if (out == nullptr) return -FI_EINVAL;
  Reserved taken;
  std::lock_guard lock(mutex_);
  // An application may read an error while events before it are unread.
  auto found = entries_.begin();
  while (found != entries_.end() && (*found).err == 0) ++found;
  if (found == entries_.end()) return -FI_EAGAIN;
  Entry& entry = *found;
  EqError bare;
  if (entry.error == nullptr) bare = EqError(*entry.fid, entry.err);
  EqError& error = entry.error != nullptr ? *entry.error : bare;
  if (!peek) last_error_ = std::move(error);
  EqError& given = peek ? error : last_error_;

  const bool copy = out->err_data_size != 0 && out->err_data != nullptr && !gives_pointers_;
  const size_t size = copy ? std::min(out->err_data_size, given.err_data.size()) : given.err_data.size();
  if (copy) {
    if (size != 0) std::memcpy(out->err_data, given.err_data.data(), size);
  } else {
    out->err_data = size != 0 ? given.err_data.data() : nullptr;
  }
  out->fid = given.fid;
  out->context = given.context;
  out->data = given.data;
  out->err = given.err;
  out->prov_errno = given.prov_errno;
  out->err_data_size = size;
  if (!peek) {
    taken.reset(&entry);
    taken->unlink();
    unread_.fetch_sub(1);
  }
  return sizeof *out;
}

const char* EventQueueCore::text_of(int prov_errno, char* buf, size_t len) noexcept {
  std::lock_guard lock(mutex_);
  const bool known = !last_error_.sentence.empty() && last_error_.prov_errno == prov_errno;
  return copy_text(known ? last_error_.sentence.c_str() : fi_strerror(prov_errno), buf, len);
}

}  // namespace weft
