// SPDX-License-Identifier: BSD-2-Clause
// An endpoint of reliable datagrams that sends to itself, so that an example needs one process only.
#pragma once

#include <rdma/fi_tagged.h>

#include "example.h"

struct own_peer {
  struct fi_info* info;
  struct fid_fabric* fabric;
  struct fid_domain* domain;
  struct fid_cq* cq;
  struct fid_av* av;
  struct fid_ep* ep;
  fi_addr_t self;  // the endpoint's own address in its address vector
};

static inline void open_own_peer(struct own_peer* peer, uint64_t caps) {
  struct fi_info* hints = fi_allocinfo();
  hints->ep_attr->type = FI_EP_RDM;
  hints->caps = caps;
  ok("fi_getinfo", fi_getinfo(FI_VERSION(2, 0), "127.0.0.1", NULL, FI_SOURCE, hints, &peer->info));
  fi_freeinfo(hints);

  struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD};
  struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
  ok("fi_fabric", fi_fabric(peer->info->fabric_attr, &peer->fabric, NULL));
  ok("fi_domain", fi_domain(peer->fabric, peer->info, &peer->domain, NULL));
  ok("fi_cq_open", fi_cq_open(peer->domain, &cq_attr, &peer->cq, NULL));
  ok("fi_av_open", fi_av_open(peer->domain, &av_attr, &peer->av, NULL));
  ok("fi_endpoint", fi_endpoint(peer->domain, peer->info, &peer->ep, NULL));
  ok("fi_ep_bind", fi_ep_bind(peer->ep, &peer->cq->fid, FI_TRANSMIT | FI_RECV));
  ok("fi_ep_bind", fi_ep_bind(peer->ep, &peer->av->fid, 0));
  ok("fi_enable", fi_enable(peer->ep));

  // A program with peers sends this name to them, by any other way.
  char name[128];
  size_t size = sizeof name;
  ok("fi_getname", fi_getname(&peer->ep->fid, name, &size));
  if (fi_av_insert(peer->av, name, 1, &peer->self, 0, NULL) != 1) exit(1);
}

static inline void close_own_peer(struct own_peer* peer) {
  struct fid* all[] = {&peer->ep->fid, &peer->av->fid, &peer->cq->fid, &peer->domain->fid, &peer->fabric->fid};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) ok("fi_close", fi_close(all[i]));
  fi_freeinfo(peer->info);
}
