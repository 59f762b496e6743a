// SPDX-License-Identifier: BSD-2-Clause
// The API from C: every object of a connected endpoint over tcp is opened, bound, queried and closed, children first,
// and a parent refuses to close before its children. fi_getinfo(3), fi_fabric(3), fi_domain(3), fi_eq(3), fi_cq(3),
// fi_cntr(3), fi_mr(3), fi_endpoint(3), fi_cm(3).
#include <arpa/inet.h>
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "check.h"

#define OK(call)                                                                           \
  do {                                                                                     \
    int error_ = (int)(call);                                                              \
    if (error_) {                                                                          \
      fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #call, fi_strerror(-error_)); \
      exit(1);                                                                             \
    }                                                                                      \
  } while (0)

static struct fi_info* get_info(uint64_t flags) {
  struct fi_info *hints = fi_allocinfo(), *info = NULL;
  CHECK(hints);
  hints->ep_attr->type = FI_EP_MSG;
  hints->caps = FI_MSG;
  hints->mode = ~0ULL;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->fabric_attr->prov_name = strdup("tcp");
  OK(fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), "127.0.0.1", "0", flags, hints, &info));
  fi_freeinfo(hints);
  CHECK(info && info->ep_attr->type == FI_EP_MSG && (info->caps & FI_MSG));
  CHECK(info->fabric_attr->api_version == FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION));
  char text[4096];
  CHECK(strstr(fi_tostr_r(text, sizeof text, info, FI_TYPE_INFO), "FI_EP_MSG"));
  return info;
}

// Listens and returns its address.
static void walk_passive(struct fid_fabric* fabric, struct fi_info* info) {
  struct fi_eq_attr eq_attr = {.size = 8, .wait_obj = FI_WAIT_UNSPEC};
  struct fid_eq* eq;
  struct fid_pep* pep;
  struct sockaddr_in address = {0};
  size_t length = sizeof address;
  OK(fi_eq_open(fabric, &eq_attr, &eq, NULL));
  OK(fi_passive_ep(fabric, info, &pep, NULL));
  CHECK(pep->fid.fclass == FI_CLASS_PEP);
  OK(fi_pep_bind(pep, &eq->fid, 0));
  OK(fi_listen(pep));
  OK(fi_getname(&pep->fid, &address, &length));
  CHECK(length == sizeof address && address.sin_family == AF_INET && address.sin_port != 0);
  CHECK(fi_close(&eq->fid) == -FI_EBUSY);
  OK(fi_close(&pep->fid));
  OK(fi_close(&eq->fid));
}

static void walk_active(struct fid_fabric* fabric, struct fid_domain* domain, struct fi_info* info) {
  struct fi_eq_attr eq_attr = {.size = 8, .wait_obj = FI_WAIT_FD};
  struct fi_cq_attr cq_attr = {.size = 16, .format = FI_CQ_FORMAT_DATA, .wait_obj = FI_WAIT_NONE};
  struct fi_cntr_attr cntr_attr = {.events = FI_CNTR_EVENTS_COMP};
  struct fid_eq* eq;
  struct fid_cq* cq;
  struct fid_cntr* cntr;
  struct fid_mr* mr;
  struct fid_ep* ep;
  char memory[64] = {0};
  OK(fi_eq_open(fabric, &eq_attr, &eq, NULL));
  OK(fi_cq_open(domain, &cq_attr, &cq, memory));
  OK(fi_cntr_open(domain, &cntr_attr, &cntr, NULL));
  OK(fi_mr_reg(domain, memory, sizeof memory, FI_SEND | FI_RECV, 0, 1, 0, &mr, NULL));
  OK(fi_endpoint(domain, info, &ep, memory));
  CHECK(ep->fid.fclass == FI_CLASS_EP && ep->fid.context == memory && cq->fid.context == memory);
  OK(fi_ep_bind(ep, &eq->fid, 0));
  OK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV));
  OK(fi_ep_bind(ep, &cntr->fid, FI_SEND));
  OK(fi_enable(ep));

  // The queues are empty.
  uint32_t event;
  struct fi_eq_cm_entry cm;
  struct fi_cq_data_entry done;
  size_t limit, length = sizeof limit;
  int wait_fd = -1;
  CHECK(fi_eq_read(eq, &event, &cm, sizeof cm, 0) == -FI_EAGAIN);
  CHECK(fi_cq_read(cq, &done, 1) == -FI_EAGAIN);
  CHECK(fi_cntr_read(cntr) == 0 && fi_cntr_readerr(cntr) == 0);
  OK(fi_control(&eq->fid, FI_GETWAIT, &wait_fd));
  CHECK(wait_fd >= 0);
  OK(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &limit, &length));
  CHECK(limit > 0);
  OK(fi_recv(ep, memory, sizeof memory, fi_mr_desc(mr), FI_ADDR_UNSPEC, memory));

  CHECK(fi_close(&domain->fid) == -FI_EBUSY && fi_close(&fabric->fid) == -FI_EBUSY);
  CHECK(fi_close(&cq->fid) == -FI_EBUSY && fi_close(&eq->fid) == -FI_EBUSY && fi_close(&cntr->fid) == -FI_EBUSY);
  OK(fi_close(&ep->fid));
  OK(fi_close(&mr->fid));
  OK(fi_close(&cntr->fid));
  OK(fi_close(&cq->fid));
  OK(fi_close(&eq->fid));
}

int main(void) {
  CHECK(fi_version() == FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION));
  CHECK(strcmp(fi_strerror(FI_ETOOSMALL), fi_strerror(0)) != 0);
  struct fi_info* info = get_info(FI_SOURCE);
  struct fid_fabric *fabric, *fabric2;
  struct fid_domain* domain;
  OK(fi_fabric(info->fabric_attr, &fabric, NULL));
  CHECK(fabric->fid.fclass == FI_CLASS_FABRIC && fabric->api_version == info->fabric_attr->api_version);
  OK(fi_domain(fabric, info, &domain, NULL));
  walk_passive(fabric, info);
  walk_active(fabric, domain, info);
  OK(fi_close(&domain->fid));
  OK(fi_close(&fabric->fid));
  OK(fi_fabric2(info, &fabric2, 0, NULL));
  CHECK(fi_fabric2(info, &fabric2, 1, NULL) == -FI_EINVAL);
  OK(fi_close(&fabric2->fid));
  fi_freeinfo(info);
  puts("fabric, domain, eq, cq, cntr, mr, passive and active endpoint: opened, asked, closed");
  return 0;
}
