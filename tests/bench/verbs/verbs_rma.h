// SPDX-License-Identifier: BSD-2-Clause
// RDMA writes and reads of one size over one queue pair, a window under way.
#pragma once

#include "process/measurement.h"

namespace bench {

void write_server(const Measurement& m, Channel& channel);
void write_client(const Measurement& m, Channel& channel);
void read_server(const Measurement& m, Channel& channel);
void read_client(const Measurement& m, Channel& channel);

}  // namespace bench
