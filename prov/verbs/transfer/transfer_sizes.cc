// SPDX-License-Identifier: BSD-2-Clause
// Sizes of queues and operations; see transfer_sizes.h.
#include "verbs/transfer/transfer_sizes.h"

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <algorithm>

#include "objects/endpoint_options.h"
#include "verbs/device/device.h"
#include "verbs/device/limits.h"
#include "verbs/transfer/domain_services.h"

namespace weft::verbs {
namespace {

std::uint32_t choose(size_t asked, size_t otherwise, size_t most) noexcept {
  return static_cast<std::uint32_t>(std::clamp<size_t>(asked != 0 ? asked : otherwise, 1, std::max<size_t>(most, 1)));
}

size_t device_limit(int limit) noexcept {
  return limit > 0 ? static_cast<size_t>(limit) : 1;
}

uint64_t max_message(const fi_info& info) noexcept {
  constexpr uint64_t kLargestEver = uint64_t{1} << 31;  // bytes; of reliable connections
  const uint64_t said = info.ep_attr != nullptr ? info.ep_attr->max_msg_size : 0;
  return said != 0 ? std::min(said, kLargestEver) : kLargestEver;
}

}  // namespace

TransferSizes::TransferSizes(DomainServices& domain, const fi_info& info) noexcept
    : longest_message(max_message(info)) {
  const ibv_device_attr& device = domain.device().attr().orig_attr;
  const fi_tx_attr none_tx{};
  const fi_rx_attr none_rx{};
  const fi_tx_attr& tx = info.tx_attr != nullptr ? *info.tx_attr : none_tx;
  const fi_rx_attr& rx = info.rx_attr != nullptr ? *info.rx_attr : none_rx;
  // One work request is the marker at the end.
  most_operations = std::min(device_limit(device.max_qp_wr - 1), kMaxQueueSize);
  const size_t sges = std::min(device_limit(device.max_sge), kMaxIov);
  transmits = std::max(choose(tx.size, kDefaultQueueSize, most_operations), 2u);
  receives = choose(rx.size, kDefaultQueueSize, most_operations);
  transmit_iov = choose(tx.iov_limit, kDefaultIovLimit, sges);
  receive_iov = choose(rx.iov_limit, kDefaultIovLimit, sges);
  const bool spills = domain.spill().length != 0;
  receive_sges = std::min<std::uint32_t>(receive_iov + (spills ? 1 : 0), static_cast<std::uint32_t>(sges));
  inline_bytes = static_cast<std::uint32_t>(std::min(tx.inject_size, kMaxInjectSize));
}

ibv_qp_init_attr TransferSizes::queue_pair(const CompletionRoutes& routes, ibv_qp_type type) const noexcept {
  ibv_qp_init_attr attr{};
  attr.send_cq = routes.transmit_channel->cq();
  attr.recv_cq = routes.receive_channel->cq();
  attr.cap.max_send_wr = transmits + 1;  // the marker at the end
  attr.cap.max_send_sge = transmit_iov;
  attr.cap.max_inline_data = inline_bytes;
  attr.cap.max_recv_wr = receives;
  attr.cap.max_recv_sge = receive_sges;
  attr.qp_type = type;
  attr.sq_sig_all = 0;
  return attr;
}

int TransferSizes::getopt(int option, void* value, std::size_t* len) const noexcept {
  const auto report = [&](size_t answer) { return report_option(answer, value, len); };
  switch (option) {
    case FI_OPT_TX_SIZE:
      return report(transmits);
    case FI_OPT_RX_SIZE:
      return report(receives);
    case FI_OPT_MAX_MSG_SIZE:
    case FI_OPT_MAX_RMA_SIZE:
      return report(longest_message);
    case FI_OPT_MAX_ATOMIC_SIZE:
    case FI_OPT_INJECT_ATOMIC_SIZE:
      return report(sizeof(uint64_t));
    case FI_OPT_INJECT_MSG_SIZE:
    case FI_OPT_INJECT_RMA_SIZE:
      return report(inline_bytes);
    case FI_OPT_MAX_TAGGED_SIZE:
    case FI_OPT_INJECT_TAGGED_SIZE:
      return report(0);
    default:
      return -FI_ENOPROTOOPT;
  }
}

// Limits that the application states are accepted if the endpoint meets them.
int TransferSizes::setopt(int option, const void* value, std::size_t len, bool enabled) noexcept {
  size_t wanted = 0;
  const bool readable = read_option(value, len, wanted) == 0;
  const auto accept = [&](size_t most) { return readable && wanted <= most ? 0 : -FI_EINVAL; };
  switch (option) {
    case FI_OPT_TX_SIZE:
    case FI_OPT_RX_SIZE:
      if (enabled) return -FI_EOPBADSTATE;
      if (wanted == 0 || accept(most_operations) != 0) return -FI_EINVAL;
      if (option == FI_OPT_TX_SIZE)
        transmits = std::max(static_cast<std::uint32_t>(wanted), 2u);
      else
        receives = static_cast<std::uint32_t>(wanted);
      return 0;
    case FI_OPT_INJECT_MSG_SIZE:
    case FI_OPT_INJECT_RMA_SIZE:
      return accept(inline_bytes);
    case FI_OPT_INJECT_TAGGED_SIZE:
      return accept(0);
    case FI_OPT_INJECT_ATOMIC_SIZE:
    case FI_OPT_MAX_ATOMIC_SIZE:
      return accept(sizeof(uint64_t));
    case FI_OPT_MAX_MSG_SIZE:
    case FI_OPT_MAX_TAGGED_SIZE:
    case FI_OPT_MAX_RMA_SIZE:
      return accept(SIZE_MAX);
    default:
      return -FI_ENOPROTOOPT;
  }
}

}  // namespace weft::verbs
