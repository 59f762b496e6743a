// SPDX-License-Identifier: BSD-2-Clause
//
// Event queues, completion queues, counters, wait and poll sets. Governed by kfi_eq(3), and by fi_eq(3), fi_cq(3),
// fi_cntr(3) and fi_poll(3) for what kfi_eq(3) leaves out.
#ifndef KFI_EQ_H
#define KFI_EQ_H

#include "kfabric.h"

#ifdef __cplusplus
extern "C" {
#endif

// KFI_WAIT_NONE does not exclude kfi_eq_sread and kfi_cq_sread.
enum kfi_wait_obj {
  KFI_WAIT_NONE,
  KFI_WAIT_UNSPEC,
  KFI_WAIT_SET,
#if KFI_API < 0x10007
  KFI_WAIT_FD,
  KFI_WAIT_MUTEX_COND
#else
  KFI_WAIT_QUEUE
#endif
};

struct kfi_wait_attr {
  enum kfi_wait_obj wait_obj;
  uint64_t flags;  // 0 or a unit of time
};

struct kfi_ops_wait {
  size_t size;
  int (*wait)(struct kfid_wait* waitset, int timeout);
};

struct kfid_wait {
#if KFI_API < 0x10007
  struct kfid fid;
#else
  struct kfid kfid;
#endif
  struct kfi_ops_wait* ops;
};

struct kfi_poll_attr {
  uint64_t flags;
};

struct kfi_ops_poll {
  size_t size;
  int (*poll)(struct kfid_poll* pollset, void** context, int count);
  int (*poll_add)(struct kfid_poll* pollset, struct kfid* event_fid, uint64_t flags);
  int (*poll_del)(struct kfid_poll* pollset, struct kfid* event_fid, uint64_t flags);
};

struct kfid_poll {
  struct kfid fid;
  struct kfi_ops_poll* ops;
};

// ---- Event queue ----------------------------------------------------------------------------------------------------

struct kfi_eq_attr {
  size_t size;
  uint64_t flags;  // KFI_WRITE, KFI_AFFINITY
  enum kfi_wait_obj wait_obj;
  int signaling_vector;  // a hint
  struct kfid_wait* wait_set;
};

enum {
  KFI_NOTIFY,
  KFI_CONNREQ,
  KFI_CONNECTED,
  KFI_SHUTDOWN,
  KFI_MR_COMPLETE,
  KFI_AV_COMPLETE,
#if KFI_API >= 0x10007
  KFI_JOIN_COMPLETE
#endif
};

struct kfi_eq_entry {
  kfid_t fid;
  void* context;
  uint64_t data;
};

#if KFI_API >= 0x10007
struct kfi_eq_err_entry {
  kfid_t fid;
  void* context;
  uint64_t data;
  int err;
  int prov_errno;
  void* err_data;
  size_t err_data_size;
};
#endif

#ifdef __clang__
#pragma clang diagnostic push
#pragma clang diagnostic ignored "-Wc99-extensions"
#endif
struct kfi_eq_cm_entry {
  kfid_t fid;
  struct kfi_info* info;         // KFI_CONNREQ only: release with kfi_freeinfo
  __extension__ uint8_t data[];  // the peer's private data: what the read returned beyond this structure
};
#ifdef __clang__
#pragma clang diagnostic pop
#endif

struct kfi_ops_eq {
  size_t size;
  ssize_t (*read)(struct kfid_eq* eq, uint32_t* event, void* buf, size_t len, uint64_t flags);
  ssize_t (*readerr)(struct kfid_eq* eq, struct kfi_eq_err_entry* buf, uint64_t flags);
  ssize_t (*write)(struct kfid_eq* eq, uint32_t event, const void* buf, size_t len, uint64_t flags);
  ssize_t (*sread)(struct kfid_eq* eq, uint32_t* event, void* buf, size_t len, int timeout, uint64_t flags);
  const char* (*strerror)(struct kfid_eq* eq, int prov_errno, const void* err_data, char* buf, size_t len);
};

struct kfid_eq {
  struct kfid fid;
  struct kfi_ops_eq* ops;
#if KFI_API >= 0x10007
  kfi_event_handler event_handler;
#endif
};

// ---- Completion queue -----------------------------------------------------------------------------------------------

enum kfi_cq_format {
  KFI_CQ_FORMAT_UNSPEC,
  KFI_CQ_FORMAT_CONTEXT,
  KFI_CQ_FORMAT_MSG,
  KFI_CQ_FORMAT_DATA,
  KFI_CQ_FORMAT_TAGGED
};

struct kfi_cq_entry {
  void* op_context;
};

struct kfi_cq_msg_entry {
  void* op_context;
  uint64_t flags;
  size_t len;
};

struct kfi_cq_data_entry {
  void* op_context;
  uint64_t flags;
  size_t len;
  void* buf;
  uint64_t data;
};

struct kfi_cq_tagged_entry {
  void* op_context;
  uint64_t flags;
  size_t len;
  void* buf;
  uint64_t data;
  uint64_t tag;
};

#if KFI_API >= 0x10007
struct kfi_cq_err_entry {
  void* op_context;
  uint64_t flags;
  size_t len;
  void* buf;
  uint64_t data;
  uint64_t tag;
  size_t olen;
  int err;
  int prov_errno;
  void* err_data;
  size_t err_data_size;
};
#endif

enum kfi_cq_wait_cond { KFI_CQ_COND_NONE, KFI_CQ_COND_THRESHOLD };

struct kfi_cq_attr {
  size_t size;
  uint64_t flags;  // KFI_AFFINITY, a unit of time
  enum kfi_cq_format format;
  enum kfi_wait_obj wait_obj;
  int signaling_vector;
  enum kfi_cq_wait_cond wait_cond;
  struct kfid_wait* wait_set;
};

struct kfi_ops_cq {
  size_t size;
  ssize_t (*read)(struct kfid_cq* cq, void* buf, size_t count);
  ssize_t (*readfrom)(struct kfid_cq* cq, void* buf, size_t count, kfi_addr_t* src_addr);
  ssize_t (*readerr)(struct kfid_cq* cq, struct kfi_cq_err_entry* buf, uint64_t flags);
  ssize_t (*sread)(struct kfid_cq* cq, void* buf, size_t count, const void* cond, int timeout);
  ssize_t (*sreadfrom)(struct kfid_cq* cq, void* buf, size_t count, kfi_addr_t* src_addr, const void* cond,
                       int timeout);
  int (*signal)(struct kfid_cq* cq);
  const char* (*strerror)(struct kfid_cq* cq, int prov_errno, const void* err_data, char* buf, size_t len);
};

struct kfid_cq {
  struct kfid fid;
  struct kfi_ops_cq* ops;
#if KFI_API >= 0x10007
  kfi_comp_handler comp_handler;
#endif
};

// ---- Counter --------------------------------------------------------------------------------------------------------

enum kfi_cntr_events { KFI_CNTR_EVENTS_COMP };

struct kfi_cntr_attr {
  enum kfi_cntr_events events;
  enum kfi_wait_obj wait_obj;
  struct kfid_wait* wait_set;
  uint64_t flags;  // 0 or a unit of time
};

struct kfi_ops_cntr {
  size_t size;
  uint64_t (*read)(struct kfid_cntr* cntr);
  uint64_t (*readerr)(struct kfid_cntr* cntr);
  int (*add)(struct kfid_cntr* cntr, uint64_t value);
  int (*set)(struct kfid_cntr* cntr, uint64_t value);
  int (*wait)(struct kfid_cntr* cntr, uint64_t threshold, int timeout);
  int (*adderr)(struct kfid_cntr* cntr, uint64_t value);
  int (*seterr)(struct kfid_cntr* cntr, uint64_t value);
};

struct kfid_cntr {
  struct kfid fid;
  struct kfi_ops_cntr* ops;
};

// ---- Calls ----------------------------------------------------------------------------------------------------------

static inline int kfi_wait(struct kfid_wait* waitset, int timeout) {
  return waitset->ops->wait(waitset, timeout);
}

static inline int kfi_poll(struct kfid_poll* pollset, void** context, int count) {
  return pollset->ops->poll(pollset, context, count);
}

static inline int kfi_poll_add(struct kfid_poll* pollset, struct kfid* event_fid, uint64_t flags) {
  return pollset->ops->poll_add(pollset, event_fid, flags);
}

static inline int kfi_poll_del(struct kfid_poll* pollset, struct kfid* event_fid, uint64_t flags) {
  return pollset->ops->poll_del(pollset, event_fid, flags);
}

#if KFI_API < 0x10007
static inline int kfi_eq_open(struct kfid_fabric* fabric, struct kfi_eq_attr* attr, struct kfid_eq** eq,
                              void* context) {
  return fabric->ops->eq_open(fabric, attr, eq, NULL, context);
}
#else
static inline int kfi_eq_open(struct kfid_fabric* fabric, struct kfi_eq_attr* attr, struct kfid_eq** eq,
                              kfi_event_handler event_handler, void* context) {
  return fabric->ops->eq_open(fabric, attr, eq, event_handler, context);
}
#endif

static inline int kfi_wait_open(struct kfid_fabric* fabric, struct kfi_wait_attr* attr, struct kfid_wait** waitset) {
  return fabric->ops->wait_open(fabric, attr, waitset);
}

static inline ssize_t kfi_eq_read(struct kfid_eq* eq, uint32_t* event, void* buf, size_t len, uint64_t flags) {
  return eq->ops->read(eq, event, buf, len, flags);
}

static inline ssize_t kfi_eq_readerr(struct kfid_eq* eq, struct kfi_eq_err_entry* buf, uint64_t flags) {
  return eq->ops->readerr(eq, buf, flags);
}

static inline ssize_t kfi_eq_write(struct kfid_eq* eq, uint32_t event, const void* buf, size_t len, uint64_t flags) {
  return eq->ops->write(eq, event, buf, len, flags);
}

// kfi_eq_sread: flags KFI_PEEK, and KFI_TIME_US or KFI_TIME_MS for the unit of `timeout`.
static inline ssize_t kfi_eq_sread(struct kfid_eq* eq, uint32_t* event, void* buf, size_t len, int timeout,
                                   uint64_t flags) {
  return eq->ops->sread(eq, event, buf, len, timeout, flags);
}

static inline const char* kfi_eq_strerror(struct kfid_eq* eq, int prov_errno, const void* err_data, char* buf,
                                          size_t len) {
  return eq->ops->strerror(eq, prov_errno, err_data, buf, len);
}

static inline ssize_t kfi_cq_read(struct kfid_cq* cq, void* buf, size_t count) {
  return cq->ops->read(cq, buf, count);
}

static inline ssize_t kfi_cq_readfrom(struct kfid_cq* cq, void* buf, size_t count, kfi_addr_t* src_addr) {
  return cq->ops->readfrom(cq, buf, count, src_addr);
}

static inline ssize_t kfi_cq_readerr(struct kfid_cq* cq, struct kfi_cq_err_entry* buf, uint64_t flags) {
  return cq->ops->readerr(cq, buf, flags);
}

static inline ssize_t kfi_cq_sread(struct kfid_cq* cq, void* buf, size_t count, const void* cond, int timeout) {
  return cq->ops->sread(cq, buf, count, cond, timeout);
}

static inline ssize_t kfi_cq_sreadfrom(struct kfid_cq* cq, void* buf, size_t count, kfi_addr_t* src_addr,
                                       const void* cond, int timeout) {
  return cq->ops->sreadfrom(cq, buf, count, src_addr, cond, timeout);
}

static inline int kfi_cq_signal(struct kfid_cq* cq) {
  return cq->ops->signal(cq);
}

static inline const char* kfi_cq_strerror(struct kfid_cq* cq, int prov_errno, const void* err_data, char* buf,
                                          size_t len) {
  return cq->ops->strerror(cq, prov_errno, err_data, buf, len);
}

#if KFI_API < 0x10007
// No provider lets a program write completions.
static inline ssize_t kfi_cq_write(struct kfid_cq* cq, const void* buf, size_t len) {
  (void)cq, (void)buf, (void)len;
  return -KFI_ENOSYS;
}

static inline ssize_t kfi_cq_writeerr(struct kfid_cq* cq, struct kfi_cq_err_entry* buf, size_t len, uint64_t flags) {
  (void)cq, (void)buf, (void)len, (void)flags;
  return -KFI_ENOSYS;
}
#endif

static inline uint64_t kfi_cntr_read(struct kfid_cntr* cntr) {
  return cntr->ops->read(cntr);
}
static inline uint64_t kfi_cntr_readerr(struct kfid_cntr* cntr) {
  return cntr->ops->readerr(cntr);
}
static inline int kfi_cntr_add(struct kfid_cntr* cntr, uint64_t value) {
  return cntr->ops->add(cntr, value);
}
static inline int kfi_cntr_set(struct kfid_cntr* cntr, uint64_t value) {
  return cntr->ops->set(cntr, value);
}
static inline int kfi_cntr_adderr(struct kfid_cntr* cntr, uint64_t value) {
  return cntr->ops->adderr(cntr, value);
}
static inline int kfi_cntr_seterr(struct kfid_cntr* cntr, uint64_t value) {
  return cntr->ops->seterr(cntr, value);
}

static inline int kfi_cntr_wait(struct kfid_cntr* cntr, uint64_t threshold, int timeout) {
  return cntr->ops->wait(cntr, threshold, timeout);
}

#ifdef __cplusplus
}
#endif

#endif  // KFI_EQ_H
