// SPDX-License-Identifier: BSD-2-Clause
// Private data of a request, an acceptance or a rejection: [length, 1 byte][application's data], the framing of
// libfabric, which may be the peer. With IP addresses librdmacm adds the header that names both ends; with native
// InfiniBand addresses the request itself must contain it. fi_cm(3) NOTES, rdma_connect(3).
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "verbs/cm/cm_address.h"

namespace weft::verbs {

// FI_OPT_CM_DATA_SIZE: the room in a request behind the header and the length.
inline constexpr std::size_t kCmDataSize = 55;
inline constexpr std::size_t kIbHeaderSize = 36;

// A framed message. The application's data is cut to kCmDataSize, silently, as fi_cm(3) defines.
class PrivateData {
 public:
  void compose(const void* data, std::size_t len) noexcept;

  // For rdma_conn_param and rdma_reject.
  const std::byte* bytes() const noexcept { return bytes_.data() + kIbHeaderSize; }
  std::uint8_t size() const noexcept { return size_; }

  // bytes() with the header in front, for requests between native InfiniBand addresses.
  const std::byte* with_header(const CmAddress& from, const CmAddress& to) noexcept;
  std::uint8_t size_with_header() const noexcept { return static_cast<std::uint8_t>(size_ + kIbHeaderSize); }

 private:
  std::uint8_t size_ = 0;
  std::array<std::byte, kIbHeaderSize + 1 + kCmDataSize> bytes_{};
};

// The application's data in a peer's private data. A length byte beyond the end of `received` is cut.
std::span<const std::byte> application_data(std::span<const std::byte> received) noexcept;
// application_data() of a request between native InfiniBand addresses.
std::span<const std::byte> application_data_behind_header(std::span<const std::byte> received) noexcept;
// The requester's port in the header of such a request; 0: no header.
std::uint16_t requester_port(std::span<const std::byte> received) noexcept;

}  // namespace weft::verbs
