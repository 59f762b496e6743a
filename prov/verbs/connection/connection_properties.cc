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

int rnr_timer_us(std::uint8_t code) noexcept {
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
  const auto report = [&](int number) { return report_option(number, value, len); };
  switch (option) {
    case FI_OPT_WEFT_RESPONDER_RESOURCES:
      return report(responder_resources);
    case FI_OPT_WEFT_INITIATOR_DEPTH:
      return report(initiator_depth);
    case FI_OPT_WEFT_RETRY_COUNT:
      return report(retry_count);
    case FI_OPT_WEFT_RNR_RETRY_COUNT:
      return report(rnr_retry_count);
    case FI_OPT_WEFT_FLOW_CONTROL:
      return report(flow_control);
    case FI_OPT_WEFT_MIN_RNR_TIMER_US:
      return report(rnr_timer_us(min_rnr_timer));
    case FI_OPT_WEFT_ACK_TIMEOUT_US:
      return report(ack_timeout_us(ack_timeout));
    case FI_OPT_WEFT_TYPE_OF_SERVICE:
      return report(type_of_service());
    default:
      return -FI_ENOPROTOOPT;
  }
}

int ConnectionProperties::set(int option, const void* value, std::size_t len) noexcept {
  int number = 0;
  if (const int result = read_option(value, len, number); result != 0) return result;
  const auto within = [&](int lowest, int highest) { return number >= lowest && number <= highest; };
  const auto byte = static_cast<std::uint8_t>(number);
  switch (option) {
    case FI_OPT_WEFT_RESPONDER_RESOURCES:
      if (!within(0, kMaxByte)) return -FI_EINVAL;
      responder_resources = byte;
      return 0;
    case FI_OPT_WEFT_INITIATOR_DEPTH:
      if (!within(0, kMaxByte)) return -FI_EINVAL;
      initiator_depth = byte;
      return 0;
    case FI_OPT_WEFT_RETRY_COUNT:
      if (!within(0, kMaxRetries)) return -FI_EINVAL;
      retry_count = byte & kMaxRetries;
      return 0;
    case FI_OPT_WEFT_RNR_RETRY_COUNT:
      if (!within(0, kMaxRetries)) return -FI_EINVAL;
      rnr_retry_count = byte & kMaxRetries;
      return 0;
    case FI_OPT_WEFT_FLOW_CONTROL:
      if (!within(0, 1)) return -FI_EINVAL;
      flow_control = number != 0;
      return 0;
    case FI_OPT_WEFT_MIN_RNR_TIMER_US:
      if (!within(0, rnr_timer_us(0))) return -FI_EINVAL;
      min_rnr_timer = rnr_timer_code(number);
      return 0;
    case FI_OPT_WEFT_ACK_TIMEOUT_US:
      if (!within(-1, INT_MAX)) return -FI_EINVAL;
      ack_timeout = ack_timeout_code(number);
      return 0;
    case FI_OPT_WEFT_TYPE_OF_SERVICE:
      if (!within(-1, kMaxByte)) return -FI_EINVAL;
      set_type_of_service(number);
      return 0;
    default:
      return -FI_ENOPROTOOPT;
  }
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
