// SPDX-License-Identifier: BSD-2-Clause
// The shared queue objects, driven by the engine of ofi_rxm.
#pragma once

#include "objects/address_vector.h"
#include "objects/completion_queue.h"
#include "objects/counter.h"
#include "objects/event_queue.h"
#include "rxm/engine.h"

namespace weft::rxm {

using AddressVector = weft::AddressVector<Engine>;
using CompletionQueue = weft::CompletionQueue<Engine>;
using Counter = weft::Counter<Engine>;
using EventQueue = weft::EventQueue<Engine>;

}  // namespace weft::rxm
