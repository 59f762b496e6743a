// SPDX-License-Identifier: BSD-2-Clause
// Where an endpoint's completions go (fi_endpoint(3), fi_ep_bind): the routes of objects/completion_routes.h, to tcp's
// own queues.
#pragma once

#include "objects/completion_routes.h"
#include "tcp/queues.h"
