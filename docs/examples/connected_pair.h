// SPDX-License-Identifier: BSD-2-Clause
// Two endpoints of one process, connected over the loopback interface, with one event queue and one completion queue.
#pragma once

#include "example.h"

struct connected_pair {
  struct fi_info *info, *request;
  struct fid_fabric* fabric;
  struct fid_domain* domain;
  struct fid_eq* eq;
  struct fid_cq* cq;
  struct fid_pep* listener;
  struct fid_ep* ep[2];  // the active one, the passive one
};

static inline struct fid_ep* open_endpoint(struct connected_pair* pair, struct fi_info* info) {
  struct fid_ep* ep;
  ok("fi_endpoint", fi_endpoint(pair->domain, info, &ep, NULL));
  ok("fi_ep_bind", fi_ep_bind(ep, &pair->eq->fid, 0));
  ok("fi_ep_bind", fi_ep_bind(ep, &pair->cq->fid, FI_TRANSMIT | FI_RECV));
  ok("fi_enable", fi_enable(ep));
  return ep;
}

static inline void open_pair(struct connected_pair* pair, uint64_t caps) {
  struct fi_info* hints = fi_allocinfo();
  struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
  struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_UNSPEC};
  char name[128];
  size_t size = sizeof name;
  hints->ep_attr->type = FI_EP_MSG;
  hints->caps = caps;
  ok("fi_getinfo", fi_getinfo(FI_VERSION(2, 0), "127.0.0.1", NULL, FI_SOURCE, hints, &pair->info));
  ok("fi_fabric", fi_fabric(pair->info->fabric_attr, &pair->fabric, NULL));
  ok("fi_domain", fi_domain(pair->fabric, pair->info, &pair->domain, NULL));
  ok("fi_eq_open", fi_eq_open(pair->fabric, &eq_attr, &pair->eq, NULL));
  ok("fi_cq_open", fi_cq_open(pair->domain, &cq_attr, &pair->cq, NULL));
  ok("fi_passive_ep", fi_passive_ep(pair->fabric, pair->info, &pair->listener, NULL));
  ok("fi_pep_bind", fi_pep_bind(pair->listener, &pair->eq->fid, 0));
  ok("fi_listen", fi_listen(pair->listener));
  ok("fi_getname", fi_getname(&pair->listener->fid, name, &size));

  pair->ep[0] = open_endpoint(pair, pair->info);
  ok("fi_connect", fi_connect(pair->ep[0], name, NULL, 0));
  pair->request = await_event(pair->eq, FI_CONNREQ);
  pair->ep[1] = open_endpoint(pair, pair->request);
  ok("fi_accept", fi_accept(pair->ep[1], NULL, 0));
  await_event(pair->eq, FI_CONNECTED);
  await_event(pair->eq, FI_CONNECTED);
  fi_freeinfo(hints);
}

static inline void close_pair(struct connected_pair* pair) {
  struct fid* all[] = {&pair->ep[0]->fid,  &pair->ep[1]->fid, &pair->listener->fid, &pair->cq->fid,
                       &pair->domain->fid, &pair->eq->fid,    &pair->fabric->fid};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) ok("fi_close", fi_close(all[i]));
  fi_freeinfo(pair->request);
  fi_freeinfo(pair->info);
}
