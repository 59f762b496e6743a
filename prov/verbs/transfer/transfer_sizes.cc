// SPDX-License-Identifier: BSD-2-Clause
// Sizes of queues and operations; see transfer_sizes.h.
#include "verbs/transfer/transfer_sizes.h"

#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <algorithm>

#include "objects/endpoint_options.h"
#include "objects/info.h"
#include "verbs/device/limits.h"
#include "verbs/transfer/domain_services.h"

namespace weft::verbs {
namespace {

// The type of `most` is that of the option's value.
template <class T>
T choose(size_t asked, size_t otherwise, T most) noexcept {
  return static_cast<T>(std::clamp<size_t>(asked != 0 ? asked : otherwise, 1, std::max<T>(most, 1)));
}

size_t device_limit(int limit) noexcept {
  return limit > 0 ? static_cast<size_t>(limit) : 1;
}

uint64_t max_message(const fi_info& info) noexcept {
  constexpr uint64_t kLargestEver = uint64_t{1} << 31;  // bytes; of reliable connections
  const uint64_t said = or_none(info.ep_attr).max_msg_size;
  return said != 0 ? std::min(said, kLargestEver) : kLargestEver;
}

}  // namespace

TransferSizes::TransferSizes(DomainServices& domain, const fi_info& info) noexcept
    : longest_message(max_message(info)) {
  const ibv_device_attr& device = domain.device().attr().orig_attr;
  const fi_tx_attr& tx = or_none(info.tx_attr);
  const fi_rx_attr& rx = or_none(info.rx_attr);
  // One work request is the marker at the end.
  most_operations = static_cast<std::uint32_t>(std::min(device_limit(device.max_qp_wr - 1), kMaxQueueSize));
  const auto sges = static_cast<std::uint16_t>(std::min(device_limit(device.max_sge), kMaxIov));
  receives = choose(rx.size, kDefaultQueueSize, most_operations);
  transmit_iov = choose(tx.iov_limit, kDefaultIovLimit, sges);
  receive_iov = choose(rx.iov_limit, kDefaultIovLimit, sges);
  read_sges = device.max_sge_rd > 0 ? static_cast<std::uint16_t>(std::min(device.max_sge_rd, int{sges})) : sges;
  set_transmits(choose(tx.size, kDefaultQueueSize, most_operations));
  const bool spills = domain.spill().length != 0;
  receive_sges = std::min(static_cast<std::uint16_t>(receive_iov + (spills ? 1 : 0)), sges);
  device_memory = (info.caps & FI_HMEM) != 0;
  // The processor copies inline data, and must not touch memory of a device.
  inline_bytes = device_memory ? 0 : static_cast<std::uint32_t>(std::min(tx.inject_size, kMaxInjectSize));
}

void TransferSizes::set_transmits(std::uint32_t wanted) noexcept {
  transmits = std::max({wanted, 2u, std::uint32_t{transmit_iov}});
}

ibv_qp_init_attr TransferSizes::queue_pair(const CompletionRoutes& routes, ibv_qp_type type) const noexcept {
  ibv_qp_init_attr attr{};
  attr.send_cq = routes.transmit_channel->cq();
  attr.recv_cq = routes.receive_channel->cq();
  attr.cap = {.max_send_wr = transmits + 1,  // the marker at the end
              .max_recv_wr = receives,
              .max_send_sge = transmit_iov,
              .max_recv_sge = receive_sges,
              .max_inline_data = inline_bytes};
  attr.qp_type = type;
  return attr;
}

// The value of an option that only states a limit.
std::optional<size_t> TransferSizes::limit(int option) const noexcept {
  switch (option) {
    case FI_OPT_MAX_MSG_SIZE:
    case FI_OPT_MAX_RMA_SIZE:
      return longest_message;
    case FI_OPT_MAX_ATOMIC_SIZE:
    case FI_OPT_INJECT_ATOMIC_SIZE:
      return sizeof(uint64_t);
    case FI_OPT_INJECT_MSG_SIZE:
    case FI_OPT_INJECT_RMA_SIZE:
      return inline_bytes;
    case FI_OPT_MAX_TAGGED_SIZE:
    case FI_OPT_INJECT_TAGGED_SIZE:
      return 0;
    default:
      return std::nullopt;
  }
}

int TransferSizes::getopt(int option, void* value, std::size_t* len) const noexcept {
  if (option == FI_OPT_TX_SIZE) return report_option(size_t{transmits}, value, len);
  if (option == FI_OPT_RX_SIZE) return report_option(size_t{receives}, value, len);
  if (device_memory && is_device_memory_option(option)) return get_device_memory_option(option, value, len);
  return report_limit(limit(option), value, len);
}

// Limits that the application states are accepted if the endpoint meets them.
int TransferSizes::setopt(int option, const void* value, std::size_t len, bool enabled) noexcept {
  if (device_memory && is_device_memory_option(option)) return set_device_memory_option(option, value, len);
  size_t wanted = 0;
  const bool readable = read_option(value, len, wanted) == 0;
  if (option == FI_OPT_TX_SIZE || option == FI_OPT_RX_SIZE) {
    if (enabled) return -FI_EOPBADSTATE;
    if (!readable || wanted == 0 || wanted > most_operations) return -FI_EINVAL;
    const auto size = static_cast<std::uint32_t>(wanted);
    if (option == FI_OPT_TX_SIZE)
      set_transmits(size);
    else
      receives = size;
    return 0;
  }
  const auto most = limit(option);
  if (!most) return -FI_ENOPROTOOPT;
  const bool any = option == FI_OPT_MAX_MSG_SIZE || option == FI_OPT_MAX_TAGGED_SIZE || option == FI_OPT_MAX_RMA_SIZE;
  return readable && (any || wanted <= *most) ? 0 : -FI_EINVAL;
}

}  // namespace weft::verbs
