// SPDX-License-Identifier: BSD-2-Clause
// An operation of a reliable-datagram endpoint for a peer that is not connected yet.
#pragma once

#include <algorithm>
#include <memory>
#include <new>

#include "base/list.h"
#include "objects/message_buffers.h"
#include "rdm/transfer_calls.h"
#include "tcp/limits.h"

namespace weft::tcp {

// Owner: a pool of the endpoint's.
struct WaitingTransmit : ListHook<WaitingTransmit> {
  // What was asked for, with spans into this.
  rdm::TransmitRequest request;

  // False when memory runs out.
  bool keep(const rdm::TransmitRequest& asked, std::size_t len) noexcept {
    request = asked;
    std::copy(asked.remote.begin(), asked.remote.end(), remote_);
    request.remote = {remote_, asked.remote.size()};
    if ((asked.flags & FI_INJECT) == 0 || len == 0) {
      std::copy(asked.iov.begin(), asked.iov.end(), iov_);
      request.iov = {iov_, asked.iov.size()};
      return true;
    }
    copy_.reset(new (std::nothrow) std::byte[len]);
    if (copy_ == nullptr) return false;
    gather(asked.iov, copy_.get());
    iov_[0] = {copy_.get(), len};
    request.iov = {iov_, 1};
    return true;
  }

 private:
  iovec iov_[kIovLimit];
  fi_rma_iov remote_[kMaxRmaIov];
  std::unique_ptr<std::byte[]> copy_;
};

}  // namespace weft::tcp
