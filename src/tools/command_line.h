// SPDX-License-Identifier: BSD-2-Clause
// The command lines of the tools, as getopt_long(3) reads them (clusters, abbreviated long names, operands anywhere),
// and the -h text, both from one table. fi_info(1), fi_pingpong(1), fi_strerror(1).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

namespace weft::tools {

// What is wrong with an option's argument; empty when nothing is.
using Complaint = std::string;

struct Option {
  char letter;           // 0: has only a name
  const char* name;      // nullptr: has only a letter
  const char* argument;  // what it is called in the help; nullptr: takes none
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
  // `usage` is what stands before the options in the help text, `-h, --help` is added.
  CommandLine(std::string usage, std::vector<Option> options);

  struct Parsed {
    int exit_code = -1;  // not negative: everything is said, leave with it
    std::vector<const char*> operands;
  };
  // Prints help to standard output, complaints to standard error; the exit code of a bad argument is EINVAL. Uses
  // getopt's globals: once per process at a time.
  Parsed parse(int argc, char** argv) const;

  std::string help() const;

 private:
  const Option* by_key(int key) const;

  std::string usage_;
  std::vector<Option> options_;
};

}  // namespace weft::tools
