// SPDX-License-Identifier: BSD-2-Clause
// The library's log during a tool's calls. When nothing matches a fi_getinfo call, the library logs the reason of every
// provider at level warn; a tool that imports the log can print them. fabric(7) LOGGING INTERFACE, fi_import_log of
// <rdma/fi_ext.h> (API 1.13).
#pragma once

namespace weft::tools {

// Keeps warnings of the library for print_getinfo_failure(). Does nothing if the user configures the log (FI_LOG_LEVEL
// ... are set) or the library does not export it. Call once, before the first fi_getinfo, from one thread.
void catch_library_log();

// Prints "fi_getinfo: -61 (No data available)" and the distinct warnings since the last call to standard error.
void print_getinfo_failure(int error);

}  // namespace weft::tools
