// SPDX-License-Identifier: BSD-2-Clause
// The number of operations that an endpoint may have outstanding and their largest size: the request of its fi_info,
// limited by the device; and the options of fi_endpoint(3) that report or change that.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/fabric.h>

#include <cstddef>
#include <cstdint>
#include <optional>

#include "verbs/transfer/completion_routes.h"

namespace weft::verbs {

class DomainServices;

struct TransferSizes {
  TransferSizes(DomainServices& domain, const fi_info& info) noexcept;

  // For ibv_create_qp, without a shared receive queue.
  ibv_qp_init_attr queue_pair(const CompletionRoutes& routes, ibv_qp_type type) const noexcept;

  std::optional<std::size_t> limit(int option) const noexcept;
  // -FI_ENOPROTOOPT for options that are not about sizes.
  int getopt(int option, void* value, std::size_t* len) const noexcept;
  // `enabled`: the sizes of queues are fixed.
  int setopt(int option, const void* value, std::size_t len, bool enabled) noexcept;

  std::uint32_t transmits;
  std::uint32_t receives;
  std::uint32_t most_operations;  // that the device allows for each direction
  std::uint32_t inline_bytes;
  std::uint64_t longest_message;  // bytes
  std::uint16_t transmit_iov;
  std::uint16_t receive_iov;
  std::uint16_t receive_sges;       // receive_iov, and one for spill if the device has room for it
  std::uint16_t read_sges : 15;     // buffers of one read: iWARP devices have one
  std::uint16_t device_memory : 1;  // FI_HMEM

 private:
  // Every single operation must fit: a read may take a request for each buffer.
  void set_transmits(std::uint32_t wanted) noexcept;
};

}  // namespace weft::verbs
