// SPDX-License-Identifier: BSD-2-Clause
// One-sided bandwidth over the first connection, with m.window transfers of m.size bytes outstanding: each of the
// programs measures it in its own way.
#pragma once

#include "process/measurement.h"

namespace bench {

void write_server(const Measurement& m, Channel& channel);
void write_client(const Measurement& m, Channel& channel);
void read_server(const Measurement& m, Channel& channel);
void read_client(const Measurement& m, Channel& channel);

}  // namespace bench
