// SPDX-License-Identifier: BSD-2-Clause
// The verbs provider's parameters; see parameters.h.
#include "verbs/parameters.h"

#include <limits>
#include <sstream>

#include "verbs/limits.h"
#include "verbs/provider.h"

namespace weft::verbs {
namespace {

// Reads an integer of lowest..highest into `value`; anything else leaves it alone.
template <class T>
void read_number(const char* name, T& value, int lowest, int highest) {
  int given = 0;
  const int result = fi_param_get_int(&provider(), name, &given);
  if (result == -FI_ENODATA) return;
  if (result == 0 && given >= lowest && given <= highest) {
    value = static_cast<T>(given);
  } else {
    FI_WARN(&provider(), FI_LOG_CORE, "parameter %s must be a number from %d to %d; it is ignored\n", name, lowest,
            highest);
  }
}

void read_names(const char* name, std::vector<std::string>& list) {
  char* given = nullptr;
  if (fi_param_get_str(&provider(), name, &given) != 0 || given == nullptr) return;
  std::istringstream words(given);
  for (std::string word; std::getline(words, word, ',');)
    if (!word.empty()) list.push_back(word);
}

void read_switch(const char* name, bool& value) {
  int given = 0;
  if (fi_param_get_bool(&provider(), name, &given) == 0) value = given != 0;
}

constexpr int kMaxInt = std::numeric_limits<int>::max();
constexpr int kMaxByte = 255;

}  // namespace

void Parameters::define() {
  const fi_provider* verbs = &provider();
  fi_param_define(verbs, "iface", FI_PARAM_STRING,
                  "Network interfaces to use, separated by commas; each may be a prefix (default: all)");
  fi_param_define(verbs, "device_name", FI_PARAM_STRING,
                  "RDMA devices to use, separated by commas; each may be a prefix (default: all)");
  fi_param_define(verbs, "gid_idx", FI_PARAM_INT, "Use only the address that stands at this index of the GID table");
  fi_param_define(verbs, "tx_size", FI_PARAM_INT, "Default size of transmit queues (default: 126)");
  fi_param_define(verbs, "rx_size", FI_PARAM_INT, "Default size of receive queues (default: 126)");
  fi_param_define(verbs, "tx_iov_limit", FI_PARAM_INT, "Default number of buffers of one send (default: 4)");
  fi_param_define(verbs, "rx_iov_limit", FI_PARAM_INT, "Default number of buffers of one receive (default: 4)");
  fi_param_define(verbs, "inline_size", FI_PARAM_INT,
                  "Default number of bytes that leave with a work request (default: 64)");
  fi_param_define(verbs, "connect_timeout", FI_PARAM_INT,
                  "Milliseconds that setting up a connection may take in all; 0: no limit (default: 30000)");
  fi_param_define(verbs, "resolve_timeout", FI_PARAM_INT,
                  "Milliseconds of one try to resolve an address or a route (default: 2000)");
  fi_param_define(verbs, "backlog", FI_PARAM_INT,
                  "Connection requests that may be pending at a passive endpoint (default: 4096)");
  fi_param_define(verbs, "max_connecting", FI_PARAM_INT,
                  "Connections of one fabric that may be in the making at once; others wait (default: 128)");
  fi_param_define(verbs, "responder_resources", FI_PARAM_INT,
                  "Reads and atomics of the peer served at once (default: as many as the device can)");
  fi_param_define(verbs, "initiator_depth", FI_PARAM_INT,
                  "Reads and atomics outstanding at the peer at once (default: as many as the device can)");
  fi_param_define(verbs, "retry_count", FI_PARAM_INT,
                  "How often a transfer is sent again when the peer is silent, 0 to 7 (default: 6)");
  fi_param_define(verbs, "rnr_retry_count", FI_PARAM_INT,
                  "How often a transfer is sent again when the peer has no receive posted, 0 to 7; 7: for ever "
                  "(default: 7)");
  fi_param_define(verbs, "min_rnr_timer", FI_PARAM_INT,
                  "Code 0 to 31 of the pause before that; 0 is the longest (default: 12, 0.64 ms)");
  fi_param_define(verbs, "fork_safe", FI_PARAM_BOOL,
                  "Keep registered memory usable when the process forks, on kernels older than 5.12; costs time and "
                  "memory at each registration (default: no)");
  fi_param_define(verbs, "flow_control", FI_PARAM_BOOL, "Tell the peer that there is flow control (default: yes)");
  fi_param_define(verbs, "tos", FI_PARAM_INT,
                  "Type of service of all connections, 0 to 255 (default: as the traffic class says)");
  fi_param_define(verbs, "ack_timeout", FI_PARAM_INT,
                  "Code 0 to 31 of the time after which a transfer is sent again (default: as the route says)");
  fi_param_define(verbs, "port_down_grace", FI_PARAM_INT,
                  "Milliseconds that a port may be down before its connections end (default: 3000)");
}

Parameters Parameters::read() {
  static_assert(kDefaultQueueSize == 126 && kDefaultInjectSize == 64 && kDefaultIovLimit == 4,
                "as the texts above say");
  Parameters values;
  read_names("iface", values.interfaces);
  read_names("device_name", values.devices);
  read_number("gid_idx", values.gid_index, 0, kMaxInt);
  read_number("tx_size", values.tx_size, 1, kMaxQueueSize);
  read_number("rx_size", values.rx_size, 1, kMaxQueueSize);
  read_number("tx_iov_limit", values.tx_iov_limit, 1, kMaxIov);
  read_number("rx_iov_limit", values.rx_iov_limit, 1, kMaxIov);
  read_number("inline_size", values.inline_size, 0, kMaxInjectSize);
  read_number("connect_timeout", values.connect_timeout_ms, 0, kMaxInt);
  read_number("resolve_timeout", values.resolve_timeout_ms, 1, kMaxInt);
  read_number("backlog", values.backlog, 1, kMaxInt);
  read_number("max_connecting", values.max_connecting, 1, kMaxInt);
  read_number("responder_resources", values.responder_resources, 0, kMaxByte);
  read_number("initiator_depth", values.initiator_depth, 0, kMaxByte);
  read_number("retry_count", values.retry_count, 0, 7);
  read_number("rnr_retry_count", values.rnr_retry_count, 0, 7);
  read_number("min_rnr_timer", values.min_rnr_timer, 0, 31);
  read_switch("fork_safe", values.fork_safe);
  read_switch("flow_control", values.flow_control);
  read_number("tos", values.type_of_service, 0, kMaxByte);
  read_number("ack_timeout", values.ack_timeout, 0, 31);
  read_number("port_down_grace", values.port_down_grace_ms, 0, kMaxInt);
  return values;
}

}  // namespace weft::verbs
