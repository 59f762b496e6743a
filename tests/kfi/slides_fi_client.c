// SPDX-License-Identifier: BSD-2-Clause
// slides_fi_client PORT [PROVIDER [ADDRESS]]: the client of the slides' server in plain libfabric; linked with weft,
// and with the distribution's library.
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <string.h>

#include "check.h"
#include "texts.h"

#undef OK
#define OK(call) CHECK((call) == 0)

static void expect_completion(struct fid_cq* cq, void* context) {
  struct fi_cq_msg_entry entry;
  CHECK(fi_cq_sread(cq, &entry, 1, NULL, 20000) == 1);
  CHECK(entry.op_context == context);
}

int main(int argc, char** argv) {
  struct fi_info *hints = fi_allocinfo(), *info = NULL;
  struct fid_fabric* fabric;
  struct fid_domain* domain;
  struct fid_eq* eq;
  struct fid_ep* ep;
  struct fid_cq* cq;
  struct fid_mr* mr;
  struct fi_eq_attr eq_attr = {0, 0, FI_WAIT_UNSPEC, 0, NULL};
  struct fi_cq_attr attr;
  uint32_t event;
  union {
    struct fi_eq_cm_entry entry;
    char room[256];
  } read;
  char buf[64] = "";
  CHECK(argc > 1 && hints != NULL);
  hints->caps = FI_MSG;
  hints->ep_attr->type = FI_EP_MSG;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ALLOCATED;
  hints->fabric_attr->prov_name = strdup(argc > 2 ? argv[2] : "tcp");
  OK(fi_getinfo(FI_VERSION(1, 17), argc > 3 ? argv[3] : "127.0.0.1", argv[1], 0, hints, &info));
  OK(fi_fabric(info->fabric_attr, &fabric, NULL));
  OK(fi_domain(fabric, info, &domain, NULL));
  OK(fi_eq_open(fabric, &eq_attr, &eq, NULL));
  memset(&attr, 0, sizeof attr);
  attr.format = FI_CQ_FORMAT_MSG;
  attr.wait_obj = FI_WAIT_UNSPEC;
  OK(fi_cq_open(domain, &attr, &cq, NULL));
  OK(fi_endpoint(domain, info, &ep, NULL));
  OK(fi_ep_bind(ep, &eq->fid, 0));
  OK(fi_ep_bind(ep, &cq->fid, FI_SEND | FI_RECV));
  OK(fi_mr_reg(domain, buf, sizeof buf, FI_SEND | FI_RECV, 0, 1, 0, &mr, NULL));
  OK(fi_enable(ep));
  OK(fi_connect(ep, info->dest_addr, kHello, sizeof kHello));
  CHECK(fi_eq_sread(eq, &event, &read, sizeof read, 20000, 0) == (ssize_t)(sizeof read.entry + sizeof kWelcome));
  CHECK(event == FI_CONNECTED && strcmp((const char*)read.entry.data, kWelcome) == 0);
  memcpy(buf, kRequest, sizeof kRequest);
  OK(fi_send(ep, buf, sizeof kRequest, fi_mr_desc(mr), 0, &attr));
  expect_completion(cq, &attr);
  OK(fi_recv(ep, buf, sizeof buf, fi_mr_desc(mr), 0, buf));
  expect_completion(cq, buf);
  CHECK(strcmp(buf, kAnswer) == 0);
  memcpy(buf, kThanks, sizeof kThanks);
  OK(fi_send(ep, buf, sizeof kThanks, fi_mr_desc(mr), 0, &attr));
  expect_completion(cq, &attr);
  OK(fi_shutdown(ep, 0));
  OK(fi_close(&ep->fid));
  OK(fi_close(&mr->fid));
  OK(fi_close(&cq->fid));
  OK(fi_close(&eq->fid));
  OK(fi_close(&domain->fid));
  OK(fi_close(&fabric->fid));
  fi_freeinfo(info);
  fi_freeinfo(hints);
  return 0;
}
