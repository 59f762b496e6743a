// SPDX-License-Identifier: BSD-2-Clause
// One-sided bandwidth over the first connection, m.window transfers of m.size bytes under way at once: what each of the
// programs measures in its own way.
#pragma once

#include "process/measurement.h"

namespace bench {

void write_server(const Measurement& m, Channel& channel);
void write_client(const Measurement& m, Channel& channel);
void read_server(const Measurement& m, Channel& channel);
void read_client(const Measurement& m, Channel& channel);

}  // namespace bench
