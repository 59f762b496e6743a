// SPDX-License-Identifier: BSD-2-Clause
// Accesses to registered memory, fi_mr(3): they are granted, and refused once a registration is closed meanwhile. Then
// the rest of a write is discarded, zeros replace the rest of what is read, and the connection goes on.
#pragma once

#include <rdma/fi_rma.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/status.h"
#include "objects/memory_regions.h"
#include "tcp/stream/data_header.h"
#include "tcp/stream/transmit.h"

namespace weft::tcp {

struct Gather;

// Grants an access: kLatest in `generation` is replaced by the generation of its registrations.
Result<std::size_t> translate(MemoryRegions& regions, std::span<const fi_rma_iov> ranges, std::uint64_t access,
                              iovec* out, std::uint64_t& generation) noexcept;

inline Op op_in(const Transmit& record) noexcept {
  return static_cast<Op>(record.inlined[1]);
}
// A message is next on the wire: it gets the next number of all messages, `id`, and of the remote writes.
inline void give_position(Transmit& record, std::uint32_t& id, std::uint32_t& writes) noexcept {
  record.inlined[kIdOffset] = static_cast<std::byte>(id);
  ++id;
  if (op_in(record) == Op::kWrite) record.write = ++writes;
}

// Adds zeros in place of the payload, of which `skip` bytes were sent. False when the batch is full before its end.
bool add_zeros(Gather& batch, std::size_t skip, std::size_t len) noexcept;
// Adds Op::kReadStatus, as far as it was not sent.
void add_status(Gather& batch, Transmit& response) noexcept;

}  // namespace weft::tcp
