// SPDX-License-Identifier: BSD-2-Clause
// A lower provider as a domain and its connections use it: the device that the application chose, or tcp between ends
// of one host; fi_domain(3), fi_mr(3).
#pragma once

#include <rdma/fi_domain.h>

#include <atomic>
#include <memory>
#include <optional>

#include "base/keyed_hash.h"
#include "objects/reusable_regions.h"
#include "rxm/lower.h"

namespace weft::rxm {

// Owner: the domain, which outlives all that uses it. Thread-safe.
class LowerSide {
 public:
  // `opened`: of `provider`, for `made`; its completion levels are `supported`.
  LowerSide(fid_fabric* provider, Lower<fid_domain> opened, std::shared_ptr<const fi_info> made,
            uint64_t supported) noexcept;

  // A queue of that provider, with FI_AFFINITY if a vector is given; `owner` is its context.
  Result<Lower<fid_cq>> open_queue(std::optional<int> signaling_vector, void* owner) const noexcept;
  // Registers memory of a message, whose registration the provider may keep for the next message; or buffers of our
  // own, with FI_MR_WEFT_UNCACHED.
  Result<Lower<fid_mr>> register_memory(const void* buf, size_t len, uint64_t access, uint64_t flags) noexcept;
  // The address by which a peer accesses the beginning of such memory.
  uint64_t remote_address(const void* buf) const noexcept {
    return virtual_addresses_ ? reinterpret_cast<uint64_t>(buf) : 0;
  }

  // The domain if reading a queue of it makes progress for all of its queues; else null.
  fid_domain* shared() const noexcept { return stream ? domain.get() : nullptr; }

  fid_fabric* const fabric;
  Lower<fid_domain> domain;
  const std::shared_ptr<const fi_info> info;
  const uint64_t levels;        // FI_TRANSMIT_COMPLETE, FI_DELIVERY_COMPLETE: those that it supports
  const bool registers;         // local memory
  const bool counts_receives;   // needs_credits()
  const bool stream;            // is_stream()
  const std::size_t inject;     // bytes
  const std::size_t iov_limit;  // at least 1

 private:
  const bool virtual_addresses_;
  const bool chooses_keys_;
  const ReusableRegionOps* reusable_ = nullptr;  // the provider keeps registrations for the next use
  std::atomic<uint64_t> next_key_{0};
  const KeyedHash hash_;  // a peer that has a key cannot compute those of other peers' messages
};

}  // namespace weft::rxm
