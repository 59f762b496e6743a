// SPDX-License-Identifier: BSD-2-Clause
// Address vectors of IP addresses; fi_av(3).
#include "objects/address_vector.h"

namespace weft {

Status check_vector(const fi_av_attr* attr) noexcept {
  if (attr == nullptr || attr->type > FI_AV_TABLE) return Status(-FI_EINVAL);
  if (attr->rx_ctx_bits < 0 || attr->rx_ctx_bits > 24) return Status(-FI_EINVAL);
  if (attr->name != nullptr || (attr->flags & FI_READ) != 0) return Status(-FI_ENOSYS);  // FI_SHARED_AV
  if ((attr->flags & ~uint64_t{FI_EVENT | FI_SYMMETRIC | FI_AV_USER_ID}) != 0) return Status(-FI_EBADFLAGS);
  return {};
}

int AddressVectorCore::insert_listed(InsertionReport&& report, const std::byte* next, size_t count) {
  return perform(report, [&](InsertionReport& to) {
    for (size_t i = 0; i < count; ++i) insert_one(to, read_address(addr_format_, next));
  });
}

}  // namespace weft
