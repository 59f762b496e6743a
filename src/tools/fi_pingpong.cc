// SPDX-License-Identifier: BSD-2-Clause
// fi_pingpong: measures the time of messages between two processes, over any provider. fi_pingpong(1).
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <vector>

#include "command_line.h"
#include "control_channel.h"
#include "fabric_link.h"
#include "library_log.h"
#include "message_sizes.h"
#include "ping_pong.h"
#include "program.h"
#include "report.h"

namespace weft::tools {
namespace {

constexpr uint64_t kMostIterations = 999'999'999;  // limit of the control connection's counter
constexpr uint64_t kMostSeconds = 10'000'000;

struct Settings {
  const char* server = nullptr;  // nullptr: be the server
  std::optional<uint64_t> source_port;
  uint64_t port = kControlPort;
  bool only_ipv6 = false;
  LinkOptions link;
  PingPong::Options test;
  std::vector<std::size_t> sizes = default_sizes();
  bool verbose = false;
  bool json = false;
  bool percentiles = isatty(STDOUT_FILENO) != 0;
  bool progress = isatty(STDERR_FILENO) != 0;
  uint64_t timeout = 0;  // seconds, like the next two; 0: none
  uint64_t silence = 30;
  uint64_t patience = 0;
};

Complaint set_endpoint_type(fi_ep_type& type, std::string_view text) {
  if (text == "msg")
    type = FI_EP_MSG;
  else if (text == "rdm")
    type = FI_EP_RDM;
  else if (text == "dgram")
    type = FI_EP_DGRAM;
  else
    return fmt::format("'{}' is not msg, rdm or dgram", text);
  return {};
}

CommandLine command_line(Settings& s) {
  return {
      "Usage:\n"
      "  fi_pingpong [OPTIONS]                   run the server\n"
      "  fi_pingpong [OPTIONS] <server address>  run the client\n\n"
      "Measures the time of messages between two processes. -e, -p, -I, -S, -m and -c\n"
      "must be the same on both sides.\n",
      {
          {'B', nullptr, "PORT", "own control port (server: 47592, client: any)",
           [&s](const char* text) { return set_number(s.source_port.emplace(), 0, 65535)(text); }},
          {'P', nullptr, "PORT", "the server's control port (47592)", set_number(s.port, 1, 65535)},
          {'s', nullptr, "ADDRESS", "local address of the endpoint", set_text(s.link.source)},
          {'d', nullptr, "DOMAIN", "domain name", set_text(s.link.domain)},
          {'f', nullptr, "FABRIC", "fabric name", set_text(s.link.fabric)},
          {'p', nullptr, "PROVIDER", "provider name, e.g. tcp or verbs", set_text(s.link.provider)},
          {'e', nullptr, "TYPE", "endpoint type: msg, rdm or dgram (dgram; without\ndgram endpoints msg, then rdm)",
           [&s](const char* text) { return set_endpoint_type(s.link.type, text); }},
          {'I', nullptr, "NUMBER", "round trips per size (10)", set_number(s.test.iterations, 1, kMostIterations)},
          {'S', nullptr, "SIZES", "bytes in a message: one size, several as in\n64,4k,1m, or 'all'",
           [&s](const char* text) -> Complaint {
             Result<std::vector<std::size_t>> sizes = parse_sizes(text);
             if (!sizes) return sizes.error().what;
             s.sizes = *sizes;
             return {};
           }},
          {'c', nullptr, nullptr, "check the content of every message", set_flag(s.test.check)},
          {'m', nullptr, "MODE", "kind of messages: msg or tagged (msg)",
           [&s](const char* text) -> Complaint {
             s.link.tagged = text == std::string_view("tagged");
             if (s.link.tagged || text == std::string_view("msg")) return {};
             return fmt::format("'{}' is neither msg nor tagged", text);
           }},
          {'6', nullptr, nullptr, "IPv6 only for the control connection", set_flag(s.only_ipv6)},
          {'v', nullptr, nullptr, "report each step on standard error", set_flag(s.verbose)},
          {0, "percentiles", nullptr, "print percentiles after the table even if standard\noutput is not a terminal",
           set_flag(s.percentiles)},
          {0, "json", nullptr, "print one JSON document instead of tables", set_flag(s.json)},
          {0, "progress", nullptr, "show progress even if standard error is not a\nterminal", set_flag(s.progress)},
          {0, "warmup", "N", "exclude the first N round trips of each size from the\npercentiles (0)",
           set_number(s.test.warmup, 0, kMostIterations)},
          {0, "timeout", "SEC", "end the whole run after this time (0: never)", set_number(s.timeout, 0, kMostSeconds)},
          {0, "silence", "SEC", "end the run when the peer is silent for this time\n(30; 0: never)",
           set_number(s.silence, 0, kMostSeconds)},
          {0, "wait", "SEC", "client: retry for this time to reach a server that has\nnot started yet (0)",
           set_number(s.patience, 0, kMostSeconds)},
      },
      EXIT_FAILURE};  // -h ends as libfabric's
}

// One run from the control connection to the final "fin". Results printed before a failure are valid.
class Run {
 public:
  explicit Run(const Settings& settings)
      : settings_(settings),
        watch_(std::chrono::seconds(settings.timeout), std::chrono::seconds(settings.silence)),
        progress_(settings.progress, settings.test.iterations) {}

  int run() {
    Status status = connect_and_test();
    progress_.clear();
    if (!status) description_.error = status.error().what;
    if (settings_.json)
      fmt::print("{}", json_document(description_, tests_));
    else if (settings_.percentiles && !tests_.empty())
      print_percentiles();
    std::fflush(stdout);
    if (status) return EXIT_SUCCESS;
    fmt::print(stderr, "fi_pingpong: {}\n", status.error().what);
    if (Watch::interrupted()) return kExitInterrupted;
    const int error = status.error().error;
    return error > 0 && error < 126 ? error
                                    : EXIT_FAILURE;  // shells use 126 and above for signals and their own errors
  }

 private:
  Status connect_and_test() {
    Result<ControlChannel> control =
        settings_.test.client
            ? ControlChannel::connect_to(settings_.server, static_cast<uint16_t>(settings_.port),
                                         static_cast<uint16_t>(settings_.source_port.value_or(0)), settings_.only_ipv6,
                                         std::chrono::seconds(settings_.patience), watch_)
            : ControlChannel::accept_one(static_cast<uint16_t>(settings_.source_port.value_or(kControlPort)),
                                         settings_.only_ipv6, watch_, [this](uint16_t port) { print_port(port); });
    if (!control) return tl::unexpected(control.error());
    report_step("control connection established");
    LinkOptions options = settings_.link;
    for (const std::size_t size : settings_.sizes) options.largest_message = std::max(options.largest_message, size);
    WEFT_TRY_FOR(link, settings_.test.client ? FabricLink::join(options, *control, watch_)
                                             : FabricLink::serve(options, *control, watch_));
    describe(link->info());
    return test(*link, *control);
  }

  Status test(FabricLink& link, ControlChannel& control) {
    PingPong ping_pong(settings_.test, link, control, watch_,
                       [this](const TestResult& so_far, Clock::time_point now) { progress_.tick(so_far, now); });
    TestResult result;
    for (const std::size_t size : settings_.sizes) {
      if (size > link.largest_message()) {
        report_step(fmt::format("{} bytes skipped: a message has {} bytes at most", size, link.largest_message()));
        continue;
      }
      Status status = ping_pong.run(size, result);
      progress_.clear();
      if (status || result.received > 0) add(result);
      if (!status) return status;
    }
    if (tests_.empty())
      return fail(FI_EMSGSIZE, "no size to test: a message has {} bytes at most", link.largest_message());
    (void)link.exchange_fin();  // the peer may have ended already, and the measurement is complete
    return {};
  }

  void add(const TestResult& result) {
    if (tests_.empty() && !settings_.json) fmt::print("{}", table_header());
    tests_.push_back(summarize(result));
    if (!settings_.json) fmt::print("{}", table_row(tests_.back()));
    std::fflush(stdout);
  }

  void print_percentiles() const {
    fmt::print("\nusec/xfer over {} ({}, {}), half round trips:\n{}", description_.provider, description_.domain,
               description_.endpoint, percentile_table(tests_));
  }

  void describe(const fi_info& info) {
    description_.provider = info.fabric_attr->prov_name;
    description_.fabric = info.fabric_attr->name;
    description_.domain = info.domain_attr->name;
    description_.endpoint = fi_tostr(&info.ep_attr->type, FI_TYPE_EP_TYPE);
    description_.protocol = fi_tostr(&info.ep_attr->protocol, FI_TYPE_PROTOCOL);
    description_.version = WEFT_VERSION;
    description_.client = settings_.test.client;
    description_.tagged = settings_.link.tagged;
    description_.checked = settings_.test.check;
    if (settings_.verbose) report_step(fmt::format("the endpoint is open:\n{}", fi_tostr(&info, FI_TYPE_INFO)));
  }

  // The client's user needs the port that the system chose.
  void print_port(uint16_t port) const {
    if (settings_.source_port == 0 || settings_.verbose) fmt::print(stderr, "fi_pingpong: control port {}\n", port);
  }

  void report_step(std::string_view what) const {
    if (settings_.verbose) fmt::print(stderr, "fi_pingpong: {}\n", what);
  }

  const Settings& settings_;
  Watch watch_;
  ProgressLine progress_;
  RunDescription description_;
  std::vector<Summary> tests_;
};

int run(int argc, char** argv) {
  Settings settings;
  const CommandLine::Parsed parsed = command_line(settings).parse(argc, argv);
  if (parsed.exit_code >= 0) return parsed.exit_code;
  if (parsed.operands.size() > 1) {
    fmt::print(stderr, "fi_pingpong: unexpected operand '{}' after the server address\n", parsed.operands[1]);
    return EXIT_FAILURE;
  }
  if (!parsed.operands.empty()) settings.server = parsed.operands.front();
  settings.test.client = settings.server != nullptr;
  catch_library_log();
  return Run(settings).run();
}

}  // namespace
}  // namespace weft::tools

int main(int argc, char** argv) {
  return weft::tools::run_program(weft::tools::run, argc, argv);
}
