// SPDX-License-Identifier: BSD-2-Clause
//
// Queues for asynchronous results: event queues (control events), completion queues (transfers),
// counters, and the wait and poll sets over them. Governed by fi_eq(3), fi_cq(3), fi_cntr(3) and
// fi_poll(3).
//
// Only the calls named sread or wait block; -FI_EAGAIN means that nothing has arrived yet.
// Under FI_PROGRESS_MANUAL each of these calls also drives progress.

#ifndef FI_EQ_H
#define FI_EQ_H

#include <poll.h>
#include <pthread.h>
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#ifdef __cplusplus
extern "C" {
#endif

// ---- Waiting: fi_poll(3); wait_obj in fi_eq(3), fi_cq(3), fi_cntr(3) ------------------------

// The wait object of a queue or counter. fi_control(fid, FI_GETWAIT, arg) returns it; the queue
// keeps owning it.
enum fi_wait_obj {
  FI_WAIT_NONE,        // for polling; sread and wait work, but occupy a processor. The default
  FI_WAIT_UNSPEC,      // only through sread and wait
  FI_WAIT_SET,         // deprecated: through the wait set in `wait_set`
  FI_WAIT_FD,          // arg: int *, for poll, epoll or select; see fi_trywait
  FI_WAIT_MUTEX_COND,  // deprecated; arg: struct fi_mutex_cond *
  FI_WAIT_YIELD,       // sread and wait spin, yielding the processor
  FI_WAIT_POLLFD,      // arg: struct fi_wait_pollfd *
};

// fi_wait_open attributes. Deprecated.
struct fi_wait_attr {
  enum fi_wait_obj wait_obj;  // the set's own wait object: any but NONE and SET
  uint64_t flags;             // 0
};

struct fi_ops_wait {
  size_t size;
  int (*wait)(struct fid_wait* waitset, int timeout);
};

// Wait set: many queues and counters, one wait. Outlives what was opened on it (-FI_EBUSY).
// Deprecated.
struct fid_wait {
  struct fid fid;
  struct fi_ops_wait* ops;
};

// FI_WAIT_MUTEX_COND: lock, check, pthread_cond_wait.
struct fi_mutex_cond {
  pthread_mutex_t* mutex;
  pthread_cond_t* cond;
};

// FI_WAIT_POLLFD. nfds: in, room at fd in entries; out, number of entries. -FI_ETOOSMALL when they
// do not fit. After a change of change_index the descriptors must be fetched again.
struct fi_wait_pollfd {
  uint64_t change_index;
  size_t nfds;
  struct pollfd* fd;
};

// fi_poll_open attributes. Deprecated.
struct fi_poll_attr {
  uint64_t flags;  // 0
};

struct fi_ops_poll {
  size_t size;
  int (*poll)(struct fid_poll* pollset, void** context, int count);
  int (*poll_add)(struct fid_poll* pollset, struct fid* event_fid, uint64_t flags);
  int (*poll_del)(struct fid_poll* pollset, struct fid* event_fid, uint64_t flags);
};

// Poll set: polls many queues and counters at once. Deprecated.
struct fid_poll {
  struct fid fid;
  struct fi_ops_poll* ops;
};

// ---- Event queue: fi_eq(3) ------------------------------------------------------------------

struct fi_eq_attr {
  size_t size;     // least capacity in events; 0: provider's choice
  uint64_t flags;  // FI_WRITE: allow fi_eq_write; FI_AFFINITY: vector valid
  enum fi_wait_obj wait_obj;
  int signaling_vector;       // with FI_AFFINITY: logical CPU for interrupts, a hint
  struct fid_wait* wait_set;  // with FI_WAIT_SET
};

// Event numbers and the entry of each.
enum {
  FI_NOTIFY,         // fi_eq_entry: provider-specific notice
  FI_CONNREQ,        // fi_eq_cm_entry: fid is the passive endpoint, info is the caller's to free
  FI_CONNECTED,      // fi_eq_cm_entry: fid is the endpoint; connecting side: data of fi_accept
  FI_SHUTDOWN,       // fi_eq_cm_entry: fid is the endpoint; its last event
  FI_MR_COMPLETE,    // fi_eq_entry: fid is the memory region
  FI_AV_COMPLETE,    // fi_eq_entry: fid is the AV, context that of the insert, data the number of
                     // addresses added; last event of the insert
  FI_JOIN_COMPLETE,  // fi_eq_entry: fid is the multicast group, context that of fi_join
};

struct fi_eq_entry {
  fid_t fid;
  void* context;
  uint64_t data;
};

// Failure of an asynchronous control operation, from fi_eq_readerr. data: for a failed AV insert,
// the index of the address.
// err_data / err_data_size: with room given (size > 0) the library copies up to that many bytes
// there and stores the size; with size 0 it points err_data to its own bytes, valid until the EQ is
// read again. For a rejected connection they are the peer's data of fi_reject.
struct fi_eq_err_entry {
  fid_t fid;
  void* context;
  uint64_t data;
  int err;         // positive FI_E...
  int prov_errno;  // for fi_eq_strerror
  void* err_data;
  size_t err_data_size;  // bytes
};

// Connection event. The bytes read beyond sizeof(struct fi_eq_cm_entry) are the peer's data, cut to
// the read buffer. (data[] is an extension in C++.)
#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wc99-extensions"
#endif
struct fi_eq_cm_entry {
  fid_t fid;
  struct fi_info* info;  // FI_CONNREQ only: release with fi_freeinfo
  __extension__ uint8_t data[];
};
#ifdef __clang__
#pragma clang diagnostic pop
#endif

struct fi_ops_eq {
  size_t size;
  ssize_t (*read)(struct fid_eq* eq, uint32_t* event, void* buf, size_t len, uint64_t flags);
  ssize_t (*readerr)(struct fid_eq* eq, struct fi_eq_err_entry* buf, uint64_t flags);
  ssize_t (*write)(struct fid_eq* eq, uint32_t event, const void* buf, size_t len, uint64_t flags);
  ssize_t (*sread)(struct fid_eq* eq, uint32_t* event, void* buf, size_t len, int timeout, uint64_t flags);
  const char* (*strerror)(struct fid_eq* eq, int prov_errno, const void* err_data, char* buf, size_t len);
};

struct fid_eq {
  struct fid fid;
  struct fi_ops_eq* ops;
};

// ---- Completion queue: fi_cq(3) -------------------------------------------------------------

// The structure that fi_cq_read fills; each extends the one before.
enum fi_cq_format {
  FI_CQ_FORMAT_UNSPEC,  // FI_CQ_FORMAT_CONTEXT
  FI_CQ_FORMAT_CONTEXT,
  FI_CQ_FORMAT_MSG,
  FI_CQ_FORMAT_DATA,
  FI_CQ_FORMAT_TAGGED,
};

struct fi_cq_entry {
  void* op_context;  // `context` of the operation
};

struct fi_cq_msg_entry {
  void* op_context;
  uint64_t flags;  // FI_SEND, FI_RECV, FI_MSG, FI_TAGGED, FI_RMA ...
  size_t len;      // bytes placed in the receive buffer; receives only
};

struct fi_cq_data_entry {
  void* op_context;
  uint64_t flags;
  size_t len;
  void* buf;      // receives with FI_MULTI_RECV: where this message starts
  uint64_t data;  // the sender's CQ data, when flags has FI_REMOTE_CQ_DATA
};

struct fi_cq_tagged_entry {
  void* op_context;
  uint64_t flags;
  size_t len;
  void* buf;
  uint64_t data;
  uint64_t tag;  // tag the sender gave
};

// Failed transfer, from fi_cq_readerr; written for every failure, even where success writes none.
// err_data / err_data_size work as in fi_eq_err_entry. With FI_SOURCE_ERR, err FI_EADDRNOTAVAIL is a
// message that did arrive, from a sender not in the AV: err_data holds its address.
// How much is written follows the api_version of the fabric: below 1.5 up to and including
// err_data, below 1.20 all but src_addr.
struct fi_cq_err_entry {
  void* op_context;
  uint64_t flags;
  size_t len;
  void* buf;
  uint64_t data;
  uint64_t tag;
  size_t olen;     // FI_ETRUNC: bytes that did not fit
  int err;         // positive FI_E...; FI_ECANCELED after fi_cancel
  int prov_errno;  // for fi_cq_strerror
  void* err_data;
  size_t err_data_size;  // bytes; since 1.5
  fi_addr_t src_addr;    // since 1.20; FI_EADDRNOTAVAIL: handle of the sender's authorisation key
};

enum fi_cq_wait_cond {
  FI_CQ_COND_NONE,
  FI_CQ_COND_THRESHOLD  // `cond` of sread is a number of entries, cast to a pointer
};

struct fi_cq_attr {
  size_t size;     // least capacity in entries; 0: provider's choice
  uint64_t flags;  // FI_AFFINITY: vector valid; FI_XPU: context valid
  enum fi_cq_format format;
  enum fi_wait_obj wait_obj;
  int signaling_vector;            // as in fi_eq_attr
  enum fi_cq_wait_cond wait_cond;  // optimisation: sread may return before it holds
  struct fid_wait* wait_set;       // with FI_WAIT_SET
  struct fid_xpu_ctx* xpu_ctx;     // since 2.7; read only with FI_XPU in flags
};

struct fi_ops_cq {
  size_t size;
  ssize_t (*read)(struct fid_cq* cq, void* buf, size_t count);
  ssize_t (*readfrom)(struct fid_cq* cq, void* buf, size_t count, fi_addr_t* src_addr);
  ssize_t (*readerr)(struct fid_cq* cq, struct fi_cq_err_entry* buf, uint64_t flags);
  ssize_t (*sread)(struct fid_cq* cq, void* buf, size_t count, const void* cond, int timeout);
  ssize_t (*sreadfrom)(struct fid_cq* cq, void* buf, size_t count, fi_addr_t* src_addr, const void* cond, int timeout);
  int (*signal)(struct fid_cq* cq);
  const char* (*strerror)(struct fid_cq* cq, int prov_errno, const void* err_data, char* buf, size_t len);
  int (*export_xpu)(struct fid_cq* cq, uint64_t flags, struct fid_xpu_cq* xpu_cq);
};

struct fid_cq {
  struct fid fid;
  struct fi_ops_cq* ops;
};

// ---- Counter: fi_cntr(3) --------------------------------------------------------------------

enum fi_cntr_events {
  FI_CNTR_EVENTS_COMP,  // counts completions
  FI_CNTR_EVENTS_BYTES  // counts bytes transferred; errors still count as one each
};

struct fi_cntr_attr {
  enum fi_cntr_events events;
  enum fi_wait_obj wait_obj;
  struct fid_wait* wait_set;    // with FI_WAIT_SET
  uint64_t flags;               // 0 or FI_XPU
  struct fid_xpu_ctx* xpu_ctx;  // since 2.7; read only with FI_XPU in flags
};

struct fi_ops_cntr {
  size_t size;
  uint64_t (*read)(struct fid_cntr* cntr);
  uint64_t (*readerr)(struct fid_cntr* cntr);
  int (*add)(struct fid_cntr* cntr, uint64_t value);
  int (*set)(struct fid_cntr* cntr, uint64_t value);
  int (*wait)(struct fid_cntr* cntr, uint64_t threshold, int timeout);
  int (*adderr)(struct fid_cntr* cntr, uint64_t value);
  int (*seterr)(struct fid_cntr* cntr, uint64_t value);
  int (*export_xpu)(struct fid_cntr* cntr, uint64_t flags, struct fid_xpu_cntr* xpu_cntr);
};

// Two 64-bit values: successes and errors.
struct fid_cntr {
  struct fid fid;
  struct fi_ops_cntr* ops;
};

// ---- Calls: waiting -------------------------------------------------------------------------

// fi_trywait: test whether it is safe to block in the system (poll, epoll, select) on the wait
// objects of `count` queues, counters or wait sets of this fabric; fi_poll(3). Call it before every
// block. FI_SUCCESS: block now. -FI_EAGAIN: an entry is available, read it first.
// -FI_EINVAL: a fid cannot be waited for.
static inline int fi_trywait(struct fid_fabric* fabric, struct fid** fids, int count) {
  return fabric->ops->trywait(fabric, fids, count);
}

// fi_wait: block until a member of the set has an entry. -FI_ETIMEDOUT. Deprecated.
static inline int fi_wait(struct fid_wait* waitset, int timeout) {
  return waitset->ops->wait(waitset, timeout);
}

// fi_poll: progress all members, then return the contexts of up to `count` members that may have
// changed: a CQ that is not empty, a counter that changed since it was last polled or set. Returns
// their number. Deprecated.
static inline int fi_poll(struct fid_poll* pollset, void** context, int count) {
  return pollset->ops->poll(pollset, context, count);
}

// fi_poll_add / fi_poll_del: change the members of a poll set (CQs and counters); flags 0.
// Deprecated.
static inline int fi_poll_add(struct fid_poll* pollset, struct fid* event_fid, uint64_t flags) {
  return pollset->ops->poll_add(pollset, event_fid, flags);
}

static inline int fi_poll_del(struct fid_poll* pollset, struct fid* event_fid, uint64_t flags) {
  return pollset->ops->poll_del(pollset, event_fid, flags);
}

// ---- Calls: event queue, fi_eq(3) -----------------------------------------------------------

// fi_eq_open: event queue of a fabric. Closed after all objects bound to it. -FI_EINVAL without attr,
// or for an unknown wait object; -FI_EBADFLAGS; -FI_ENOMEM.
static inline int fi_eq_open(struct fid_fabric* fabric, struct fi_eq_attr* attr, struct fid_eq** eq, void* context) {
  return fabric->ops->eq_open(fabric, attr, eq, context);
}

// fi_eq_read: next event.
//   event  receives the event number.
//   buf    room of `len` bytes for the entry of that event.
//   flags  0 or FI_PEEK to leave the event in the queue.
// Returns the bytes written. -FI_EAGAIN no event; -FI_EAVAIL an error entry is next;
// -FI_ETOOSMALL buf cannot hold the fixed part, the event is kept; -FI_EOVERRUN events were lost.
static inline ssize_t fi_eq_read(struct fid_eq* eq, uint32_t* event, void* buf, size_t len, uint64_t flags) {
  return eq->ops->read(eq, event, buf, len, flags);
}

// fi_eq_readerr: next error entry; set err_data and err_data_size before the call. flags 0 or
// FI_PEEK. Returns the bytes written; -FI_EAGAIN without an error entry.
static inline ssize_t fi_eq_readerr(struct fid_eq* eq, struct fi_eq_err_entry* buf, uint64_t flags) {
  return eq->ops->readerr(eq, buf, flags);
}

// fi_eq_write: queue an event of the application and wake a waiter. Returns len. -FI_EINVAL unless
// the EQ was opened with FI_WRITE; -FI_EAGAIN full. flags 0.
static inline ssize_t fi_eq_write(struct fid_eq* eq, uint32_t event, const void* buf, size_t len, uint64_t flags) {
  return eq->ops->write(eq, event, buf, len, flags);
}

// fi_eq_sread: fi_eq_read that waits up to `timeout` ms. -FI_EAGAIN after the time-out. Not for
// EQs of FI_WAIT_SET (-FI_ENOSYS).
static inline ssize_t fi_eq_sread(struct fid_eq* eq, uint32_t* event, void* buf, size_t len, int timeout,
                                  uint64_t flags) {
  return eq->ops->sread(eq, event, buf, len, timeout, flags);
}

// fi_eq_strerror: text for prov_errno and err_data of an error entry. Also copied to buf (len
// bytes, cut to fit) unless buf is NULL. Returns buf or a string of the library.
static inline const char* fi_eq_strerror(struct fid_eq* eq, int prov_errno, const void* err_data, char* buf,
                                         size_t len) {
  return eq->ops->strerror(eq, prov_errno, err_data, buf, len);
}

// ---- Calls: completion queue, fi_cq(3) (fi_cq_open is in fi_domain.h) -----------------------

// fi_cq_read: up to `count` completions, oldest first, into an array of the CQ's format.
// Returns their number, at least 1. -FI_EAGAIN no entry; -FI_EAVAIL an error entry is next: read
// it with fi_cq_readerr. count 0 only drives progress.
static inline ssize_t fi_cq_read(struct fid_cq* cq, void* buf, size_t count) {
  return cq->ops->read(cq, buf, count);
}

// fi_cq_readfrom: also fills src_addr[count] with the senders of receives; FI_ADDR_NOTAVAIL where
// unknown, or without FI_SOURCE.
static inline ssize_t fi_cq_readfrom(struct fid_cq* cq, void* buf, size_t count, fi_addr_t* src_addr) {
  return cq->ops->readfrom(cq, buf, count, src_addr);
}

// fi_cq_readerr: next error entry; set err_data and err_data_size before the call. Returns 1;
// -FI_EAGAIN without an error entry. flags 0. Stores FI_ADDR_NOTAVAIL in src_addr first, so buf
// must be a whole current fi_cq_err_entry with every API version of the fabric.
static inline ssize_t fi_cq_readerr(struct fid_cq* cq, struct fi_cq_err_entry* buf, uint64_t flags) {
  if (buf) buf->src_addr = FI_ADDR_NOTAVAIL;
  return cq->ops->readerr(cq, buf, flags);
}

// fi_cq_sread: fi_cq_read that waits up to `timeout` ms for one entry or, with FI_CQ_COND_THRESHOLD,
// for as many entries as `cond`, a number cast to a pointer. -FI_EAGAIN after the time-out or
// fi_cq_signal. Not for CQs of FI_WAIT_SET (-FI_ENOSYS).
static inline ssize_t fi_cq_sread(struct fid_cq* cq, void* buf, size_t count, const void* cond, int timeout) {
  return cq->ops->sread(cq, buf, count, cond, timeout);
}

// fi_cq_sreadfrom: fi_cq_readfrom that waits like fi_cq_sread.
static inline ssize_t fi_cq_sreadfrom(struct fid_cq* cq, void* buf, size_t count, fi_addr_t* src_addr, const void* cond,
                                      int timeout) {
  return cq->ops->sreadfrom(cq, buf, count, src_addr, cond, timeout);
}

// fi_cq_signal: make threads blocked in sread return. The CQ needs a wait object (-FI_ENOSYS).
static inline int fi_cq_signal(struct fid_cq* cq) {
  return cq->ops->signal(cq);
}

// fi_cq_export_xpu: the handle with which an accelerator uses this CQ, opened with FI_XPU; fi_xpu(3). -FI_ENOSYS;
// -FI_EINVAL.
static inline int fi_cq_export_xpu(struct fid_cq* cq, uint64_t flags, struct fid_xpu_cq* xpu_cq) {
  return FI_CHECK_OP(cq->ops, struct fi_ops_cq, export_xpu) ? cq->ops->export_xpu(cq, flags, xpu_cq) : -FI_ENOSYS;
}

// fi_cq_strerror: as fi_eq_strerror, for error entries of this CQ.
static inline const char* fi_cq_strerror(struct fid_cq* cq, int prov_errno, const void* err_data, char* buf,
                                         size_t len) {
  return cq->ops->strerror(cq, prov_errno, err_data, buf, len);
}

// ---- Calls: counter, fi_cntr(3) (fi_cntr_open is in fi_domain.h) ----------------------------

// fi_cntr_read / fi_cntr_readerr: number of successes, of failures.
static inline uint64_t fi_cntr_read(struct fid_cntr* cntr) {
  return cntr->ops->read(cntr);
}

static inline uint64_t fi_cntr_readerr(struct fid_cntr* cntr) {
  return cntr->ops->readerr(cntr);
}

// fi_cntr_add / fi_cntr_set: change the success value; reads may show it with a short delay. Set only
// while no operation is under way, or its update may be lost.
static inline int fi_cntr_add(struct fid_cntr* cntr, uint64_t value) {
  return cntr->ops->add(cntr, value);
}

static inline int fi_cntr_set(struct fid_cntr* cntr, uint64_t value) {
  return cntr->ops->set(cntr, value);
}

// fi_cntr_adderr / fi_cntr_seterr: change the error value. -FI_ENOSYS when not supported.
static inline int fi_cntr_adderr(struct fid_cntr* cntr, uint64_t value) {
  return FI_CHECK_OP(cntr->ops, struct fi_ops_cntr, adderr) ? cntr->ops->adderr(cntr, value) : -FI_ENOSYS;
}

static inline int fi_cntr_seterr(struct fid_cntr* cntr, uint64_t value) {
  return FI_CHECK_OP(cntr->ops, struct fi_ops_cntr, seterr) ? cntr->ops->seterr(cntr, value) : -FI_ENOSYS;
}

// fi_cntr_wait: block up to `timeout` ms until successes reach `threshold`. -FI_ETIMEDOUT;
// -FI_EAVAIL the error value changed meanwhile. Not for counters of FI_WAIT_SET
// (-FI_ENOSYS).
static inline int fi_cntr_wait(struct fid_cntr* cntr, uint64_t threshold, int timeout) {
  return cntr->ops->wait(cntr, threshold, timeout);
}

// fi_cntr_export_xpu: as fi_cq_export_xpu, for a counter.
static inline int fi_cntr_export_xpu(struct fid_cntr* cntr, uint64_t flags, struct fid_xpu_cntr* xpu_cntr) {
  return FI_CHECK_OP(cntr->ops, struct fi_ops_cntr, export_xpu) ? cntr->ops->export_xpu(cntr, flags, xpu_cntr)
                                                                : -FI_ENOSYS;
}

#ifdef __cplusplus
}
#endif

#endif  // FI_EQ_H
