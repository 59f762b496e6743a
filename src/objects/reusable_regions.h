// SPDX-License-Identifier: BSD-2-Clause
// Between a layered provider and the one below: registrations for single operations, which the lower provider may keep
// for the next operation on the same memory. fi_open_ops(3) of the lower domain; decision 0018.
#pragma once

#include <rdma/fi_domain.h>

#include <cstddef>
#include <cstdint>

namespace weft {

// The name ends with the version of the table.
inline constexpr char kReusableRegions[] = "weft_reusable_regions_1";

struct ReusableRegionOps {
  std::size_t size;
  // As fi_mr_regattr. Peers may keep their right to access the memory after fi_close, until the memory is unmapped.
  int (*regattr)(fid_domain* domain, const fi_mr_attr* attr, std::uint64_t flags, fid_mr** mr);
};

}  // namespace weft
