// SPDX-License-Identifier: BSD-2-Clause
// Address vectors: insertion in its three forms, synchronous and with events; fi_av(3).
#include "objects/address_vector.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <new>
#include <system_error>

namespace weft {

namespace {

constexpr uint64_t kInsertFlags = FI_MORE | FI_SYNC_ERR | FI_AV_USER_ID;

// "node7" counted up by 3 is "node10"; "node07" is "node10", too, and "node008" keeps its width. Empty if the name does
// not end in a number.
std::string count_up(const std::string& name, uint64_t steps) {
  if (steps == 0) return name;
  const size_t start = name.find_last_not_of("0123456789") + 1;  // 0 if there is no other character
  uint64_t number;
  const auto [end, error] = std::from_chars(name.data() + start, name.data() + name.size(), number);
  if (error != std::errc()) return {};
  std::string digits = std::to_string(number + steps);
  const size_t width = name.size() - start;
  if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
  return name.substr(0, start) + digits;
}

}  // namespace

// Tells the results of one insertion, in order: handles, FI_SYNC_ERR's array or the event queue.
class AddressVectorCore::Report {
 public:
  Report(const Insertion& call, EventQueueCore* events, std::vector<uint64_t> indices) noexcept
      : call_(call),
        events_(events),
        errors_((call.flags & FI_SYNC_ERR) != 0 ? static_cast<int*>(call.context) : nullptr),
        indices_(std::move(indices)) {}

  // Of the address whose turn it is.
  uint64_t index() const noexcept { return indices_[done_]; }

  uint64_t user_id() const noexcept {
    const bool given = (call_.flags & FI_AV_USER_ID) != 0 && call_.handles != nullptr;
    return given ? call_.handles[done_] : AddressTable<Address>::kNone;
  }
  void inserted() noexcept {
    if (call_.handles != nullptr) call_.handles[done_] = indices_[done_];
    if (errors_ != nullptr) errors_[done_] = 0;
    ++done_;
    ++inserted_;
  }
  void failed(Status status) noexcept {
    if (call_.handles != nullptr) call_.handles[done_] = FI_ADDR_NOTAVAIL;
    if (errors_ != nullptr) errors_[done_] = status.error();
    if (events_ != nullptr) {
      EqError error;
      error.fid = call_.fid;
      error.context = call_.context;
      error.data = done_;
      error.err = error.prov_errno = status.error();
      events_->post_error(std::move(error));
    }
    ++done_;
  }
  void fail_rest(Status status) noexcept {
    while (done_ < indices_.size()) failed(status);
  }
  // What the insertion call returns.
  int finish() noexcept {
    if (events_ == nullptr) return inserted_;
    const fi_eq_entry entry{call_.fid, call_.context, static_cast<uint64_t>(inserted_)};
    events_->post(FI_AV_COMPLETE, &entry, sizeof entry);
    return 0;
  }

 private:
  const Insertion call_;
  EventQueueCore* const events_;  // null: synchronous
  int* const errors_;
  const std::vector<uint64_t> indices_;
  size_t done_ = 0;
  int inserted_ = 0;
};

AddressVectorCore::AddressVectorCore(Ref<RefCounted> parent, uint32_t addr_format, const fi_av_attr& attr) noexcept
    : parent_(std::move(parent)),
      addr_format_(addr_format),
      rx_ctx_bits_(attr.rx_ctx_bits),
      index_mask_(attr.rx_ctx_bits == 0 ? ~uint64_t{0} : (uint64_t{1} << (64 - attr.rx_ctx_bits)) - 1),
      asynchronous_((attr.flags & FI_EVENT) != 0) {}

AddressVectorCore::~AddressVectorCore() {
  if (resolver_.joinable()) resolver_.join();
}

Status AddressVectorCore::check(const fi_av_attr* attr) {
  if (attr == nullptr || attr->type > FI_AV_TABLE) return Status(-FI_EINVAL);
  if (attr->rx_ctx_bits < 0 || attr->rx_ctx_bits > 24) return Status(-FI_EINVAL);
  if (attr->name != nullptr || (attr->flags & FI_READ) != 0) return Status(-FI_ENOSYS);  // FI_SHARED_AV
  if ((attr->flags & ~uint64_t{FI_EVENT | FI_SYMMETRIC | FI_AV_USER_ID}) != 0) return Status(-FI_EBADFLAGS);
  return {};
}

unsigned AddressVectorCore::receive_context_of(fi_addr_t handle) const noexcept {
  return rx_ctx_bits_ == 0 ? 0 : static_cast<unsigned>(handle >> (64 - rx_ctx_bits_));
}

Status AddressVectorCore::check_insertion(const Insertion& call) const noexcept {
  if ((call.flags & ~kInsertFlags) != 0) return Status(-FI_EBADFLAGS);
  if ((call.flags & FI_SYNC_ERR) != 0 && (asynchronous_ || call.context == nullptr)) return Status(-FI_EINVAL);
  if (asynchronous_ && !events_) return Status(-FI_ENOEQ);
  return {};
}

// Addresses lie one behind the other, each as long as its family says.
Result<Address> AddressVectorCore::read_address(const std::byte*& next) const noexcept {
  sa_family_t family;
  std::memcpy(&family, next, sizeof family);
  const bool v6 = addr_format_ == FI_SOCKADDR_IN6 || (addr_format_ != FI_SOCKADDR_IN && family == AF_INET6);
  const std::byte* address = next;
  next += v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (family != (v6 ? AF_INET6 : AF_INET)) return failure(FI_EINVAL);
  return Address::from(address);
}

void AddressVectorCore::insert_one(Report& report, const Result<Address>& address) {
  const uint64_t index = report.index();
  if (address) {
    table_.fill(index, *address, report.user_id());
    report.inserted();
  } else {
    table_.release(index);
    report.failed(address.error());
  }
}

int AddressVectorCore::insert_raw(const Insertion& call, const void* addresses, size_t count) {
  if (Status status = check_insertion(call); !status.ok()) return status.code();
  if (addresses == nullptr && count != 0) return -FI_EINVAL;
  Report report(call, asynchronous_ ? events_.get() : nullptr, table_.reserve(count));
  const auto* next = static_cast<const std::byte*>(addresses);
  for (size_t i = 0; i < count; ++i) insert_one(report, read_address(next));
  return report.finish();
}

int AddressVectorCore::insert_names(const Insertion& call, const Names& names) {
  if (Status status = check_insertion(call); !status.ok()) return status.code();
  if (names.node.empty() && names.service.empty()) return -FI_EINVAL;
  Report report(call, asynchronous_ ? events_.get() : nullptr, table_.reserve(names.nodes * names.services));
  if (!asynchronous_) {
    resolve_names(report, names);
    return report.finish();
  }
  // Name servers may take their time, so a thread of ours asks them.
  std::lock_guard lock(resolver_mutex_);
  pending_.push_back([this, report = std::move(report), names]() mutable {
    try {
      resolve_names(report, names);
    } catch (const std::bad_alloc&) {
      report.fail_rest(Status(-FI_ENOMEM));
    }
    report.finish();
  });
  if (resolver_running_) return 0;
  if (resolver_.joinable()) resolver_.join();  // it has just said that it is done
  try {
    resolver_ = std::thread([this] { run_resolver(); });
  } catch (const std::system_error&) {
    pending_.pop_back();
    return -FI_ENOMEM;
  }
  resolver_running_ = true;
  return 0;
}

void AddressVectorCore::run_resolver() noexcept {
  for (;;) {
    std::function<void()> next;
    {
      std::lock_guard lock(resolver_mutex_);
      if (pending_.empty()) {
        resolver_running_ = false;
        return;
      }
      next = std::move(pending_.front());
      pending_.pop_front();
    }
    next();
  }
}

void AddressVectorCore::resolve_names(Report& report, const Names& names) {
  const int family = addr_format_ == FI_SOCKADDR_IN ? AF_INET : addr_format_ == FI_SOCKADDR_IN6 ? AF_INET6 : AF_UNSPEC;
  const auto look_up = [family](const std::string& node, const std::string& service) -> Result<Address> {
    auto found =
        resolve(node.empty() ? nullptr : node.c_str(), service.empty() ? nullptr : service.c_str(), {.family = family});
    if (!found) return failure(found.error());
    return found->front();
  };
  const auto numeric = resolve(names.node.empty() ? nullptr : names.node.c_str(), nullptr, {.numeric = true});
  for (size_t n = 0; n < names.nodes; ++n) {
    for (size_t s = 0; s < names.services; ++s) {
      const std::string service = count_up(names.service, s);
      const std::string node = numeric ? numeric->front().next_host(n).host_string() : count_up(names.node, n);
      const bool countable = (s == 0 || !service.empty()) && (n == 0 || !node.empty());
      insert_one(report, countable ? look_up(node, service) : failure(FI_EINVAL));
    }
  }
}

int AddressVectorCore::remove_handles(const fi_addr_t* handles, size_t count, uint64_t flags) {
  if (flags != 0) return -FI_EBADFLAGS;
  if (handles == nullptr && count != 0) return -FI_EINVAL;
  int result = 0;
  for (size_t i = 0; i < count; ++i)
    if (!table_.remove(handles[i] & index_mask_)) result = -FI_EINVAL;
  return result;
}

int AddressVectorCore::lookup_address(fi_addr_t handle, void* address, size_t* length) const noexcept {
  if (length == nullptr || (address == nullptr && *length != 0)) return -FI_EINVAL;
  const Address* found = find(handle);
  if (found == nullptr) return -FI_EINVAL;
  const size_t room = std::exchange(*length, found->size());
  if (room != 0) std::memcpy(address, found->data(), std::min<size_t>(room, found->size()));
  return 0;
}

const char* AddressVectorCore::address_text(const void* address, char* buf, size_t* length) const noexcept {
  if (length == nullptr) return nullptr;
  try {
    const auto parsed = Address::from(address);
    const std::string text = parsed ? parsed->to_uri() : "(invalid address)";
    const size_t room = std::exchange(*length, text.size() + 1);
    if (buf != nullptr && room != 0) {
      const size_t copied = std::min(room - 1, text.size());
      std::memcpy(buf, text.data(), copied);
      buf[copied] = '\0';
    }
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  return buf;
}

int AddressVectorCore::assign_user_id(fi_addr_t handle, fi_addr_t user_id, uint64_t flags) noexcept {
  if (flags != 0) return -FI_EBADFLAGS;
  return table_.set_user_id(handle & index_mask_, user_id) ? 0 : -FI_EINVAL;
}

}  // namespace weft
