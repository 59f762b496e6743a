// SPDX-License-Identifier: BSD-2-Clause
//
// Foundation of the fabric interfaces: versions, capability and operation flags, the attribute
// structures of fi_getinfo, the object base `struct fid`, fabrics, NIC attributes and text
// conversion. Governed by fabric(7), fi_getinfo(3), fi_fabric(3), fi_control(3), fi_nic(3),
// fi_domain(3) and fi_endpoint(3) for the attributes, fi_provider(7).
//
// API level 2.7.0. Layouts are ABI: members are only ever appended. Deprecated names stay usable.
//
// Conventions of the whole interface, unless a call says otherwise:
//   - int / ssize_t results are FI_SUCCESS (0) or a count on success, -FI_E... on failure;
//     out-parameters are untouched on failure;
//   - sizes are bytes, timeouts are milliseconds with negative meaning "for ever";
//   - `context` is an opaque caller value that comes back in events and completions;
//   - objects are released once with fi_close(&obj->fid), children before parents.

#ifndef FABRIC_H
#define FABRIC_H

#include <rdma/fi_errno.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#if defined(__GNUC__)
#define FI_DEPRECATED_FUNC __attribute__((deprecated))
#define FI_DEPRECATED_FIELD __attribute__((deprecated))
#define FI_FORMAT_PRINTF(string, first) __attribute__((__format__(__printf__, (string), (first))))
#else
#define FI_DEPRECATED_FUNC
#define FI_DEPRECATED_FIELD
#define FI_FORMAT_PRINTF(string, first)
#define __extension__  // SWIG's parser, for example, does not accept the word
#endif
#if defined(__GNUC__) && !defined(__clang__)
#define EXTERNALLY_VISIBLE externally_visible
#else
#define EXTERNALLY_VISIBLE
#endif

#ifdef __cplusplus
extern "C" {
#endif

// Address of the structure that embeds `field` at `ptr`.
#ifndef container_of
#define container_of(ptr, type, field) ((type*)((char*)(ptr)-offsetof(type, field)))
#endif

// Number of elements of an array; does not compile for most pointers.
#ifndef count_of
#define count_of(x) ((sizeof(x) / sizeof(0 [x])) / ((size_t)(!(sizeof(x) % sizeof(0 [x])))))
#endif

// ---- Version: fi_version(3) -----------------------------------------------------------------

#define FI_MAJOR_VERSION 2
#define FI_MINOR_VERSION 7
#define FI_REVISION_VERSION 0

// An interface version is major << 16 | minor.
#define FI_VERSION(major, minor) (((major) << 16) | (minor))
#define FI_MAJOR(version) ((version) >> 16)
#define FI_MINOR(version) ((version)&0xFFFF)
#define FI_VERSION_GE(v1, v2) ((v1) >= (v2))
#define FI_VERSION_LT(v1, v2) ((v1) < (v2))

enum { FI_PATH_MAX = 256, FI_NAME_MAX = 64, FI_VERSION_MAX = 64 };

// fi_version: interface version of the library at run time, in FI_VERSION() form; fi_version(3).
uint32_t fi_version(void);

struct fid;
struct fid_fabric;
struct fid_domain;
struct fid_av;
struct fid_wait;
struct fid_poll;
struct fid_eq;
struct fid_cq;
struct fid_cntr;
struct fid_ep;
struct fid_pep;
struct fid_stx;
struct fid_mr;
struct fid_nic;
struct fid_xpu_ctx;
struct fid_xpu_ep;
struct fid_xpu_cq;
struct fid_xpu_cntr;

typedef struct fid* fid_t;

// Marks control commands, values and protocols that a provider defines for itself.
#define FI_PROV_SPECIFIC (1U << 31)

// ---- Capabilities and flags: fi_getinfo(3) CAPABILITIES, fi_endpoint(3) OPERATION FLAGS -----
// Capabilities, operation flags and completion flags share one 64-bit space; bits 60-63 belong to
// providers. A few bits have different meanings in different calls; each such pair is noted.

// Primary capabilities: granted only on request.
#define FI_MSG (1ULL << 1)     // fi_send / fi_recv family
#define FI_RMA (1ULL << 2)     // fi_read / fi_write family
#define FI_TAGGED (1ULL << 3)  // fi_tsend / fi_trecv family
#define FI_ATOMIC (1ULL << 4)  // fi_atomic family
#define FI_ATOMICS FI_ATOMIC
#define FI_MULTICAST (1ULL << 5)   // cap: fi_join; op flag: the address is a group's
#define FI_COLLECTIVE (1ULL << 6)  // fi_barrier family, fi_join_collective

// Modifiers of primary capabilities, access rights, bind directions and completion flags.
#define FI_READ (1ULL << 8)   // initiate reads
#define FI_WRITE (1ULL << 9)  // initiate writes; fi_eq_write; binding a counter
#define FI_RECV (1ULL << 10)  // receive
#define FI_SEND (1ULL << 11)  // send
#define FI_TRANSMIT FI_SEND
#define FI_REMOTE_READ (1ULL << 12)   // be the target of reads
#define FI_REMOTE_WRITE (1ULL << 13)  // be the target of writes

#define FI_MULTI_RECV (1ULL << 16)      // one buffer takes many messages; in a completion: buffer released
#define FI_REMOTE_CQ_DATA (1ULL << 17)  // the operation carries, or delivered, `data`
#define FI_MORE (1ULL << 18)            // hint: another request follows at once
#define FI_PEEK (1ULL << 19)            // look without consuming: fi_trecvmsg, fi_eq_read
#define FI_TRIGGER (1ULL << 20)         // triggered operations: fi_trigger(3)
#define FI_FENCE (1ULL << 21)           // start after all earlier requests to this peer complete
#define FI_PRIORITY (1ULL << 22)        // deprecated hint, ignored

#define FI_COMPLETION (1ULL << 24)  // report success in the CQ (with selective completion)
#define FI_EVENT FI_COMPLETION
#define FI_INJECT (1ULL << 25)             // buffer is reusable when the call returns
#define FI_INJECT_COMPLETE (1ULL << 26)    // completion: the local buffer is reusable
#define FI_TRANSMIT_COMPLETE (1ULL << 27)  // completion: delivery no longer depends on us
#define FI_DELIVERY_COMPLETE (1ULL << 28)  // completion: data is placed at the target
#define FI_AFFINITY (1ULL << 29)           // signaling_vector of a queue is valid
#define FI_COMMIT_COMPLETE (1ULL << 30)    // completion: data is persistent at the target
#define FI_MATCH_COMPLETE (1ULL << 31)     // completion: the target matched it to a receive

#define FI_RESCAN (1ULL << 35)                // fi_getinfo: look for devices again
#define FI_PEER_TRANSFER (1ULL << 36)         // fi_peer(3): transfer on behalf of a peer provider
#define FI_AV_USER_ID (1ULL << 41)            // CQ sources are ids set with fi_av_set_user_id
#define FI_FIREWALL_ADDR (1ULL << 42)         // AV insert: the peer takes no connections, see FI_EFIREWALLADDR
#define FI_PEER (1ULL << 43)                  // fi_peer(3): import and export of resources
#define FI_XPU (1ULL << 44)                   // fi_xpu(3): an accelerator drives the object
#define FI_XPU_TRIGGER FI_XPU                 // deprecated name, until 2.6
#define FI_TAGGED_DIRECTED_RECV (1ULL << 45)  // FI_DIRECTED_RECV for tagged receives only
#define FI_TAGGED_MULTI_RECV (1ULL << 46)     // FI_MULTI_RECV for tagged receives
#define FI_HMEM (1ULL << 47)                  // transfers to and from device memory
#define FI_EXACT_DIRECTED_RECV (1ULL << 48)   // every receive names its source
#define FI_VARIABLE_MSG 0                     // retired in 2.0
#define FI_RMA_PMEM (1ULL << 49)              // RMA targets may be persistent memory
#define FI_SOURCE_ERR (1ULL << 50)            // error entry reports the address of unknown peers
#define FI_LOCAL_COMM (1ULL << 51)            // peers on this node
#define FI_REMOTE_COMM (1ULL << 52)           // peers on other nodes
#define FI_SHARED_AV (1ULL << 53)             // address vectors shared by name
#define FI_PROV_ATTR_ONLY (1ULL << 54)        // fi_getinfo: provider names and versions only
#define FI_NUMERICHOST (1ULL << 55)           // fi_getinfo: node is numeric, resolve nothing
#define FI_RMA_EVENT (1ULL << 56)             // target counts RMA at a bound counter
#define FI_SOURCE (1ULL << 57)                // cap: fi_cq_readfrom gives the sender; fi_getinfo: node is local
#define FI_NAMED_RX_CTX (1ULL << 58)          // senders address one receive context: fi_rx_addr
#define FI_DIRECTED_RECV (1ULL << 59)         // src_addr of a receive restricts the sender

// Same bits in other roles.
#define FI_AUTH_KEY (1ULL << 57)              // fi_av_insert, fi_mr_regattr: an AV authorisation key is given
#define FI_DISCARD (1ULL << 58)               // with FI_PEEK/FI_CLAIM: drop the message
#define FI_CLAIM (1ULL << 59)                 // with FI_PEEK: reserve; without: receive what was reserved
#define FI_SELECTIVE_COMPLETION (1ULL << 59)  // fi_ep_bind: no CQ entry without FI_COMPLETION

// Vector element of atomics: `count` values of the operation's datatype; fi_atomic(3).
struct fi_ioc {
  void* addr;
  size_t count;
};

// Shapes of src_addr / dest_addr, fi_info.addr_format; fi_getinfo(3) ADDRESSING FORMATS.
enum {
  FI_FORMAT_UNSPEC,  // provider's choice
  FI_SOCKADDR,       // struct sockaddr of any family
  FI_SOCKADDR_IN,    // struct sockaddr_in
  FI_SOCKADDR_IN6,   // struct sockaddr_in6
  FI_SOCKADDR_IB,    // struct sockaddr_ib
  FI_ADDR_PSMX,
  FI_ADDR_GNI,
  FI_ADDR_BGQ,
  FI_ADDR_MLX,
  FI_ADDR_STR,  // NUL-terminated URI, as fi_sockaddr_in://10.31.6.12:7471
  FI_ADDR_PSMX2,
  FI_ADDR_IB_UD,  // uint64_t[4]
  FI_ADDR_EFA,
  FI_ADDR_PSMX3,
  FI_ADDR_OPX,
  FI_ADDR_CXI,
  FI_ADDR_UCX,
  FI_SOCKADDR_IP,  // struct sockaddr_in or sockaddr_in6
};

// Handle of a peer inside an address vector; fi_av(3).
typedef uint64_t fi_addr_t;
#define FI_ADDR_UNSPEC ((uint64_t)-1)    // any peer
#define FI_ADDR_NOTAVAIL ((uint64_t)-1)  // unknown peer, failed insert
#define FI_KEY_NOTAVAIL ((uint64_t)-1)   // fi_mr_key of a region whose key must be read raw
#define FI_SHARED_CONTEXT SIZE_MAX       // ep_attr tx/rx_ctx_cnt: a shared context will be bound
#define FI_AV_AUTH_KEY SIZE_MAX          // domain auth_key_size: keys live in the AV

enum fi_av_type {
  FI_AV_UNSPEC,  // library chooses
  FI_AV_MAP,     // handles are opaque
  FI_AV_TABLE    // handles are indices in insertion order
};

// domain_attr.mr_mode: the application's duties in registration; fi_mr(3), fi_domain(3) MR MODE.
// The enumerators are the two modes of API < 1.5 (deprecated); the bits after them replace both.
enum fi_mr_mode {
  FI_MR_UNSPEC,    // deprecated
  FI_MR_BASIC,     // deprecated: VIRT_ADDR | ALLOCATED | PROV_KEY
  FI_MR_SCALABLE,  // deprecated: none of the bits
};
#define FI_MR_LOCAL (1 << 2)        // local buffers need registration and a descriptor
#define FI_MR_RAW (1 << 3)          // keys exceed 64 bits: fi_mr_raw_attr, fi_mr_map_raw
#define FI_MR_VIRT_ADDR (1 << 4)    // RMA addresses are virtual addresses, not offsets
#define FI_MR_ALLOCATED (1 << 5)    // memory must be backed when registered
#define FI_MR_PROV_KEY (1 << 6)     // provider chooses the key
#define FI_MR_MMU_NOTIFY (1 << 7)   // page changes are reported with fi_mr_refresh
#define FI_MR_RMA_EVENT (1 << 8)    // regions with RMA events are bound, then enabled
#define FI_MR_ENDPOINT (1 << 9)     // regions are bound to an endpoint, then enabled
#define FI_MR_HMEM (1 << 10)        // device buffers need registration
#define FI_MR_COLLECTIVE (1 << 11)  // collective buffers need registration
#define FI_MR_XPU_DESC (1 << 12)    // accelerators use the descriptors of fi_mr_get_xpu_desc

// The calls that drive a transfer forward; fi_domain(3) PROGRESS.
enum fi_progress {
  FI_PROGRESS_UNSPEC,
  FI_PROGRESS_AUTO,             // without any call by the application
  FI_PROGRESS_MANUAL,           // by reading or waiting on the EQ, CQ, counter
  FI_PROGRESS_CONTROL_UNIFIED,  // data progress includes control progress, same locking
};

// The calls that the application promises to serialise; fi_domain(3) THREADING.
enum fi_threading {
  FI_THREAD_UNSPEC,
  FI_THREAD_SAFE,        // nothing: any thread, any time
  FI_THREAD_FID,         // deprecated: calls on the same fid
  FI_THREAD_DOMAIN,      // calls on objects of the same domain
  FI_THREAD_COMPLETION,  // calls on objects that share a CQ or counter
  FI_THREAD_ENDPOINT,    // deprecated: calls on the same endpoint
};

// Protection of queues against overrun by the provider; fi_domain(3) RESOURCE MANAGEMENT.
enum fi_resource_mgmt { FI_RM_UNSPEC, FI_RM_DISABLED, FI_RM_ENABLED };

// msg_order: <later> after <earlier>; R read, W write, S send. RAW = reads after writes stay in
// order. fi_endpoint(3) MESSAGE ORDERING. Order holds per endpoint pair.
#define FI_ORDER_NONE 0ULL
#define FI_ORDER_RAR (1ULL << 0)
#define FI_ORDER_RAW (1ULL << 1)
#define FI_ORDER_RAS (1ULL << 2)
#define FI_ORDER_WAR (1ULL << 3)
#define FI_ORDER_WAW (1ULL << 4)
#define FI_ORDER_WAS (1ULL << 5)
#define FI_ORDER_SAR (1ULL << 6)
#define FI_ORDER_SAW (1ULL << 7)
#define FI_ORDER_SAS (1ULL << 8)
#define FI_ORDER_STRICT 0x1FF  // deprecated: all nine above
// RAR..WAW restricted to RMA, respectively to atomics.
#define FI_ORDER_RMA_RAR (1ULL << 32)
#define FI_ORDER_RMA_RAW (1ULL << 33)
#define FI_ORDER_RMA_WAR (1ULL << 34)
#define FI_ORDER_RMA_WAW (1ULL << 35)
#define FI_ORDER_ATOMIC_RAR (1ULL << 36)
#define FI_ORDER_ATOMIC_RAW (1ULL << 37)
#define FI_ORDER_ATOMIC_WAR (1ULL << 38)
#define FI_ORDER_ATOMIC_WAW (1ULL << 39)
#define FI_ORDER_DATA (1ULL << 16)  // deprecated comp_order: bytes land in order

// Kinds of endpoints; fi_endpoint(3) ENDPOINT ATTRIBUTES.
enum fi_ep_type {
  FI_EP_UNSPEC,
  FI_EP_MSG,                         // connected, reliable, message boundaries kept
  FI_EP_DGRAM,                       // unconnected, unreliable
  FI_EP_RDM,                         // unconnected, reliable
  FI_EP_SOCK_STREAM = FI_EP_UNSPEC,  // retired in 2.0
  FI_EP_SOCK_DGRAM = 5,              // retired in 2.0
};

// Wire protocols; equal values on both sides promise interoperability.
enum {
  FI_PROTO_UNSPEC,
  FI_PROTO_RDMA_CM_IB_RC,
  FI_PROTO_IWARP,
  FI_PROTO_IB_UD,
  FI_PROTO_PSMX,
  FI_PROTO_UDP,
  FI_PROTO_SOCK_TCP,
  FI_PROTO_MXM,  // retired, value reserved
  FI_PROTO_IWARP_RDM,
  FI_PROTO_IB_RDM,
  FI_PROTO_GNI,
  FI_PROTO_RXM,
  FI_PROTO_RXD,
  FI_PROTO_MLX,
  FI_PROTO_NETWORKDIRECT,
  FI_PROTO_PSMX2,
  FI_PROTO_SHM,
  FI_PROTO_MRAIL,
  FI_PROTO_RSTREAM,
  FI_PROTO_RDMA_CM_IB_XRC,
  FI_PROTO_EFA,
  FI_PROTO_PSMX3,
  FI_PROTO_RXM_TCP,
  FI_PROTO_OPX,
  FI_PROTO_CXI,
  FI_PROTO_XNET,
  FI_PROTO_COLL,
  FI_PROTO_UCX,
  FI_PROTO_SM2,
  FI_PROTO_CXI_RNR,
  FI_PROTO_LPP,
  FI_PROTO_LNX,
};

// Traffic classes, tx_attr.tclass and domain_attr.tclass; fi_endpoint(3) TRAFFIC CLASS.
enum {
  FI_TC_UNSPEC = 0,
  FI_TC_DSCP = 0x100,  // low 8 bits are a DSCP value
  FI_TC_LABEL = 0x200,
  FI_TC_BEST_EFFORT = FI_TC_LABEL,
  FI_TC_LOW_LATENCY,
  FI_TC_DEDICATED_ACCESS,
  FI_TC_BULK_DATA,
  FI_TC_SCAVENGER,
  FI_TC_NETWORK_CTRL,
};

// fi_tc_dscp_set: traffic class that carries a DSCP value.
static inline uint32_t fi_tc_dscp_set(uint8_t dscp) {
  return (uint32_t)dscp | FI_TC_DSCP;
}

// fi_tc_dscp_get: DSCP value of a traffic class, 0 when it carries none.
static inline uint8_t fi_tc_dscp_get(uint32_t tclass) {
  return (tclass & FI_TC_DSCP) ? (uint8_t)tclass : 0;
}

// Formats of tags, ep_attr.mem_tag_format; fi_endpoint(3) MEMORY TAG FORMAT. Values from
// FI_TAG_MAX_FORMAT on are masks.
enum {
  FI_TAG_BITS,  // 64 free bits, matched under the receiver's mask
  FI_TAG_MPI,   // fi_tag_mpi: tag and payload class, matched whole or ignored
  FI_TAG_CCL,   // 32-bit tag, always matched whole
  FI_TAG_MAX_FORMAT = (1ULL << 16),
};

// Mode bits: duties that the provider requests and the application may accept; fi_getinfo(3) MODE.
#define FI_CONTEXT (1ULL << 59)        // `context` points to a struct fi_context
#define FI_MSG_PREFIX (1ULL << 58)     // msg_prefix_size bytes precede every buffer
#define FI_ASYNC_IOV (1ULL << 57)      // iovec arrays live until completion
#define FI_RX_CQ_DATA (1ULL << 56)     // CQ data consumes a posted receive
#define FI_LOCAL_MR (1ULL << 55)       // deprecated (API < 1.5): FI_MR_LOCAL
#define FI_NOTIFY_FLAGS_ONLY 0         // retired in 2.0
#define FI_RESTRICTED_COMP 0           // retired in 2.0
#define FI_CONTEXT2 (1ULL << 52)       // `context` points to a struct fi_context2
#define FI_BUFFERED_RECV (1ULL << 51)  // deprecated, never granted

// ---- Attributes: fi_endpoint(3), fi_domain(3), fi_fabric(3) ---------------------------------
// As hints, 0 / NULL / *_UNSPEC means "any"; sizes and counts are minimums. As results, they state
// the object's properties. Pointers belong to the fi_info.

// Transmit side of an endpoint; fi_endpoint(3) TRANSMIT CONTEXT ATTRIBUTES.
struct fi_tx_attr {
  uint64_t caps;         // subset of fi_info.caps
  uint64_t mode;         // subset of fi_info.mode
  uint64_t op_flags;     // defaults of operations that take no flags
  uint64_t msg_order;    // FI_ORDER_*
  uint64_t comp_order;   // deprecated: order of completions
  size_t inject_size;    // most bytes of a transfer with FI_INJECT
  size_t size;           // operations outstanding, in units of one iov entry
  size_t iov_limit;      // local iov entries per operation
  size_t rma_iov_limit;  // remote iov entries per operation
  uint32_t tclass;       // FI_TC_*
};

// Receive side of an endpoint; fi_endpoint(3) RECEIVE CONTEXT ATTRIBUTES.
struct fi_rx_attr {
  uint64_t caps;
  uint64_t mode;
  uint64_t op_flags;
  uint64_t msg_order;
  uint64_t comp_order;         // deprecated
  size_t total_buffered_recv;  // deprecated: bytes held for unexpected messages
  size_t size;                 // receives outstanding
  size_t iov_limit;
};

// The endpoint as a whole; fi_endpoint(3) ENDPOINT ATTRIBUTES.
struct fi_ep_attr {
  enum fi_ep_type type;
  uint32_t protocol;          // FI_PROTO_*
  uint32_t protocol_version;  // meaning private to the protocol
  size_t max_msg_size;        // bytes per transfer
  size_t msg_prefix_size;     // bytes, with FI_MSG_PREFIX
  size_t max_order_raw_size;  // bytes up to which FI_ORDER_*RAW holds; 0: not at all
  size_t max_order_war_size;
  size_t max_order_waw_size;
  uint64_t mem_tag_format;  // FI_TAG_*, or a mask of bit fields: runs of equal bits, one per field
  size_t tx_ctx_cnt;        // contexts of a scalable endpoint, or FI_SHARED_CONTEXT
  size_t rx_ctx_cnt;
  size_t auth_key_size;  // since 1.5; overrides the domain's key
  uint8_t* auth_key;
  struct fid_xpu_ctx* xpu_ctx;  // since 2.7; read only with FI_XPU in the flags of fi_endpoint2
};

// A domain; fi_domain(3) DOMAIN ATTRIBUTES.
struct fi_domain_attr {
  struct fid_domain* domain;  // as hint: match this open domain; as result: it when open
  char* name;
  enum fi_threading threading;
  enum fi_progress control_progress;  // deprecated by progress
  __extension__ union {
    enum fi_progress data_progress;  // name until 2.0
    enum fi_progress progress;
  };
  enum fi_resource_mgmt resource_mgmt;
  enum fi_av_type av_type;
  int mr_mode;          // FI_MR_* bits, or enum fi_mr_mode for API < 1.5
  size_t mr_key_size;   // bytes
  size_t cq_data_size;  // bytes of remote CQ data carried, 0 .. 8
  size_t cq_cnt;        // optimal counts, not limits:
  size_t ep_cnt;
  size_t tx_ctx_cnt;
  size_t rx_ctx_cnt;
  size_t max_ep_tx_ctx;  // limits per endpoint:
  size_t max_ep_rx_ctx;
  size_t max_ep_stx_ctx;
  size_t max_ep_srx_ctx;
  size_t cntr_cnt;      // since 1.5 from here
  size_t mr_iov_limit;  // iov entries per registration
  uint64_t caps;        // domain capabilities: FI_LOCAL_COMM, FI_SHARED_AV ...
  uint64_t mode;        // domain modes
  uint8_t* auth_key;
  size_t auth_key_size;     // bytes, or FI_AV_AUTH_KEY
  size_t max_err_data;      // bytes of err_data an error entry may carry
  size_t mr_cnt;            // optimal number of regions
  uint32_t tclass;          // since 1.9; default of endpoints
  size_t max_ep_auth_key;   // since 1.20; keys per endpoint
  uint32_t max_group_id;    // since 2.0; largest peer group id, inclusive: fi_group_addr
  uint64_t max_cntr_value;  // since 2.5; a counter wraps or saturates past this
  uint64_t max_err_cntr_value;
  size_t max_xpu_ctx_cnt;  // since 2.7; 0: no accelerator contexts
};

// A fabric; fi_fabric(3).
struct fi_fabric_attr {
  struct fid_fabric* fabric;  // as hint: match this open fabric; as result: it when open
  char* name;
  char* prov_name;        // "core" or "core;layer"; as hint also "^name" to exclude
  uint32_t prov_version;  // provider's own scheme
  uint32_t api_version;   // since 1.5; the version argument of fi_getinfo
};

// One way to communicate: the result of fi_getinfo, and its hints. Every pointer but `handle` is
// owned by the structure and heap-allocated; callers may replace strings with malloc'ed ones.
struct fi_info {
  struct fi_info* next;
  uint64_t caps;
  uint64_t mode;
  uint32_t addr_format;  // shape of both addresses
  size_t src_addrlen;    // bytes
  size_t dest_addrlen;
  void* src_addr;
  void* dest_addr;
  fid_t handle;  // FI_CONNREQ: the request, for fi_endpoint or fi_reject; else a passive
                 // endpoint to turn active, or NULL
  struct fi_tx_attr* tx_attr;
  struct fi_rx_attr* rx_attr;
  struct fi_ep_attr* ep_attr;
  struct fi_domain_attr* domain_attr;
  struct fi_fabric_attr* fabric_attr;
  struct fid_nic* nic;  // since 1.7; NULL without a NIC
};

// ---- NIC attributes: fi_nic(3). NULL strings are unknown. -----------------------------------

struct fi_device_attr {
  char* name;
  char* device_id;
  char* device_version;
  char* vendor_id;
  char* driver;
  char* firmware;
};

enum fi_bus_type {
  FI_BUS_UNSPEC,
  FI_BUS_UNKNOWN = FI_BUS_UNSPEC,
  FI_BUS_PCI,  // attr.pci is valid
};

struct fi_pci_attr {
  uint16_t domain_id;
  uint8_t bus_id;
  uint8_t device_id;
  uint8_t function_id;
};

struct fi_bus_attr {
  enum fi_bus_type bus_type;
  union {
    struct fi_pci_attr pci;
  } attr;
};

enum fi_link_state {
  FI_LINK_UNKNOWN,
  FI_LINK_DOWN,
  FI_LINK_UP,
};

struct fi_link_attr {
  char* address;  // physical address, text
  size_t mtu;     // bytes
  size_t speed;   // bits per second
  enum fi_link_state state;
  char* network_type;  // "Ethernet", "InfiniBand" ...
};

// ---- Objects --------------------------------------------------------------------------------

// fid.fclass: the class of an object.
enum {
  FI_CLASS_UNSPEC,
  FI_CLASS_FABRIC,
  FI_CLASS_DOMAIN,
  FI_CLASS_EP,
  FI_CLASS_SEP,
  FI_CLASS_RX_CTX,
  FI_CLASS_SRX_CTX,
  FI_CLASS_TX_CTX,
  FI_CLASS_STX_CTX,
  FI_CLASS_PEP,
  FI_CLASS_INTERFACE,
  FI_CLASS_AV,
  FI_CLASS_MR,
  FI_CLASS_EQ,
  FI_CLASS_CQ,
  FI_CLASS_CNTR,
  FI_CLASS_WAIT,
  FI_CLASS_POLL,
  FI_CLASS_CONNREQ,
  FI_CLASS_MC,
  FI_CLASS_NIC,
  FI_CLASS_AV_SET,
  FI_CLASS_MR_CACHE,
  FI_CLASS_MEM_MONITOR,
  FI_CLASS_PEER_CQ,
  FI_CLASS_PEER_SRX,
  FI_CLASS_LOG,
  FI_CLASS_PEER_AV,
  FI_CLASS_PEER_AV_SET,
  FI_CLASS_PEER_CNTR,
  FI_CLASS_PROFILE,
  FI_CLASS_XPU_CTX,
};

struct fi_eq_attr;
struct fi_wait_attr;

// Operations of every object. `size` is the byte size of the table in its provider's headers; slots
// at or past it do not exist. The same holds for every fi_ops_* table.
struct fi_ops {
  size_t size;
  int (*close)(struct fid* fid);
  int (*bind)(struct fid* fid, struct fid* bfid, uint64_t flags);
  int (*control)(struct fid* fid, int command, void* arg);
  int (*ops_open)(struct fid* fid, const char* name, uint64_t flags, void** ops, void* context);
  int (*tostr)(const struct fid* fid, char* buf, size_t len);
  int (*ops_set)(struct fid* fid, const char* name, uint64_t flags, void* ops, void* context);
};

// Base of every object: its first member, so `&obj->fid` and the object share one address.
struct fid {
  size_t fclass;  // FI_CLASS_*
  void* context;  // as given at open; may be changed
  struct fi_ops* ops;
};

// True when table `ops` of type `opstype` reaches to slot `op` and fills it.
#define FI_CHECK_OP(ops, opstype, op) ((ops) && ((ops)->size > offsetof(opstype, op)) && (ops)->op)

// ---- Discovery: fi_getinfo(3) ---------------------------------------------------------------

// fi_getinfo: the ways to reach a peer or a service, best first.
//   version  FI_VERSION(major, minor) of the caller; selects the semantics of results.
//   node     host name, numeric address or fabric address, or NULL.
//   service  service name or port, or NULL.
//   flags    0 or FI_SOURCE | FI_NUMERICHOST | FI_PROV_ATTR_ONLY | FI_RESCAN.
//   hints    NULL or from fi_allocinfo / fi_dupinfo; read only; addresses exclude node/service.
//   info     list, freed with fi_freeinfo; NULL on failure.
// -FI_ENODATA nothing matches; -FI_ENOSYS version newer than the library; -FI_EBADFLAGS;
// -FI_EINVAL; -FI_ENOMEM. May resolve names and block; thread-safe.
int fi_getinfo(uint32_t version, const char* node, const char* service, uint64_t flags, const struct fi_info* hints,
               struct fi_info** info);

// fi_freeinfo: release a whole list, with everything it points to. NULL is allowed.
void fi_freeinfo(struct fi_info* info);

// fi_dupinfo: deep copy of one entry (next is NULL); NULL gives an empty fi_info with all attribute
// structures. The caller frees it with fi_freeinfo. NULL when memory runs out.
struct fi_info* fi_dupinfo(const struct fi_info* info);

// fi_allocinfo: an empty fi_info for hints; every attribute structure zeroed, nic NULL.
static inline struct fi_info* fi_allocinfo(void) {
  return fi_dupinfo(NULL);
}

// ---- Fabric: fi_fabric(3) -------------------------------------------------------------------

// wait_open is deprecated and stays; domain2 is reached through fi_domain2.
struct fi_ops_fabric {
  size_t size;
  int (*domain)(struct fid_fabric* fabric, struct fi_info* info, struct fid_domain** dom, void* context);
  int (*passive_ep)(struct fid_fabric* fabric, struct fi_info* info, struct fid_pep** pep, void* context);
  int (*eq_open)(struct fid_fabric* fabric, struct fi_eq_attr* attr, struct fid_eq** eq, void* context);
  int (*wait_open)(struct fid_fabric* fabric, struct fi_wait_attr* attr, struct fid_wait** waitset);
  int (*trywait)(struct fid_fabric* fabric, struct fid** fids, int count);
  int (*domain2)(struct fid_fabric* fabric, struct fi_info* info, struct fid_domain** dom, uint64_t flags,
                 void* context);
};

struct fid_fabric {
  struct fid fid;
  struct fi_ops_fabric* ops;
  uint32_t api_version;  // from fi_fabric_attr.api_version; decides sizes of caller structures
};

// fi_fabric: open the fabric of a provider.
//   attr    fi_info.fabric_attr; name and prov_name are needed.
//   fabric  closed with fi_close after its domains, passive endpoints and event queues.
// -FI_EINVAL attribute missing; -FI_ENODEV provider unknown; -FI_ENOMEM.
int fi_fabric(struct fi_fabric_attr* attr, struct fid_fabric** fabric, void* context);

// fi_fabric2: fi_fabric on info->fabric_attr, with access to the whole info. Since 2.0.
// -FI_EINVAL also when flags is not 0.
int fi_fabric2(struct fi_info* info, struct fid_fabric** fabric, uint64_t flags, void* context);

// fi_open: open a library object by name ("logging", "mr_cache"); fi_provider(7).
//   version    FI_VERSION of the caller, at least 1.13.
//   attr, len  must be NULL and 0; flags must be 0.
// -FI_ENOSYS unknown name or version; -FI_EINVAL.
int fi_open(uint32_t version, const char* name, void* attr, size_t attr_len, uint64_t flags, struct fid** fid,
            void* context);

// The NIC behind an fi_info, its owner. Attribute pointers may be NULL; fi_nic(3).
struct fid_nic {
  struct fid fid;
  struct fi_device_attr* device_attr;
  struct fi_bus_attr* bus_attr;
  struct fi_link_attr* link_attr;
  void* prov_attr;
};

// ---- Calls on any object: fi_control(3), fi_domain(3) fi_open_ops ---------------------------

// fi_close: release an object with its contents (queued events, posted operations). No other call on
// it may run meanwhile. -FI_EBUSY, without effect, while children or bound objects still use it.
static inline int fi_close(struct fid* fid) {
  return fid->ops->close(fid);
}

// Arguments of the control commands below.
struct fi_alias {
  struct fid** fid;
  uint64_t flags;
};

struct fi_fid_var {
  int name;
  void* val;
};

struct fi_mr_raw_attr {
  uint64_t flags;
  uint64_t* base_addr;
  uint8_t* raw_key;
  size_t* key_size;  // in: room at raw_key; out: bytes needed
};

struct fi_mr_map_raw {
  uint64_t flags;
  uint64_t base_addr;
  uint8_t* raw_key;
  size_t key_size;
  uint64_t* key;
};

struct fi_mr_xpu_desc {
  void* buf;
  size_t len;  // bytes of room at buf
  uint64_t flags;
  struct fid_xpu_ctx* ctx;
};

// Control commands and their argument.
enum {
  FI_GETFIDFLAG,       // uint64_t *
  FI_SETFIDFLAG,       // uint64_t *
  FI_GETOPSFLAG,       // uint64_t *: FI_TRANSMIT or FI_RECV in, op_flags out
  FI_SETOPSFLAG,       // uint64_t *: op_flags with FI_TRANSMIT or FI_RECV
  FI_ALIAS,            // struct fi_alias *
  FI_GETWAIT,          // int *, struct fi_mutex_cond * or struct fi_wait_pollfd *, by wait object
  FI_ENABLE,           // NULL
  FI_BACKLOG,          // int *: connection requests a passive endpoint may hold
  FI_GET_RAW_MR,       // struct fi_mr_raw_attr *
  FI_MAP_RAW_MR,       // struct fi_mr_map_raw *
  FI_UNMAP_KEY,        // uint64_t *
  FI_QUEUE_WORK,       // struct fi_deferred_work *
  FI_CANCEL_WORK,      // struct fi_deferred_work *
  FI_FLUSH_WORK,       // NULL
  FI_REFRESH,          // struct fi_mr_modify *
  FI_DUP,              // struct fid **
  FI_GETWAITOBJ,       // enum fi_wait_obj *
  FI_GET_VAL,          // struct fi_fid_var *
  FI_SET_VAL,          // struct fi_fid_var *
  FI_EXPORT_FID,       // struct fi_fid_export *
  FI_GET_FD,           // int *
  FI_GET_MR_XPU_DESC,  // struct fi_mr_xpu_desc *
};

// fi_control: run one command. -FI_ENOSYS when the object does not support it.
static inline int fi_control(struct fid* fid, int command, void* arg) {
  return fid->ops->control(fid, command, arg);
}

// A call with the name of its argument structure is valid in C and C++, but g++ -Wshadow warns.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wshadow"

// fi_alias: second handle on the same object with its own default flags. Closed on its own.
static inline int fi_alias(struct fid* fid, struct fid** alias_fid, uint64_t flags) {
  struct fi_alias alias;
  alias.fid = alias_fid;
  alias.flags = flags;
  return fi_control(fid, FI_ALIAS, &alias);
}

#pragma GCC diagnostic pop

// fi_get_val / fi_set_val: read or write a value; names carry FI_PROV_SPECIFIC, the object's
// documentation gives the type behind `val`.
static inline int fi_get_val(struct fid* fid, int name, void* val) {
  struct fi_fid_var var;
  var.name = name;
  var.val = val;
  return fi_control(fid, FI_GET_VAL, &var);
}

static inline int fi_set_val(struct fid* fid, int name, void* val) {
  struct fi_fid_var var;
  var.name = name;
  var.val = val;
  return fi_control(fid, FI_SET_VAL, &var);
}

// fi_open_ops: fetch a named table of provider-specific calls, owned by the object.
static inline int fi_open_ops(struct fid* fid, const char* name, uint64_t flags, void** ops, void* context) {
  return fid->ops->ops_open(fid, name, flags, ops, context);
}

// fi_set_ops: install a named table of caller's functions. -FI_ENOSYS when not supported.
static inline int fi_set_ops(struct fid* fid, const char* name, uint64_t flags, void* ops, void* context) {
  return FI_CHECK_OP(fid->ops, struct fi_ops, ops_set) ? fid->ops->ops_set(fid, name, flags, ops, context) : -FI_ENOSYS;
}

// ---- Text: fi_fabric(3) fi_tostr ------------------------------------------------------------

// The type of fi_tostr's `data`.
enum fi_type {
  FI_TYPE_INFO,
  FI_TYPE_EP_TYPE,
  FI_TYPE_CAPS,  // uint64_t *, like every bit mask below
  FI_TYPE_OP_FLAGS,
  FI_TYPE_ADDR_FORMAT,
  FI_TYPE_TX_ATTR,
  FI_TYPE_RX_ATTR,
  FI_TYPE_EP_ATTR,
  FI_TYPE_DOMAIN_ATTR,
  FI_TYPE_FABRIC_ATTR,
  FI_TYPE_THREADING,
  FI_TYPE_PROGRESS,
  FI_TYPE_PROTOCOL,
  FI_TYPE_MSG_ORDER,
  FI_TYPE_MODE,
  FI_TYPE_AV_TYPE,
  FI_TYPE_ATOMIC_TYPE,
  FI_TYPE_ATOMIC_OP,
  FI_TYPE_VERSION,  // data unused
  FI_TYPE_EQ_EVENT,
  FI_TYPE_CQ_EVENT_FLAGS,
  FI_TYPE_MR_MODE,
  FI_TYPE_OP_TYPE,
  FI_TYPE_FID,
  FI_TYPE_COLLECTIVE_OP,
  FI_TYPE_HMEM_IFACE,
  FI_TYPE_CQ_FORMAT,
  FI_TYPE_LOG_LEVEL,
  FI_TYPE_LOG_SUBSYS,
  FI_TYPE_AV_ATTR,
  FI_TYPE_CQ_ATTR,
  FI_TYPE_MR_ATTR,
  FI_TYPE_CNTR_ATTR,
  FI_TYPE_CQ_ERR_ENTRY,
  FI_TYPE_CQ_WAIT_COND,
  FI_TYPE_WAIT_OBJ,
};

// fi_tostr: readable form in a buffer the library owns; overwritten by the next call.
char* fi_tostr(const void* data, enum fi_type datatype);

// fi_tostr_r: same into `buf` of `len` bytes, cut to fit and NUL-terminated; returns buf, or NULL
// when len is 0. Thread-safe.
char* fi_tostr_r(char* buf, size_t len, const void* data, enum fi_type datatype);

// ---- Parameters: fi_provider(7) ENVIRONMENT -------------------------------------------------

enum fi_param_type {
  FI_PARAM_STRING,
  FI_PARAM_INT,
  FI_PARAM_BOOL,
  FI_PARAM_SIZE_T,
};

// One defined parameter.
struct fi_param {
  const char* name;  // environment variable
  enum fi_param_type type;
  const char* help_string;
  const char* value;  // as set, or NULL
};

// fi_getparams: every parameter of the library and its providers, an array of *count entries that
// ends with a zeroed one. Freed with fi_freeparams. -FI_ENOMEM.
int fi_getparams(struct fi_param** params, int* count);

// fi_freeparams: release an array of fi_getparams. NULL is allowed.
void fi_freeparams(struct fi_param* params);

// ---- Contexts: fi_getinfo(3) MODE FI_CONTEXT, FI_CONTEXT2 -----------------------------------

// Scratch space for the provider: with mode FI_CONTEXT every operation's `context` points to one,
// untouched by the application from posting to completion.
struct fi_context {
  void* internal[4];
};

struct fi_context2 {
  void* internal[8];
};

// FI_MULTI_RECV over a shared receive context: which endpoint the message came from.
struct fi_recv_context {
  struct fid_ep* ep;
  void* context;
};

#ifdef __cplusplus
}
#endif

#endif  // FABRIC_H
