// SPDX-License-Identifier: BSD-2-Clause
// The objects of examples about transfers: an endpoint of tcp's reliable datagrams, which is its own peer.
#include "example.h"
#include "page_objects.h"

struct fi_info* info;
struct fid_fabric* fabric;
struct fid_domain* domain;
struct fid_eq* eq;
struct fid_cq* cq;
struct fid_av* av;
struct fid_ep* ep;
fi_addr_t self;

void open_objects(void) {
  struct fi_info* hints = fi_allocinfo();
  struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
  struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_TAGGED, .wait_obj = FI_WAIT_FD};
  struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
  char name[128];
  size_t size = sizeof name;
  hints->ep_attr->type = FI_EP_RDM;
  hints->caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC | FI_SOURCE | FI_TRIGGER | FI_MULTI_RECV;
  hints->fabric_attr->prov_name = strdup("tcp");
  ok("fi_getinfo", fi_getinfo(FI_VERSION(2, 0), "127.0.0.1", NULL, FI_SOURCE, hints, &info));
  ok("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
  ok("fi_domain", fi_domain(fabric, info, &domain, NULL));
  ok("fi_eq_open", fi_eq_open(fabric, &eq_attr, &eq, NULL));
  ok("fi_cq_open", fi_cq_open(domain, &cq_attr, &cq, NULL));
  ok("fi_av_open", fi_av_open(domain, &av_attr, &av, NULL));
  ok("fi_endpoint", fi_endpoint(domain, info, &ep, NULL));
  ok("fi_ep_bind", fi_ep_bind(ep, &av->fid, 0));
  ok("fi_ep_bind", fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
  ok("fi_enable", fi_enable(ep));
  ok("fi_getname", fi_getname(&ep->fid, name, &size));
  if (fi_av_insert(av, name, 1, &self, 0, NULL) != 1) exit(1);
  fi_freeinfo(hints);
}

void close_objects(void) {
  struct fid* all[] = {&ep->fid, &av->fid, &cq->fid, &eq->fid, &domain->fid, &fabric->fid};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) ok("fi_close", fi_close(all[i]));
  fi_freeinfo(info);
}
