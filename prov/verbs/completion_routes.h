// SPDX-License-Identifier: BSD-2-Clause
// Where an endpoint's completions go: the channels and counters bound to it (fi_endpoint(3), fi_ep_bind).
#pragma once

#include "objects/completion_routes.h"

namespace weft::verbs {

class CompletionChannel;

// A queue that is null stands for counters only.
struct CompletionRoutes : weft::CompletionRoutes {
  CompletionChannel* transmit_channel = nullptr;
  CompletionChannel* receive_channel = nullptr;
};

}  // namespace weft::verbs
