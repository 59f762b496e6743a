// SPDX-License-Identifier: BSD-2-Clause
// The queue types of the provider, each with the engine that reading it drives: a completion queue its completion
// channel, a counter all channels of its domain, an event queue the connection engine.
#pragma once

#include "objects/completion_queue.h"
#include "objects/counter.h"
#include "objects/event_queue.h"
#include "objects/poll_set.h"
#include "verbs/cm/cm_engine.h"
#include "verbs/transfer/completion_channel.h"
#include "verbs/transfer/domain_services.h"

namespace weft::verbs {

using CompletionQueue = weft::CompletionQueue<CompletionChannel>;
using Counter = weft::Counter<DomainProgress>;
using EventQueue = weft::EventQueue<CmEngine>;
using PollSet = weft::PollSet<CompletionChannel, DomainProgress>;

}  // namespace weft::verbs
