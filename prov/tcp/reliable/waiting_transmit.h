// SPDX-License-Identifier: BSD-2-Clause
// A transfer of a reliable-datagram endpoint to a peer that is not connected yet.
#pragma once

#include <algorithm>
#include <memory>
#include <new>

#include "base/list.h"
#include "objects/message_buffers.h"
#include "rdm/endpoint_calls.h"
#include "tcp/limits.h"

namespace weft::tcp {

// Owner: a pool of the endpoint's.
struct WaitingTransmit : ListHook<WaitingTransmit> {
  // The request, with spans into this object.
  rdm::TransmitRequest request;

  // False when memory runs out.
  bool keep(const rdm::TransmitRequest& asked, std::size_t len) noexcept {
    request = asked;
    std::copy(asked.remote.begin(), asked.remote.end(), remote_);
    request.remote = {remote_, asked.remote.size()};
    const bool atomic = asked.operation >= rdm::Operation::kUpdate;
    if (!atomic && (asked.flags & FI_INJECT) != 0 && len != 0) {
      iov_[0] = copied(asked.iov, len);
      request.iov = {iov_, 1};
      return iov_[0].iov_base != nullptr;
    }
    std::copy(asked.iov.begin(), asked.iov.end(), iov_);
    request.iov = {iov_, asked.iov.size()};
    if (asked.arrays.empty()) return true;
    arrays_ = copied(asked.arrays, total_length(asked.arrays));
    request.arrays = {&arrays_, 1};
    return arrays_.iov_base != nullptr;
  }

 private:
  iovec copied(std::span<const iovec> pieces, std::size_t len) noexcept {
    copy_.reset(new (std::nothrow) std::byte[len]);
    if (copy_ != nullptr) gather(pieces, copy_.get());
    return {copy_.get(), len};
  }

  iovec iov_[kIovLimit];
  iovec arrays_{};
  fi_rma_iov remote_[kMaxRmaIov];
  std::unique_ptr<std::byte[]> copy_;
};

}  // namespace weft::tcp
