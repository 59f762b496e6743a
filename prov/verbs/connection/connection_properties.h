// SPDX-License-Identifier: BSD-2-Clause
// Properties of one connection, and the options of fi_setopt and fi_getopt that set and report them; rdma_connect(3)
// and rdma_accept(3) CONNECTION PROPERTIES, fi_verbs(7).
#pragma once

#include <rdma/fi_ext.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>

#include "verbs/device/parameters.h"

namespace weft::verbs {

// Before the connection: the values that this end will use. From then on: those in force at this end.
// Owner: an endpoint, a passive endpoint for those that it accepts, or a request.
class ConnectionProperties {
 public:
  // The defaults of a fabric.
  explicit ConnectionProperties(const Parameters& parameters) noexcept;

  std::uint8_t responder_resources;  // 255: the device's limit, as for the next
  std::uint8_t initiator_depth;
  std::uint8_t retry_count : 3;
  std::uint8_t rnr_retry_count : 3;
  bool flow_control : 1;
  std::uint8_t min_rnr_timer;  // code 0..31
  std::int8_t ack_timeout;     // code 0..31; -1: the route's
  int type_of_service() const noexcept { return has_type_of_service_ ? type_of_service_ : -1; }  // -1: the system's
  void set_type_of_service(int value) noexcept {
    has_type_of_service_ = value >= 0;
    type_of_service_ = static_cast<std::uint8_t>(value);
  }

  // True for FI_OPT_WEFT_RESPONDER_RESOURCES to _TYPE_OF_SERVICE; get() and set() take no others.
  static bool has(int option) noexcept {
    return option >= FI_OPT_WEFT_RESPONDER_RESOURCES && option <= FI_OPT_WEFT_TYPE_OF_SERVICE;
  }
  // Retries of InfiniBand and RoCE: the kernel's TCP does them for iWARP, and a message without a receive is not
  // retried.
  static bool needs_retries(int option) noexcept {
    return option == FI_OPT_WEFT_RETRY_COUNT || option == FI_OPT_WEFT_RNR_RETRY_COUNT ||
           option == FI_OPT_WEFT_MIN_RNR_TIMER_US || option == FI_OPT_WEFT_ACK_TIMEOUT_US;
  }
  // The result of fi_getopt and fi_setopt.
  int get(int option, void* value, std::size_t* len) const noexcept;
  int set(int option, const void* value, std::size_t len) noexcept;

 private:
  bool has_type_of_service_ : 1;
  std::uint8_t type_of_service_;
};

// The result of fi_getopt with FI_OPT_WEFT_REQUEST.
int get_request(const rdma_conn_param& requested, void* value, std::size_t* len) noexcept;

}  // namespace weft::verbs
