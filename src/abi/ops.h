// SPDX-License-Identifier: BSD-2-Clause
// The ops tables of classes: a method with the name of a slot fills the slot; fi_endpoint(3), fi_cq(3) and their
// siblings govern the calls.
#pragma once

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <type_traits>

#include "abi/bridge.h"
#include "base/each.h"

namespace weft {

template <class Table, class... Others>
inline constexpr bool kIsNoneOf = !(std::is_same_v<Table, Others&> || ...);
// The calls of a table belong to the control path: they are slow, and do not block for long; op<>.
template <class Table>
inline constexpr bool kControls = kIsNoneOf<Table, fi_ops_msg, fi_ops_tagged, fi_ops_rma, fi_ops_atomic, fi_ops_cq,
                                            fi_ops_eq, fi_ops_cntr, fi_ops_poll, fi_ops_wait>;

// fill() sets each slot: to the method if T has it, else to the answer `Missing`. Methods for remote memory, tagged
// messages and atomic operations carry the names of the public calls (without fi_), because one class fills several
// tables: in `WEFT_RENAMED` such a name follows its slot.
#define WEFT_SLOT_AS(slot, method)        \
  table.slot = ::weft::always<Missing>{}; \
  if constexpr (requires { &T::method; }) table.slot = ::weft::op<&T::method, kControls<decltype(table)>>{};
#define WEFT_SLOT(name) WEFT_SLOT_AS(name, name)
#define WEFT_RENAMED(slot_and_method) WEFT_SLOT_AS slot_and_method
#define WEFT_TABLE(Ops, EACH_SLOT, ...)      \
  template <class T, int Missing>            \
  constexpr void fill(Ops& table) noexcept { \
    WEFT_EACH(EACH_SLOT, __VA_ARGS__)        \
  }

WEFT_TABLE(fi_ops, WEFT_SLOT, close, bind, control, ops_open, tostr, ops_set)
WEFT_TABLE(fi_ops_fabric, WEFT_SLOT, domain, passive_ep, eq_open, wait_open, trywait, domain2)
WEFT_TABLE(fi_ops_domain, WEFT_SLOT, av_open, cq_open, endpoint, scalable_ep, cntr_open, poll_open, stx_ctx, srx_ctx,
           query_atomic, query_collective, endpoint2, xpu_ctx)
WEFT_TABLE(fi_ops_mr, WEFT_SLOT, reg, regv, regattr)
WEFT_TABLE(fi_ops_ep, WEFT_SLOT, cancel, getopt, setopt, tx_ctx, rx_ctx, rx_size_left, tx_size_left, export_xpu)
WEFT_TABLE(fi_ops_cm, WEFT_SLOT, setname, getname, getpeer, connect, listen, accept, reject, shutdown, join)
WEFT_TABLE(fi_ops_msg, WEFT_SLOT, recv, recvv, recvmsg, send, sendv, sendmsg, inject, senddata, injectdata)
WEFT_TABLE(fi_ops_tagged, WEFT_RENAMED, (recv, trecv), (recvv, trecvv), (recvmsg, trecvmsg), (send, tsend),
           (sendv, tsendv), (sendmsg, tsendmsg), (inject, tinject), (senddata, tsenddata), (injectdata, tinjectdata))
WEFT_TABLE(fi_ops_rma, WEFT_RENAMED, (read, read), (readv, readv), (readmsg, readmsg), (write, write), (writev, writev),
           (writemsg, writemsg), (inject, rma_inject), (writedata, writedata), (injectdata, rma_injectdata))
WEFT_TABLE(fi_ops_atomic, WEFT_RENAMED, (write, atomic), (writev, atomicv), (writemsg, atomicmsg),
           (inject, inject_atomic), (readwrite, fetch_atomic), (readwritev, fetch_atomicv),
           (readwritemsg, fetch_atomicmsg), (compwrite, compare_atomic), (compwritev, compare_atomicv),
           (compwritemsg, compare_atomicmsg), (writevalid, atomicvalid), (readwritevalid, fetch_atomicvalid),
           (compwritevalid, compare_atomicvalid))
WEFT_TABLE(fi_ops_cq, WEFT_SLOT, read, readfrom, readerr, sread, sreadfrom, signal, strerror, export_xpu)
WEFT_TABLE(fi_ops_eq, WEFT_SLOT, read, readerr, write, sread, strerror)
WEFT_TABLE(fi_ops_cntr, WEFT_SLOT, read, readerr, add, set, wait, adderr, seterr, export_xpu)
WEFT_TABLE(fi_ops_av, WEFT_SLOT, insert, insertsvc, insertsym, remove, lookup, straddr, av_set, insert_auth_key,
           lookup_auth_key, set_user_id, lookup2)
WEFT_TABLE(fi_ops_poll, WEFT_SLOT, poll, poll_add, poll_del)
WEFT_TABLE(fi_ops_wait, WEFT_SLOT, wait)
WEFT_TABLE(fi_ops_collective, WEFT_SLOT, barrier, broadcast, alltoall, allreduce, allgather, reduce_scatter, reduce,
           scatter, gather, msg, barrier2)

#undef WEFT_TABLE
#undef WEFT_RENAMED
#undef WEFT_SLOT
#undef WEFT_SLOT_AS

// The table of T for one C struct of slots.
template <class Ops, class T, int Missing = FI_ENOSYS>
inline constexpr Ops kOps = [] {
  static_assert(sizeof(T) != 0, "the slots of an incomplete class would count as absent");
  Ops table{};
  table.size = sizeof table;
  fill<T, Missing>(table);
  return table;
}();

// A class without calls: every slot of its tables has the answer `Missing`.
struct NoCalls {};

// Converts to a pointer to T's table of any kind: `abi.ops = ops_of<Endpoint>`.
template <class T, int Missing = FI_ENOSYS>
struct OpsOf {
  template <class Ops>
  constexpr operator Ops*() const noexcept {
    return slots(kOps<Ops, T, Missing>);
  }
};
template <class T, int Missing = FI_ENOSYS>
inline constexpr OpsOf<T, Missing> ops_of{};

// Fills what every handle of this kind has: its class, its context, and the tables of T.
template <class T, class Fid>
void identify(Fid& abi, std::size_t fclass, void* context) noexcept {
  abi.fid = {fclass, context, ops_of<T>};
  if constexpr (requires { abi.ops; }) abi.ops = ops_of<T>;
  if constexpr (requires { abi.cm; }) abi.cm = ops_of<T>;
}

// `from` with the receive calls of `receives`. The slots of fi_ops_msg and fi_ops_tagged have the same names.
template <class Table>
constexpr Table with_receives(const Table& from, const Table& receives) noexcept {
  Table table = from;
  table.recv = receives.recv;
  table.recvv = receives.recvv;
  table.recvmsg = receives.recvmsg;
  return table;
}

// The object of `fid` if it is a T of this provider, else nullptr: a NULL handle, a handle of another class or of
// another provider (its ops table differs).
template <class T>
T* object_if(const ::fid* fid) noexcept {
  return fid != nullptr && fid->ops == &kOps<fi_ops, T> ? &object<T>(fid) : nullptr;
}

// The arguments of fi_mr_regv in the form of fi_mr_regattr.
inline fi_mr_attr describe_region(const iovec* iov, size_t count, uint64_t access, uint64_t offset,
                                  uint64_t requested_key, void* context) noexcept {
  fi_mr_attr attr{};
  attr.mr_iov = iov;
  attr.iov_count = count;
  attr.access = access;
  attr.offset = offset;
  attr.requested_key = requested_key;
  attr.context = context;
  return attr;
}

}  // namespace weft
