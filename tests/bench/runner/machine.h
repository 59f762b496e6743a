// SPDX-License-Identifier: BSD-2-Clause
// The conditions of a run: the date and the kind of machine. Names of hosts and people stay out.
#pragma once

#include <string>

namespace bench {

struct Machine {
  std::string date;       // year-month-day
  std::string processor;  // model name
  unsigned cores;         // that this process may use
  std::string memory;
  std::string kernel;
  std::string load;   // load average over the last minute, before the run
  std::string place;  // the layer between the kernel and the hardware; empty: none
};

// `host`: the machine beneath a virtual machine.
Machine describe_machine(const std::string& host);
std::string to_line(const Machine& machine);

}  // namespace bench
