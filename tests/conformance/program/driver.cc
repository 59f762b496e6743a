// SPDX-License-Identifier: BSD-2-Clause
// Checks the chosen sentences on each target, some at the same time; see driver.h.
#include "program/driver.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <thread>

#include "program/offers.h"
#include "program/report.h"
#include "program/run.h"
#include "program/sentences.h"
#include "program/settings.h"
#include "two_hosts/server.h"

namespace conform {
namespace {

constexpr const char* kTwoHosts = "TwoHosts";

bool any_selects(const std::vector<std::string>& patterns, const Sentence& sentence) {
  return std::any_of(patterns.begin(), patterns.end(),
                     [&](const std::string& pattern) { return selects(pattern, sentence); });
}

std::vector<const Sentence*> chosen(const Settings& settings) {
  std::vector<const Sentence*> list;
  for (const Sentence& sentence : sentences())
    if ((settings.patterns.empty() || any_selects(settings.patterns, sentence)) &&
        !any_selects(settings.exceptions, sentence))
      list.push_back(&sentence);
  return list;
}

void list_sentences(const std::vector<const Sentence*>& list) {
  std::string_view page;
  for (const Sentence* sentence : list) {
    if (sentence->page != page) std::cout << (page.empty() ? "" : "\n") << sentence->page << "\n";
    page = sentence->page;
    std::cout << "  " << sentence->id << " (" << sentence->kind << ")\n    " << sentence->text << "\n";
  }
}

// "2.3" as fi_version has it.
uint32_t version_of(std::string_view text) {
  unsigned major = 0, minor = 0;
  std::sscanf(std::string(text).c_str(), "%u.%u", &major, &minor);
  return major << 16 | minor;
}

// Why the sentence is not checked on this library; empty: it is.
std::string left_out(const Sentence& sentence, const Settings& settings, const Library& library) {
  if (sentence.kind == "weft" && !settings.own) return "only weft promises this; --weft checks it";
  if (sentence.since != "-" && version_of(sentence.since) > library.version)
    return "part of interface " + std::string(sentence.since) + "; the library has " + library.version_text();
  return {};
}

Variables environment_of(const Settings& settings, const Offer& offer) {
  Variables list{{"WEFT_CONFORMANCE", settings.provider + ":" + offer.type},
                 {"WEFT_CONFORMANCE_IPV4", offer.ipv4},
                 {"WEFT_CONFORMANCE_IPV6", offer.ipv6},
                 {"WEFT_CONFORMANCE_LENIENT", "1"}};
  if (settings.trace) list.emplace_back("FI_CONFORM_TRACE", "1");
  return list;
}

// Checks the sentences on one target and appends the results in the order of their ends.
class Campaign {
 public:
  Campaign(const Settings& settings, const Offer& offer, Report& report)
      : settings_(settings), environment_(environment_of(settings, offer)), report_(report) {
    target_ = settings.provider + ":" + offer.type;
  }

  void check(const std::vector<const Sentence*>& list) {
    for (const Sentence* sentence : list) {
      const std::string reason = left_out(*sentence, settings_, report_.library);
      if (!reason.empty()) {
        Outcome outcome;
        outcome.reason = reason;
        add(sentence, std::move(outcome));
        continue;
      }
      wait_below(settings_.jobs);
      running_.push_back({sentence, std::make_unique<Run>(std::string(sentence->id) + "/*", environment_,
                                                          std::chrono::seconds(settings_.timeout_s))});
    }
    wait_below(1);
  }

 private:
  struct Running {
    const Sentence* sentence;
    std::unique_ptr<Run> run;
  };

  // Returns once fewer than `count` children run.
  void wait_below(size_t count) {
    while (running_.size() >= count) {
      const size_t before = running_.size();
      std::erase_if(running_, [&](const Running& one) {
        if (!one.run->ended()) return false;
        add(one.sentence, one.run->outcome());
        return true;
      });
      if (running_.size() == before) std::this_thread::sleep_for(std::chrono::milliseconds(2));
    }
  }

  void add(const Sentence* sentence, Outcome outcome) {
    report_.results.push_back({sentence, target_, std::move(outcome)});
    if (!settings_.json) print_line(std::cout, report_.results.back(), settings_.trace);
  }

  const Settings& settings_;
  const Variables environment_;
  Report& report_;
  std::string target_;
  std::vector<Running> running_;
};

bool wanted(const Settings& settings, const std::string& type) {
  return settings.types.empty() ||
         std::find(settings.types.begin(), settings.types.end(), type) != settings.types.end();
}

int failed(const std::string& reason) {
  std::cerr << "fi_conform: " << reason << (reason.ends_with('\n') ? "" : "\n");
  return 2;
}

// The address of this host that the other one reaches is the one to use, unless the user gave one.
std::string prepare_peer(Settings& settings) {
  std::string local;
  const std::string problem = two_hosts::reach(settings.peer, settings.port, local);
  if (!problem.empty()) return problem;
  if (settings.address.empty()) settings.address = local;
  setenv(two_hosts::kServerVariable, (settings.peer + " " + std::to_string(settings.port)).c_str(), 1);
  if (settings.patterns.empty()) settings.patterns = {kTwoHosts};
  return {};
}

int check_all(const Settings& settings, const std::vector<const Sentence*>& list) {
  Report report{examine(settings), {}};
  if (!report.library.failure.empty()) return failed(report.library.failure);
  bool any = false;
  for (const Offer& offer : report.library.offers) {
    if (!wanted(settings, offer.type)) continue;
    any = true;
    Campaign(settings, offer, report).check(list);
  }
  if (!any) return failed("fi_getinfo of " + report.library.path + " does not offer " + settings.provider);
  if (settings.json)
    print_json(std::cout, report);
  else
    print_summary(std::cout, report);
  if (!settings.junit.empty()) {
    std::ofstream file(settings.junit);
    print_junit(file, report);
    if (!file.flush()) return failed(settings.junit + " cannot be written");
  }
  return std::any_of(report.results.begin(), report.results.end(),
                     [](const Result& result) { return result.outcome.verdict == Verdict::kDoesNotHold; });
}

}  // namespace

int run_program(int argc, char** argv) {
  std::optional<int> status;
  Settings settings = parse_command_line(argc, argv, status);
  if (status) return *status;
  if (!settings.library.empty()) {
    const std::unique_ptr<char, decltype(&std::free)> absolute(realpath(settings.library.c_str(), nullptr), &std::free);
    setenv("FI_CONFORM_LIBRARY", absolute ? absolute.get() : settings.library.c_str(), 1);
  }
  if (!settings.domain.empty()) setenv("WEFT_CONFORMANCE_DOMAIN", settings.domain.c_str(), 1);
  if (settings.serve) return two_hosts::serve(settings.port, settings.timeout_s);
  if (!settings.peer.empty()) {
    const std::string problem = prepare_peer(settings);
    if (!problem.empty()) return failed(problem);
  }
  const std::vector<const Sentence*> list = chosen(settings);
  if (list.empty()) return failed("no sentence matches; --list shows all");
  if (settings.list) {
    list_sentences(list);
    return 0;
  }
  return check_all(settings, list);
}

}  // namespace conform
