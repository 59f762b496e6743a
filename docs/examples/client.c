// SPDX-License-Identifier: BSD-2-Clause
// client HOST PORT: connects, sends a message, prints the answer, and shuts down; fi_cm(3), fi_msg(3).
#include "example.h"

int main(int argc, char** argv) {
  if (argc != 3) return fprintf(stderr, "usage: client HOST PORT\n"), 2;
  // Connected endpoints that can reach the server; info->dest_addr becomes its address.
  struct fi_info *hints = fi_allocinfo(), *info;
  hints->ep_attr->type = FI_EP_MSG;
  hints->caps = FI_MSG;
  ok("fi_getinfo", fi_getinfo(FI_VERSION(2, 0), argv[1], argv[2], 0, hints, &info));

  struct fid_fabric* fabric;
  struct fid_domain* domain;
  struct fid_eq* eq;
  struct fid_cq* cq;
  struct fid_ep* ep;
  struct fi_eq_attr eq_attr = {.wait_obj = FI_WAIT_UNSPEC};
  struct fi_cq_attr cq_attr = {.format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_UNSPEC};
  ok("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
  ok("fi_eq_open", fi_eq_open(fabric, &eq_attr, &eq, NULL));
  ok("fi_domain", fi_domain(fabric, info, &domain, NULL));
  ok("fi_cq_open", fi_cq_open(domain, &cq_attr, &cq, NULL));
  ok("fi_endpoint", fi_endpoint(domain, info, &ep, NULL));
  ok("fi_ep_bind", fi_ep_bind(ep, &eq->fid, 0));
  ok("fi_ep_bind", fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));

  // fi_connect enables the endpoint and returns at once; the outcome is an event.
  ok("fi_connect", fi_connect(ep, info->dest_addr, NULL, 0));
  await_event(eq, FI_CONNECTED);

  char answer[64], question[] = "hello";
  ok("fi_recv", fi_recv(ep, answer, sizeof answer, NULL, FI_ADDR_UNSPEC, NULL));
  ok("fi_send", fi_send(ep, question, strlen(question), NULL, FI_ADDR_UNSPEC, NULL));
  for (int left = 2; left > 0; --left) {
    struct fi_cq_data_entry done = await_completion(cq);
    if (done.flags & FI_RECV) printf("%.*s\n", (int)done.len, answer);
  }

  ok("fi_shutdown", fi_shutdown(ep, 0));
  await_event(eq, FI_SHUTDOWN);
  struct fid* all[] = {&ep->fid, &cq->fid, &domain->fid, &eq->fid, &fabric->fid};
  for (size_t i = 0; i < sizeof all / sizeof *all; ++i) ok("fi_close", fi_close(all[i]));
  fi_freeinfo(info);
  fi_freeinfo(hints);
}
