// SPDX-License-Identifier: BSD-2-Clause
// Address vectors; fi_av(3) governs. A handle is an index for FI_AV_TABLE and FI_AV_MAP alike.
#pragma once

#include <rdma/fi_domain.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <span>
#include <utility>
#include <vector>

#include "abi/ops.h"
#include "base/ref.h"
#include "base/status.h"
#include "objects/address.h"
#include "objects/address_table.h"
#include "objects/background_tasks.h"
#include "objects/endpoint_names.h"
#include "objects/event_queue.h"

namespace weft {

// One insertion call: the places for its results.
struct Insertion {
  fid_t fid;
  fi_addr_t* handles;  // may be null; user ids on input with FI_AV_USER_ID
  uint64_t flags;
  void* context;
};

// Reports the results of one insertion, in order: handles, FI_SYNC_ERR's array or the event queue.
class InsertionReport {
 public:
  // `events`: null for a synchronous call. `count`: addresses.
  InsertionReport(const Insertion& call, EventQueueCore* events, AddressIndices& table, size_t count)
      : call_(call),
        events_(events),
        errors_((call.flags & FI_SYNC_ERR) != 0 ? static_cast<int*>(call.context) : nullptr),
        table_(table),
        results_(events != nullptr ? count + 1 : 0) {
    for (EventQueueCore::Reserved& result : results_) result = EventQueueCore::reserve_result();
  }
  InsertionReport(InsertionReport&&) = default;
  // As many handles as addresses, in their order, reserved in the table. Those that are not used are released.
  void use(std::vector<uint64_t> indices) noexcept { indices_ = std::move(indices); }
  ~InsertionReport() {
    for (; next_ < indices_.size(); ++next_) table_.release(indices_[next_]);
  }

  static constexpr uint64_t kFlags = FI_MORE | FI_SYNC_ERR | FI_AV_USER_ID;
  // Checks the arguments of a call. `asynchronous`: the vector was opened with FI_EVENT; `bound`: it has an event
  // queue.
  static Status check(const Insertion& call, bool asynchronous, bool bound) noexcept {
    if ((call.flags & ~kFlags) != 0) return Status(-FI_EBADFLAGS);
    if ((call.flags & FI_SYNC_ERR) != 0 && (asynchronous || call.context == nullptr)) return Status(-FI_EINVAL);
    if (asynchronous && !bound) return Status(-FI_ENOEQ);
    return {};
  }

  // False: no memory for the events.
  bool can_report() const noexcept {
    return std::ranges::all_of(results_, [](const auto& result) { return result != nullptr; });
  }
  // About the address that is inserted next.
  bool done() const noexcept { return done_ == indices_.size(); }
  uint64_t index() const noexcept { return indices_[next_]; }
  uint64_t user_id() const noexcept {
    return (call_.flags & FI_AV_USER_ID) != 0 && returns_handles() ? call_.handles[done_] : ~uint64_t{0};
  }
  // Whether the caller gets the handles. Otherwise it counts them.
  bool returns_handles() const noexcept { return call_.handles != nullptr; }
  void inserted() noexcept { inserted_as(indices_[next_++]); }
  // With the handle that the address has already.
  void inserted_as(uint64_t handle) noexcept {
    if (returns_handles()) call_.handles[done_] = handle;
    if (errors_ != nullptr) errors_[done_] = 0;
    ++done_;
    ++inserted_;
  }
  // `sentence`: for fi_eq_strerror; may be empty.
  void failed(Status status, std::string sentence = {}) noexcept {
    table_.release(indices_[next_++]);
    starved_ |= status.error() == FI_ENOMEM;
    if (call_.handles != nullptr) call_.handles[done_] = FI_ADDR_NOTAVAIL;
    if (errors_ != nullptr) errors_[done_] = status.error();
    if (events_ != nullptr) {
      EqError error(*call_.fid, status.error(), 0, std::move(sentence));
      error.context = call_.context;
      error.data = done_;
      events_->post_error(std::move(error), std::move(results_[done_]));
    }
    ++done_;
  }
  // Returns the result of the insertion call.
  int finish() noexcept {
    if (events_ == nullptr) return inserted_ == 0 && starved_ ? -FI_ENOMEM : inserted_;
    const fi_eq_entry entry{call_.fid, call_.context, static_cast<uint64_t>(inserted_)};
    events_->post(std::move(results_.back()), FI_AV_COMPLETE, entry);
    return 0;
  }

 private:
  const Insertion call_;
  EventQueueCore* const events_;
  int* const errors_;
  AddressIndices& table_;
  std::vector<uint64_t> indices_;
  std::vector<EventQueueCore::Reserved> results_;  // for each address, and for the call
  size_t done_ = 0;                                // addresses
  size_t next_ = 0;                                // in indices_
  int inserted_ = 0;
  bool starved_ = false;  // memory ran out
};

// The arguments of fi_av_open that every address vector refuses.
Status check_vector(const fi_av_attr* attr) noexcept;

// Insertion in its forms, synchronous and with events, and handles. T: the vector; Peer: an entry of its table. Of T
// these functions are called:
//   insert_listed(report, addr, count)   inserts addresses of its format, and returns the result of the call
//   insert_named(report, names)          inserts what the names resolve to; also in the background
//   erase(index)                         removes the peer; false: no such peer
//   bytes_of(peer)                       its address in the format of the vector
// Owner: its C handle. Thread-safe.
template <class T, class Peer>
class AddressVectorBase : public Object<fid_av>, public RefCounted {
 public:
  // The peer of a handle (its receive-context bits are ignored), null if unknown. No lock: the data path uses it.
  const Peer* find(fi_addr_t handle) const noexcept { return table_.find(handle & index_mask_); }

  // Slots of fi_ops_av, beside `straddr`.
  int insert(const void* addr, size_t count, fi_addr_t* handles, uint64_t flags, void* context) {
    const Insertion call{&abi.fid, handles, flags, context};
    if (Status status = check(call); !status.ok()) return status.code();
    if (addr == nullptr && count != 0) return -FI_EINVAL;
    InsertionReport report = begin(call, count);
    if (!report.can_report()) return -FI_ENOMEM;
    return self().insert_listed(std::move(report), static_cast<const std::byte*>(addr), count);
  }
  int insertsvc(const char* node, const char* service, fi_addr_t* handles, uint64_t flags, void* context) {
    return self().insertsym(node, 1, service, 1, handles, flags, context);
  }
  int insertsym(const char* node, size_t nodes, const char* service, size_t services, fi_addr_t* handles,
                uint64_t flags, void* context) {
    const Insertion call{&abi.fid, handles, flags, context};
    const PeerNames names{node != nullptr ? node : "", service != nullptr ? service : "", nodes, services};
    if (Status status = check(call); !status.ok()) return status.code();
    if (names.empty() || (services != 0 && nodes > SIZE_MAX / services)) return -FI_EINVAL;
    InsertionReport report = begin(call, names.count());
    if (!report.can_report()) return -FI_ENOMEM;
    return run(std::move(report), [this, names](InsertionReport& to) { self().insert_named(to, names); });
  }
  int remove(fi_addr_t* handles, size_t count, uint64_t flags) {
    if (flags != 0) return -FI_EBADFLAGS;
    if (handles == nullptr && count != 0) return -FI_EINVAL;
    int result = 0;
    for (size_t i = 0; i < count; ++i)
      if (!self().erase(handles[i] & index_mask_)) result = -FI_EINVAL;
    return result;
  }
  int lookup(fi_addr_t handle, void* addr, size_t* length) noexcept {
    if (length == nullptr || (addr == nullptr && *length != 0)) return -FI_EINVAL;
    const Peer* found = find(handle);
    if (found == nullptr) return -FI_EINVAL;
    const std::span<const std::byte> name = self().bytes_of(*found);
    const size_t room = std::exchange(*length, name.size());
    if (room != 0) std::memcpy(addr, name.data(), std::min(room, name.size()));
    return 0;
  }
  int lookup2(fi_addr_t handle, void* buf, size_t* length, uint64_t flags, fid_xpu_ctx*) noexcept {
    return flags == 0 ? lookup(handle, buf, length) : -FI_ENOSYS;
  }
  int set_user_id(fi_addr_t handle, fi_addr_t user_id, uint64_t flags) noexcept {
    if (flags != 0) return -FI_EBADFLAGS;
    return table_.set_user_id(handle & index_mask_, user_id) ? 0 : -FI_EINVAL;
  }

 protected:
  AddressVectorBase(uint32_t addr_format, const fi_av_attr& attr)
      : addr_format_(addr_format),
        rx_ctx_bits_(attr.rx_ctx_bits),
        index_mask_(attr.rx_ctx_bits == 0 ? ~uint64_t{0} : (uint64_t{1} << (64 - attr.rx_ctx_bits)) - 1),
        background_((attr.flags & FI_EVENT) != 0 ? std::make_unique<BackgroundTasks>() : nullptr) {}
  ~AddressVectorBase() = default;

  int bind_events(EventQueueCore* queue, uint64_t flags) {
    if (queue == nullptr) return -FI_EINVAL;
    if (flags != 0) return -FI_EBADFLAGS;
    events_ = Ref<EventQueueCore>(*queue);
    return 0;
  }
  // `work` reports each insertion: slow work, which runs in a background thread with FI_EVENT.
  template <class Work>
  int run(InsertionReport&& report, Work work) {
    if (background_ == nullptr) return perform(report, work);
    return background_
        ->add([report = std::make_shared<InsertionReport>(std::move(report)), work = std::move(work)] {
          perform(*report, work);
        })
        .code();
  }
  // Without memory the addresses that are left fail. Returns the result of the insertion call.
  template <class Work>
  static int perform(InsertionReport& report, const Work& work) {
    try {
      work(report);
    } catch (const std::bad_alloc&) {
      while (!report.done()) report.failed(Status(-FI_ENOMEM));
    }
    return report.finish();
  }

  const uint32_t addr_format_;
  const int rx_ctx_bits_;
  const uint64_t index_mask_;
  Ref<EventQueueCore> events_;
  AddressTable<Peer> table_;
  std::unique_ptr<BackgroundTasks> background_;  // FI_EVENT; T ends it before its own members are destroyed

 private:
  T& self() noexcept { return static_cast<T&>(*this); }
  Status check(const Insertion& call) const noexcept {
    return InsertionReport::check(call, background_ != nullptr, static_cast<bool>(events_));
  }
  InsertionReport begin(const Insertion& call, size_t count) {
    InsertionReport report(call, background_ != nullptr ? events_.get() : nullptr, table_, count);
    if (report.can_report()) report.use(table_.reserve(count));
    return report;
  }
};

// IP addresses, as far as they do not depend on the engine. Endpoints hold a Ref to the vector.
class AddressVectorCore : public AddressVectorBase<AddressVectorCore, Address> {
 public:
  // The source that completions report: the handle or the user's id; FI_ADDR_NOTAVAIL for an unknown address.
  fi_addr_t source_of(const Address& address) const noexcept { return table_.source(address); }
  // See AddressTable: lookups stay valid while it does not change.
  uint64_t version() const noexcept { return table_.version(); }
  // The receive context that a handle selects; fi_rx_addr.
  unsigned receive_context_of(fi_addr_t handle) const noexcept {
    return rx_ctx_bits_ == 0 ? 0 : static_cast<unsigned>(handle >> (64 - rx_ctx_bits_));
  }
  const RefCounted& domain() const noexcept { return *parent_; }
  fi_addr_t without_context(fi_addr_t handle) const noexcept { return handle & index_mask_; }

  // Slot of fi_ops_av, beside those of AddressVectorBase.
  const char* straddr(const void* address, char* buf, size_t* length) noexcept {
    return report_text([&] { return uri_of(address); }, buf, length);
  }

 protected:
  AddressVectorCore(Ref<RefCounted> parent, uint32_t addr_format, const fi_av_attr& attr)
      : AddressVectorBase(addr_format, attr), parent_(std::move(parent)) {}
  ~AddressVectorCore() { background_.reset(); }

 private:
  friend AddressVectorBase;
  int insert_listed(InsertionReport&& report, const std::byte* next, size_t count);
  void insert_named(InsertionReport& report, const PeerNames& names) {
    resolve_names(names, addr_format_, [&](const Result<Address>& address) { insert_one(report, address); });
  }
  void insert_one(InsertionReport& report, const Result<Address>& address) {
    if (!address) return report.failed(address.error());
    if (report.returns_handles()) {
      const uint64_t handle = table_.share(*address, report.user_id());
      if (handle != table_.kNone) return report.inserted_as(handle);
    }
    table_.fill(report.index(), *address, report.user_id());
    report.inserted();
  }
  bool erase(uint64_t index) { return table_.remove(index); }
  static std::span<const std::byte> bytes_of(const Address& address) noexcept {
    return {reinterpret_cast<const std::byte*>(address.data()), address.size()};
  }

  const Ref<RefCounted> parent_;
};

// Owner: its C handle; close answers -FI_EBUSY while endpoints use it.
template <class E>
class AddressVector final : public AddressVectorCore {
 public:
  // `parent` is the domain; `addr_format` comes from the info that opened it. attr->type is set if it was FI_AV_UNSPEC.
  static Result<AddressVector*> open(Ref<RefCounted> parent, fi_av_attr* attr, uint32_t addr_format, void* context) {
    if (Status status = check_vector(attr); !status.ok()) return failure(status);
    if (attr->type == FI_AV_UNSPEC) attr->type = FI_AV_TABLE;
    return new AddressVector(std::move(parent), addr_format, *attr, context);
  }
  static AddressVector* from(const ::fid* fid) noexcept { return object_if<AddressVector>(fid); }

  // Slots of fi_ops.
  int close() {
    if (in_use()) return -FI_EBUSY;
    delete this;
    return 0;
  }
  int bind(::fid* object, uint64_t flags) { return bind_events(EventQueue<E>::from(object), flags); }

 private:
  AddressVector(Ref<RefCounted> parent, uint32_t addr_format, const fi_av_attr& attr, void* context)
      : AddressVectorCore(std::move(parent), addr_format, attr) {
    identify<AddressVector>(abi, FI_CLASS_AV, context);
  }
};

}  // namespace weft
