/* SPDX-License-Identifier: BSD-2-Clause */
/* static_runtime [failing]: opens a completion queue. With an argument it then does so again and lets all allocations
 * from the k-th on fail, for each k. The library throws and catches exceptions with its own copy of the C++ runtime
 * then. Each call must return, and without failures all of them succeed. Prints how often a call reported -FI_ENOMEM.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static long until_failure = -1; /* allocations that still succeed; -1: all */
static int failed;

__attribute__((visibility("default"))) void* malloc(size_t size) {
  static void* (*next)(size_t);
  if (!next) *(void**)&next = dlsym(RTLD_NEXT, "malloc");
  if (until_failure == 0) {
    failed = 1;
    return NULL;
  }
  if (until_failure > 0) --until_failure;
  return next(size);
}

static int open_all(void) {
  struct fi_info* info = NULL;
  struct fid_fabric* fabric = NULL;
  struct fid_domain* domain = NULL;
  struct fid_cq* queue = NULL;
  struct fi_cq_attr attributes;
  int result;

  memset(&attributes, 0, sizeof attributes);
  attributes.format = FI_CQ_FORMAT_CONTEXT;
  result = fi_getinfo(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), NULL, NULL, 0, NULL, &info);
  if (!result) result = fi_fabric(info->fabric_attr, &fabric, NULL);
  if (!result) result = fi_domain(fabric, info, &domain, NULL);
  if (!result) result = fi_cq_open(domain, &attributes, &queue, NULL);
  until_failure = -1;
  if (queue) fi_close(&queue->fid);
  if (domain) fi_close(&domain->fid);
  if (fabric) fi_close(&fabric->fid);
  fi_freeinfo(info);
  return result;
}

int main(int argc, char** argv) {
  int reported = 0, result = open_all();
  long k = 0;
  (void)argv;
  if (result) {
    printf("without failures: %s\n", fi_strerror(-result));
    return 1;
  }
  if (argc < 2) return 0;
  do {
    failed = 0;
    until_failure = k++;
    result = open_all();
    if (result == -FI_ENOMEM) ++reported;
  } while (failed);
  printf("%d of %ld attempts reported -FI_ENOMEM, the last one returned %d\n", reported, k, result);
  return reported == 0 || result != 0;
}
