// SPDX-License-Identifier: BSD-2-Clause
// Tests of parts that functions.sh cannot compare with 1.17: newer inlines and macros, guarded calls on a table that
// ends before their slot, and the logging macros. Runs without the library. fi_fabric(3), fi_provider(3).
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "all_headers.h"
#include "check.h"

// A table that a provider compiled against an older header filled: it ends before `slot`.
#define TABLE_BEFORE(type, slot) \
  { .size = offsetof(struct type, slot) }

static void short_tables_answer_enosys(void) {
  struct fi_ops fid_ops = TABLE_BEFORE(fi_ops, ops_set);
  struct fi_ops_fabric fabric_ops = TABLE_BEFORE(fi_ops_fabric, domain2);
  struct fi_ops_domain domain_ops = TABLE_BEFORE(fi_ops_domain, query_atomic);
  struct fi_ops_av av_ops = TABLE_BEFORE(fi_ops_av, av_set);
  struct fi_ops_cntr cntr_ops = TABLE_BEFORE(fi_ops_cntr, adderr);
  struct fi_ops_cm cm_ops = TABLE_BEFORE(fi_ops_cm, join);
  struct fi_ops_ep ep_ops = TABLE_BEFORE(fi_ops_ep, export_xpu);
  struct fi_ops_cq cq_ops = TABLE_BEFORE(fi_ops_cq, export_xpu);
  struct fi_ops_collective collective_ops = TABLE_BEFORE(fi_ops_collective, barrier2);
  struct fid_fabric fabric = {.fid = {.ops = &fid_ops}, .ops = &fabric_ops};
  struct fid_domain domain = {.ops = &domain_ops};
  struct fid_av av = {.ops = &av_ops};
  struct fid_cntr cntr = {.ops = &cntr_ops};
  struct fid_cq cq = {.ops = &cq_ops};
  struct fid_ep ep = {.ops = &ep_ops, .cm = &cm_ops, .collective = &collective_ops};
  struct fi_atomic_attr atomic;
  struct fi_collective_attr collective;
  CHECK(fi_set_ops(&fabric.fid, "", 0, NULL, NULL) == -FI_ENOSYS);
  CHECK(fi_domain2(&fabric, NULL, NULL, 1, NULL) == -FI_ENOSYS);
  CHECK(fi_endpoint2(&domain, NULL, NULL, 1, NULL) == -FI_ENOSYS);
  CHECK(fi_query_atomic(&domain, FI_UINT64, FI_SUM, &atomic, 0) == -FI_ENOSYS);
  CHECK(fi_query_collective(&domain, FI_BARRIER, &collective, 0) == -FI_ENOSYS);
  CHECK(fi_av_set(&av, NULL, NULL, NULL) == -FI_ENOSYS);
  CHECK(fi_av_insert_auth_key(&av, NULL, 0, NULL, 0) == -FI_ENOSYS);
  CHECK(fi_av_lookup_auth_key(&av, 0, NULL, NULL) == -FI_ENOSYS);
  CHECK(fi_av_set_user_id(&av, 0, 0, 0) == -FI_ENOSYS);
  CHECK(fi_cntr_adderr(&cntr, 1) == -FI_ENOSYS && fi_cntr_seterr(&cntr, 1) == -FI_ENOSYS);
  CHECK(fi_join(&ep, NULL, 0, NULL, NULL) == -FI_ENOSYS);
  CHECK(fi_join_collective(&ep, 0, NULL, 0, NULL, NULL) == -FI_ENOSYS);
  CHECK(fi_barrier2(&ep, 0, 1, NULL) == -FI_ENOSYS);
  CHECK(fi_av_lookup2(&av, 0, NULL, NULL, 0, NULL) == -FI_ENOSYS);
  CHECK(fi_xpu_ctx(&domain, NULL, NULL, NULL) == -FI_ENOSYS && fi_ep_export_xpu(&ep, 0, NULL) == -FI_ENOSYS);
  CHECK(fi_cq_export_xpu(&cq, 0, NULL) == -FI_ENOSYS && fi_cntr_export_xpu(&cntr, 0, NULL) == -FI_ENOSYS);
}

static void accelerators_answer_enosys(void) {
  struct fid_xpu_ep ep = {{FI_CLASS_EP, FI_XPU_PROV_EFA, 0}};
  struct fid_xpu_cntr counter = {{FI_CLASS_CNTR, FI_XPU_PROV_EFA, 0}};
  struct fid_xpu_cq cq = {{FI_CLASS_CQ, FI_XPU_PROV_EFA, 0}};
  CHECK(fi_xpu_send(&ep, NULL, 0, NULL, 0, NULL, NULL, 0, FI_XPU_WORK_ITEM) == -FI_ENOSYS);
  CHECK(fi_xpu_cntr_read(&counter, FI_XPU_DEVICE) == 0 && fi_xpu_cntr_add(&counter, 1, FI_XPU_DEVICE) == -FI_ENOSYS);
  CHECK(fi_xpu_cq_read(&cq, NULL, 0, FI_XPU_SUBGROUP) == -FI_ENOSYS);
}

static ssize_t cq_readerr(struct fid_cq* cq, struct fi_cq_err_entry* entry, uint64_t flags) {
  return cq && flags == 7 && entry->src_addr == FI_ADDR_NOTAVAIL ? 1 : -FI_EINVAL;
}

static ssize_t read_var(struct fid_profile* profile, uint32_t id, void* data, size_t* size) {
  CHECK(profile->fid.fclass == FI_CLASS_PROFILE && *size == sizeof(uint64_t));
  if (id != FI_VAR_CONNECTION_CNT) return -FI_EINVAL;
  *(uint64_t*)data = 42;
  return sizeof(uint64_t);
}

static struct fi_profile_ops profile_ops = {.size = sizeof profile_ops, .read_var = read_var};
static struct fid_profile profile = {.fid = {.fclass = FI_CLASS_PROFILE}, .ops = &profile_ops};

static int ops_open(struct fid* fid, const char* name, uint64_t flags, void** ops, void* context) {
  if (!fid || flags || context || strcmp(name, "fi_profile_ops") != 0) return -FI_ENOSYS;
  *ops = &profile.ops;
  return 0;
}

static void newer_inlines_reach_their_slots(void) {
  struct fi_ops_cq cq_ops = {.size = sizeof cq_ops, .readerr = cq_readerr};
  struct fid_cq cq = {.ops = &cq_ops};
  struct fi_cq_err_entry entry = {0};
  CHECK(fi_cq_readerr(&cq, &entry, 7) == 1);

  struct fi_ops ops = {.size = sizeof ops, .ops_open = ops_open};
  struct fid fid = {.ops = &ops};
  struct fid_profile* opened = NULL;
  uint64_t value = 0;
  CHECK(fi_profile_open(&fid, 1, &opened, NULL) == -FI_ENOSYS && opened == NULL);
  CHECK(fi_profile_open(&fid, 0, &opened, NULL) == 0 && opened == &profile);
  CHECK(fi_profile_read_u64(opened, FI_VAR_CONNECTION_CNT, &value) == 0 && value == 42);
  CHECK(fi_profile_read_u64(opened, FI_VAR_OFI_MEM, &value) == -FI_EINVAL);

  CHECK(fi_tag_mpi(-1, 2) == 0x2ffffffffULL);
  CHECK(fi_rx_addr(5, 3, 0) == 5 && fi_rx_addr(5, 3, 4) == (3ULL << 60 | 5));
  CHECK(fi_group_addr(5, 3) == (3ULL << 32 | 5));
}

// The library's side of the logging macros.
static int filter_passes, lines, questions;

int fi_log_enabled(const struct fi_provider* prov, enum fi_log_level level, enum fi_log_subsys subsys) {
  questions++;
  return filter_passes && !prov && level <= FI_LOG_INFO && subsys == FI_LOG_CORE;
}

int fi_log_ready(const struct fi_provider* prov, enum fi_log_level level, enum fi_log_subsys subsys,
                 uint64_t* showtime) {
  return fi_log_enabled(prov, level, subsys) && (*showtime)++ == 0;
}

void fi_log(const struct fi_provider* prov, enum fi_log_level level, enum fi_log_subsys subsys, const char* func,
            int line, const char* fmt, ...) {
  char text[64];
  va_list arguments;
  va_start(arguments, fmt);
  vsnprintf(text, sizeof text, fmt, arguments);
  va_end(arguments);
  CHECK(!prov && level <= FI_LOG_INFO && subsys == FI_LOG_CORE && line > 0);
  CHECK(strcmp(func, "logging_macros_filter_and_keep_errno") == 0 && strcmp(text, "seen 1\n") == 0);
  lines++;
  errno = EIO;
}

static void logging_macros_filter_and_keep_errno(void) {
  int evaluated = 0;
  errno = ENOENT;
  FI_WARN(NULL, FI_LOG_CORE, "seen %d\n", ++evaluated);
  CHECK(lines == 0 && evaluated == 0);  // filtered out: the arguments are not evaluated
  filter_passes = 1;
  FI_WARN(NULL, FI_LOG_CORE, "seen %d\n", ++evaluated);
  FI_INFO(NULL, FI_LOG_CORE, "seen 1\n");
  CHECK(lines == 2 && evaluated == 1);
  for (int i = 0; i < 3; i++) FI_WARN_SPARSE(NULL, FI_LOG_CORE, "seen %d\n", 1);
  CHECK(lines == 3);
  questions = 0;
  for (int i = 0; i < 3; i++) FI_WARN_ONCE(NULL, FI_LOG_CORE, "seen %d\n", 1);
  CHECK(lines == 4 && questions == 1);
  FI_DBG(NULL, FI_LOG_CORE, "seen %d\n", ++evaluated);
  CHECK(lines == 4 && evaluated == 1);  // not a debug build
  CHECK(errno == ENOENT);
}

int main(void) {
  short_tables_answer_enosys();
  accelerators_answer_enosys();
  newer_inlines_reach_their_slots();
  logging_macros_filter_and_keep_errno();
  puts("guarded calls, newer inlines and logging macros hold");
  return 0;
}
