// SPDX-License-Identifier: BSD-2-Clause
// The table of connection failures; see cm_errors.h.
#include "verbs/cm/cm_errors.h"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <span>

namespace weft::verbs {
namespace {

struct Row {
  int status;
  int error;
  const char* reason;
  bool retryable = false;
};

// Statuses are -errno. The last row of each table serves all others; its error 0 stands for the status itself.
constexpr Row kAddressErrors[] = {
    {-ETIMEDOUT, FI_EHOSTUNREACH, "the peer's address does not answer (ARP or neighbour discovery)", true},
    {-EHOSTUNREACH, FI_EHOSTUNREACH, "the peer's host cannot be reached", true},
    {-ENETUNREACH, FI_ENETUNREACH, "there is no route to the peer's network"},
    {-ENODEV, FI_ENODEV, "the route to the peer uses an interface without an RDMA device"},
    {-EADDRNOTAVAIL, FI_EADDRNOTAVAIL, "the source address does not belong to an RDMA device"},
    {-EINVAL, FI_EINVAL, "the source and destination addresses do not match"},
    {0, 0, "the peer's address cannot be resolved"},
};
constexpr Row kRouteErrors[] = {
    {-ETIMEDOUT, FI_ETIMEDOUT, "the subnet administrator does not answer", true},
    {-EHOSTUNREACH, FI_EHOSTUNREACH, "the subnet administrator has no path to the peer", true},
    {-EINVAL, FI_EHOSTUNREACH, "there is no path to the peer"},
    {-ENODEV, FI_ENODEV, "the port went down", true},
    {0, 0, "the path to the peer cannot be resolved"},
};
constexpr Row kUnreachable[] = {
    {-ETIMEDOUT, FI_EHOSTUNREACH, "the peer's connection manager does not answer", true},
    {0, FI_EHOSTUNREACH, "the peer cannot be reached", true},
};
constexpr Row kConnectErrors[] = {
    {-ETIMEDOUT, FI_ETIMEDOUT, "the peer did not complete the handshake", true},
    {-ECONNREFUSED, FI_ECONNREFUSED, "no listener at that address"},
    {-ECONNRESET, FI_ECONNRESET, "the peer reset the connection"},
    {-EINVAL, FI_EOTHER, "the queue pair cannot be connected with the peer's parameters"},
    {0, 0, "the connection cannot be established"},
};
// Reasons of the InfiniBand CM (IBA 12.6.7.2), and iWARP's -errno.
constexpr Row kRejections[] = {
    {1, FI_EREMOTEIO, "the peer has no queue pair left (reason 1)", true},
    {2, FI_EREMOTEIO, "the peer has no EE context left (reason 2)"},
    {3, FI_ENOBUFS, "the peer is out of resources (reason 3)", true},
    {4, FI_ECONNABORTED, "the handshake timed out at the peer (reason 4)", true},
    {5, FI_EOPNOTSUPP, "the peer does not support the request (reason 5)"},
    {6, FI_EREMOTEIO, "the peer has no such connection (reason 6)", true},
    {7, FI_EREMOTEIO, "the peer has another instance of this connection (reason 7)", true},
    {8, FI_ECONNREFUSED, "no listener at that address (reason 8)"},
    {9, FI_ENOPROTOOPT, "the peer's service does not support this transport (reason 9)"},
    {10, FI_EADDRINUSE, "the peer still has an older connection of this queue pair (reason 10)", true},
    {11, FI_EREMOTEIO, "the peer has no such reliable-datagram channel (reason 11)"},
    {12, FI_EADDRNOTAVAIL, "the peer does not accept our GID (reason 12)"},
    {13, FI_EADDRNOTAVAIL, "the peer does not accept our LID (reason 13)"},
    {14, FI_EINVAL, "the peer does not accept the service level (reason 14)"},
    {15, FI_EINVAL, "the peer does not accept the traffic class (reason 15)"},
    {16, FI_EINVAL, "the peer does not accept the hop limit (reason 16)"},
    {17, FI_EINVAL, "the peer does not accept the packet rate (reason 17)"},
    {18, FI_EADDRNOTAVAIL, "the peer does not accept our alternate GID (reason 18)"},
    {19, FI_EADDRNOTAVAIL, "the peer does not accept our alternate LID (reason 19)"},
    {20, FI_EINVAL, "the peer does not accept the alternate service level (reason 20)"},
    {21, FI_EINVAL, "the peer does not accept the alternate traffic class (reason 21)"},
    {22, FI_EINVAL, "the peer does not accept the alternate hop limit (reason 22)"},
    {23, FI_EINVAL, "the peer does not accept the alternate packet rate (reason 23)"},
    {24, FI_EHOSTUNREACH, "the peer redirects to another connection manager (reason 24)"},
    {25, FI_EHOSTUNREACH, "the peer redirects to another of its ports (reason 25)"},
    {26, FI_EMSGSIZE, "the peer does not accept the path's MTU (reason 26)"},
    {27, FI_ENOSPC, "the peer cannot serve that many reads at once (reason 27)"},
    {28, FI_ECONNREFUSED, "the peer rejected the request"},
    {29, FI_EINVAL, "the peer does not accept the RNR retry count (reason 29)"},
    {30, FI_EALREADY, "the peer already uses this connection number (reason 30)", true},
    {31, FI_ENOPROTOOPT, "the peer uses another version of the connection protocol (reason 31)"},
    {32, FI_EINVAL, "the peer does not accept the flow label (reason 32)"},
    {33, FI_EINVAL, "the peer does not accept the alternate flow label (reason 33)"},
    {35, FI_EOPNOTSUPP, "the peer does not support a vendor's option (reason 35)"},
    {-ECONNREFUSED, FI_ECONNREFUSED, "no listener at that address, or the peer rejected the request"},
    {-ECONNRESET, FI_ECONNREFUSED, "the peer rejected the request, or reset the connection"},  // siw: both
    {-ETIMEDOUT, FI_ETIMEDOUT, "the peer did not answer", true},
    {-EPROTO, FI_EREMOTEIO, "the peer's answer is invalid"},
    {0, FI_ECONNREFUSED, "the peer rejected the request for an unknown reason"},
};
constexpr Row kRemovals[] = {{0, FI_ENODEV, "the RDMA device was removed"}};
constexpr Row kAddressChanges[] = {{0, FI_EADDRNOTAVAIL, "the interface's hardware address changed", true}};
constexpr Row kDisconnects[] = {
    {0, FI_ECONNRESET, "the peer disconnected before the connection was established"},
};
// Calls that failed, by errno.
constexpr Row kCalls[] = {
    {-ENOMEM, FI_ENOMEM, "the device or the process has no memory left; see ulimit -l"},
    {-ENOSPC, FI_ENOSPC, "the device has no queue pair left"},
    {-EADDRINUSE, FI_EADDRINUSE, "the source address is in use"},
    {-EADDRNOTAVAIL, FI_EADDRNOTAVAIL, "the source address does not belong to an RDMA device"},
    {-ENODEV, FI_ENODEV, "no RDMA device serves that address"},
    {-ENETUNREACH, FI_ENETUNREACH, "there is no route to the peer's network"},
    {-EHOSTUNREACH, FI_EHOSTUNREACH, "the peer's host cannot be reached"},
    {-EACCES, FI_EACCES, "the system does not permit it"},
    {-EPERM, FI_EPERM, "the system does not permit it"},
    {-EMFILE, FI_EMFILE, "the process has no descriptor left"},
    {0, 0, "the system refused the call"},
};

constexpr struct {
  rdma_cm_event_type event;
  std::span<const Row> rows;
} kTables[] = {
    {RDMA_CM_EVENT_ADDR_ERROR, kAddressErrors},    {RDMA_CM_EVENT_ROUTE_ERROR, kRouteErrors},
    {RDMA_CM_EVENT_CONNECT_ERROR, kConnectErrors}, {RDMA_CM_EVENT_UNREACHABLE, kUnreachable},
    {RDMA_CM_EVENT_REJECTED, kRejections},         {RDMA_CM_EVENT_DEVICE_REMOVAL, kRemovals},
    {RDMA_CM_EVENT_ADDR_CHANGE, kAddressChanges},  {RDMA_CM_EVENT_DISCONNECTED, kDisconnects},
};

CmFailure find(std::span<const Row> rows, int status) noexcept {
  const auto row = std::find_if(rows.begin(), rows.end() - 1, [&](const Row& r) { return r.status == status; });
  int error = row->error;
  if (error == 0) error = status < 0 ? -status : FI_EOTHER;
  return {error, -status, row->reason, row->retryable};
}

}  // namespace

const char* phase_name(CmPhase phase) noexcept {
  static constexpr const char* kNames[] = {"waiting for other connection attempts to finish",
                                           "resolving the peer's address",
                                           "resolving the route",
                                           "waiting for the answer",
                                           "accepting",
                                           "listening"};
  return kNames[static_cast<std::size_t>(phase)];
}

CmFailure explain(CmPhase phase, rdma_cm_event_type event, int status) noexcept {
  for (const auto& [known, rows] : kTables)
    if (event == known) return find(rows, status);
  return explain_errno(phase, status < 0 ? -status : EIO);
}

CmFailure explain_errno(CmPhase phase, int error) noexcept {
  // The connection manager refuses steps of a handshake that the peer has ended; the event for it is on the way.
  const bool handshake = phase == CmPhase::kRequest || phase == CmPhase::kAnswer;
  if (handshake && error == EINVAL) return {FI_ECONNABORTED, EINVAL, "the peer has ended the handshake"};
  CmFailure failure = find(kCalls, -error);
  failure.native = error;
  return failure;
}

}  // namespace weft::verbs
