// SPDX-License-Identifier: BSD-2-Clause
// What the library says while a tool calls it. When nothing matches a fi_getinfo call, the reason of every provider is
// in the library's log at warn level; a tool that catches the log can tell them to its user. fabric(7) LOGGING
// INTERFACE, fi_import_log of <rdma/fi_ext.h> (API 1.13).
#pragma once

namespace weft::tools {

// From catch_library_log() on, warnings of the library are kept for print_getinfo_failure(). When the user steers the
// log himself (FI_LOG_LEVEL ... are set), or the library cannot give it away, nothing changes and nothing is ever kept.
// Call once, before the first fi_getinfo, from one thread.
void catch_library_log();

// "fi_getinfo: -61 (No data available)" and below it, once each, what the library said since the last call; to standard
// error.
void print_getinfo_failure(int error);

}  // namespace weft::tools
