// SPDX-License-Identifier: BSD-2-Clause
//
// Foundation of kfabric, the kernel's spelling of the fabric interfaces, in user space: versions, flags, attributes,
// the object base. docs/kfabric.md lists the differences from a kernel; kfi_cm(3) and kfi_eq(3) govern the calls that
// libfabric lacks.
//
// API 1.7 unless a program defines KFI_API as KFI_VERSION(1, 1) (0x10001) before the first include: then calls, numbers
// and structures are those of 2016 (kfi_layouts_1_1.h).
#ifndef KFABRIC_H
#define KFABRIC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "kfi_errno.h"
#include "kfi_kernel_types.h"

#ifdef __cplusplus
extern "C" {
#endif

// ---- Version --------------------------------------------------------------------------------------------------------

#define KFI_VERSION(major, minor) (((major) << 16) | (minor))
#define KFI_MAJOR(version) ((version) >> 16)
#define KFI_MINOR(version) ((version)&0xFFFF)
#define KFI_VERSION_GE(v1, v2) ((v1) >= (v2))
#define KFI_VERSION_LT(v1, v2) ((v1) < (v2))

#ifndef KFI_API
#define KFI_API 0x10007
#endif
#define KFI_MAJOR_VERSION 1
#if KFI_API < 0x10007
#define KFI_MINOR_VERSION 1
#else
#define KFI_MINOR_VERSION 7
#endif

enum { KFI_PATH_MAX = 256, KFI_NAME_MAX = 64, KFI_VERSION_MAX = 64 };

// The version of the library.
uint32_t kfi_version(void);

// Marks values that a provider defines for itself.
#define KFI_PROV_SPECIFIC (1U << 31)

#define KFI_DEFINE_HANDLE(name) \
  struct name##_s;              \
  typedef struct name##_s* name

struct kfid;
struct kfid_fabric;
struct kfid_domain;
struct kfid_av;
struct kfid_wait;
struct kfid_poll;
struct kfid_eq;
struct kfid_cq;
struct kfid_cntr;
struct kfid_ep;
struct kfid_pep;
struct kfid_stx;
struct kfid_mr;
struct kfid_mc;
struct kfi_info;
struct kfi_fabric_attr;

typedef struct kfid* kfid_t;
typedef struct kfid* kfi_connreq_t;

// ---- Flags: capabilities, operations, completions -------------------------------------------------------------------

#define KFI_MSG (1ULL << 1)
#define KFI_RMA (1ULL << 2)
#define KFI_TAGGED (1ULL << 3)
#define KFI_ATOMIC (1ULL << 4)
#define KFI_ATOMICS KFI_ATOMIC
#define KFI_MULTICAST (1ULL << 5)
#define KFI_TAGGED_RMA (1ULL << 6)  // no provider here has it

#define KFI_READ (1ULL << 8)
#define KFI_WRITE (1ULL << 9)
#define KFI_RECV (1ULL << 10)
#define KFI_SEND (1ULL << 11)
#define KFI_TRANSMIT KFI_SEND
#define KFI_REMOTE_READ (1ULL << 12)
#define KFI_REMOTE_WRITE (1ULL << 13)

#define KFI_MULTI_RECV (1ULL << 16)
#define KFI_REMOTE_CQ_DATA (1ULL << 17)
#define KFI_MORE (1ULL << 18)
#define KFI_PEEK (1ULL << 19)
#define KFI_TRIGGER (1ULL << 20)
#define KFI_FENCE (1ULL << 21)

#define KFI_COMPLETION (1ULL << 24)
#define KFI_EVENT KFI_COMPLETION
#define KFI_INJECT (1ULL << 25)
#define KFI_INJECT_COMPLETE (1ULL << 26)
#define KFI_TRANSMIT_COMPLETE (1ULL << 27)
#define KFI_DELIVERY_COMPLETE (1ULL << 28)

#if KFI_API < 0x10007
#define KFI_CANCEL (1ULL << 29)         // every endpoint can cancel: dropped from hints
#define KFI_BUFFERED_RECV (1ULL << 30)  // dropped from hints
#define KFI_CLAIM (1ULL << 0)
#define KFI_DISCARD KFI_CANCEL
#define KFI_MR_OFFSET (1ULL << 0)
#define KFI_MR_KEY (1ULL << 1)
#define KFI_REG_MR (1ULL << 0)
#define KFI_MR_PHYS_MEM (1ULL << 51)  // -KFI_EBADFLAGS: programs see no physical addresses
#define KFI_MR_DMA_ADDR (1ULL << 52)
#define KFI_CQ_CAN_WAIT (1ULL << 53)
#else
#define KFI_AFFINITY (1ULL << 29)
#define KFI_COMMIT_COMPLETE (1ULL << 30)
#define KFI_TAGGED_MULTI_RECV (1ULL << 31)
#define KFI_RMA_PMEM (1ULL << 49)
#define KFI_SOURCE_ERR (1ULL << 50)
#define KFI_LOCAL_COMM (1ULL << 51)
#define KFI_REMOTE_COMM (1ULL << 52)
#define KFI_SHARED_AV (1ULL << 53)
#define KFI_CLAIM (1ULL << 59)
#define KFI_DISCARD (1ULL << 58)
#define KFI_REG_MR (1ULL << 59)
#define KFI_SYMMETRIC (1ULL << 59)
#define KFI_SYNC_ERR (1ULL << 58)
#endif

// Unit of a time-out: for kfi_eq_sread, and for queues, counters and wait sets opened with the flag. Milliseconds else.
#define KFI_TIME_US (1ULL << 33)
#define KFI_TIME_MS (1ULL << 34)

#define KFI_PROV_ATTR_ONLY (1ULL << 54)
#define KFI_NUMERICHOST (1ULL << 55)
#define KFI_RMA_EVENT (1ULL << 56)
#define KFI_SOURCE (1ULL << 57)
#define KFI_NAMED_RX_CTX (1ULL << 58)
#define KFI_DIRECTED_RECV (1ULL << 59)
#define KFI_SELECTIVE_COMPLETION (1ULL << 59)

// Mode bits.
#define KFI_CONTEXT (1ULL << 59)
#define KFI_MSG_PREFIX (1ULL << 58)
#define KFI_ASYNC_IOV (1ULL << 57)
#define KFI_RX_CQ_DATA (1ULL << 56)
#define KFI_LOCAL_MR (1ULL << 55)
#if KFI_API >= 0x10007
#define KFI_NOTIFY_FLAGS_ONLY (1ULL << 54)
#define KFI_RESTRICTED_COMP (1ULL << 53)
#define KFI_CONTEXT2 (1ULL << 52)
#endif

#define KFI_ORDER_NONE 0ULL
#define KFI_ORDER_RAR (1ULL << 0)
#define KFI_ORDER_RAW (1ULL << 1)
#define KFI_ORDER_RAS (1ULL << 2)
#define KFI_ORDER_WAR (1ULL << 3)
#define KFI_ORDER_WAW (1ULL << 4)
#define KFI_ORDER_WAS (1ULL << 5)
#define KFI_ORDER_SAR (1ULL << 6)
#define KFI_ORDER_SAW (1ULL << 7)
#define KFI_ORDER_SAS (1ULL << 8)
#define KFI_ORDER_STRICT 0x1FF
#define KFI_ORDER_DATA (1ULL << 16)

typedef uint64_t kfi_addr_t;
#define KFI_ADDR_UNSPEC ((uint64_t)-1)
#define KFI_ADDR_NOTAVAIL ((uint64_t)-1)
#define KFI_SHARED_CONTEXT ((uint64_t)-1)
#if KFI_API >= 0x10007
#define KFI_KEY_NOTAVAIL ((uint64_t)-1)
#endif

// Domain attribute mr_mode. The bits differ from libfabric's.
#if KFI_API >= 0x10007
#define KFI_MR_LOCAL (1 << 1)
#define KFI_MR_RAW (1 << 2)
#define KFI_MR_VIRT_ADDR (1 << 3)
#define KFI_MR_PROV_KEY (1 << 4)
#define KFI_MR_RMA_EVENT (1 << 5)
#define KFI_MR_ENDPOINT (1 << 6)
#endif

// ---- Enumerations ---------------------------------------------------------------------------------------------------

enum {
  KFI_FORMAT_UNSPEC,
  KFI_SOCKADDR,
  KFI_SOCKADDR_IN,
  KFI_SOCKADDR_IN6,
  KFI_SOCKADDR_IB,
#if KFI_API < 0x10007
  KFI_ADDR_PSMX,
  KFI_ADDR_OPA1,
  KFI_ADDR_GNI
#else
  KFI_ADDR_GNI,
  KFI_ADDR_CXI
#endif
};

enum kfi_av_type { KFI_AV_UNSPEC, KFI_AV_MAP, KFI_AV_TABLE };
enum kfi_progress { KFI_PROGRESS_UNSPEC, KFI_PROGRESS_AUTO, KFI_PROGRESS_MANUAL };
enum kfi_threading {
  KFI_THREAD_UNSPEC,
  KFI_THREAD_SAFE,
  KFI_THREAD_FID,
  KFI_THREAD_DOMAIN,
  KFI_THREAD_COMPLETION,
  KFI_THREAD_ENDPOINT
};
enum kfi_resource_mgmt { KFI_RM_UNSPEC, KFI_RM_DISABLED, KFI_RM_ENABLED };

enum kfi_ep_type {
  KFI_EP_UNSPEC,
  KFI_EP_MSG,
  KFI_EP_DGRAM,
  KFI_EP_RDM,
#if KFI_API >= 0x10007
  KFI_EP_SOCK_STREAM,
  KFI_EP_SOCK_DGRAM
#endif
};

// A protocol of libfabric that kfabric has no number for is reported as KFI_PROV_SPECIFIC | its number there.
enum {
  KFI_PROTO_UNSPEC,
  KFI_PROTO_RDMA_CM_IB_RC,
  KFI_PROTO_IWARP,
  KFI_PROTO_IB_UD,
#if KFI_API < 0x10007
  KFI_PROTO_PSMX,
#endif
  KFI_PROTO_UDP,
  KFI_PROTO_SOCK_TCP,
#if KFI_API < 0x10007
  KFI_PROTO_MXM,
#endif
  KFI_PROTO_IWARP_RDM,
  KFI_PROTO_IB_RDM,
  KFI_PROTO_GNI,
#if KFI_API >= 0x10007
  KFI_PROTO_CXI
#endif
};

#if KFI_API >= 0x10007
enum {
  KFI_TC_UNSPEC = 0,
  KFI_TC_DSCP = 0x100,
  KFI_TC_LABEL = 0x200,
  KFI_TC_BEST_EFFORT = KFI_TC_LABEL,
  KFI_TC_LOW_LATENCY,
  KFI_TC_DEDICATED_ACCESS,
  KFI_TC_BULK_DATA,
  KFI_TC_SCAVENGER,
  KFI_TC_NETWORK_CTRL
};

static inline uint32_t kfi_tc_dscp_set(uint8_t dscp) {
  return (uint32_t)dscp | KFI_TC_DSCP;
}
static inline uint8_t kfi_tc_dscp_get(uint32_t tclass) {
  return (tclass & KFI_TC_DSCP) ? (uint8_t)tclass : (uint8_t)0;
}
#endif

// The form of a scatter list in message structures. 0 is invalid.
enum kfi_iov_type { KFI_KVEC = 1, KFI_BVEC, KFI_SGL };

// The memory of a message structure: `type` selects the member.
#define KFI_MEMORY(kind)                  \
  enum kfi_iov_type type;                 \
  __extension__ union {                   \
    const struct kvec* kind##_iov;        \
    const struct bio_vec* kind##_biov;    \
    const struct scatterlist* kind##_sgl; \
  }

// ---- Attributes -----------------------------------------------------------------------------------------------------
// As hints, 0 and NULL are "any"; pointers belong to the kfi_info.

#if KFI_API < 0x10007
#include "kfi_layouts_1_1.h"
#else
struct kfi_tx_attr {
  uint64_t caps;
  uint64_t mode;
  uint64_t op_flags;
  uint64_t msg_order;
  uint64_t comp_order;
  size_t inject_size;
  size_t size;
  size_t iov_limit;
  size_t rma_iov_limit;
  uint32_t tclass;
};

struct kfi_rx_attr {
  uint64_t caps;
  uint64_t mode;
  uint64_t op_flags;
  uint64_t msg_order;
  uint64_t comp_order;
  size_t total_buffered_recv;
  size_t size;
  size_t iov_limit;
};

struct kfi_ep_attr {
  enum kfi_ep_type type;
  uint32_t protocol;
  uint32_t protocol_version;
  size_t max_msg_size;
  size_t msg_prefix_size;
  size_t max_order_raw_size;
  size_t max_order_war_size;
  size_t max_order_waw_size;
  uint64_t mem_tag_format;
  size_t tx_ctx_cnt;
  size_t rx_ctx_cnt;
  size_t auth_key_size;
  uint8_t* auth_key;
};

struct kfi_domain_attr {
  struct kfid_domain* domain;
  char* name;
  enum kfi_threading threading;
  enum kfi_progress control_progress;
  enum kfi_progress data_progress;
  enum kfi_resource_mgmt resource_mgmt;
  enum kfi_av_type av_type;
  int mr_mode;
  size_t mr_key_size;
  size_t cq_data_size;
  size_t cq_cnt;
  size_t ep_cnt;
  size_t tx_ctx_cnt;
  size_t rx_ctx_cnt;
  size_t max_ep_tx_ctx;
  size_t max_ep_rx_ctx;
  size_t max_ep_stx_ctx;
  size_t max_ep_srx_ctx;
  size_t cntr_cnt;
  size_t mr_iov_limit;
  uint64_t caps;
  uint64_t mode;
  uint8_t* auth_key;
  size_t auth_key_size;
  size_t max_err_data;
  size_t mr_cnt;
  uint32_t tclass;
};

struct kfi_fabric_attr {
  struct kfid_fabric* fabric;
  char* name;
  char* prov_name;
  uint32_t prov_version;
  uint32_t api_version;
};

struct kfi_info {
  struct kfi_info* next;
  uint64_t caps;
  uint64_t mode;
  uint32_t addr_format;
  size_t src_addrlen;
  size_t dest_addrlen;
  void* src_addr;
  void* dest_addr;
  kfid_t handle;  // connection request, for kfi_endpoint and kfi_reject; or a passive endpoint
  struct kfi_tx_attr* tx_attr;
  struct kfi_rx_attr* rx_attr;
  struct kfi_ep_attr* ep_attr;
  struct kfi_domain_attr* domain_attr;
  struct kfi_fabric_attr* fabric_attr;
};
#endif

// ---- Objects --------------------------------------------------------------------------------------------------------

enum {
  KFI_CLASS_UNSPEC,
  KFI_CLASS_FABRIC,
  KFI_CLASS_DOMAIN,
  KFI_CLASS_EP,
  KFI_CLASS_SEP,
  KFI_CLASS_RX_CTX,
  KFI_CLASS_SRX_CTX,
  KFI_CLASS_TX_CTX,
  KFI_CLASS_STX_CTX,
  KFI_CLASS_PEP,
  KFI_CLASS_INTERFACE,
  KFI_CLASS_AV,
  KFI_CLASS_MR,
  KFI_CLASS_EQ,
  KFI_CLASS_CQ,
  KFI_CLASS_CNTR,
  KFI_CLASS_WAIT,
  KFI_CLASS_POLL,
  KFI_CLASS_CONNREQ
};

// The operations of every object. `size` is the table's size in bytes; no slot below it is NULL.
struct kfi_ops {
  size_t size;
  int (*close)(struct kfid* fid);
  int (*bind)(struct kfid* fid, struct kfid* bfid, uint64_t flags);
  int (*control)(struct kfid* fid, int command, void* arg);
  int (*ops_open)(struct kfid* fid, const char* name, uint64_t flags, void** ops, void* context);
};

struct kfid {
  size_t fclass;
  void* context;
  struct kfi_ops* ops;
  struct completion comp;  // the kernel's reference count; not used here
  atomic_t ref_cnt;
};

#define KFI_CHECK_OP(ops, opstype, op) ((ops)->size > offsetof(opstype, op) && (ops)->op)

struct kfi_eq_attr;
struct kfi_wait_attr;

// Called with the queue and its context when the queue has entries: kfi_eq(3). Not again until a read returned
// -KFI_EAGAIN.
typedef void (*kfi_comp_handler)(struct kfid_cq* cq, void* context);
typedef void (*kfi_event_handler)(struct kfid_eq* eq, void* context);

struct kfi_ops_fabric {
  size_t size;
  int (*domain)(struct kfid_fabric* fabric, struct kfi_info* info, struct kfid_domain** dom, void* context);
  int (*passive_ep)(struct kfid_fabric* fabric, struct kfi_info* info, struct kfid_pep** pep, void* context);
  int (*eq_open)(struct kfid_fabric* fabric, struct kfi_eq_attr* attr, struct kfid_eq** eq, kfi_event_handler handler,
                 void* context);
  int (*wait_open)(struct kfid_fabric* fabric, struct kfi_wait_attr* attr, struct kfid_wait** waitset);
};

struct kfid_fabric {
  struct kfid fid;
  struct kfi_ops_fabric* ops;
#if KFI_API >= 0x10007
  uint32_t api_version;
#endif
};

// ---- Calls ----------------------------------------------------------------------------------------------------------

// The calls that take structures of a generation have a symbol for each.
#if KFI_API < 0x10007
#define KFI_SYMBOL(name) __asm__(#name "_1_1")
#else
#define KFI_SYMBOL(name)
#endif

// kfi_getinfo: version 0 is the newest. -KFI_ENOSYS newer than the generation; -KFI_ENODATA nothing matches. Progress
// without calls is requested where the provider has it.
#if KFI_API < 0x10007
int kfi_getinfo(uint32_t version, struct kfi_info* hints, struct kfi_info** info) KFI_SYMBOL(kfi_getinfo);
#else
int kfi_getinfo(uint32_t version, const char* node, const char* service, uint64_t flags, struct kfi_info* hints,
                struct kfi_info** info);
#endif
// kfi_freeinfo: also frees ep_attr->auth_key and domain_attr->auth_key.
void kfi_freeinfo(struct kfi_info* info) KFI_SYMBOL(kfi_freeinfo);
struct kfi_info* kfi_allocinfo(void) KFI_SYMBOL(kfi_allocinfo);
struct kfi_info* kfi_dupinfo(const struct kfi_info* info) KFI_SYMBOL(kfi_dupinfo);
#if KFI_API < 0x10007
static inline void kfi_deallocinfo(const struct kfi_info* info) {
  kfi_freeinfo((struct kfi_info*)info);
}
#endif

int kfi_fabric(struct kfi_fabric_attr* attr, struct kfid_fabric** fabric, void* context) KFI_SYMBOL(kfi_fabric);

struct kfi_alias {
  struct kfid** fid;
  uint64_t flags;
};

struct kfi_mr_raw_attr {
  uint64_t flags;
  uint64_t* base_addr;
  uint8_t* raw_key;
  size_t* key_size;
};

struct kfi_mr_map_raw {
  uint64_t flags;
  uint64_t base_addr;
  uint8_t* raw_key;
  size_t key_size;
  uint64_t* key;
};

// Control commands.
enum {
  KFI_GETFIDFLAG,
  KFI_SETFIDFLAG,
  KFI_GETOPSFLAG,
  KFI_SETOPSFLAG,
  KFI_ALIAS,
  KFI_GETWAIT,
  KFI_ENABLE,
  KFI_BACKLOG,
#if KFI_API >= 0x10007
  KFI_GET_RAW_MR,
  KFI_MAP_RAW_MR,
  KFI_UNMAP_KEY,
  KFI_QUEUE_WORK,
  KFI_CANCEL_WORK,
  KFI_FLUSH_WORK,
  KFI_REFRESH
#endif
};

static inline int kfi_close(struct kfid* fid) {
  return fid->ops->close(fid);
}

static inline int kfi_control(struct kfid* fid, int command, void* arg) {
  return fid->ops->control(fid, command, arg);
}

#pragma GCC diagnostic push  // a call with the name of its argument structure
#pragma GCC diagnostic ignored "-Wshadow"
static inline int kfi_alias(struct kfid* fid, struct kfid** alias_fid, uint64_t flags) {
  struct kfi_alias alias;
  alias.fid = alias_fid;
  alias.flags = flags;
  return kfi_control(fid, KFI_ALIAS, &alias);
}
#pragma GCC diagnostic pop

static inline int kfi_open_ops(struct kfid* fid, const char* name, uint64_t flags, void** ops, void* context) {
  return fid->ops->ops_open(fid, name, flags, ops, context);
}

enum kfi_type {
  KFI_TYPE_INFO,
  KFI_TYPE_EP_TYPE,
  KFI_TYPE_CAPS,
  KFI_TYPE_OP_FLAGS,
  KFI_TYPE_ADDR_FORMAT,
  KFI_TYPE_TX_ATTR,
  KFI_TYPE_RX_ATTR,
  KFI_TYPE_EP_ATTR,
  KFI_TYPE_DOMAIN_ATTR,
  KFI_TYPE_FABRIC_ATTR,
  KFI_TYPE_THREADING,
  KFI_TYPE_PROGRESS,
  KFI_TYPE_PROTOCOL,
  KFI_TYPE_MSG_ORDER,
  KFI_TYPE_MODE,
  KFI_TYPE_AV_TYPE,
  KFI_TYPE_ATOMIC_TYPE,
  KFI_TYPE_ATOMIC_OP,
  KFI_TYPE_VERSION,
  KFI_TYPE_EQ_EVENT,
  KFI_TYPE_CQ_EVENT_FLAGS,
#if KFI_API >= 0x10007
  KFI_TYPE_MR_MODE,
  KFI_TYPE_OP_TYPE
#endif
};

enum kfi_param_type { KFI_PARAM_STRING, KFI_PARAM_INT, KFI_PARAM_BOOL };

struct kfi_param {
  const char* name;
  enum kfi_param_type type;
  const char* help_string;
  const char* value;
};

// Declared in every kernel's headers, defined in none; here they are libfabric's.
char* kfi_tostr(const void* data, enum kfi_type datatype) KFI_SYMBOL(kfi_tostr);
int kfi_getparams(struct kfi_param** params, int* count);
void kfi_freeparams(struct kfi_param* params);

struct kfi_context {
  void* internal[4];
};
struct kfi_context2 {
  void* internal[8];
};

#ifdef __cplusplus
}
#endif

#endif  // KFABRIC_H
