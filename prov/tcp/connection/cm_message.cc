// SPDX-License-Identifier: BSD-2-Clause
// The connection messages of the tcp wire; see cm_message.h.
#include "tcp/connection/cm_message.h"

#include <arpa/inet.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cstring>

namespace weft::tcp {
namespace {

constexpr std::byte kVersion{3};
constexpr std::size_t kTypeAt = 1;
constexpr std::size_t kDataSizeAt = 2;
constexpr std::size_t kMarkAt = 24;
constexpr std::uint64_t kMark = 1;
constexpr std::size_t kRequesterAt = 8;
constexpr std::size_t kAcceptorAt = 16;
constexpr char kOurs[] = {'w', 'e', 'f', 't'};

// Where the extensions of the message's sender are; 0: a rejection has none.
std::size_t extensions_at(CmType type) noexcept {
  if (type == CmType::kReject) return 0;
  return type == CmType::kRequest ? kRequesterAt : kAcceptorAt;
}

}  // namespace

void CmMessage::compose(CmType type, const void* data, std::size_t len) noexcept {
  len = data == nullptr ? 0 : std::min(len, kCmDataSize);
  bytes_.fill({});
  bytes_[0] = kVersion;
  bytes_[kTypeAt] = static_cast<std::byte>(type);
  bytes_[kDataSizeAt] = static_cast<std::byte>(len >> 8);
  bytes_[kDataSizeAt + 1] = static_cast<std::byte>(len);
  std::memcpy(&bytes_[kMarkAt], &kMark, sizeof kMark);
  if (const std::size_t at = extensions_at(type); at != 0) {
    const std::uint32_t bits = htonl(kOwnExtensions);
    std::memcpy(&bytes_[at], kOurs, sizeof kOurs);
    std::memcpy(&bytes_[at + sizeof kOurs], &bits, sizeof bits);
  }
  if (len != 0) std::memcpy(&bytes_[kCmHeaderSize], data, len);
  size_ = kCmHeaderSize + len;
  position_ = 0;
}

Result<bool> CmMessage::complete() noexcept {
  if (position_ > 0 && bytes_[0] != kVersion) return failure(FI_ENOPROTOOPT);
  if (position_ < kCmHeaderSize) return false;
  const std::size_t data_size =
      std::to_integer<std::size_t>(bytes_[kDataSizeAt]) << 8 | std::to_integer<std::size_t>(bytes_[kDataSizeAt + 1]);
  if (data_size > kCmDataSize) return failure(FI_EREMOTEIO);
  if (type() != CmType::kRequest && type() != CmType::kAccept && type() != CmType::kReject)
    return failure(FI_EREMOTEIO);
  size_ = kCmHeaderSize + data_size;
  return position_ == size_;
}

bool CmMessage::swapped() const noexcept {
  return std::memcmp(&bytes_[kMarkAt], &kMark, sizeof kMark) != 0;
}

std::uint32_t CmMessage::extensions() const noexcept {
  const std::size_t at = extensions_at(type());
  if (at == 0 || std::memcmp(&bytes_[at], kOurs, sizeof kOurs) != 0) return 0;
  std::uint32_t bits;
  std::memcpy(&bits, &bytes_[at + sizeof kOurs], sizeof bits);
  return ntohl(bits);
}

}  // namespace weft::tcp
