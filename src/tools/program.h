// SPDX-License-Identifier: BSD-2-Clause
// The frame of a tool: its standard descriptors, and the exit code for output that is lost. exit(3).
#pragma once

namespace weft::tools {

// The exit code of `run`, or EXIT_FAILURE with a sentence on standard error if output could not be written. Standard
// descriptors that are closed become /dev/null, so that no connection of the tool has one of their numbers.
int run_program(int (*run)(int argc, char** argv), int argc, char** argv);

}  // namespace weft::tools
