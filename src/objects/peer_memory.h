// SPDX-License-Identifier: BSD-2-Clause
// Between a layered provider and the one below: reads of the memory of the process at the other end of a connection,
// if both ends are on one host and share memory. fi_open_ops(3) of the lower endpoint; decision 0012.
#pragma once

#include <rdma/fi_endpoint.h>
#include <sys/uio.h>

#include <cstddef>
#include <cstdint>

namespace weft {

// The name ends with the version of the table.
inline constexpr char kPeerMemory[] = "weft_peer_memory_1";

struct PeerMemoryOps {
  std::size_t size;
  // Whether the other end can read this process.
  bool (*is_readable)(fid_ep* ep);
  // Reads `len` bytes at the other process's address `from`, before it returns. 0, or a negative error, after which the
  // contents of `to` are undefined; -FI_EOPNOTSUPP: not from that process, or not so many at once. The other end must
  // keep the memory unchanged until a message reports that the read has ended.
  int (*read)(fid_ep* ep, const iovec* to, std::size_t count, std::uint64_t from, std::size_t len);
};

}  // namespace weft
