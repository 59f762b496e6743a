// SPDX-License-Identifier: BSD-2-Clause
// The costs of connections: made one after the other, many at once with their memory, and idle while a thread blocks.
#pragma once

#include "process/measurement.h"

namespace bench {

void connects_server(const Measurement& m, Channel& channel);
void connects_client(const Measurement& m, Channel& channel);
void storm_server(const Measurement& m, Channel& channel);
void storm_client(const Measurement& m, Channel& channel);
void idle_server(const Measurement& m, Channel& channel);
void idle_client(const Measurement& m, Channel& channel);

}  // namespace bench
