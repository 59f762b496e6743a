/* SPDX-License-Identifier: BSD-2-Clause */
/* A program of another project: opens a domain with connected endpoints. Compiles as C and as C++. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE  // strdup
#endif
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>
#include <stdio.h>
#include <string.h>

static int check(const char* call, int result) {
  if (result) fprintf(stderr, "%s: %s\n", call, fi_strerror(-result));
  return result;
}

int main(void) {
  struct fi_info *hints = fi_allocinfo(), *info = NULL;
  struct fid_fabric* fabric = NULL;
  struct fid_domain* domain = NULL;
  int result;

  hints->ep_attr->type = FI_EP_MSG;
  hints->caps = FI_MSG | FI_RMA;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->fabric_attr->prov_name = strdup("tcp");
  result = check("fi_getinfo", fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), NULL, NULL, 0, hints, &info));
  fi_freeinfo(hints);
  if (!result) result = check("fi_fabric", fi_fabric(info->fabric_attr, &fabric, NULL));
  if (!result) result = check("fi_domain", fi_domain(fabric, info, &domain, NULL));
  if (!result) printf("%s %s\n", info->fabric_attr->prov_name, fi_tostr(&info->ep_attr->type, FI_TYPE_EP_TYPE));
  if (domain) result |= check("fi_close", fi_close(&domain->fid));
  if (fabric) result |= check("fi_close", fi_close(&fabric->fid));
  fi_freeinfo(info);
  return result != 0;
}
