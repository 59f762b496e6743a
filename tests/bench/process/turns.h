// SPDX-License-Identifier: BSD-2-Clause
// Contestants that take turns within one measurement: each sets up once, and then measures for a moment on request,
// while the others sleep. Other load of the machine affects all of them alike, and setting up, which takes longer than
// measuring on an emulated machine, is paid once.
//
// The client prints the line "ready", and starts a turn with each byte on its standard input; it ends the metrics of a
// turn with the line "turn". With one turn, none of this happens.
#pragma once

#include <unistd.h>

#include <cstdio>

#include "process/measurement.h"
#include "process/process_pair.h"

namespace bench {

// Both sides call it with their half of the workload.
template <class Body>
void in_turns(Role role, const Measurement& m, Channel& channel, Body body) {
  if (m.turns < 2) return body();
  if (role == Role::kClient) say("ready");
  for (unsigned turn = 0; turn < m.turns; ++turn) {
    if (role == Role::kClient) {
      char go;
      if (read(STDIN_FILENO, &go, 1) != 1) fail("no word to begin a turn");
      channel.put(turn);
    } else {
      channel.get();
    }
    body();
    if (role == Role::kClient) say("turn");
  }
}

}  // namespace bench
