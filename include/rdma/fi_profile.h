// SPDX-License-Identifier: BSD-2-Clause
//
// Provider profiling: named variables to read and named events to be called back for, on any fid
// whose provider implements them. Governing page: fi_profile(3).
//
// Identifiers below 65,536 are the predefined ones listed here; a provider's own carry its code
// (FI_PROV_SPECIFIC_*, fi_ext.h) in the upper half.
#ifndef FI_PROFILE_H
#define FI_PROFILE_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>

#ifdef __cplusplus
extern "C" {
#endif

// Predefined variables; FI_UINT64 unless said otherwise.
enum {
  FI_VAR_UNEXP_MSG_CNT,    // messages that arrived before a matching receive
  FI_VAR_UNEXP_MSG_QUEUE,  // these messages, as an array of struct fi_cq_err_entry
  FI_VAR_MSG_QUEUE_CNT,    // receives posted and not yet matched
  FI_VAR_CONNECTION_CNT,   // connections open now
  FI_VAR_CONN_REQUEST,     // connection requests seen
  FI_VAR_CONN_ACCEPT,      // requests accepted
  FI_VAR_CONN_REJECT,      // requests rejected
  FI_VAR_OFI_MEM,          // bytes of memory the library holds
};

// Predefined events; both concern FI_VAR_UNEXP_MSG_CNT.
enum {
  FI_EVENT_UNEXP_MSG_RECVD,
  FI_EVENT_UNEXP_MSG_MATCHED,
};

enum fi_profile_type {
  fi_primitive_type,  // datatype.primitive
  fi_defined_type,    // datatype.defined
};

// Describes one variable or one event.
struct fi_profile_desc {
  uint32_t id;
  enum fi_profile_type datatype_sel;
  union {
    enum fi_datatype primitive;
    enum fi_type defined;
  } datatype;
  uint64_t flags;
  size_t size;  // bytes of the value
  const char* name;
  const char* desc;
};

struct fid_profile;

struct fi_profile_ops {
  size_t size;
  void (*reset)(struct fid_profile* prof_fid, uint64_t flags);
  ssize_t (*query_vars)(struct fid_profile* prof_fid, struct fi_profile_desc* varlist, size_t* count);
  ssize_t (*query_events)(struct fid_profile* prof_fid, struct fi_profile_desc* eventlist, size_t* count);
  ssize_t (*read_var)(struct fid_profile* prof_fid, uint32_t var_id, void* data, size_t* size);
  int (*reg_callback)(struct fid_profile* prof_fid, uint32_t event_id,
                      int (*callback)(struct fid_profile* prof_fid, struct fi_profile_desc* event, void* param,
                                      size_t size, void* context),
                      void* context);
  void (*start_reads)(struct fid_profile* prof_fid, uint64_t flags);
  void (*end_reads)(struct fid_profile* prof_fid, uint64_t flags);
};

struct fid_profile {
  struct fid fid;
  struct fi_profile_ops* ops;
};

// Sets every variable back to zero. fi_profile(3) "fi_profile_reset".
static inline void fi_profile_reset(struct fid_profile* prof_fid, uint64_t flags) {
  prof_fid->ops->reset(prof_fid, flags);
}

// Lists the variables: fills up to *count entries and returns their number, or with varlist NULL
// sets *count to the number of variables. Negative fi_errno on failure. "fi_profile_query_vars"; the
// events below work the same way.
static inline ssize_t fi_profile_query_vars(struct fid_profile* prof_fid, struct fi_profile_desc* varlist,
                                            size_t* count) {
  return prof_fid->ops->query_vars(prof_fid, varlist, count);
}

static inline ssize_t fi_profile_query_events(struct fid_profile* prof_fid, struct fi_profile_desc* eventlist,
                                              size_t* count) {
  return prof_fid->ops->query_events(prof_fid, eventlist, count);
}

// Reads one FI_UINT64 variable: 0 and *data set, or a negative fi_errno. "fi_profile_read_u64".
static inline ssize_t fi_profile_read_u64(struct fid_profile* prof_fid, uint32_t var_id, uint64_t* data) {
  size_t size = sizeof *data;
  ssize_t bytes = prof_fid->ops->read_var(prof_fid, var_id, data, &size);
  return bytes > 0 ? 0 : bytes;
}

// Calls `callback` at each event, from the thread of the event; it must not block and must not
// call the fabric. A second callback for one event replaces the first, NULL removes it.
// "fi_profile_register_callback".
static inline int fi_profile_register_callback(struct fid_profile* prof_fid, uint32_t event_id,
                                               int (*callback)(struct fid_profile* prof_fid,
                                                               struct fi_profile_desc* event, void* param, size_t size,
                                                               void* context),
                                               void* context) {
  return prof_fid->ops->reg_callback(prof_fid, event_id, callback, context);
}

// Between start and end, reads return one frozen set of values. "fi_profile_start_reads".
static inline void fi_profile_start_reads(struct fid_profile* prof_fid, uint64_t flags) {
  prof_fid->ops->start_reads(prof_fid, flags);
}

static inline void fi_profile_end_reads(struct fid_profile* prof_fid, uint64_t flags) {
  prof_fid->ops->end_reads(prof_fid, flags);
}

// Opens the profile of `fid` (an endpoint or a domain): 0, or -FI_ENOSYS without a profile. The
// provider's fi_open_ops("fi_profile_ops") returns the address of its fid_profile's `ops` member,
// not its value. "fi_profile_open".
static inline int fi_profile_open(struct fid* fid, uint64_t flags, struct fid_profile** prof_fid, void* context) {
  void* ops = NULL;
  int error = fi_open_ops(fid, "fi_profile_ops", flags, &ops, context);
  if (!error) *prof_fid = (struct fid_profile*)((char*)ops - offsetof(struct fid_profile, ops));
  return error;
}

// Frees the profile and removes its callbacks. "fi_profile_close".
static inline int fi_profile_close(struct fid_profile* prof_fid) {
  return prof_fid->fid.ops->close(&prof_fid->fid);
}

#ifdef __cplusplus
}
#endif

#endif  // FI_PROFILE_H
