// SPDX-License-Identifier: BSD-2-Clause
// fi_mcast: sends numbered messages to a multicast group, or receives them and reports rate, loss and latency.
// fi_mcast(1).
#include <fmt/format.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <map>
#include <random>
#include <thread>

#include "command_line.h"
#include "group_link.h"
#include "program.h"
#include "sequence_log.h"

namespace weft::tools {
namespace {

constexpr int kPollMs = 50;
constexpr uint64_t kMostSenders = 256;
constexpr std::chrono::milliseconds kProgressInterval{250};

struct Settings {
  GroupOptions link;
  uint64_t port = 4711;
  uint64_t size = 64;
  uint64_t count = 1000;  // 0: no end
  uint64_t rate = 0;      // messages a second; 0: as fast as possible
  uint64_t silence = 2;   // seconds
  uint64_t timeout = 0;   // seconds
  bool json = false;
  bool progress = isatty(STDERR_FILENO) != 0;
};

CommandLine command_line(Settings& s) {
  return {
      "Usage: fi_mcast [OPTIONS] GROUP...    receive messages of these groups\n"
      "       fi_mcast -s [OPTIONS] GROUP    send messages to the group\n\n"
      "GROUP is a numeric multicast address. Start receivers first.\n",
      {
          {'s', "send", nullptr, "send instead of receiving", set_flag(s.link.sends)},
          {'P', "port", "PORT", "the group's port (4711)", set_number(s.port, 1, 65535)},
          {'p', "provider", "PROVIDER", "provider name, e.g. udp or verbs", set_text(s.link.provider)},
          {'d', "domain", "DOMAIN", "domain name, e.g. eth0", set_text(s.link.domain)},
          {'a', "address", "ADDRESS", "local address, which selects the interface", set_text(s.link.source)},
          {'I', "count", "NUMBER", "messages to send (1000; 0: no limit)", set_number(s.count, 0, UINT64_MAX)},
          {'S', "size", "BYTES", "bytes in a message, 40 or more (64)", set_number(s.size, Stamp::kSize, 65'000)},
          {'r', "rate", "NUMBER", "messages a second (0: as fast as possible)", set_number(s.rate, 0, 100'000'000)},
          {0, "silence", "SEC", "receiver: end after this time without a message\n(2; 0: never)",
           set_number(s.silence, 0, 10'000'000)},
          {0, "timeout", "SEC", "end the run after this time (0: never)", set_number(s.timeout, 0, 10'000'000)},
          {0, "json", nullptr, "print one JSON document", set_flag(s.json)},
          {0, "progress", nullptr, "show progress even if standard error is not a\nterminal", set_flag(s.progress)},
      }};
}

uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_REALTIME, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

// One line on standard error, rewritten a few times a second.
class Progress {
 public:
  explicit Progress(bool enabled) : enabled_(enabled) {}
  ~Progress() { clear(); }
  void tick(const char* what, uint64_t messages) {
    if (!enabled_) return;
    const Clock::time_point now = Clock::now();
    if (now < next_) return;
    const double seconds = std::chrono::duration<double>(now - last_).count();
    if (visible_ || messages != 0)
      fmt::print(stderr, "\r{} {} messages, {:.0f} a second\033[K", what, messages,
                 static_cast<double>(messages - counted_) / seconds);
    std::fflush(stderr);
    visible_ = true;
    counted_ = messages;
    last_ = now;
    next_ = now + kProgressInterval;
  }
  void clear() {
    if (visible_) fmt::print(stderr, "\r\033[K");
    visible_ = false;
  }

 private:
  const bool enabled_;
  bool visible_ = false;
  uint64_t counted_ = 0;
  Clock::time_point last_ = Clock::now();
  Clock::time_point next_ = last_ + kProgressInterval;
};

// The results of a run so far; valid also when the run fails.
struct Outcome {
  uint64_t sent = 0;
  double seconds = 0;
  std::map<uint64_t, SequenceLog> senders;
  uint64_t foreign = 0;  // messages of other programs
};

Status send_all(const Settings& s, GroupLink& link, Watch& watch, Outcome& outcome) {
  Progress progress(s.progress);
  Stamp stamp;
  stamp.run = uint64_t{std::random_device{}()} << 32 | static_cast<uint32_t>(getpid());
  stamp.total = s.count;
  watch.step("sending", Watch::Peer::kMayIdle);
  const Clock::time_point start = Clock::now();
  for (; s.count == 0 || stamp.sequence < s.count; ++stamp.sequence) {
    if (s.rate != 0) {
      const auto due = start + std::chrono::nanoseconds(stamp.sequence * 1'000'000'000 / s.rate);
      if (due > Clock::now()) {
        WEFT_TRY(link.finish());  // complete the sends before the pause
        WEFT_TRY(watch.check());
        std::this_thread::sleep_until(due);
      }
    }
    WEFT_TRY_FOR(message, link.outgoing());
    stamp.sent_ns = now_ns();
    stamp.store(message.data());
    WEFT_TRY(link.send());
    outcome.sent = stamp.sequence + 1;
    if (stamp.sequence % 64 == 0) {
      progress.tick("sent", outcome.sent);
      WEFT_TRY(link.check_membership());
      WEFT_TRY(watch.check());
    }
  }
  WEFT_TRY(link.finish());
  outcome.seconds = std::chrono::duration<double>(Clock::now() - start).count();
  return {};
}

bool all_complete(const Outcome& outcome) {
  if (outcome.senders.empty()) return false;
  for (const auto& [run, log] : outcome.senders)
    if (!log.complete()) return false;
  return true;
}

Status receive_all(const Settings& s, GroupLink& link, Watch& watch, Outcome& outcome) {
  Progress progress(s.progress);
  watch.step("receiving", Watch::Peer::kMayIdle);
  Clock::time_point last_arrival = Clock::now();
  uint64_t messages = 0;
  while (!all_complete(outcome)) {
    const uint64_t before = messages;
    WEFT_TRY(link.receive(kPollMs, [&](std::span<const std::byte> bytes) {
      Stamp stamp;
      const bool ours = stamp.load(bytes.data(), bytes.size());
      const bool known = ours && (outcome.senders.contains(stamp.run) || outcome.senders.size() < kMostSenders);
      if (!known) return static_cast<void>(++outcome.foreign);
      ++messages;
      outcome.senders[stamp.run].record(stamp, bytes.size(), now_ns());
    }));
    if (messages != before) last_arrival = Clock::now();
    progress.tick("received", messages);
    WEFT_TRY(link.check_membership());
    if (s.silence != 0 && messages != 0 && Clock::now() - last_arrival > std::chrono::seconds(s.silence)) break;
    WEFT_TRY(watch.check());
  }
  return {};
}

double per_second(uint64_t count, double seconds) {
  return seconds > 0 ? static_cast<double>(count) / seconds : 0;
}

double loss_percent(const SequenceLog& log) {
  const uint64_t lost = log.lost(true);
  return lost == 0 ? 0 : 100.0 * static_cast<double>(lost) / static_cast<double>(lost + log.received());
}

void print_text(const Settings& s, const Outcome& outcome) {
  if (s.link.sends) {
    fmt::print("sent {} messages of {} bytes in {:.3f} s: {:.0f} a second\n", outcome.sent, s.size, outcome.seconds,
               per_second(outcome.sent, outcome.seconds));
    return;
  }
  for (const auto& [run, log] : outcome.senders) {
    const Histogram& h = log.latencies();
    const auto usec = [&](uint64_t ns) { return static_cast<double>(ns) / 1000; };
    fmt::print("sender {:016x}: received {} messages in {:.3f} s: {:.0f} a second, {:.2f} MB/s\n", run, log.received(),
               log.seconds(), per_second(log.received(), log.seconds()), per_second(log.bytes(), log.seconds()) / 1e6);
    fmt::print("  lost {} ({:.3f} %), reordered {}, repeated {}\n", log.lost(true), loss_percent(log), log.reordered(),
               log.repeated());
    fmt::print("  latency in usec: min {:.1f}, mean {:.1f}, p50 {:.1f}, p99 {:.1f}, max {:.1f}\n", usec(h.min()),
               h.mean() / 1000, usec(h.percentile(50)), usec(h.percentile(99)), usec(h.max()));
  }
  if (outcome.senders.empty()) fmt::print("received nothing\n");
}

std::string names_of_groups(const Settings& s) {
  return fmt::format("{}", fmt::join(s.link.groups, " "));
}

void print_json(const Settings& s, const GroupLink& link, const Outcome& outcome) {
  fmt::print("{{\n  \"program\": \"fi_mcast\",\n  \"version\": \"{}\",\n  \"role\": \"{}\",\n", WEFT_VERSION,
             s.link.sends ? "sender" : "receiver");
  fmt::print("  \"provider\": \"{}\",\n  \"domain\": \"{}\",\n  \"group\": \"{}\",\n  \"port\": {},\n",
             link.info().fabric_attr->prov_name, link.info().domain_attr->name, names_of_groups(s), s.port);
  if (s.link.sends) {
    fmt::print("  \"size\": {},\n  \"sent\": {},\n  \"seconds\": {:.6f},\n  \"messages_per_second\": {:.1f}\n}}\n",
               s.size, outcome.sent, outcome.seconds, per_second(outcome.sent, outcome.seconds));
    return;
  }
  fmt::print("  \"foreign\": {},\n  \"senders\": [", outcome.foreign);
  const char* separator = "\n";
  for (const auto& [run, log] : outcome.senders) {
    const Histogram& h = log.latencies();
    fmt::print("{}    {{\"run\": \"{:016x}\", \"received\": {}, \"lost\": {}, \"reordered\": {}, \"repeated\": {}, ",
               separator, run, log.received(), log.lost(true), log.reordered(), log.repeated());
    fmt::print("\"bytes\": {}, \"seconds\": {:.6f}, \"messages_per_second\": {:.1f}, ", log.bytes(), log.seconds(),
               per_second(log.received(), log.seconds()));
    fmt::print("\"latency_ns\": {{\"min\": {}, \"mean\": {:.1f}, \"p50\": {}, \"p99\": {}, \"max\": {}}}}}", h.min(),
               h.mean(), h.percentile(50), h.percentile(99), h.max());
    separator = ",\n";
  }
  fmt::print("\n  ]\n}}\n");
}

int finish(const Settings& s, const GroupLink& link, const Outcome& outcome, const Status& status) {
  if (s.json)
    print_json(s, link, outcome);
  else
    print_text(s, outcome);
  if (!status && Watch::interrupted()) return kExitInterrupted;
  if (!status) fmt::print(stderr, "fi_mcast: {}\n", status.error().what);
  const bool something = s.link.sends || !outcome.senders.empty();
  return status && something ? EXIT_SUCCESS : EXIT_FAILURE;
}

int run(int argc, char** argv) {
  Settings s;
  const CommandLine::Parsed parsed = command_line(s).parse(argc, argv);
  if (parsed.exit_code >= 0) return parsed.exit_code;
  if (parsed.operands.empty()) {
    fmt::print(stderr, "fi_mcast: no group given; see fi_mcast -h\n");
    return FI_EINVAL;
  }
  s.link.groups.assign(parsed.operands.begin(), parsed.operands.end());
  s.link.port = static_cast<uint16_t>(s.port);
  s.link.message = s.size;
  Watch watch(std::chrono::seconds(s.timeout), std::chrono::seconds(0));
  auto link = GroupLink::open(s.link, watch);
  if (!link) {
    fmt::print(stderr, "fi_mcast: {}\n", link.error().what);
    return EXIT_FAILURE;
  }
  const fi_info& info = (*link)->info();
  fmt::print(stderr, "{} {} on {} ({}, {})\n", s.link.sends ? "sending to" : "receiving from", names_of_groups(s),
             (*link)->own_name(), info.domain_attr->name, info.fabric_attr->prov_name);
  Outcome outcome;
  const Status status = s.link.sends ? send_all(s, **link, watch, outcome) : receive_all(s, **link, watch, outcome);
  return finish(s, **link, outcome, status);
}

}  // namespace
}  // namespace weft::tools

int main(int argc, char** argv) {
  return weft::tools::run_program(weft::tools::run, argc, argv);
}
