// SPDX-License-Identifier: BSD-2-Clause
// The frame of a tool; see program.h.
#include "program.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <system_error>

namespace weft::tools {
namespace {

// Not by {fmt}, which would throw again.
void complain(const char* why) noexcept {
  std::fprintf(stderr, "%s: cannot write the output: %s\n", program_invocation_short_name, why);
}

}  // namespace

int run_program(int (*run)(int argc, char** argv), int argc, char** argv) {
  for (int fd = STDIN_FILENO; fd <= STDERR_FILENO; ++fd)
    if (::fcntl(fd, F_GETFD) < 0 && ::open("/dev/null", O_RDWR) < 0) return EXIT_FAILURE;
  int result = EXIT_FAILURE;
  try {
    result = run(argc, argv);
  } catch (const std::system_error& error) {  // fmt::print throws it
    complain(error.code().message().c_str());
    return EXIT_FAILURE;
  }
  if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return result;
  complain(std::strerror(errno));
  return EXIT_FAILURE;
}

}  // namespace weft::tools
