// SPDX-License-Identifier: BSD-2-Clause
// multicast: two members of a group, one sends, the other receives; fi_cm(3) fi_join. A program of your own has one
// member.
//   multicast [PROVIDER LOCAL_ADDRESS GROUP]      default: udp 127.0.0.1 239.1.2.3
#include <arpa/inet.h>

#include "example.h"

struct member {
  struct fid_eq* eq;
  struct fid_cq* cq;
  struct fid_av* av;
  struct fid_ep* ep;
  struct fid_mc* mc;
};

// Opens an endpoint and joins; the membership is complete with FI_JOIN_COMPLETE.
static void join(struct member* m, struct fid_fabric* fabric, struct fid_domain* domain, struct fi_info* info,
                 const struct sockaddr_in* group) {
  struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
  struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_UNSPEC};
  struct fi_av_attr av_attr = {.type = FI_AV_TABLE};
  ok("fi_eq_open", fi_eq_open(fabric, &eq_attr, &m->eq, NULL));
  ok("fi_cq_open", fi_cq_open(domain, &cq_attr, &m->cq, NULL));
  ok("fi_av_open", fi_av_open(domain, &av_attr, &m->av, NULL));
  ok("fi_endpoint", fi_endpoint(domain, info, &m->ep, NULL));
  ok("fi_ep_bind", fi_ep_bind(m->ep, &m->eq->fid, 0));
  ok("fi_ep_bind", fi_ep_bind(m->ep, &m->cq->fid, FI_TRANSMIT | FI_RECV));
  ok("fi_ep_bind", fi_ep_bind(m->ep, &m->av->fid, 0));
  ok("fi_enable", fi_enable(m->ep));
  ok("fi_join", fi_join(m->ep, group, 0, &m->mc, NULL));
  await_event(m->eq, FI_JOIN_COMPLETE);
}

static void leave(struct member* m) {
  struct fid* fids[] = {&m->mc->fid, &m->ep->fid, &m->av->fid, &m->cq->fid, &m->eq->fid};
  for (int i = 0; i < 5; ++i) ok("fi_close", fi_close(fids[i]));
}

int main(int argc, char** argv) {
  struct sockaddr_in group = {.sin_family = AF_INET, .sin_port = htons(4711)};
  inet_pton(AF_INET, argc > 3 ? argv[3] : "239.1.2.3", &group.sin_addr);
  struct fi_info *hints = fi_allocinfo(), *info;
  hints->ep_attr->type = FI_EP_DGRAM;
  hints->caps = FI_MSG | FI_MULTICAST;
  hints->domain_attr->mr_mode = FI_MR_LOCAL;  // receive buffers are registered; injected messages need no registration
  hints->addr_format = FI_SOCKADDR_IN;
  hints->fabric_attr->prov_name = strdup(argc > 1 ? argv[1] : "udp");
  ok("fi_getinfo", fi_getinfo(FI_VERSION(1, 18), argc > 2 ? argv[2] : "127.0.0.1", NULL, FI_SOURCE, hints, &info));
  struct fid_fabric* fabric;
  struct fid_domain* domain;
  struct fid_mr* in;
  ok("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
  ok("fi_domain", fi_domain(fabric, info, &domain, NULL));

  struct member sender, receiver;
  join(&sender, fabric, domain, info, &group);
  join(&receiver, fabric, domain, info, &group);
  char words[] = "hello, group", received[100] = "";
  ok("fi_mr_reg", fi_mr_reg(domain, received, sizeof received, FI_RECV, 0, 1, 0, &in, NULL));
  ok("fi_recv", fi_recv(receiver.ep, received, sizeof received, fi_mr_desc(in), FI_ADDR_UNSPEC, NULL));
  struct iovec iov = {words, sizeof words};
  struct fi_msg message = {.msg_iov = &iov, .iov_count = 1, .addr = fi_mc_addr(sender.mc)};
  ok("fi_sendmsg", fi_sendmsg(sender.ep, &message, FI_MULTICAST | FI_INJECT | FI_COMPLETION));
  await_completion(sender.cq);
  await_completion(receiver.cq);
  printf("received \"%s\"\n", received);

  leave(&sender);
  leave(&receiver);
  ok("fi_close", fi_close(&in->fid)), ok("fi_close", fi_close(&domain->fid)), ok("fi_close", fi_close(&fabric->fid));
  fi_freeinfo(info), fi_freeinfo(hints);
}
