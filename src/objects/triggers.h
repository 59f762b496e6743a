// SPDX-License-Identifier: BSD-2-Clause
// The tables of endpoints whose calls accept FI_TRIGGER; fi_trigger(3). Only calls with flags can have it.
#pragma once

#include <rdma/fi_trigger.h>

#include <new>

#include "abi/ops.h"
#include "objects/completion_routes.h"
#include "objects/deferred_work.h"

namespace weft {

// T: an endpoint, or a context of one, with its CompletionRoutes as `routes`, a method or a member.
template <class T>
class Triggers {
 public:
  static constexpr fi_ops_msg msg() noexcept {
    fi_ops_msg table = kOps<fi_ops_msg, T>;
    table.recvmsg = &call<FI_OP_RECV, &T::recvmsg, fi_msg>;
    table.sendmsg = &call<FI_OP_SEND, &T::sendmsg, fi_msg>;
    return table;
  }
  static constexpr fi_ops_tagged tagged() noexcept {
    fi_ops_tagged table = kOps<fi_ops_tagged, T>;
    table.recvmsg = &call<FI_OP_TRECV, &T::trecvmsg, fi_msg_tagged>;
    table.sendmsg = &call<FI_OP_TSEND, &T::tsendmsg, fi_msg_tagged>;
    return table;
  }
  static constexpr fi_ops_rma rma() noexcept {
    fi_ops_rma table = kOps<fi_ops_rma, T>;
    table.readmsg = &call<FI_OP_READ, &T::readmsg, fi_msg_rma>;
    table.writemsg = &call<FI_OP_WRITE, &T::writemsg, fi_msg_rma>;
    return table;
  }
  static constexpr fi_ops_atomic atomic() noexcept {
    fi_ops_atomic table = kOps<fi_ops_atomic, T>;
    table.writemsg = &call<FI_OP_ATOMIC, &T::atomicmsg, fi_msg_atomic>;
    table.readwritemsg = [](fid_ep* ep, const fi_msg_atomic* message, fi_ioc* results, void** desc, size_t count,
                            uint64_t flags) -> ssize_t {
      if ((flags & FI_TRIGGER) == 0) return object<T>(ep).fetch_atomicmsg(message, results, desc, count, flags);
      return defer(ep, FI_OP_FETCH_ATOMIC, message, flags, fi_msg_fetch{results, desc, count});
    };
    table.compwritemsg = [](fid_ep* ep, const fi_msg_atomic* message, const fi_ioc* compares, void** compare_desc,
                            size_t compare_count, fi_ioc* results, void** desc, size_t count,
                            uint64_t flags) -> ssize_t {
      if ((flags & FI_TRIGGER) == 0)
        return object<T>(ep).compare_atomicmsg(message, compares, compare_desc, compare_count, results, desc, count,
                                               flags);
      return defer(ep, FI_OP_COMPARE_ATOMIC, message, flags, fi_msg_fetch{results, desc, count},
                   fi_msg_compare{compares, compare_desc, compare_count});
    };
    return table;
  }

 private:
  template <fi_op_type type, auto method, class Message>
  static ssize_t call(fid_ep* ep, const Message* message, uint64_t flags) noexcept {
    if ((flags & FI_TRIGGER) != 0) [[unlikely]]
      return defer(ep, type, message, flags);
    return (object<T>(ep).*method)(message, flags);
  }

  static CompletionRoutes& routes_of(T& endpoint) noexcept {
    if constexpr (requires { endpoint.routes(); })
      return endpoint.routes();
    else
      return endpoint.routes;
  }

  template <class Message, class... More>
  static ssize_t defer(fid_ep* ep, fi_op_type type, const Message* message, uint64_t flags,
                       const More&... more) noexcept {
    const CompletionRoutes& routes = routes_of(object<T>(ep));
    if (!routes.triggers) return -FI_EBADFLAGS;
    if (message == nullptr) return -FI_EINVAL;
    try {
      return routes.deferred->post(DeferredOperation(ep, type, *message, flags & ~FI_TRIGGER, more...));
    } catch (const std::bad_alloc&) {
      return -FI_ENOMEM;
    }
  }
};

}  // namespace weft
