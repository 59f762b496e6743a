// SPDX-License-Identifier: BSD-2-Clause
// Why a connection failed; see sentence.h.
#include "objects/sentence.h"

#include <rdma/fi_errno.h>

namespace weft {
namespace {

const char* plain_reason(int error) noexcept {
  switch (error) {
    case FI_ECONNREFUSED:
      return "no listener at that address";
    case FI_ECONNRESET:
    case EPIPE:
      return "the peer reset the connection";
    case FI_ETIMEDOUT:
      return "no answer in time";
    default:
      return fi_strerror(error);
  }
}

}  // namespace

std::string connect_failure(int error, const char* why, const char* phase, const Address& from, const Address& to,
                            std::chrono::duration<double, std::milli> after) noexcept {
  return sentence("{} while {} ({} to {}, after {:.1f} ms)", why != nullptr ? why : plain_reason(error), phase,
                  from.to_string(), to.to_string(), after.count());
}

}  // namespace weft
