// SPDX-License-Identifier: BSD-2-Clause
//
// Extensions: provider options, export and import of fids, replacement of the core's log and memory
// monitor. Governing pages: fi_provider(3) for fi_open and fi_import, fi_peer(3); fi_endpoint(3)
// "fi_setopt / fi_getopt" for the options.
#ifndef FI_EXT_H
#define FI_EXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>

#include <rdma/fabric.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#ifdef __cplusplus
extern "C" {
#endif

// A provider's own options, controls and profile identifiers are negative: minus its 12-bit code in
// bits 16-27, counted upwards.
#define FI_PROV_SPECIFIC_EFA (0xefa << 16)
#define FI_PROV_SPECIFIC_TCP (0x7cb << 16)

// Names for programs that set them; weft's providers return -FI_ENOPROTOOPT.
enum {
  FI_OPT_EFA_RNR_RETRY = -FI_PROV_SPECIFIC_EFA,  // size_t
  FI_OPT_EFA_EMULATED_READ,                      // bool, as all below
  FI_OPT_EFA_EMULATED_WRITE,
  FI_OPT_EFA_EMULATED_ATOMICS,
  FI_OPT_EFA_USE_DEVICE_RDMA,
  FI_OPT_EFA_SENDRECV_IN_ORDER_ALIGNED_128_BYTES,
  FI_OPT_EFA_WRITE_IN_ORDER_ALIGNED_128_BYTES,
  FI_OPT_EFA_HOMOGENEOUS_PEERS,
  FI_OPT_EFA_USE_UNSOLICITED_WRITE_RECV,
};

// weft's own endpoint options have 'w' in the top byte (0x77000000-0x77ffffff): FI_OPT_* values
// count up from 0 and provider options are negative, so none can collide with them. Other libraries
// return -FI_ENOPROTOOPT.
enum {
  // int, milliseconds, level FI_OPT_ENDPOINT. One absolute deadline over the whole connection
  // set-up, from fi_connect (or fi_accept) to FI_CONNECTED: name and route resolution, transport
  // and handshake together. 0 means no deadline; negative is -FI_EINVAL; any other size than
  // sizeof(int) is -FI_EINVAL. Settable until fi_connect or fi_accept, afterwards -FI_EOPBADSTATE.
  // When it passes, the EQ gets one error entry with FI_ETIMEDOUT.
  FI_OPT_WEFT_CONNECT_TIMEOUT = 0x77000001,
  // int, 0 or 1, level FI_OPT_ENDPOINT. 1: a member of a multicast group also receives its own
  // messages to the group; 0, the default: it does not. Settable at any time; other values and
  // sizes are -FI_EINVAL.
  FI_OPT_WEFT_MULTICAST_LOOPBACK = 0x77000002,
  // Properties of one connection of the verbs provider; rdma_connect(3), rdma_accept(3). int, level
  // FI_OPT_ENDPOINT. Settable at an endpoint until fi_connect or fi_accept, afterwards
  // -FI_EOPBADSTATE; at a passive endpoint at any time, for the endpoints that accept requests which
  // arrive later. Other values and sizes are -FI_EINVAL. fi_getopt returns what will be used, and
  // from FI_CONNECTED on what is in force at this end. The default is the parameter's of that name.
  FI_OPT_WEFT_RESPONDER_RESOURCES = 0x77000003,  // reads and atomics served for the peer at once,
                                                 // 0-255; 255: as many as the device can
  FI_OPT_WEFT_INITIATOR_DEPTH,                   // reads and atomics outstanding at the peer
  FI_OPT_WEFT_RETRY_COUNT,                       // 0-7: transport retries of both ends; the requesting end decides
  FI_OPT_WEFT_RNR_RETRY_COUNT,                   // 0-7: the peer's retries without a receive here; 7: for ever
  FI_OPT_WEFT_FLOW_CONTROL,                      // 0 or 1: reported to the peer
  FI_OPT_WEFT_MIN_RNR_TIMER_US,                  // microseconds that the peer pauses before such a retry, 0-655360
  FI_OPT_WEFT_ACK_TIMEOUT_US,                    // microseconds before a transfer is retried; 0: never; -1: the route's
  FI_OPT_WEFT_TYPE_OF_SERVICE,                   // 0-255: field of the IP header; -1: the traffic class of the info
  // struct fi_weft_connection_request, fi_getopt at an endpoint of the verbs provider: the properties
  // in the request that it was opened to accept, until fi_accept; otherwise -FI_EOPBADSTATE.
  FI_OPT_WEFT_REQUEST,
  // int, milliseconds, level FI_OPT_ENDPOINT. The time of the peer's application to answer once its
  // host was reached; FI_OPT_WEFT_CONNECT_TIMEOUT, set before, is then the time to reach the host.
  // 0 means no limit; the other rules are those of FI_OPT_WEFT_CONNECT_TIMEOUT.
  FI_OPT_WEFT_ANSWER_TIMEOUT,
  // Private data of lookups, at datagram endpoints of the verbs provider with IP addresses; level
  // FI_OPT_ENDPOINT. At most FI_WEFT_LOOKUP_ANSWER_SIZE bytes that later answers to peers' lookups carry;
  // settable at any time. Longer ones are -FI_EINVAL. fi_getopt returns all bytes, padded with zeros.
  FI_OPT_WEFT_LOOKUP_ANSWER,
  // struct fi_weft_lookup_data, fi_getopt only: takes the oldest of the last 64 lookups that carried data.
  // -FI_EAGAIN: none is left.
  FI_OPT_WEFT_LOOKUP_DATA,
  // int, 0 or 1, at connected endpoints; level FI_OPT_ENDPOINT. Data transfer calls after the end of the
  // connection: 0, the default, accepts them; those that send complete with FI_ENOTCONN, receives with
  // FI_ECANCELED when the endpoint is closed. 1: they return -FI_ENOTCONN. Settable at any time; other
  // values and sizes are -FI_EINVAL.
  FI_OPT_WEFT_REFUSE_AFTER_END,
};

// Bytes of private data with a lookup and with its answer. The wire carries all of them and no length:
// shorter data ends with zeros, and zeros alone mean no data.
enum { FI_WEFT_LOOKUP_DATA_SIZE = 180, FI_WEFT_LOOKUP_ANSWER_SIZE = 136 };

struct fi_weft_lookup_data {
  struct sockaddr_storage source;  // the peer that looked up; the port belongs to no endpoint
  uint8_t data[FI_WEFT_LOOKUP_DATA_SIZE];
};

struct fi_weft_lookup_answer {
  fi_addr_t peer;  // set by the caller
  uint8_t data[FI_WEFT_LOOKUP_ANSWER_SIZE];
};

// From the accepting end: responder_resources is the number that the peer requests, initiator_depth
// the number that it serves.
struct fi_weft_connection_request {
  int responder_resources;
  int initiator_depth;
  int retry_count;
  int rnr_retry_count;
  int flow_control;
  int shared_receives;  // 1: the peer's receives come from a shared context
};

// The argument of control FI_EXPORT_FID.
struct fi_fid_export {
  struct fid** fid;
  uint64_t flags;
  void* context;
};

// Exports an object of `fid` for import by another provider. 0 and *expfid, or -FI_ENOSYS.
// fi_peer(3) "fi_export_fid".
static inline int fi_export_fid(struct fid* fid, uint64_t flags, struct fid** expfid, void* context) {
  struct fi_fid_export request;
  request.fid = expfid;
  request.flags = flags;
  request.context = context;
  return fi_control(fid, FI_EXPORT_FID, &request);
}

// Imports an exported object into `fid`; the last import is used. 0, or -FI_EINVAL if `fid` cannot
// use it. fi_peer(3) "fi_import_fid".
static inline int fi_import_fid(struct fid* fid, struct fid* expfid, uint64_t flags) {
  return fid->ops->bind(fid, expfid, flags);
}

// fi_mr_regattr and its siblings: a registration outside of any cache. Other providers ignore it.
#define FI_MR_WEFT_UNCACHED (1ULL << 60)

// Values of fi_set_val and fi_get_val.
enum {
  // At a domain: int, 0 or 1, whether registrations stay for the next use of the same memory (default: 1). 0 ends
  // those that are not in use. -FI_ENOSYS: the provider has no such cache. fi_mr(3) "Cache".
  FI_VAL_WEFT_MR_CACHE = 0x77000001,
  // At an address vector of the verbs provider for datagrams with IP addresses; otherwise -FI_ENOSYS. fi_av(3).
  // fi_set_val: struct iovec, at most FI_WEFT_LOOKUP_DATA_SIZE bytes that the lookups of later insertions carry.
  // Longer ones are -FI_EINVAL.
  FI_VAL_WEFT_LOOKUP_DATA,
  // fi_get_val: struct fi_weft_lookup_answer, the data that the answer of that peer carried. -FI_EINVAL: no such peer.
  FI_VAL_WEFT_LOOKUP_ANSWER,
};

// Memory monitor: fi_open(..., "mr_cache") and import one of these. fi_mr(3) "MEMORY REGISTRATION
// CACHE".
struct fid_mem_monitor;

// Called by the library; all may be called from any thread.
struct fi_ops_mem_monitor {
  size_t size;
  int (*start)(struct fid_mem_monitor* monitor);
  void (*stop)(struct fid_mem_monitor* monitor);
  int (*subscribe)(struct fid_mem_monitor* monitor, const void* addr, size_t len);
  void (*unsubscribe)(struct fid_mem_monitor* monitor, const void* addr, size_t len);
  bool (*valid)(struct fid_mem_monitor* monitor, const void* addr, size_t len);
};

// Called by the application: `len` bytes at `addr` are about to be unmapped.
struct fi_ops_mem_notify {
  size_t size;
  void (*notify)(struct fid_mem_monitor* monitor, const void* addr, size_t len);
};

struct fid_mem_monitor {
  struct fid fid;
  struct fi_ops_mem_monitor* export_ops;  // set by the importer of the fid
  struct fi_ops_mem_notify* import_ops;   // set by the library during the import
};

// Logging: a replacement of the library's own log. `flags` holds FI_LOG_PROV_FILTERED when
// FI_LOG_PROV would suppress this provider. `msg` is one finished line. fi_provider(3) "fi_open", "logging".
#define FI_LOG_PROV_FILTERED (1ULL << 0)

struct fi_ops_log {
  size_t size;
  int (*enabled)(const struct fi_provider* prov, enum fi_log_level level, enum fi_log_subsys subsys, uint64_t flags);
  int (*ready)(const struct fi_provider* prov, enum fi_log_level level, enum fi_log_subsys subsys, uint64_t flags,
               uint64_t* showtime);
  void (*log)(const struct fi_provider* prov, enum fi_log_level level, enum fi_log_subsys subsys, const char* func,
              int line, const char* msg);
};

struct fid_logging {
  struct fid fid;
  struct fi_ops_log* ops;
};

// Opens the named object of the library, imports `fid` into it and closes it again; the import
// lasts until `fid` is closed. -FI_ENOSYS for an unknown name. fi_provider(3) "fi_import".
static inline int fi_import(uint32_t version, const char* name, void* attr, size_t attr_len, uint64_t flags,
                            struct fid* fid, void* context) {
  struct fid* opened;
  int error = fi_open(version, name, attr, attr_len, flags, &opened, context);
  if (error) return error;
  error = fi_import_fid(opened, fid, flags);
  fi_close(opened);
  return error;
}

// Replaces the library's log with the functions in log_fid->ops; class and size are set here. With
// log_fid->fid.ops NULL the library sets a table whose fi_close ends the import. fi_provider(3)
// "fi_import_log".
static inline int fi_import_log(uint32_t version, uint64_t flags, struct fid_logging* log_fid) {
  log_fid->fid.fclass = FI_CLASS_LOG;
  log_fid->ops->size = sizeof(struct fi_ops_log);
  return fi_import(version, "logging", NULL, 0, flags, &log_fid->fid, log_fid);
}

#ifdef __cplusplus
}
#endif

#endif  // FI_EXT_H
