// SPDX-License-Identifier: BSD-2-Clause
// The options; see settings.h.
#include "program/settings.h"

#include <CLI/CLI.hpp>

namespace conform {

Settings parse_command_line(int argc, char** argv, std::optional<int>& status) {
  Settings s;
  CLI::App app(
      "Checks the sentences of libfabric's manual pages on a provider of a libfabric.so.1.\n"
      "Says for each: it holds, it does not hold, or the provider does not offer what it is about.");
  app.set_version_flag("--version", WEFT_VERSION);
  app.add_option("-p,--provider", s.provider, "Provider, e.g. tcp, verbs, 'tcp;ofi_rxm' (tcp)");
  app.add_option("-e,--endpoint", s.types, "Types of endpoint: msg, rdm, dgram (all that the provider offers)")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(CLI::IsMember({"msg", "rdm", "dgram"}));
  app.add_option("-d,--domain", s.domain, "Domain, e.g. eth0");
  app.add_option("-a,--address", s.address, "Numeric local address (loopback, else the domain's)");
  app.add_option("--library", s.library, "The libfabric.so.1 to check (the loader's)")->check(CLI::ExistingFile);
  app.add_option("SENTENCE", s.patterns, "Sentences: an id, a suite or a manual page; * and ? match as in file names");
  app.add_option("-x,--except", s.exceptions, "Sentences to leave out, as operands name them")->allow_extra_args(false);
  app.add_flag("--weft", s.own, "Check also what only weft promises");
  app.add_flag("--list", s.list, "List the sentences and check nothing");
  app.add_option("-j,--jobs", s.jobs, "Sentences at the same time (1)")->check(CLI::Range(1, 256));
  app.add_option("-t,--timeout", s.timeout_s, "Seconds for a sentence (60)")->check(CLI::Range(1, 86400));
  app.add_flag("--trace", s.trace, "Show the calls of each sentence with their results");
  app.add_flag("--json", s.json, "Print one JSON document");
  app.add_option("--junit", s.junit, "Also write a JUnit report to this file");
  app.add_flag("--serve", s.serve, "Two hosts: play the other end for --peer, until it is interrupted");
  app.add_option("--peer", s.peer, "Two hosts: check the sentences about two hosts with the server on this host")
      ->excludes("--serve");
  app.add_option("--port", s.port, "Two hosts: TCP port of the server (47593)");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    status = app.exit(error) == 0 ? 0 : 2;
  }
  if (s.provider.empty()) s.provider = "tcp";
  return s;
}

}  // namespace conform
