// SPDX-License-Identifier: BSD-2-Clause
// What the numbers depend on: when and on which kind of machine they were taken. Names of hosts and people stay out.
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
  std::string place;  // what is between the kernel and the hardware; empty: nothing
};

// `host`: what is beneath a virtual machine.
Machine describe_machine(const std::string& host);
std::string to_line(const Machine& machine);

}  // namespace bench
