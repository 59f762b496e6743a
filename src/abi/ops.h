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

#include "abi/bridge.h"

namespace weft {

// One line a slot: the method if T has it, else the answer `Missing`. Methods for remote memory, tagged messages and
// atomic operations carry the names of the public calls (without fi_), because one class fills several tables.
#define WEFT_SLOT_AS(slot, method)        \
  table.slot = ::weft::always<Missing>{}; \
  if constexpr (requires { &T::method; }) table.slot = ::weft::op<&T::method> {}
#define WEFT_SLOT(name) WEFT_SLOT_AS(name, name)

template <class T, int Missing>
constexpr void fill(fi_ops& table) noexcept {
  WEFT_SLOT(close);
  WEFT_SLOT(bind);
  WEFT_SLOT(control);
  WEFT_SLOT(ops_open);
  WEFT_SLOT(tostr);
  WEFT_SLOT(ops_set);
}

template <class T, int Missing>
constexpr void fill(fi_ops_fabric& table) noexcept {
  WEFT_SLOT(domain);
  WEFT_SLOT(passive_ep);
  WEFT_SLOT(eq_open);
  WEFT_SLOT(wait_open);
  WEFT_SLOT(trywait);
  WEFT_SLOT(domain2);
}

template <class T, int Missing>
constexpr void fill(fi_ops_domain& table) noexcept {
  WEFT_SLOT(av_open);
  WEFT_SLOT(cq_open);
  WEFT_SLOT(endpoint);
  WEFT_SLOT(scalable_ep);
  WEFT_SLOT(cntr_open);
  WEFT_SLOT(poll_open);
  WEFT_SLOT(stx_ctx);
  WEFT_SLOT(srx_ctx);
  WEFT_SLOT(query_atomic);
  WEFT_SLOT(query_collective);
  WEFT_SLOT(endpoint2);
  WEFT_SLOT(xpu_ctx);
}

template <class T, int Missing>
constexpr void fill(fi_ops_mr& table) noexcept {
  WEFT_SLOT(reg);
  WEFT_SLOT(regv);
  WEFT_SLOT(regattr);
}

template <class T, int Missing>
constexpr void fill(fi_ops_ep& table) noexcept {
  WEFT_SLOT(cancel);
  WEFT_SLOT(getopt);
  WEFT_SLOT(setopt);
  WEFT_SLOT(tx_ctx);
  WEFT_SLOT(rx_ctx);
  WEFT_SLOT(rx_size_left);
  WEFT_SLOT(tx_size_left);
  WEFT_SLOT(export_xpu);
}

template <class T, int Missing>
constexpr void fill(fi_ops_cm& table) noexcept {
  WEFT_SLOT(setname);
  WEFT_SLOT(getname);
  WEFT_SLOT(getpeer);
  WEFT_SLOT(connect);
  WEFT_SLOT(listen);
  WEFT_SLOT(accept);
  WEFT_SLOT(reject);
  WEFT_SLOT(shutdown);
  WEFT_SLOT(join);
}

template <class T, int Missing>
constexpr void fill(fi_ops_msg& table) noexcept {
  WEFT_SLOT(recv);
  WEFT_SLOT(recvv);
  WEFT_SLOT(recvmsg);
  WEFT_SLOT(send);
  WEFT_SLOT(sendv);
  WEFT_SLOT(sendmsg);
  WEFT_SLOT(inject);
  WEFT_SLOT(senddata);
  WEFT_SLOT(injectdata);
}

template <class T, int Missing>
constexpr void fill(fi_ops_tagged& table) noexcept {
  WEFT_SLOT_AS(recv, trecv);
  WEFT_SLOT_AS(recvv, trecvv);
  WEFT_SLOT_AS(recvmsg, trecvmsg);
  WEFT_SLOT_AS(send, tsend);
  WEFT_SLOT_AS(sendv, tsendv);
  WEFT_SLOT_AS(sendmsg, tsendmsg);
  WEFT_SLOT_AS(inject, tinject);
  WEFT_SLOT_AS(senddata, tsenddata);
  WEFT_SLOT_AS(injectdata, tinjectdata);
}

template <class T, int Missing>
constexpr void fill(fi_ops_rma& table) noexcept {
  WEFT_SLOT(read);
  WEFT_SLOT(readv);
  WEFT_SLOT(readmsg);
  WEFT_SLOT(write);
  WEFT_SLOT(writev);
  WEFT_SLOT(writemsg);
  WEFT_SLOT_AS(inject, rma_inject);
  WEFT_SLOT(writedata);
  WEFT_SLOT_AS(injectdata, rma_injectdata);
}

template <class T, int Missing>
constexpr void fill(fi_ops_atomic& table) noexcept {
  WEFT_SLOT_AS(write, atomic);
  WEFT_SLOT_AS(writev, atomicv);
  WEFT_SLOT_AS(writemsg, atomicmsg);
  WEFT_SLOT_AS(inject, inject_atomic);
  WEFT_SLOT_AS(readwrite, fetch_atomic);
  WEFT_SLOT_AS(readwritev, fetch_atomicv);
  WEFT_SLOT_AS(readwritemsg, fetch_atomicmsg);
  WEFT_SLOT_AS(compwrite, compare_atomic);
  WEFT_SLOT_AS(compwritev, compare_atomicv);
  WEFT_SLOT_AS(compwritemsg, compare_atomicmsg);
  WEFT_SLOT_AS(writevalid, atomicvalid);
  WEFT_SLOT_AS(readwritevalid, fetch_atomicvalid);
  WEFT_SLOT_AS(compwritevalid, compare_atomicvalid);
}

template <class T, int Missing>
constexpr void fill(fi_ops_cq& table) noexcept {
  WEFT_SLOT(read);
  WEFT_SLOT(readfrom);
  WEFT_SLOT(readerr);
  WEFT_SLOT(sread);
  WEFT_SLOT(sreadfrom);
  WEFT_SLOT(signal);
  WEFT_SLOT(strerror);
  WEFT_SLOT(export_xpu);
}

template <class T, int Missing>
constexpr void fill(fi_ops_eq& table) noexcept {
  WEFT_SLOT(read);
  WEFT_SLOT(readerr);
  WEFT_SLOT(write);
  WEFT_SLOT(sread);
  WEFT_SLOT(strerror);
}

template <class T, int Missing>
constexpr void fill(fi_ops_cntr& table) noexcept {
  WEFT_SLOT(read);
  WEFT_SLOT(readerr);
  WEFT_SLOT(add);
  WEFT_SLOT(set);
  WEFT_SLOT(wait);
  WEFT_SLOT(adderr);
  WEFT_SLOT(seterr);
  WEFT_SLOT(export_xpu);
}

template <class T, int Missing>
constexpr void fill(fi_ops_av& table) noexcept {
  WEFT_SLOT(insert);
  WEFT_SLOT(insertsvc);
  WEFT_SLOT(insertsym);
  WEFT_SLOT(remove);
  WEFT_SLOT(lookup);
  WEFT_SLOT(straddr);
  WEFT_SLOT(av_set);
  WEFT_SLOT(insert_auth_key);
  WEFT_SLOT(lookup_auth_key);
  WEFT_SLOT(set_user_id);
  WEFT_SLOT(lookup2);
}

template <class T, int Missing>
constexpr void fill(fi_ops_poll& table) noexcept {
  WEFT_SLOT(poll);
  WEFT_SLOT(poll_add);
  WEFT_SLOT(poll_del);
}

template <class T, int Missing>
constexpr void fill(fi_ops_wait& table) noexcept {
  WEFT_SLOT(wait);
}

template <class T, int Missing>
constexpr void fill(fi_ops_collective& table) noexcept {
  WEFT_SLOT(barrier);
  WEFT_SLOT(broadcast);
  WEFT_SLOT(alltoall);
  WEFT_SLOT(allreduce);
  WEFT_SLOT(allgather);
  WEFT_SLOT(reduce_scatter);
  WEFT_SLOT(reduce);
  WEFT_SLOT(scatter);
  WEFT_SLOT(gather);
  WEFT_SLOT(msg);
  WEFT_SLOT(barrier2);
}

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
