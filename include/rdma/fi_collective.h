// SPDX-License-Identifier: BSD-2-Clause
//
// Collective operations: AV sets name the members of a group, fi_join_collective turns a set into a
// collective address, and every member then posts the same call. Governing pages:
// fi_collective(3), fi_av_set(3).
//
// Set calls return 0 or a negative fi_errno. Transfers post one operation and return 0, or have no
// effect and return -FI_EAGAIN (queue full, read completions and post again), -FI_EOPBADSTATE,
// -FI_EINVAL or -FI_EOPNOTSUPP. Counts are elements of the datatype, not bytes; after a member's
// completion its own buffers may be used again. `flags` are operation flags such as FI_MORE.
// All members of a group must post its calls in the same order.
#ifndef FI_COLLECTIVE_H
#define FI_COLLECTIVE_H

#include <stdint.h>
#include <sys/types.h>

#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>

#ifdef __cplusplus
extern "C" {
#endif

#ifdef FABRIC_DIRECT
#include <rdma/fi_direct_collective_def.h>
#endif

struct fid_av_set;

struct fi_ops_av_set {
  size_t size;
  int (*set_union)(struct fid_av_set* dst, const struct fid_av_set* src);
  int (*intersect)(struct fid_av_set* dst, const struct fid_av_set* src);
  int (*diff)(struct fid_av_set* dst, const struct fid_av_set* src);
  int (*insert)(struct fid_av_set* set, fi_addr_t addr);
  int (*remove)(struct fid_av_set* set, fi_addr_t addr);
  int (*addr)(struct fid_av_set* set, fi_addr_t* coll_addr);
};

struct fid_av_set {
  struct fid fid;
  struct fi_ops_av_set* ops;
};

// Query (op, datatype, mode) and result (the rest) of fi_query_collective.
struct fi_collective_attr {
  enum fi_op op;
  enum fi_datatype datatype;
  struct fi_atomic_attr datatype_attr;  // elements per call, bytes per element
  size_t max_members;
  uint64_t mode;
};

// The address that fi_join_collective passes to fi_join.
struct fi_collective_addr {
  const struct fid_av_set* set;
  fi_addr_t coll_addr;
};

// One collective in long form (the `msg` slot).
struct fi_msg_collective {
  const struct fi_ioc* msg_iov;
  void** desc;
  size_t iov_count;
  fi_addr_t coll_addr;
  fi_addr_t root_addr;
  enum fi_collective_op coll;
  enum fi_datatype datatype;
  enum fi_op op;
  void* context;
};

struct fi_ops_collective {
  size_t size;
  ssize_t (*barrier)(struct fid_ep* ep, fi_addr_t coll_addr, void* context);
  ssize_t (*broadcast)(struct fid_ep* ep, void* buf, size_t count, void* desc, fi_addr_t coll_addr, fi_addr_t root_addr,
                       enum fi_datatype datatype, uint64_t flags, void* context);
  ssize_t (*alltoall)(struct fid_ep* ep, const void* buf, size_t count, void* desc, void* result, void* result_desc,
                      fi_addr_t coll_addr, enum fi_datatype datatype, uint64_t flags, void* context);
  ssize_t (*allreduce)(struct fid_ep* ep, const void* buf, size_t count, void* desc, void* result, void* result_desc,
                       fi_addr_t coll_addr, enum fi_datatype datatype, enum fi_op op, uint64_t flags, void* context);
  ssize_t (*allgather)(struct fid_ep* ep, const void* buf, size_t count, void* desc, void* result, void* result_desc,
                       fi_addr_t coll_addr, enum fi_datatype datatype, uint64_t flags, void* context);
  ssize_t (*reduce_scatter)(struct fid_ep* ep, const void* buf, size_t count, void* desc, void* result,
                            void* result_desc, fi_addr_t coll_addr, enum fi_datatype datatype, enum fi_op op,
                            uint64_t flags, void* context);
  ssize_t (*reduce)(struct fid_ep* ep, const void* buf, size_t count, void* desc, void* result, void* result_desc,
                    fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype, enum fi_op op, uint64_t flags,
                    void* context);
  ssize_t (*scatter)(struct fid_ep* ep, const void* buf, size_t count, void* desc, void* result, void* result_desc,
                     fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype, uint64_t flags,
                     void* context);
  ssize_t (*gather)(struct fid_ep* ep, const void* buf, size_t count, void* desc, void* result, void* result_desc,
                    fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype, uint64_t flags, void* context);
  ssize_t (*msg)(struct fid_ep* ep, const struct fi_msg_collective* msg, struct fi_ioc* resultv, void** result_desc,
                 size_t result_count, uint64_t flags);
  ssize_t (*barrier2)(struct fid_ep* ep, fi_addr_t coll_addr, uint64_t flags, void* context);
};

#ifdef FABRIC_DIRECT
#include <rdma/fi_direct_collective.h>
#endif

#ifndef FABRIC_DIRECT_COLLECTIVE

// Opens an ordered set of addresses of `av`: every `stride`-th of start_addr..end_addr (both
// included; FI_AV_TABLE only), all with FI_UNIVERSE, none when both ends are FI_ADDR_NOTAVAIL. A
// local operation. Free the set with fi_close. -FI_ENOSYS if the AV has no sets. fi_av_set(3).
static inline int fi_av_set(struct fid_av* av, struct fi_av_set_attr* attr, struct fid_av_set** set, void* context) {
  if (!FI_CHECK_OP(av->ops, struct fi_ops_av, av_set)) return -FI_ENOSYS;
  return av->ops->av_set(av, attr, set, context);
}

// dst becomes the union, intersection or difference of dst and src; both belong to one AV.
static inline int fi_av_set_union(struct fid_av_set* dst, const struct fid_av_set* src) {
  return dst->ops->set_union(dst, src);
}

static inline int fi_av_set_intersect(struct fid_av_set* dst, const struct fid_av_set* src) {
  return dst->ops->intersect(dst, src);
}

static inline int fi_av_set_diff(struct fid_av_set* dst, const struct fid_av_set* src) {
  return dst->ops->diff(dst, src);
}

// Appends or removes one member; the order of the others stays.
static inline int fi_av_set_insert(struct fid_av_set* set, fi_addr_t addr) {
  return set->ops->insert(set, addr);
}

static inline int fi_av_set_remove(struct fid_av_set* set, fi_addr_t addr) {
  return set->ops->remove(set, addr);
}

// An address for the set's current members, an argument of fi_join_collective.
static inline int fi_av_set_addr(struct fid_av_set* set, fi_addr_t* coll_addr) {
  return set->ops->addr(set, coll_addr);
}

// Joins the group that `set` names; every member must. Asynchronous: FI_JOIN_COMPLETE on the EQ
// carries *mc, whose fi_mc_addr is the coll_addr of the calls below; fi_close(mc) leaves.
// `coll_addr` is the set's address or a group's to split, FI_ADDR_NOTAVAIL if the application
// manages membership. -FI_ENOSYS if the endpoint cannot join. fi_collective(3) "Join Collective".
static inline int fi_join_collective(struct fid_ep* ep, fi_addr_t coll_addr, const struct fid_av_set* set,
                                     uint64_t flags, struct fid_mc** mc, void* context) {
  struct fi_collective_addr address;
  address.set = set;
  address.coll_addr = coll_addr;
  return fi_join(ep, &address, flags | FI_COLLECTIVE, mc, context);
}

// Completes once every member has called it. "fi_barrier".
static inline ssize_t fi_barrier(struct fid_ep* ep, fi_addr_t coll_addr, void* context) {
  return ep->collective->barrier(ep, coll_addr, context);
}

// fi_barrier with operation flags; -FI_ENOSYS if flags are given that the provider cannot take.
static inline ssize_t fi_barrier2(struct fid_ep* ep, fi_addr_t coll_addr, uint64_t flags, void* context) {
  if (!flags) return fi_barrier(ep, coll_addr, context);
  if (!FI_CHECK_OP(ep->collective, struct fi_ops_collective, barrier2)) return -FI_ENOSYS;
  return ep->collective->barrier2(ep, coll_addr, flags, context);
}

// The root's `count` elements reach every member's `buf`. "fi_broadcast".
static inline ssize_t fi_broadcast(struct fid_ep* ep, void* buf, size_t count, void* desc, fi_addr_t coll_addr,
                                   fi_addr_t root_addr, enum fi_datatype datatype, uint64_t flags, void* context) {
  return ep->collective->broadcast(ep, buf, count, desc, coll_addr, root_addr, datatype, flags, context);
}

// Each member sends a different share of its `buf` to each other member, and collects theirs in
// `result` in member order. "fi_alltoall".
static inline ssize_t fi_alltoall(struct fid_ep* ep, const void* buf, size_t count, void* desc, void* result,
                                  void* result_desc, fi_addr_t coll_addr, enum fi_datatype datatype, uint64_t flags,
                                  void* context) {
  return ep->collective->alltoall(ep, buf, count, desc, result, result_desc, coll_addr, datatype, flags, context);
}

// Every member's `result` gets op over all members' `buf`, element by element. "fi_allreduce".
static inline ssize_t fi_allreduce(struct fid_ep* ep, const void* buf, size_t count, void* desc, void* result,
                                   void* result_desc, fi_addr_t coll_addr, enum fi_datatype datatype, enum fi_op op,
                                   uint64_t flags, void* context) {
  return ep->collective->allreduce(ep, buf, count, desc, result, result_desc, coll_addr, datatype, op, flags, context);
}

// Every member's `result` gets the `buf` of each member, in member order.
// "fi_allgather".
static inline ssize_t fi_allgather(struct fid_ep* ep, const void* buf, size_t count, void* desc, void* result,
                                   void* result_desc, fi_addr_t coll_addr, enum fi_datatype datatype, uint64_t flags,
                                   void* context) {
  return ep->collective->allgather(ep, buf, count, desc, result, result_desc, coll_addr, datatype, flags, context);
}

// Reduces as fi_allreduce, then member i keeps only the i-th share. "fi_reduce_scatter".
static inline ssize_t fi_reduce_scatter(struct fid_ep* ep, const void* buf, size_t count, void* desc, void* result,
                                        void* result_desc, fi_addr_t coll_addr, enum fi_datatype datatype,
                                        enum fi_op op, uint64_t flags, void* context) {
  return ep->collective->reduce_scatter(ep, buf, count, desc, result, result_desc, coll_addr, datatype, op, flags,
                                        context);
}

// Reduces as fi_allreduce, but only the root gets the result. "fi_reduce".
static inline ssize_t fi_reduce(struct fid_ep* ep, const void* buf, size_t count, void* desc, void* result,
                                void* result_desc, fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype,
                                enum fi_op op, uint64_t flags, void* context) {
  return ep->collective->reduce(ep, buf, count, desc, result, result_desc, coll_addr, root_addr, datatype, op, flags,
                                context);
}

// Equal shares of the root's `buf` reach the members' `result`. "fi_scatter".
static inline ssize_t fi_scatter(struct fid_ep* ep, const void* buf, size_t count, void* desc, void* result,
                                 void* result_desc, fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype,
                                 uint64_t flags, void* context) {
  return ep->collective->scatter(ep, buf, count, desc, result, result_desc, coll_addr, root_addr, datatype, flags,
                                 context);
}

// The root's `result` collects every member's `buf`, in member order. "fi_gather".
static inline ssize_t fi_gather(struct fid_ep* ep, const void* buf, size_t count, void* desc, void* result,
                                void* result_desc, fi_addr_t coll_addr, fi_addr_t root_addr, enum fi_datatype datatype,
                                uint64_t flags, void* context) {
  return ep->collective->gather(ep, buf, count, desc, result, result_desc, coll_addr, root_addr, datatype, flags,
                                context);
}

// Queries the domain for this collective with attr->op and attr->datatype: 0 and *attr filled,
// -FI_EOPNOTSUPP if unsupported, -FI_ENOSYS if the domain has no collectives. `flags` is 0, or
// FI_SCATTER to query reduce-scatter. "fi_query_collective".
static inline int fi_query_collective(struct fid_domain* domain, enum fi_collective_op coll,
                                      struct fi_collective_attr* attr, uint64_t flags) {
  if (!FI_CHECK_OP(domain->ops, struct fi_ops_domain, query_collective)) return -FI_ENOSYS;
  return domain->ops->query_collective(domain, coll, attr, flags);
}

#endif  // FABRIC_DIRECT_COLLECTIVE

#ifdef __cplusplus
}
#endif

#endif  // FI_COLLECTIVE_H
