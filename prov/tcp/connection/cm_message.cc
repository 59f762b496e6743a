// SPDX-License-Identifier: BSD-2-Clause
// The connection messages of the tcp wire; see cm_message.h.
#include "tcp/connection/cm_message.h"

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

}  // namespace

void CmMessage::compose(CmType type, const void* data, std::size_t len) noexcept {
  len = data == nullptr ? 0 : std::min(len, kCmDataSize);
  bytes_.fill({});
  bytes_[0] = kVersion;
  bytes_[kTypeAt] = static_cast<std::byte>(type);
  bytes_[kDataSizeAt] = static_cast<std::byte>(len >> 8);
  bytes_[kDataSizeAt + 1] = static_cast<std::byte>(len);
  std::memcpy(&bytes_[kMarkAt], &kMark, sizeof kMark);
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

}  // namespace weft::tcp
