// SPDX-License-Identifier: BSD-2-Clause
// The shared queue objects, driven by the tcp provider's engine.
#pragma once

#include "objects/address_vector.h"
#include "objects/completion_queue.h"
#include "objects/counter.h"
#include "objects/event_queue.h"
#include "tcp/engine.h"

namespace weft::tcp {

using AddressVector = weft::AddressVector<Engine>;
using CompletionQueue = weft::CompletionQueue<Engine>;
using Counter = weft::Counter<Engine>;
using EventQueue = weft::EventQueue<Engine>;

}  // namespace weft::tcp
