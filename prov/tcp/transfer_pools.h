// SPDX-License-Identifier: BSD-2-Clause
// Records of transfers, shared by the endpoints of a domain: an idle endpoint owns none. The engine's mutex guards
// them.
#pragma once

#include "base/pool.h"
#include "messages/tag_list.h"
#include "tcp/stream/transmit.h"

namespace weft::tcp {

struct TransferPools {
  Pool<Transmit> transmits;
  Pool<messages::TagList::Receive> receives;
};

}  // namespace weft::tcp
