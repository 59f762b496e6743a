// SPDX-License-Identifier: BSD-2-Clause
// The ops table of messages; fi_msg(3) governs the calls.
#pragma once

#include <rdma/fi_endpoint.h>

#include "abi/bridge.h"

namespace weft {

template <class T, int Missing = FI_ENOSYS>
constexpr fi_ops_msg make_msg_ops() noexcept {
  fi_ops_msg table{};
  table.size = sizeof table;
  WEFT_SLOT(recv);
  WEFT_SLOT(recvv);
  WEFT_SLOT(recvmsg);
  WEFT_SLOT(send);
  WEFT_SLOT(sendv);
  WEFT_SLOT(sendmsg);
  WEFT_SLOT(inject);
  WEFT_SLOT(senddata);
  WEFT_SLOT(injectdata);
  return table;
}

}  // namespace weft
