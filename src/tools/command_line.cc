// SPDX-License-Identifier: BSD-2-Clause
// The parser of the tools' command lines; see command_line.h.
#include "command_line.h"

#include <fmt/format.h>
#include <getopt.h>

#include <cerrno>
#include <charconv>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace weft::tools {
namespace {

// Keys of options without a letter start above every character.
constexpr int kFirstNamedKey = 256;
constexpr int kHelp = 'h';
constexpr std::size_t kHelpColumn = 26;

}  // namespace

std::function<Complaint(const char*)> set_flag(bool& target) {
  return [&target](const char*) {
    target = true;
    return Complaint();
  };
}

std::function<Complaint(const char*)> set_text(const char*& target) {
  return [&target](const char* text) {
    target = text;
    return Complaint();
  };
}

std::function<Complaint(const char*)> set_number(uint64_t& target, uint64_t least, uint64_t most) {
  return [&target, least, most](const char* text) -> Complaint {
    const char* end = text + std::strlen(text);
    uint64_t number = 0;
    auto [stop, error] = std::from_chars(text, end, number);
    if (error != std::errc() || stop != end || number < least || number > most)
      return fmt::format("'{}' is not a number from {} to {}", text, least, most);
    target = number;
    return {};
  };
}

CommandLine::CommandLine(std::string usage, std::vector<Option> options, int help_exit_code)
    : usage_(std::move(usage)), options_(std::move(options)), help_exit_code_(help_exit_code) {
  options_.push_back({kHelp, "help", nullptr, "show this help and exit", nullptr});
}

const Option* CommandLine::by_key(int key) const {
  if (key >= kFirstNamedKey) return &options_[static_cast<std::size_t>(key - kFirstNamedKey)];
  for (const Option& option : options_)
    if (option.letter == key) return &option;
  return nullptr;
}

CommandLine::Parsed CommandLine::parse(int argc, char** argv) const {
  std::string letters;
  std::vector<::option> names;
  for (std::size_t i = 0; i < options_.size(); ++i) {
    const Option& option = options_[i];
    if (option.letter) letters += option.letter;
    if (option.letter && option.argument) letters += ':';
    const int key = option.letter ? option.letter : kFirstNamedKey + static_cast<int>(i);
    if (option.name) names.push_back({option.name, option.argument ? required_argument : no_argument, nullptr, key});
  }
  names.push_back({});

  Parsed parsed;
  optind = 0;  // GNU: start over, so that one process can parse twice
  for (int key; (key = getopt_long(argc, argv, letters.c_str(), names.data(), nullptr)) != -1;) {
    const Option* option = by_key(key);
    if (option == nullptr) {  // getopt has printed the reason
      fmt::print(stderr, "Try '{} -h'.\n", program_invocation_short_name);
      parsed.exit_code = EXIT_FAILURE;
      return parsed;
    }
    if (!option->apply) {
      fmt::print("{}", help());
      parsed.exit_code = help_exit_code_;
      return parsed;
    }
    if (Complaint complaint = option->apply(optarg); !complaint.empty()) {
      const std::string spelling =
          option->letter ? fmt::format("-{}", option->letter) : fmt::format("--{}", option->name);
      fmt::print(stderr, "{}: {}: {}\n", program_invocation_short_name, spelling, complaint);
      parsed.exit_code = EINVAL;
      return parsed;
    }
  }
  parsed.operands.assign(argv + optind, argv + argc);
  return parsed;
}

std::string CommandLine::help() const {
  std::string text = usage_ + "\nOptions:\n";
  for (const Option& option : options_) {
    std::string line = option.letter ? fmt::format("  -{}", option.letter) : std::string("    ");
    if (option.name) line += fmt::format("{}--{}", option.letter ? ", " : "  ", option.name);
    if (option.argument) line += fmt::format("{}{}", option.name ? '=' : ' ', option.argument);
    if (line.size() + 1 > kHelpColumn)
      line += '\n' + std::string(kHelpColumn, ' ');
    else
      line.resize(kHelpColumn, ' ');
    // A line break in the help text returns to the help column.
    for (const char* c = option.help; *c; ++c)
      line += *c == '\n' ? '\n' + std::string(kHelpColumn, ' ') : std::string(1, *c);
    text += line + '\n';
  }
  return text;
}

}  // namespace weft::tools
