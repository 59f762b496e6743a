// SPDX-License-Identifier: BSD-2-Clause
// The parts that the server of the slides and its client in kfi share. All clients share the messages in texts.h.
#ifndef KFI_TESTS_SLIDES_H
#define KFI_TESTS_SLIDES_H

#include <arpa/inet.h>
#include <kfi_cm.h>
#include <kfi_endpoint.h>
#include <kfi_eq.h>
#include <netinet/in.h>
#include <string.h>

#include "check.h"
#include "texts.h"

union event {
  struct kfi_eq_cm_entry entry;
  char room[256];
};

static inline void* address_of(const char* address, const char* port) {
  struct sockaddr_in* name = (struct sockaddr_in*)calloc(1, sizeof *name);
  CHECK(name != NULL);
  name->sin_family = AF_INET;
  name->sin_port = htons((uint16_t)atoi(port));
  CHECK(inet_pton(AF_INET, address, &name->sin_addr) == 1);
  return name;
}

static inline struct kfi_info* hints_for(const char* provider) {
  struct kfi_info* hints = kfi_allocinfo();
  CHECK(hints != NULL);
  hints->caps = KFI_MSG;
  hints->addr_format = KFI_SOCKADDR_IN;
  hints->ep_attr->type = KFI_EP_MSG;
  hints->fabric_attr->prov_name = strdup(provider);
#if KFI_API >= 0x10007
  hints->domain_attr->mr_mode = KFI_MR_LOCAL | KFI_MR_VIRT_ADDR | KFI_MR_PROV_KEY;
#endif
  return hints;
}

static inline struct kfi_info* find(struct kfi_info* hints) {
  struct kfi_info* info = NULL;
#if KFI_API < 0x10007
  OK(kfi_getinfo(0, hints, &info));
#else
  OK(kfi_getinfo(0, NULL, NULL, 0, hints, &info));
#endif
  return info;
}

static inline struct kfid_cq* open_cq(struct kfid_domain* domain, struct kfi_cq_attr* attr) {
  struct kfid_cq* cq = NULL;
#if KFI_API < 0x10007
  OK(kfi_cq_open(domain, attr, &cq, NULL));
#else
  OK(kfi_cq_open(domain, attr, &cq, NULL, NULL));
#endif
  return cq;
}

static inline struct kfid_mr* register_buffer(struct kfid_domain* domain, void* buf, size_t len) {
  struct kfid_mr* mr = NULL;
#if KFI_API < 0x10007
  uint64_t address = 1;
  OK(kfi_mr_reg(domain, buf, len, KFI_SEND | KFI_RECV, 0, 1, 0, &mr, NULL, &address));
  CHECK(address == 0 || address == (uint64_t)(uintptr_t)buf);
#else
  OK(kfi_mr_reg(domain, buf, len, KFI_SEND | KFI_RECV, 0, 1, 0, &mr, NULL));
#endif
  return mr;
}

// The queues of two ends in one program. The distribution's library makes progress only as queues are read.
static struct kfid_cq* read_too[2];

static inline void progress(void) {
  if (read_too[0]) kfi_cq_read(read_too[0], NULL, 0);
  if (read_too[1]) kfi_cq_read(read_too[1], NULL, 0);
}

// The next event is this one, with this data (NULL: any).
static inline void expect_event(struct kfid_eq* eq, uint32_t wanted, struct kfid* fid, const char* data) {
  uint32_t event_id = 99;
  union event event;
  ssize_t size = -KFI_ETIMEDOUT;
  int i;
  for (i = 0; i < 2000 && size == -KFI_ETIMEDOUT; i++) {
    size = kfi_eq_sread(eq, &event_id, &event, sizeof event, 10, 0);
    progress();
  }
  if (size < 0) {
    struct kfi_eq_err_entry error;
    memset(&error, 0, sizeof error);
    if (size == -KFI_EAVAIL) kfi_eq_readerr(eq, &error, 0);
    fprintf(stderr, "no event: %ld, %s\n", (long)size, kfi_strerror(error.err));
  }
  CHECK(size >= (ssize_t)sizeof event.entry);
  CHECK(event_id == wanted);
  CHECK(event.entry.fid == fid);
  CHECK(data == NULL || strcmp((const char*)event.entry.data, data) == 0);
}

static inline ssize_t next_completion(struct kfid_cq* cq, void* entry) {
  ssize_t count = -KFI_ETIMEDOUT;
  int i;
  for (i = 0; i < 2000 && count == -KFI_ETIMEDOUT; i++) {
    count = kfi_cq_sread(cq, entry, 1, NULL, 10);
    progress();
  }
  return count;
}

static inline void expect_completion(struct kfid_cq* cq, void* context, uint64_t flags, size_t len) {
  struct kfi_cq_msg_entry entry;
  ssize_t count = next_completion(cq, &entry);
  if (count == -KFI_EAVAIL) {
    struct kfi_cq_err_entry error;
    memset(&error, 0, sizeof error);
    kfi_cq_readerr(cq, &error, 0);
    fprintf(stderr, "error entry: %s\n", kfi_strerror(error.err));
  }
  if (count < 0) fprintf(stderr, "no completion: %ld\n", (long)count);
  CHECK(count == 1);
  CHECK(entry.op_context == context);
  CHECK(entry.flags == flags);
  CHECK(len == 0 || entry.len == len);
}

#endif  // KFI_TESTS_SLIDES_H
