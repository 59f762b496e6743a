// SPDX-License-Identifier: BSD-2-Clause
// The command lines of the tools, as getopt_long(3) reads them (clusters, abbreviated long names, operands anywhere),
// and the -h text, both from one table. fi_info(1), fi_pingpong(1), fi_strerror(1).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace weft::tools {

// The error in an option's argument; empty when it is valid.
using Complaint = std::string;

struct Option {
  char letter;           // 0: the option has only a name
  const char* name;      // nullptr: the option has only a letter
  const char* argument;  // the argument's name in the help; nullptr: no argument
  const char* help;
  std::function<Complaint(const char* argument)> apply;
};

// Ready-made `apply` functions. The target must outlive the parse.
std::function<Complaint(const char*)> set_flag(bool& target);
std::function<Complaint(const char*)> set_text(const char*& target);
// A decimal number in [least, most]; anything else is a complaint.
std::function<Complaint(const char*)> set_number(uint64_t& target, uint64_t least, uint64_t most);

class CommandLine {
 public:
  // `usage` precedes the options in the help text; `-h, --help` is added, which ends with `help_exit_code`.
  CommandLine(std::string usage, std::vector<Option> options, int help_exit_code = 0);

  struct Parsed {
    int exit_code = -1;  // not negative: the caller ends with it, everything is printed
    std::vector<const char*> operands;
  };
  // Prints help to standard output, errors to standard error; the exit code of a bad argument is EINVAL. Uses getopt's
  // globals, so only one parse may run at a time.
  Parsed parse(int argc, char** argv) const;

  std::string help() const;

 private:
  const Option* by_key(int key) const;

  std::string usage_;
  std::vector<Option> options_;
  int help_exit_code_;
};

}  // namespace weft::tools
