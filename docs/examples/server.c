// SPDX-License-Identifier: BSD-2-Clause
// server: accepts one connection, returns one message to its sender, and waits for the end; fi_cm(3), fi_msg(3).
#include <arpa/inet.h>

#include "example.h"

int main(void) {
  // Connected endpoints, and a local address to listen at.
  struct fi_info *hints = fi_allocinfo(), *info;
  hints->ep_attr->type = FI_EP_MSG;
  hints->caps = FI_MSG;
  hints->addr_format = FI_SOCKADDR_IN;
  ok("fi_getinfo", fi_getinfo(FI_VERSION(2, 0), "127.0.0.1", NULL, FI_SOURCE, hints, &info));

  struct fid_fabric* fabric;
  struct fid_eq* eq;
  struct fid_pep* listener;
  struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
  ok("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
  ok("fi_eq_open", fi_eq_open(fabric, &eq_attr, &eq, NULL));
  ok("fi_passive_ep", fi_passive_ep(fabric, info, &listener, NULL));
  ok("fi_pep_bind", fi_pep_bind(listener, &eq->fid, 0));
  ok("fi_listen", fi_listen(listener));
  struct sockaddr_in here;
  size_t size = sizeof here;
  ok("fi_getname", fi_getname(&listener->fid, &here, &size));
  printf("%d\n", ntohs(here.sin_port));
  fflush(stdout);

  // A request carries the fi_info of an endpoint that can answer it.
  struct fi_info* request = await_event(eq, FI_CONNREQ);
  struct fid_domain* domain;
  struct fid_cq* cq;
  struct fid_ep* ep;
  struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_UNSPEC};
  ok("fi_domain", fi_domain(fabric, request, &domain, NULL));
  ok("fi_cq_open", fi_cq_open(domain, &cq_attr, &cq, NULL));
  ok("fi_endpoint", fi_endpoint(domain, request, &ep, NULL));
  ok("fi_ep_bind", fi_ep_bind(ep, &eq->fid, 0));
  ok("fi_ep_bind", fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
  ok("fi_enable", fi_enable(ep));
  char message[64];  // posted before accepting, so that the first message finds it
  ok("fi_recv", fi_recv(ep, message, sizeof message, NULL, FI_ADDR_UNSPEC, NULL));
  ok("fi_accept", fi_accept(ep, NULL, 0));
  await_event(eq, FI_CONNECTED);

  size_t length = await_completion(cq).len;
  ok("fi_send", fi_send(ep, message, length, NULL, FI_ADDR_UNSPEC, NULL));
  await_completion(cq);
  await_event(eq, FI_SHUTDOWN);

  struct fid* all[] = {&ep->fid, &cq->fid, &domain->fid, &listener->fid, &eq->fid, &fabric->fid};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) ok("fi_close", fi_close(all[i]));
  fi_freeinfo(request);
  fi_freeinfo(info);
  fi_freeinfo(hints);
}
