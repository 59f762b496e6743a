// SPDX-License-Identifier: BSD-2-Clause
// Records of transfers and the memory of unexpected messages, shared by the endpoints of a domain: an idle endpoint
// owns none. The engine's mutex guards them.
#pragma once

#include "base/pool.h"
#include "messages/tag_list.h"
#include "messages/unexpected_memory.h"
#include "tcp/stream/transmit.h"

namespace weft::tcp {

struct TransferPools {
  explicit TransferPools(std::size_t unexpected_bytes) noexcept : unexpected(unexpected_bytes) {}

  messages::UnexpectedMemory unexpected;
  Pool<Transmit> transmits;
  Pool<messages::TagList::Receive> receives;
};

}  // namespace weft::tcp
