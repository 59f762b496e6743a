// SPDX-License-Identifier: BSD-2-Clause
// Properties of a connection as endpoint options; see connection_properties.h. Codes of times: ibv_modify_qp(3).
#include "verbs/connection/connection_properties.h"

#include <algorithm>
#include <climits>
#include <iterator>

#include "objects/endpoint_options.h"

namespace weft::verbs {
namespace {

// By code, in units of 10 microseconds. Code 0 is the longest.
constexpr int kRnrTimers[] = {65536, 1,    2,    3,    4,    6,     8,     12,    16,    24,   32,
                              48,    64,   96,   128,  192,  256,   384,   512,   768,   1024, 1536,
                              2048,  3072, 4096, 6144, 8192, 12288, 16384, 24576, 32768, 49152};
constexpr int kRnrUnitUs = 10;
constexpr int kCodes = std::size(kRnrTimers);
constexpr int kMaxByte = 255;
constexpr int kMaxRetries = 7;

// 4.096 microseconds times two to the power of the code.
constexpr std::int64_t ack_timeout_ns(int code) noexcept {
  return std::int64_t{4096} << code;
}

// Times in microseconds as the device's codes, the next longer one if there is none, and back.
std::uint8_t rnr_timer_code(int microseconds) noexcept {
  const auto enough = [&](int timer) { return timer * kRnrUnitUs >= microseconds; };
  const int* code = std::find_if(std::begin(kRnrTimers) + 1, std::end(kRnrTimers), enough);
  return code == std::end(kRnrTimers) ? 0 : static_cast<std::uint8_t>(code - kRnrTimers);
}

constexpr int rnr_timer_us(std::uint8_t code) noexcept {
  return kRnrTimers[code % kCodes] * kRnrUnitUs;
}

// Without a limit: 0.
std::int8_t ack_timeout_code(int microseconds) noexcept {
  if (microseconds <= 0) return static_cast<std::int8_t>(microseconds);
  std::int8_t code = 1;
  while (ack_timeout_ns(code) < std::int64_t{microseconds} * 1000 && code < kCodes - 1) ++code;
  return code;
}

int ack_timeout_us(std::int8_t code) noexcept {
  if (code <= 0) return code;
  return static_cast<int>(std::min<std::int64_t>(ack_timeout_ns(code) / 1000, INT_MAX));
}

using P = ConnectionProperties;

struct Property {
  int option;
  int lowest, highest;
  int (*get)(const P& properties);
  void (*set)(P& properties, int number);
};
constexpr Property kProperties[] = {
    {FI_OPT_WEFT_RESPONDER_RESOURCES, 0, kMaxByte, [](const P& p) -> int { return p.responder_resources; },
     [](P& p, int number) { p.responder_resources = static_cast<std::uint8_t>(number); }},
    {FI_OPT_WEFT_INITIATOR_DEPTH, 0, kMaxByte, [](const P& p) -> int { return p.initiator_depth; },
     [](P& p, int number) { p.initiator_depth = static_cast<std::uint8_t>(number); }},
    {FI_OPT_WEFT_RETRY_COUNT, 0, kMaxRetries, [](const P& p) -> int { return p.retry_count; },
     [](P& p, int number) { p.retry_count = number & kMaxRetries; }},
    {FI_OPT_WEFT_RNR_RETRY_COUNT, 0, kMaxRetries, [](const P& p) -> int { return p.rnr_retry_count; },
     [](P& p, int number) { p.rnr_retry_count = number & kMaxRetries; }},
    {FI_OPT_WEFT_FLOW_CONTROL, 0, 1, [](const P& p) -> int { return p.flow_control; },
     [](P& p, int number) { p.flow_control = number != 0; }},
    {FI_OPT_WEFT_MIN_RNR_TIMER_US, 0, rnr_timer_us(0), [](const P& p) { return rnr_timer_us(p.min_rnr_timer); },
     [](P& p, int number) { p.min_rnr_timer = rnr_timer_code(number); }},
    {FI_OPT_WEFT_ACK_TIMEOUT_US, -1, INT_MAX, [](const P& p) { return ack_timeout_us(p.ack_timeout); },
     [](P& p, int number) { p.ack_timeout = ack_timeout_code(number); }},
    {FI_OPT_WEFT_TYPE_OF_SERVICE, -1, kMaxByte, [](const P& p) { return p.type_of_service(); },
     [](P& p, int number) { p.set_type_of_service(number); }},
};

const Property* find(int option) noexcept {
  const auto* const found = std::find_if(std::begin(kProperties), std::end(kProperties),
                                         [&](const Property& each) { return each.option == option; });
  return found != std::end(kProperties) ? found : nullptr;
}

}  // namespace

ConnectionProperties::ConnectionProperties(const Parameters& parameters) noexcept
    : responder_resources(parameters.responder_resources),
      initiator_depth(parameters.initiator_depth),
      retry_count(parameters.retry_count & kMaxRetries),
      rnr_retry_count(parameters.rnr_retry_count & kMaxRetries),
      flow_control(parameters.flow_control),
      min_rnr_timer(parameters.min_rnr_timer),
      ack_timeout(static_cast<std::int8_t>(parameters.ack_timeout)) {
  set_type_of_service(parameters.type_of_service);
}

int ConnectionProperties::get(int option, void* value, std::size_t* len) const noexcept {
  const Property* const property = find(option);
  return property != nullptr ? report_option(property->get(*this), value, len) : -FI_ENOPROTOOPT;
}

int ConnectionProperties::set(int option, const void* value, std::size_t len) noexcept {
  int number = 0;
  if (const int result = read_option(value, len, number); result != 0) return result;
  const Property* const property = find(option);
  if (property == nullptr) return -FI_ENOPROTOOPT;
  if (number < property->lowest || number > property->highest) return -FI_EINVAL;
  property->set(*this, number);
  return 0;
}

int get_request(const rdma_conn_param& requested, void* value, std::size_t* len) noexcept {
  return report_option(fi_weft_connection_request{.responder_resources = requested.responder_resources,
                                                  .initiator_depth = requested.initiator_depth,
                                                  .retry_count = requested.retry_count,
                                                  .rnr_retry_count = requested.rnr_retry_count,
                                                  .flow_control = requested.flow_control,
                                                  .shared_receives = requested.srq},
                       value, len);
}

}  // namespace weft::verbs
