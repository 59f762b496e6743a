// SPDX-License-Identifier: BSD-2-Clause
// errors: where failures are reported. A call that fails at once returns the error; a later failure is one error entry
// in the queue of the object concerned: transfers in the completion queue, connections in the event queue; fi_cq(3),
// fi_eq(3).
#include "connected_pair.h"

static void print_transfer_error(struct fid_cq* cq) {
  struct fi_cq_err_entry error = {0};
  struct fi_cq_data_entry entry;
  if (fi_cq_sread(cq, &entry, 1, NULL, TIMEOUT_MS) != -FI_EAVAIL) exit(1);
  ok("fi_cq_readerr", fi_cq_readerr(cq, &error, 0));
  printf("%s: %s, %zu bytes too many\n", (const char*)error.op_context, fi_strerror(error.err), error.olen);
}

static void print_connect_error(struct fid_eq* eq) {
  struct fi_eq_err_entry error = {0};
  struct fi_eq_cm_entry entry;
  uint32_t event;
  char text[256];
  if (fi_eq_sread(eq, &event, &entry, sizeof entry, TIMEOUT_MS, 0) != -FI_EAVAIL) exit(1);
  ok("fi_eq_readerr", fi_eq_readerr(eq, &error, 0));
  printf("%s: %s\n", fi_strerror(error.err), fi_eq_strerror(eq, error.prov_errno, error.err_data, text, sizeof text));
}

int main(void) {
  struct connected_pair pair;
  open_pair(&pair, FI_MSG);

  // A message longer than its receive: the receive fails, the connection continues.
  char small[4], message[10] = "ten bytes";
  ok("fi_recv", fi_recv(pair.ep[1], small, sizeof small, NULL, FI_ADDR_UNSPEC, "short receive"));
  ok("fi_inject", fi_inject(pair.ep[0], message, sizeof message, FI_ADDR_UNSPEC));
  print_transfer_error(pair.cq);

  // Operations that are still posted when a connection ends are cancelled before fi_shutdown returns.
  ok("fi_recv", fi_recv(pair.ep[1], small, sizeof small, NULL, FI_ADDR_UNSPEC, "cancelled receive"));
  ok("fi_shutdown", fi_shutdown(pair.ep[1], 0));
  print_transfer_error(pair.cq);
  await_event(pair.eq, FI_SHUTDOWN);
  await_event(pair.eq, FI_SHUTDOWN);

  // No listener is left at this address.
  char name[128];
  size_t size = sizeof name;
  ok("fi_getname", fi_getname(&pair.listener->fid, name, &size));
  ok("fi_close", fi_close(&pair.listener->fid));
  struct fid_ep* late = open_endpoint(&pair, pair.info);
  ok("fi_connect", fi_connect(late, name, NULL, 0));
  print_connect_error(pair.eq);
  ok("fi_close", fi_close(&late->fid));

  ok("fi_passive_ep", fi_passive_ep(pair.fabric, pair.info, &pair.listener, NULL));  // close_pair() closes one
  close_pair(&pair);
}
