// SPDX-License-Identifier: BSD-2-Clause
// Shared by the examples: waiting for one event or completion, and ending with a sentence after a failure.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TIMEOUT_MS = 10000 };

// Calls return 0 or more, or a negative error number.
static inline void ok(const char* call, ssize_t result) {
  if (result >= 0) return;
  fprintf(stderr, "%s: %s\n", call, fi_strerror((int)-result));
  exit(1);
}

// Waits for the event `wanted`; the result is the fi_info of an FI_CONNREQ, else NULL.
static inline struct fi_info* await_event(struct fid_eq* eq, uint32_t wanted) {
  union {
    struct fi_eq_cm_entry connection;
    struct fi_eq_entry other;
  } entry = {0};
  uint32_t event = 0;
  ssize_t got = fi_eq_sread(eq, &event, &entry, sizeof entry, TIMEOUT_MS, 0);
  if (got == -FI_EAVAIL) {  // an error is first: read it, and print its sentence
    struct fi_eq_err_entry error = {0};
    char text[256];
    ok("fi_eq_readerr", fi_eq_readerr(eq, &error, 0));
    fprintf(stderr, "%s\n", fi_eq_strerror(eq, error.prov_errno, error.err_data, text, sizeof text));
    exit(1);
  }
  ok("fi_eq_sread", got);
  if (event != wanted) {
    fprintf(stderr, "unexpected event %s\n", fi_tostr(&event, FI_TYPE_EQ_EVENT));
    exit(1);
  }
  return event == FI_CONNREQ ? entry.connection.info : NULL;
}

// Waits for one completion.
static inline struct fi_cq_data_entry await_completion(struct fid_cq* cq) {
  struct fi_cq_data_entry entry = {0};
  ssize_t got = fi_cq_sread(cq, &entry, 1, NULL, TIMEOUT_MS);
  if (got == -FI_EAVAIL) {
    struct fi_cq_err_entry error = {0};
    ok("fi_cq_readerr", fi_cq_readerr(cq, &error, 0));
    ok("transfer", -error.err);
  }
  ok("fi_cq_sread", got);
  return entry;
}
