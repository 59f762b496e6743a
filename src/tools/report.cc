// SPDX-License-Identifier: BSD-2-Clause
// Tables, JSON and the progress line; see report.h.
#include "report.h"

#include <fmt/format.h>

#include <cstdio>
#include <string_view>
#include <utility>

#include "message_sizes.h"

namespace weft::tools {
namespace {

constexpr auto kFirstShown = std::chrono::seconds(1);
constexpr auto kInterval = std::chrono::milliseconds(200);

double half_usec(double round_trip_ns) {
  return round_trip_ns / 2000;
}

// Nine characters for anything below 100 s.
std::string column(double usec) {
  return usec < 100000 ? fmt::format("{:9.2f}", usec) : fmt::format("{:9.0f}", usec);
}

std::string quoted(std::string_view text) {
  std::string result = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') result += '\\';
    if (static_cast<unsigned char>(c) < 0x20)
      result += fmt::format("\\u{:04x}", c);
    else
      result += c;
  }
  return result + '"';
}

std::string json_test(const Summary& s) {
  return fmt::format(
      "    {{\"bytes\": {}, \"sent\": {}, \"received\": {}, \"total_bytes\": {}, \"seconds\": {:.9f},\n"
      "     \"mb_per_sec\": {:.3f}, \"usec_per_transfer\": {:.3f}, \"mtransfers_per_sec\": {:.6f},\n"
      "     \"latency_usec\": {{\"samples\": {}, \"min\": {:.3f}, \"mean\": {:.3f}, \"p50\": {:.3f}, \"p90\": {:.3f},\n"
      "                      \"p99\": {:.3f}, \"p99_9\": {:.3f}, \"max\": {:.3f}}}}}",
      s.size, s.sent, s.received, s.total_bytes, s.seconds, s.megabytes_per_second, s.usec_per_transfer,
      s.million_transfers_per_second, s.samples, s.min, s.mean, s.p50, s.p90, s.p99, s.p999, s.max);
}

}  // namespace

Summary summarize(const TestResult& result) {
  Summary s;
  s.size = result.size;
  s.sent = result.sent;
  s.received = result.received;
  const double transfers = static_cast<double>(result.sent + result.received);
  s.total_bytes = (result.sent + result.received) * result.size;
  s.seconds = std::chrono::duration<double>(result.time).count();
  const double usec = s.seconds * 1e6;
  if (usec > 0) s.megabytes_per_second = static_cast<double>(s.total_bytes) / usec;
  if (usec > 0) s.million_transfers_per_second = transfers / usec;
  if (transfers > 0) s.usec_per_transfer = usec / transfers;
  const Histogram& h = result.round_trips;
  const auto percentile = [&h](double percent) { return half_usec(static_cast<double>(h.percentile(percent))); };
  s.samples = h.count();
  s.min = half_usec(static_cast<double>(h.min()));
  s.mean = half_usec(h.mean());
  s.p50 = percentile(50);
  s.p90 = percentile(90);
  s.p99 = percentile(99);
  s.p999 = percentile(99.9);
  s.max = half_usec(static_cast<double>(h.max()));
  return s;
}

std::string table_header() {
  return fmt::format("{:<8}{:<8}{:<9}{:<12}{:<9}{:<10}{:<12}{}\n", "bytes", "#sent", "#ack", "total", "time", "MB/sec",
                     "usec/xfer", "Mxfers/sec");
}

std::string table_row(const Summary& s) {
  // "=": as many came back as were sent.
  const std::string acknowledged = fmt::format("{}{}", s.sent == s.received ? "=" : "", short_count(s.received));
  return fmt::format("{:<8}{:<8}{:<9}{:<12}{:<6}{:>9.2f}{:>11.2f}{:>11.2f}\n", short_bytes(s.size), short_count(s.sent),
                     acknowledged, short_bytes(s.total_bytes), fmt::format("{:.2f}s", s.seconds),
                     s.megabytes_per_second, s.usec_per_transfer, s.million_transfers_per_second);
}

std::string percentile_table(const std::vector<Summary>& tests) {
  std::string text = fmt::format("{:<8}{:>8}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}{:>9}\n", "bytes", "samples", "min", "mean",
                                 "p50", "p90", "p99", "p99.9", "max");
  for (const Summary& s : tests) {
    text += fmt::format("{:<8}{:>8}", short_bytes(s.size), short_count(s.samples));
    for (const double usec : {s.min, s.mean, s.p50, s.p90, s.p99, s.p999, s.max}) text += column(usec);
    text += '\n';
  }
  return text;
}

std::string json_document(const RunDescription& run, const std::vector<Summary>& tests) {
  std::string text = "{\n";
  const std::pair<const char*, std::string_view> fields[] = {
      {"program", "fi_pingpong"}, {"version", run.version},   {"role", run.client ? "client" : "server"},
      {"provider", run.provider}, {"fabric", run.fabric},     {"domain", run.domain},
      {"endpoint", run.endpoint}, {"protocol", run.protocol}, {"transmit_mode", run.tagged ? "tagged" : "msg"},
      {"error", run.error},
  };
  for (const auto& [name, value] : fields)
    if (!value.empty()) text += fmt::format("  \"{}\": {},\n", name, quoted(value));
  text += fmt::format("  \"integrity_checked\": {},\n  \"tests\": [", run.checked);
  for (const Summary& test : tests) text += (&test == tests.data() ? "\n" : ",\n") + json_test(test);
  return text + "\n  ]\n}\n";
}

void ProgressLine::show(const TestResult& so_far, Clock::time_point now) {
  next_ = now + kInterval;
  if (now - so_far.start < kFirstShown) return;
  const auto usec = std::chrono::duration<double, std::micro>(now - so_far.start).count();
  fmt::print(stderr, "\r{} bytes: {} of {} ({} %), {:.2f} usec/xfer\033[K", short_bytes(so_far.size), so_far.sent,
             iterations_, so_far.sent * 100 / iterations_, usec / static_cast<double>(so_far.sent + so_far.received));
  std::fflush(stderr);
  visible_ = true;
}

}  // namespace weft::tools
