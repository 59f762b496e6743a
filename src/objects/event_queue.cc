// SPDX-License-Identifier: BSD-2-Clause
// Event queues: the one list of events and errors; fi_eq(3).
#include "objects/event_queue.h"

#include <rdma/providers/fi_prov.h>

#include <cassert>
#include <cstring>
#include <new>

namespace weft {

EventQueueCore::EventQueueCore(Ref<RefCounted> parent, const fi_eq_attr& attr, uint32_t api_version) noexcept
    : parent_(std::move(parent)),
      writable_((attr.flags & FI_WRITE) != 0),
      gives_pointers_(FI_VERSION_LT(api_version, FI_VERSION(1, 5))) {}

EventQueueCore::~EventQueueCore() {
  for ([[maybe_unused]] const Entry& entry : entries_)
    assert(!std::holds_alternative<Event>(entry) || std::get<Event>(entry).info == nullptr);  // see remove()
}

Status EventQueueCore::check(const fi_eq_attr* attr) {
  if (attr == nullptr) return Status(-FI_EINVAL);
  if ((attr->flags & ~uint64_t{FI_WRITE | FI_AFFINITY}) != 0) return Status(-FI_EBADFLAGS);
  return {};
}

// The node is made before the lock is taken and spliced in under it.
void EventQueueCore::append(Entry&& entry) noexcept {
  std::list<Entry> one;
  try {
    one.push_back(std::move(entry));
  } catch (const std::bad_alloc&) {
    return overrun();
  }
  {
    std::lock_guard lock(mutex_);
    entries_.splice(entries_.end(), one);
    unread_.fetch_add(1);
  }
  wait_.signal();
}

// Counted as one more thing to read, for good: the -FI_EOVERRUN behind the last event.
void EventQueueCore::overrun() noexcept {
  {
    std::lock_guard lock(mutex_);
    if (!overrun_) unread_.fetch_add(1);
    overrun_ = true;
  }
  wait_.signal();
}

void EventQueueCore::post(uint32_t event, const void* entry, size_t len) noexcept {
  const auto* bytes = static_cast<const std::byte*>(entry);
  try {
    Event made{.number = event, .required = len, .bytes = {bytes, bytes + len}};
    if (len >= sizeof made.fid) std::memcpy(&made.fid, bytes, sizeof made.fid);
    append(std::move(made));
  } catch (const std::bad_alloc&) {
    overrun();
  }
}

void EventQueueCore::post_cm(uint32_t event, fid_t fid, fi_info* info, const void* data, size_t len) noexcept {
  constexpr size_t kHead = sizeof(fi_eq_cm_entry);
  try {
    Event made{
        .number = event, .fid = fid, .required = kHead, .info = info, .bytes = std::vector<std::byte>(kHead + len)};
    const fi_eq_cm_entry head{.fid = fid, .info = info};
    std::memcpy(made.bytes.data(), &head, kHead);
    if (len != 0) std::memcpy(made.bytes.data() + kHead, data, len);
    append(std::move(made));
  } catch (const std::bad_alloc&) {
    overrun();
  }
}

void EventQueueCore::post_error(EqError&& error) noexcept {
  append(std::move(error));
}

ssize_t EventQueueCore::insert(uint32_t event, const void* buf, size_t len, uint64_t flags) {
  if (!writable_) return -FI_EINVAL;
  if (flags != 0) return -FI_EBADFLAGS;
  if (buf == nullptr && len != 0) return -FI_EINVAL;
  const auto* bytes = static_cast<const std::byte*>(buf);
  append(Event{.number = event, .required = len, .bytes = {bytes, bytes + len}});
  return static_cast<ssize_t>(len);
}

void EventQueueCore::remove(fid_t fid, void (*drop)(fi_info*)) noexcept {
  std::list<Entry> removed;
  {
    std::lock_guard lock(mutex_);
    for (auto next = entries_.begin(); next != entries_.end();) {
      const auto entry = next++;
      const fid_t owner = std::visit([](const auto& e) { return e.fid; }, *entry);
      if (owner != fid) continue;
      removed.splice(removed.end(), entries_, entry);
      unread_.fetch_sub(1);
    }
  }
  for (Entry& entry : removed) {
    if (auto* event = std::get_if<Event>(&entry); event != nullptr && event->info != nullptr) drop(event->info);
  }
}

ssize_t EventQueueCore::take(uint32_t* event, void* buf, size_t len, bool peek) noexcept {
  std::list<Entry> taken;  // freed without the lock
  std::lock_guard lock(mutex_);
  if (entries_.empty()) return overrun_ ? -FI_EOVERRUN : -FI_EAGAIN;
  const auto* front = std::get_if<Event>(&entries_.front());
  if (front == nullptr) return -FI_EAVAIL;
  if (len < front->required) return -FI_ETOOSMALL;
  const size_t size = std::min(len, front->bytes.size());
  if (event != nullptr) *event = front->number;
  if (size != 0) std::memcpy(buf, front->bytes.data(), size);
  if (!peek) {
    taken.splice(taken.end(), entries_, entries_.begin());
    unread_.fetch_sub(1);
  }
  return static_cast<ssize_t>(size);
}

ssize_t EventQueueCore::take_error(fi_eq_err_entry* out, bool peek) noexcept {
  if (out == nullptr) return -FI_EINVAL;
  std::lock_guard lock(mutex_);
  // One that stands behind unread events is given too, if the application asks for it out of turn.
  const auto found = std::find_if(entries_.begin(), entries_.end(),
                                  [](const Entry& entry) { return std::holds_alternative<EqError>(entry); });
  if (found == entries_.end()) return -FI_EAGAIN;
  EqError& error = std::get<EqError>(*found);
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
    entries_.erase(found);
    unread_.fetch_sub(1);
  }
  return sizeof *out;
}

const char* EventQueueCore::text_of(int prov_errno, char* buf, size_t len) noexcept {
  std::lock_guard lock(mutex_);
  const bool known = !last_error_.sentence.empty() && last_error_.prov_errno == prov_errno;
  const char* text = known ? last_error_.sentence.c_str() : fi_strerror(prov_errno);
  if (buf == nullptr || len == 0) return text;
  std::strncpy(buf, text, len - 1);
  buf[len - 1] = '\0';
  return buf;
}

}  // namespace weft
