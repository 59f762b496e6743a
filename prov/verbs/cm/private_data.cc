// SPDX-License-Identifier: BSD-2-Clause
// The framing of private data; see private_data.h.
#include "verbs/cm/private_data.h"

#include <arpa/inet.h>

#include <algorithm>
#include <cstring>

namespace weft::verbs {
namespace {

// The kernel's layout for IP addresses. An IP version of 0 marks native addresses.
struct Header {
  std::uint8_t cma_version;
  std::uint8_t ip_version;
  std::uint16_t port;  // the requester's, big-endian
  std::uint8_t source[16];
  std::uint8_t destination[16];
};
static_assert(sizeof(Header) == kIbHeaderSize);

void copy_gid(std::uint8_t* to, const CmAddress& address) noexcept {
  CmAddress copy = address;
  if (copy.is_ib()) std::memcpy(to, &reinterpret_cast<sockaddr_ib*>(copy.data())->sib_addr, 16);
}

}  // namespace

void PrivateData::compose(const void* data, std::size_t len) noexcept {
  len = std::min(len, kCmDataSize);
  bytes_[kIbHeaderSize] = static_cast<std::byte>(len);
  if (len != 0) std::memcpy(bytes_.data() + kIbHeaderSize + 1, data, len);
  size_ = static_cast<std::uint8_t>(1 + len);
}

const std::byte* PrivateData::with_header(const CmAddress& from, const CmAddress& to) noexcept {
  Header header{};
  header.port = htons(from.port());
  copy_gid(header.source, from);
  copy_gid(header.destination, to);
  std::memcpy(bytes_.data(), &header, sizeof header);
  return bytes_.data();
}

std::span<const std::byte> application_data(std::span<const std::byte> received) noexcept {
  if (received.empty()) return {};
  return received.subspan(1, std::min(std::to_integer<std::size_t>(received[0]), received.size() - 1));
}

std::span<const std::byte> application_data_behind_header(std::span<const std::byte> received) noexcept {
  return received.size() <= kIbHeaderSize ? std::span<const std::byte>()
                                          : application_data(received.subspan(kIbHeaderSize));
}

std::uint16_t requester_port(std::span<const std::byte> received) noexcept {
  if (received.size() <= kIbHeaderSize) return 0;
  Header header;
  std::memcpy(&header, received.data(), sizeof header);
  return ntohs(header.port);
}

}  // namespace weft::verbs
