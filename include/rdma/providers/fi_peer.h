// SPDX-License-Identifier: BSD-2-Clause
//
// Peer providers: one provider (the owner) shares its AV, CQ, counter, EQ, domain or shared receive
// context with another (the peer), which then reports through it. Governing page: fi_peer(3).
//
// The owner opens the peer's object with FI_PEER in the flags and one of the *_context structures
// below as `context`; a provider that cannot be a peer returns -FI_EINVAL. The objects in a context
// must outlive the peer's object. The page declares these layouts unstable between releases: owner
// and peer must come from the same one. Applications have no use for this header.
#ifndef FI_PEER_H
#define FI_PEER_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>

#ifdef __cplusplus
extern "C" {
#endif

// Peer AV: fi_peer(3) "PEER AV".
struct fid_peer_av;

struct fi_ops_av_owner {
  size_t size;
  // Fills *attr with the AV's current attributes.
  int (*query)(struct fid_peer_av* av, struct fi_av_attr* attr);
  // The fi_addr_t of a local endpoint, or FI_ADDR_NOTAVAIL if it was never inserted.
  fi_addr_t (*ep_addr)(struct fid_peer_av* av, struct fid_ep* ep);
};

struct fid_peer_av {
  struct fid fid;
  struct fi_ops_av_owner* owner_ops;
};

struct fi_peer_av_context {
  size_t size;
  struct fid_peer_av* av;
};

// Peer AV set: fi_peer(3) "PEER AV SET".
struct fid_peer_av_set;

struct fi_ops_av_set_owner {
  size_t size;
  // Copies the members to addr[0..*count) and sets *count to their number; -FI_ETOOSMALL if they did
  // not fit.
  int (*members)(struct fid_peer_av_set* av, fi_addr_t* addr, size_t* count);
};

struct fid_peer_av_set {
  struct fid fid;
  struct fi_ops_av_set_owner* owner_ops;
};

struct fi_peer_av_set_context {
  size_t size;
  struct fi_peer_av_set* av_set;
};

// Peer CQ: fi_peer(3) "PEER CQ". The owner locks, signals waiters and handles overflow.
struct fid_peer_cq;

struct fi_ops_cq_owner {
  size_t size;
  // Adds one completion; arguments that the CQ's format lacks are ignored.
  ssize_t (*write)(struct fid_peer_cq* cq, void* context, uint64_t flags, size_t len, void* buf, uint64_t data,
                   uint64_t tag, fi_addr_t src);
  // Adds one error completion.
  ssize_t (*writeerr)(struct fid_peer_cq* cq, const struct fi_cq_err_entry* err_entry);
};

struct fid_peer_cq {
  struct fid fid;
  struct fi_ops_cq_owner* owner_ops;
};

struct fi_peer_cq_context {
  size_t size;
  struct fid_peer_cq* cq;
};

// Peer counter: fi_peer(3) "PEER CNTR". Each call counts one success or one error.
struct fid_peer_cntr;

struct fi_ops_cntr_owner {
  size_t size;
  void (*inc)(struct fid_peer_cntr* cntr);
  void (*incerr)(struct fid_peer_cntr* cntr);
};

struct fid_peer_cntr {
  struct fid fid;
  struct fi_ops_cntr_owner* owner_ops;
};

struct fi_peer_cntr_context {
  size_t size;
  struct fid_peer_cntr* cntr;
};

// Peer domain and peer EQ: the owner's object itself is passed.
struct fi_peer_domain_context {
  size_t size;
  struct fid_domain* domain;
};

struct fi_peer_eq_context {
  size_t size;
  struct fid_eq* eq;
};

// Peer shared receive context: fi_peer(3) "PEER SRX".
struct fid_peer_srx;

// One receive, or one unexpected message waiting for one. The first two members link a list.
struct fi_peer_rx_entry {
  struct fi_peer_rx_entry* next;
  struct fi_peer_rx_entry* prev;
  struct fid_peer_srx* srx;
  fi_addr_t addr;
  size_t msg_size;
  uint64_t tag;
  uint64_t cq_data;
  uint64_t flags;
  void* context;
  size_t count;  // elements of iov and desc
  void** desc;
  void* peer_context;   // the peer's
  void* owner_context;  // the owner's
  struct iovec* iov;
};

// The message for which a receive is requested.
struct fi_peer_match_attr {
  fi_addr_t addr;
  uint64_t tag;
  size_t msg_size;
};

struct fi_ops_srx_owner {
  size_t size;
  // Finds the receive for an arrived message. 0: *entry is it; -FI_ENOENT: none yet, *entry is a
  // fresh one to queue; other negative fi_errno: no entry.
  int (*get_msg)(struct fid_peer_srx* srx, struct fi_peer_match_attr* attr, struct fi_peer_rx_entry** entry);
  int (*get_tag)(struct fid_peer_srx* srx, struct fi_peer_match_attr* attr, struct fi_peer_rx_entry** entry);
  // Queues an unexpected message until a receive matches it.
  int (*queue_msg)(struct fi_peer_rx_entry* entry);
  int (*queue_tag)(struct fi_peer_rx_entry* entry);
  // Resolves again the address of each unexpected message that arrived from an unknown peer.
  void (*foreach_unspec_addr)(struct fid_peer_srx* srx, fi_addr_t (*get_addr)(struct fi_peer_rx_entry*));
  void (*free_entry)(struct fi_peer_rx_entry* entry);
};

struct fi_ops_srx_peer {
  size_t size;
  // A queued message matched a receive: move the data.
  int (*start_msg)(struct fi_peer_rx_entry* entry);
  int (*start_tag)(struct fi_peer_rx_entry* entry);
  // A queued message is discarded.
  int (*discard_msg)(struct fi_peer_rx_entry* entry);
  int (*discard_tag)(struct fi_peer_rx_entry* entry);
};

struct fid_peer_srx {
  struct fid_ep ep_fid;
  struct fi_ops_srx_owner* owner_ops;
  struct fi_ops_srx_peer* peer_ops;
};

struct fi_peer_srx_context {
  size_t size;
  struct fid_peer_srx* srx;
};

// Peer transfers (flag FI_PEER_TRANSFER): fi_peer(3) "FI_PEER_TRANSFER".
struct fi_ops_transfer_peer {
  size_t size;
  // The owner reports that a transfer it carried for the peer completed, or failed.
  ssize_t (*complete)(struct fid_ep* ep, struct fi_cq_tagged_entry* buf, fi_addr_t src_addr);
  ssize_t (*comperr)(struct fid_ep* ep, struct fi_cq_err_entry* buf);
};

struct fi_peer_transfer_context {
  size_t size;
  struct fi_info* info;
  struct fid_ep* ep;
  struct fi_ops_transfer_peer* peer_ops;
};

#ifdef __cplusplus
}
#endif

#endif  // FI_PEER_H
