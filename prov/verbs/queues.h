// SPDX-License-Identifier: BSD-2-Clause
// The shared queue objects, each with what it drives: a completion queue its device queue, a counter all device queues
// of its domain, an event queue the connection manager.
#pragma once

#include "objects/completion_queue.h"
#include "objects/counter.h"
#include "objects/event_queue.h"
#include "objects/poll_set.h"
#include "verbs/cm_engine.h"
#include "verbs/completion_channel.h"
#include "verbs/domain_progress.h"

namespace weft::verbs {

using CompletionQueue = weft::CompletionQueue<CompletionChannel>;
using Counter = weft::Counter<DomainProgress>;
using EventQueue = weft::EventQueue<CmEngine>;
using PollSet = weft::PollSet<CompletionChannel, DomainProgress>;

}  // namespace weft::verbs
