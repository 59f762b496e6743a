// SPDX-License-Identifier: BSD-2-Clause
// A lower provider as a domain uses it; see lower_side.h.
#include "rxm/lower_side.h"

#include <rdma/fi_ext.h>

#include <algorithm>
#include <utility>

#include "abi/ops.h"
#include "rxm/limits.h"

namespace weft::rxm {

LowerSide::LowerSide(fid_fabric* provider, Lower<fid_domain> opened, std::shared_ptr<const fi_info> made,
                     uint64_t supported) noexcept
    : fabric(provider),
      domain(std::move(opened)),
      info(std::move(made)),
      levels(supported),
      registers(needs_local_registration(*info)),
      counts_receives(needs_credits(*info)),
      stream(is_stream(*info)),
      inject(info->tx_attr->inject_size),
      iov_limit(std::max<std::size_t>(info->tx_attr->iov_limit, 1)),
      virtual_addresses_(uses_virtual_addresses(*info)),
      chooses_keys_((info->domain_attr->mr_mode & (FI_MR_PROV_KEY | FI_MR_BASIC)) == 0) {
  void* ops = nullptr;
  if (registers && fi_open_ops(&domain->fid, kReusableRegions, 0, &ops, nullptr) == 0)
    reusable_ = static_cast<const ReusableRegionOps*>(ops);
}

Result<Lower<fid_cq>> LowerSide::open_queue(std::optional<int> signaling_vector, void* owner) const noexcept {
  fi_cq_attr attr{};
  attr.format = FI_CQ_FORMAT_TAGGED;
  if (signaling_vector) {
    attr.flags = FI_AFFINITY;
    attr.signaling_vector = *signaling_vector;
  }
  fid_cq* queue = nullptr;
  const int error = open_waitable([&](fi_wait_obj wait) {
    attr.wait_obj = wait;
    return fi_cq_open(domain.get(), &attr, &queue, owner);
  });
  if (error != 0) return failure(Status(error));
  return Lower<fid_cq>(queue);
}

Result<Lower<fid_mr>> LowerSide::register_memory(const void* buf, size_t len, uint64_t access,
                                                 uint64_t flags) noexcept {
  const uint64_t key = chooses_keys_ ? kOwnKeys | hash_(next_key_.fetch_add(1, std::memory_order_relaxed)) : 0;
  fid_mr* region = nullptr;
  const iovec memory{const_cast<void*>(buf), len};
  const fi_mr_attr attr = describe_region(&memory, 1, access, 0, key, nullptr);
  const int error = reusable_ != nullptr ? reusable_->regattr(domain.get(), &attr, flags, &region)
                                         : fi_mr_regattr(domain.get(), &attr, 0, &region);
  if (error != 0) return failure(Status(error));
  return Lower<fid_mr>(region);
}

}  // namespace weft::rxm
