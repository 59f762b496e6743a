// SPDX-License-Identifier: BSD-2-Clause
// Each event of rdma_get_cm_event(3) that fails a connection attempt, by its status: the error of the event queue's
// entry, and whether another try may help. Reasons of rejections are those of the InfiniBand CM.
#pragma once

#include <rdma/fi_errno.h>
#include <rdma/rdma_cma.h>

#include <cerrno>

namespace weft::verbs {

struct Row {
  rdma_cm_event_type event;
  int status;
  int error;
  bool retryable;
};
constexpr auto kAddress = RDMA_CM_EVENT_ADDR_ERROR;
constexpr auto kRoute = RDMA_CM_EVENT_ROUTE_ERROR;
constexpr auto kConnect = RDMA_CM_EVENT_CONNECT_ERROR;
constexpr auto kUnreachable = RDMA_CM_EVENT_UNREACHABLE;
constexpr auto kRejected = RDMA_CM_EVENT_REJECTED;
constexpr Row kRows[] = {
    {kAddress, -ETIMEDOUT, FI_EHOSTUNREACH, true},
    {kAddress, -EHOSTUNREACH, FI_EHOSTUNREACH, true},
    {kAddress, -ENETUNREACH, FI_ENETUNREACH, false},
    {kAddress, -ENODEV, FI_ENODEV, false},
    {kAddress, -EADDRNOTAVAIL, FI_EADDRNOTAVAIL, false},
    {kAddress, -EINVAL, FI_EINVAL, false},
    {kAddress, -ENOBUFS, FI_ENOBUFS, false},
    {kRoute, -ETIMEDOUT, FI_ETIMEDOUT, true},
    {kRoute, -EHOSTUNREACH, FI_EHOSTUNREACH, true},
    {kRoute, -EINVAL, FI_EHOSTUNREACH, false},
    {kRoute, -ENODEV, FI_ENODEV, true},
    {kRoute, -ENOMEM, FI_ENOMEM, false},
    {kUnreachable, -ETIMEDOUT, FI_EHOSTUNREACH, true},
    {kUnreachable, -ECONNRESET, FI_EHOSTUNREACH, true},
    {kConnect, -ETIMEDOUT, FI_ETIMEDOUT, true},
    {kConnect, -ECONNREFUSED, FI_ECONNREFUSED, false},
    {kConnect, -ECONNRESET, FI_ECONNRESET, false},
    {kConnect, -EINVAL, FI_EOTHER, false},
    {kConnect, -ENOMEM, FI_ENOMEM, false},
    {kRejected, 1, FI_EREMOTEIO, true},
    {kRejected, 2, FI_EREMOTEIO, false},
    {kRejected, 3, FI_ENOBUFS, true},
    {kRejected, 4, FI_ECONNABORTED, true},
    {kRejected, 5, FI_EOPNOTSUPP, false},
    {kRejected, 6, FI_EREMOTEIO, true},
    {kRejected, 7, FI_EREMOTEIO, true},
    {kRejected, 8, FI_ECONNREFUSED, false},
    {kRejected, 9, FI_ENOPROTOOPT, false},
    {kRejected, 10, FI_EADDRINUSE, true},
    {kRejected, 11, FI_EREMOTEIO, false},
    {kRejected, 12, FI_EADDRNOTAVAIL, false},
    {kRejected, 13, FI_EADDRNOTAVAIL, false},
    {kRejected, 14, FI_EINVAL, false},
    {kRejected, 15, FI_EINVAL, false},
    {kRejected, 16, FI_EINVAL, false},
    {kRejected, 17, FI_EINVAL, false},
    {kRejected, 18, FI_EADDRNOTAVAIL, false},
    {kRejected, 19, FI_EADDRNOTAVAIL, false},
    {kRejected, 20, FI_EINVAL, false},
    {kRejected, 21, FI_EINVAL, false},
    {kRejected, 22, FI_EINVAL, false},
    {kRejected, 23, FI_EINVAL, false},
    {kRejected, 24, FI_EHOSTUNREACH, false},
    {kRejected, 25, FI_EHOSTUNREACH, false},
    {kRejected, 26, FI_EMSGSIZE, false},
    {kRejected, 27, FI_ENOSPC, false},
    {kRejected, 28, FI_ECONNREFUSED, false},
    {kRejected, 29, FI_EINVAL, false},
    {kRejected, 30, FI_EALREADY, true},
    {kRejected, 31, FI_ENOPROTOOPT, false},
    {kRejected, 32, FI_EINVAL, false},
    {kRejected, 33, FI_EINVAL, false},
    {kRejected, 35, FI_EOPNOTSUPP, false},
    {kRejected, 99, FI_ECONNREFUSED, false},
    {kRejected, -ECONNREFUSED, FI_ECONNREFUSED, false},
    {kRejected, -ECONNRESET, FI_ECONNREFUSED, false},
    {kRejected, -ETIMEDOUT, FI_ETIMEDOUT, true},
    {kRejected, -EPROTO, FI_EREMOTEIO, false},
    {RDMA_CM_EVENT_DEVICE_REMOVAL, 0, FI_ENODEV, false},
    {RDMA_CM_EVENT_ADDR_CHANGE, 0, FI_EADDRNOTAVAIL, true},
    {RDMA_CM_EVENT_DISCONNECTED, 0, FI_ECONNRESET, false},
};

}  // namespace weft::verbs
