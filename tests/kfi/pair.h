// SPDX-License-Identifier: BSD-2-Clause
// Two connected endpoints in one program, for C and C++, in both generations.
#ifndef KFI_TESTS_PAIR_H
#define KFI_TESTS_PAIR_H

#include <kfi_atomic.h>
#include <kfi_rma.h>
#include <kfi_tagged.h>

#include "slides.h"

struct end {
  struct kfid_ep* ep;
  struct kfid_eq* eq;
  struct kfid_cq* cq;
};

// ends[0] connected to ends[1]. One domain serves both.
struct pair {
  struct kfi_info* info;
  struct kfid_fabric* fabric;
  struct kfid_domain* domain;
  struct kfid_pep* pep;
  struct end ends[2];
  struct kfi_cq_attr cq_attr;
#if KFI_API >= 0x10007
  kfi_comp_handler handler;  // for both completion queues; set before open_pair
  void* handler_context;
#endif
  uint64_t cq_bind_flags;
};

static inline struct kfid_eq* open_eq(struct kfid_fabric* fabric) {
  struct kfid_eq* eq = NULL;
#if KFI_API < 0x10007
  OK(kfi_eq_open(fabric, NULL, &eq, NULL));
#else
  OK(kfi_eq_open(fabric, NULL, &eq, NULL, NULL));
#endif
  return eq;
}

static inline void open_end(struct pair* pair, struct end* end, struct kfi_info* info) {
  end->eq = open_eq(pair->fabric);
#if KFI_API >= 0x10007
  OK(kfi_cq_open(pair->domain, &pair->cq_attr, &end->cq, pair->handler, pair->handler_context));
#else
  end->cq = open_cq(pair->domain, &pair->cq_attr);
#endif
  OK(kfi_endpoint(pair->domain, info, &end->ep, NULL));
  OK(kfi_ep_bind(end->ep, &end->eq->fid, 0));
  OK(kfi_ep_bind(end->ep, &end->cq->fid, KFI_SEND | KFI_RECV | pair->cq_bind_flags));
  OK(kfi_enable(end->ep));
}

// Members that are not zero stay: cq_attr, handler, cq_bind_flags. Over KFI_PROVIDER at KFI_ADDRESS, or tcp at
// 127.0.0.1.
static inline void open_pair(struct pair* pair, uint64_t caps) {
  const char* provider = getenv("KFI_PROVIDER");
  const char* address = getenv("KFI_ADDRESS");
  struct kfi_info* hints = hints_for(provider ? provider : "tcp");
  struct kfid_eq* listening;
  struct sockaddr_in name;
  size_t size = sizeof name;
  uint32_t event_id = 99;
  union event event;
  int i;
  hints->caps = caps;
  hints->src_addr = address_of(address ? address : "127.0.0.1", "0");
  hints->src_addrlen = sizeof name;
  pair->info = find(hints);
  OK(kfi_fabric(pair->info->fabric_attr, &pair->fabric, NULL));
  OK(kfi_domain(pair->fabric, pair->info, &pair->domain, NULL));
  OK(kfi_passive_ep(pair->fabric, pair->info, &pair->pep, NULL));
  listening = open_eq(pair->fabric);
  OK(kfi_pep_bind(pair->pep, &listening->fid, 0));
  OK(kfi_listen(pair->pep));
  OK(kfi_getname(&pair->pep->fid, &name, &size));
  free(pair->info->src_addr);
  pair->info->src_addr = NULL;
  pair->info->src_addrlen = 0;
  open_end(pair, &pair->ends[0], pair->info);
  OK(kfi_connect(pair->ends[0].ep, &name, NULL, 0));
  // The distribution's library makes progress as its queues are read.
  for (i = 0; i < 20000 && kfi_eq_sread(listening, &event_id, &event, sizeof event, 1, 0) < 0; i++) {
    CHECK(kfi_eq_read(pair->ends[0].eq, &event_id, &event, sizeof event, KFI_PEEK) == -KFI_EAGAIN);
  }
  CHECK(event_id == KFI_CONNREQ);
  open_end(pair, &pair->ends[1], event.entry.info);
  kfi_freeinfo(event.entry.info);
  OK(kfi_accept(pair->ends[1].ep, NULL, 0));
  for (i = 0; i < 20000 && kfi_eq_read(pair->ends[0].eq, &event_id, &event, sizeof event, KFI_PEEK) < 0; i++) {
    kfi_eq_sread(pair->ends[1].eq, &event_id, &event, sizeof event, 1, KFI_PEEK);
  }
  expect_event(pair->ends[0].eq, KFI_CONNECTED, &pair->ends[0].ep->fid, NULL);
  expect_event(pair->ends[1].eq, KFI_CONNECTED, &pair->ends[1].ep->fid, NULL);
  OK(kfi_close(&pair->pep->fid));
  OK(kfi_close(&listening->fid));
  kfi_freeinfo(hints);
#if KFI_API >= 0x10007
  if (pair->handler) return;
#endif
  for (i = 0; i < 2; i++) read_too[i] = pair->ends[i].cq;
}

static inline void close_pair(struct pair* pair) {
  int i;
  read_too[0] = read_too[1] = NULL;
  for (i = 0; i < 2; i++) {
    OK(kfi_close(&pair->ends[i].ep->fid));
    OK(kfi_close(&pair->ends[i].cq->fid));
    OK(kfi_close(&pair->ends[i].eq->fid));
  }
  OK(kfi_close(&pair->domain->fid));
  OK(kfi_close(&pair->fabric->fid));
  kfi_freeinfo(pair->info);
}

#endif  // KFI_TESTS_PAIR_H
