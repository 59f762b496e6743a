// SPDX-License-Identifier: BSD-2-Clause
// Address vectors of IP addresses; fi_av(3) governs. A handle is an index for FI_AV_TABLE and FI_AV_MAP alike.
#pragma once

#include <rdma/fi_domain.h>

#include "abi/ops.h"
#include "base/ref.h"
#include "base/status.h"
#include "objects/address.h"
#include "objects/address_table.h"
#include "objects/background_tasks.h"
#include "objects/event_queue.h"
#include "objects/insertion_report.h"
#include "objects/peer_names.h"

namespace weft {

// The part that does not depend on the engine; endpoints hold a Ref to it. Thread-safe.
class AddressVectorCore : public Object<fid_av>, public RefCounted {
 public:
  // The peer of a handle (its receive-context bits are ignored), null if unknown. No lock: the data path uses it.
  const Address* find(fi_addr_t handle) const noexcept { return table_.find(handle & index_mask_); }
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

  // Slots of fi_ops_av.
  int insert(const void* addr, size_t count, fi_addr_t* handles, uint64_t flags, void* context);
  int insertsvc(const char* node, const char* service, fi_addr_t* handles, uint64_t flags, void* context) {
    return insertsym(node, 1, service, 1, handles, flags, context);
  }
  int insertsym(const char* node, size_t nodes, const char* service, size_t services, fi_addr_t* handles,
                uint64_t flags, void* context);
  int remove(fi_addr_t* handles, size_t count, uint64_t flags);
  int lookup(fi_addr_t handle, void* addr, size_t* length) noexcept;
  int lookup2(fi_addr_t handle, void* buf, size_t* length, uint64_t flags, fid_xpu_ctx*) noexcept {
    return flags == 0 ? lookup(handle, buf, length) : -FI_ENOSYS;
  }
  const char* straddr(const void* addr, char* buf, size_t* length) noexcept;
  int set_user_id(fi_addr_t handle, fi_addr_t user_id, uint64_t flags) noexcept;

 protected:
  AddressVectorCore(Ref<RefCounted> parent, uint32_t addr_format, const fi_av_attr& attr);
  ~AddressVectorCore() = default;
  static Status check(const fi_av_attr* attr);

  Ref<EventQueueCore> events_;

 private:
  void insert_one(InsertionReport& report, const Result<Address>& address);

  const Ref<RefCounted> parent_;
  const uint32_t addr_format_;
  const int rx_ctx_bits_;
  const uint64_t index_mask_;
  const bool asynchronous_;  // FI_EVENT
  AddressTable<Address> table_;
  BackgroundTasks resolver_;  // names to look up with FI_EVENT
};

// Owner: its C handle; close answers -FI_EBUSY while endpoints use it.
template <class E>
class AddressVector final : public AddressVectorCore {
 public:
  // `parent` is the domain; `addr_format` comes from the info that opened it. attr->type is set if it was FI_AV_UNSPEC.
  static Result<AddressVector*> open(Ref<RefCounted> parent, fi_av_attr* attr, uint32_t addr_format, void* context) {
    if (Status status = check(attr); !status.ok()) return failure(status);
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
  int bind(::fid* object, uint64_t flags) {
    auto* queue = EventQueue<E>::from(object);
    if (queue == nullptr) return -FI_EINVAL;
    if (flags != 0) return -FI_EBADFLAGS;
    events_ = Ref<EventQueueCore>(*queue);
    return 0;
  }

 private:
  AddressVector(Ref<RefCounted> parent, uint32_t addr_format, const fi_av_attr& attr, void* context)
      : AddressVectorCore(std::move(parent), addr_format, attr) {
    abi.fid = {FI_CLASS_AV, context, ops_of<AddressVector>};
    abi.ops = ops_of<AddressVector>;
  }
};

}  // namespace weft
