// SPDX-License-Identifier: BSD-2-Clause
// See report.h.
#include "program/report.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <map>
#include <ostream>

namespace conform {
namespace {

constexpr std::array kVerdicts{Verdict::kHolds, Verdict::kDoesNotHold, Verdict::kNotOffered};
using Counts = std::map<Verdict, int>;

// A string of JSON. Bytes that are not ASCII come from the library's output only.
std::string json_string(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    char escape[8];
    if (c == '"' || c == '\\') {
      result += '\\';
      result += c;
    } else if (byte < ' ') {
      std::snprintf(escape, sizeof escape, "\\u%04x", byte);
      result += escape;
    } else {
      result += byte < 0x7f ? c : '?';
    }
  }
  return result + '"';
}

std::string xml_text(std::string_view text) {
  std::string result;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (c == '<')
      result += "&lt;";
    else if (c == '&')
      result += "&amp;";
    else if (c == '"')
      result += "&quot;";
    else if (byte >= 0x7f || (byte < ' ' && c != '\n' && c != '\t'))
      result += '?';  // not in XML
    else
      result += c;
  }
  return result;
}

std::string seconds_text(double seconds) {
  char buffer[32];
  std::snprintf(buffer, sizeof buffer, "%.3f", seconds);
  return buffer;
}

std::string indented(std::string_view text) {
  std::string result;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find('\n', at), text.size());
    result += "    " + std::string(text.substr(at, end - at)) + "\n";
    at = end + 1;
  }
  return result;
}

std::string first_line(const std::string& text) {
  return text.substr(0, text.find('\n'));
}

}  // namespace

void print_line(std::ostream& out, const Result& result, bool with_output) {
  const Outcome& outcome = result.outcome;
  std::string verdict = name_of(outcome.verdict);
  verdict.resize(14, ' ');
  out << verdict << result.target << "  " << result.sentence->page << "  " << result.sentence->id << "\n    "
      << result.sentence->text
      << (result.sentence->kind == "manual" ? "" : " (" + std::string(result.sentence->kind) + ")") << "\n";
  if (!outcome.reason.empty()) out << indented("-> " + outcome.reason);
  if (with_output) out << indented(outcome.output);
  out.flush();
}

void print_summary(std::ostream& out, const Report& report) {
  std::map<std::string_view, Counts> pages;
  Counts total;
  for (const Result& result : report.results) {
    ++pages[result.sentence->page][result.outcome.verdict];
    ++total[result.outcome.verdict];
  }
  char line[128];
  const auto row = [&](const char* name, Counts& counts) {
    std::snprintf(line, sizeof line, "%-20s %6d %14d %12d\n", name, counts[Verdict::kHolds],
                  counts[Verdict::kDoesNotHold], counts[Verdict::kNotOffered]);
    out << line;
  };
  out << "\n" << report.library.path << ", interface " << report.library.version_text() << "\n";
  std::snprintf(line, sizeof line, "%-20s %6s %14s %12s\n", "page", "holds", "does not hold", "not offered");
  out << line;
  for (auto& [page, counts] : pages) row(std::string(page).c_str(), counts);
  row("all", total);
}

void print_json(std::ostream& out, const Report& report) {
  out << "{\n  \"program\": \"fi_conform\",\n  \"version\": " << json_string(WEFT_VERSION)
      << ",\n  \"library\": {\"path\": " << json_string(report.library.path)
      << ", \"interface\": " << json_string(report.library.version_text()) << "},\n  \"results\": [";
  const char* separator = "\n";
  Counts total;
  for (const Result& result : report.results) {
    const Sentence& sentence = *result.sentence;
    ++total[result.outcome.verdict];
    out << separator << "    {\"id\": " << json_string(sentence.id) << ", \"target\": " << json_string(result.target)
        << ", \"page\": " << json_string(sentence.page) << ", \"kind\": " << json_string(sentence.kind)
        << ", \"sentence\": " << json_string(sentence.text)
        << ", \"verdict\": " << json_string(name_of(result.outcome.verdict))
        << ", \"reason\": " << json_string(result.outcome.reason)
        << ", \"output\": " << json_string(result.outcome.output)
        << ", \"seconds\": " << seconds_text(result.outcome.seconds) << "}";
    separator = ",\n";
  }
  out << "\n  ],\n  \"summary\": {";
  separator = "";
  for (const Verdict verdict : kVerdicts) {
    out << separator << json_string(name_of(verdict)) << ": " << total[verdict];
    separator = ", ";
  }
  out << "}\n}\n";
}

void print_junit(std::ostream& out, const Report& report) {
  std::map<std::string, std::vector<const Result*>> suites;
  for (const Result& result : report.results) suites[result.target].push_back(&result);
  out << "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"fi_conform\">\n";
  for (const auto& [target, results] : suites) {
    Counts counts;
    for (const Result* result : results) ++counts[result->outcome.verdict];
    out << "  <testsuite name=\"" << xml_text(target) << "\" tests=\"" << results.size() << "\" failures=\""
        << counts[Verdict::kDoesNotHold] << "\" errors=\"0\" skipped=\"" << counts[Verdict::kNotOffered] << "\">\n";
    for (const Result* result : results) {
      const Outcome& outcome = result->outcome;
      const std::string id(result->sentence->id);
      out << "    <testcase classname=\"" << xml_text(result->sentence->page) << "\" name=\"" << xml_text(id)
          << "\" time=\"" << seconds_text(outcome.seconds) << "\">\n";
      if (outcome.verdict == Verdict::kDoesNotHold)
        out << "      <failure message=\"" << xml_text(first_line(outcome.reason)) << "\">" << xml_text(outcome.reason)
            << "\n"
            << xml_text(outcome.output) << "</failure>\n";
      if (outcome.verdict == Verdict::kNotOffered)
        out << "      <skipped message=\"" << xml_text(first_line(outcome.reason)) << "\"/>\n";
      out << "    </testcase>\n";
    }
    out << "  </testsuite>\n";
  }
  out << "</testsuites>\n";
}

}  // namespace conform
