// SPDX-License-Identifier: BSD-2-Clause
// fi_strerror: explains error numbers and names. fi_strerror(1), fi_errno(3).
#include <fmt/format.h>
#include <rdma/fabric.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "names.h"
#include "program.h"

namespace weft::tools {
namespace {

constexpr const char* kUsage =
    "Usage: fi_strerror ERROR...\n"
    "       fi_strerror -l\n\n"
    "Explains each ERROR: a decimal, octal (010) or hexadecimal (0x10) number of\n"
    "either sign, or a name such as FI_EAGAIN or ETOOSMALL. For a number it prints\n"
    "the text alone, for a name also the number.\n\n"
    "Options:\n"
    "  -l, --list  list every error\n"
    "  -h, --help  show this help and exit\n";

void print_named(const ErrorName& error) {
  fmt::print("{} ({}): {}\n", error.name, error.number, fi_strerror(error.number));
}

bool explain(std::string_view text) {
  if (std::optional<int> number = error_number(text)) {
    fmt::print("{}\n", fi_strerror(*number));
    return true;
  }
  if (const ErrorName* error = error_named(text)) {
    print_named(*error);
    return true;
  }
  fmt::print(stderr, "fi_strerror: '{}' is neither a number nor the name of an error\n", text);
  return false;
}

int run(int argc, char** argv) {
  if (argc < 2) {
    fmt::print(stderr, "{}", kUsage);
    return EXIT_FAILURE;
  }
  // No getopt: "-11" is an error, not an option.
  const std::string_view first = argv[1];
  if (first == "-h" || first == "--help") {
    fmt::print("{}", kUsage);
    return EXIT_SUCCESS;
  }
  if (first == "-l" || first == "--list") {
    for (const ErrorName& error : error_names()) print_named(error);
    return EXIT_SUCCESS;
  }
  bool known = true;
  for (int i = first == "--" ? 2 : 1; i < argc; ++i) known &= explain(argv[i]);
  return known ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace weft::tools

int main(int argc, char** argv) {
  return weft::tools::run_program(weft::tools::run, argc, argv);
}
