// SPDX-License-Identifier: BSD-2-Clause
// Address vectors: insertion in its three forms, synchronous and with events; fi_av(3).
#include "objects/address_vector.h"

#include <algorithm>
#include <cstring>
#include <new>

namespace weft {

AddressVectorCore::AddressVectorCore(Ref<RefCounted> parent, uint32_t addr_format, const fi_av_attr& attr)
    : parent_(std::move(parent)),
      addr_format_(addr_format),
      rx_ctx_bits_(attr.rx_ctx_bits),
      index_mask_(attr.rx_ctx_bits == 0 ? ~uint64_t{0} : (uint64_t{1} << (64 - attr.rx_ctx_bits)) - 1),
      asynchronous_((attr.flags & FI_EVENT) != 0) {}

Status AddressVectorCore::check(const fi_av_attr* attr) {
  if (attr == nullptr || attr->type > FI_AV_TABLE) return Status(-FI_EINVAL);
  if (attr->rx_ctx_bits < 0 || attr->rx_ctx_bits > 24) return Status(-FI_EINVAL);
  if (attr->name != nullptr || (attr->flags & FI_READ) != 0) return Status(-FI_ENOSYS);  // FI_SHARED_AV
  if ((attr->flags & ~uint64_t{FI_EVENT | FI_SYMMETRIC | FI_AV_USER_ID}) != 0) return Status(-FI_EBADFLAGS);
  return {};
}

void AddressVectorCore::insert_one(InsertionReport& report, const Result<Address>& address) {
  const uint64_t index = report.index();
  if (address) {
    table_.fill(index, *address, report.user_id());
    report.inserted();
  } else {
    table_.release(index);
    report.failed(address.error());
  }
}

int AddressVectorCore::insert(const void* addresses, size_t count, fi_addr_t* handles, uint64_t flags, void* context) {
  const Insertion call{&abi.fid, handles, flags, context};
  if (Status status = InsertionReport::check(call, asynchronous_, static_cast<bool>(events_)); !status.ok())
    return status.code();
  if (addresses == nullptr && count != 0) return -FI_EINVAL;
  InsertionReport report(call, asynchronous_ ? events_.get() : nullptr, table_.reserve(count));
  const auto* next = static_cast<const std::byte*>(addresses);
  for (size_t i = 0; i < count; ++i) insert_one(report, read_address(addr_format_, next));
  return report.finish();
}

int AddressVectorCore::insertsym(const char* node, size_t nodes, const char* service, size_t services,
                                 fi_addr_t* handles, uint64_t flags, void* context) {
  const Insertion call{&abi.fid, handles, flags, context};
  const PeerNames names{node != nullptr ? node : "", service != nullptr ? service : "", nodes, services};
  if (Status status = InsertionReport::check(call, asynchronous_, static_cast<bool>(events_)); !status.ok())
    return status.code();
  if (names.empty()) return -FI_EINVAL;
  InsertionReport report(call, asynchronous_ ? events_.get() : nullptr, table_.reserve(names.count()));
  if (!asynchronous_) {
    resolve_names(names, addr_format_, [&](const Result<Address>& address) { insert_one(report, address); });
    return report.finish();
  }
  // Name servers may be slow, so a background thread queries them.
  return resolver_
      .add([this, report = std::move(report), names]() mutable {
        try {
          resolve_names(names, addr_format_, [&](const Result<Address>& address) { insert_one(report, address); });
        } catch (const std::bad_alloc&) {
          while (!report.done()) report.failed(Status(-FI_ENOMEM));
        }
        report.finish();
      })
      .code();
}

int AddressVectorCore::remove(fi_addr_t* handles, size_t count, uint64_t flags) {
  if (flags != 0) return -FI_EBADFLAGS;
  if (handles == nullptr && count != 0) return -FI_EINVAL;
  int result = 0;
  for (size_t i = 0; i < count; ++i)
    if (!table_.remove(handles[i] & index_mask_)) result = -FI_EINVAL;
  return result;
}

int AddressVectorCore::lookup(fi_addr_t handle, void* address, size_t* length) noexcept {
  if (length == nullptr || (address == nullptr && *length != 0)) return -FI_EINVAL;
  const Address* found = find(handle);
  if (found == nullptr) return -FI_EINVAL;
  const size_t room = std::exchange(*length, found->size());
  if (room != 0) std::memcpy(address, found->data(), std::min<size_t>(room, found->size()));
  return 0;
}

const char* AddressVectorCore::straddr(const void* address, char* buf, size_t* length) noexcept {
  return report_text([&] { return uri_of(address); }, buf, length);
}

int AddressVectorCore::set_user_id(fi_addr_t handle, fi_addr_t user_id, uint64_t flags) noexcept {
  if (flags != 0) return -FI_EBADFLAGS;
  return table_.set_user_id(handle & index_mask_, user_id) ? 0 : -FI_EINVAL;
}

}  // namespace weft
