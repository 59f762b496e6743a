// SPDX-License-Identifier: BSD-2-Clause
// rma: writes into a peer's memory, with completion data for the peer, and reads it back; fi_rma(3), fi_mr(3).
#include "connected_pair.h"

int main(void) {
  struct connected_pair pair;
  open_pair(&pair, FI_MSG | FI_RMA);

  // The target registers the memory that peers may access. With mr_mode 0 the application chooses the key, and
  // addresses are offsets.
  char target[4096] = "";
  struct fid_mr* region;
  ok("fi_mr_reg",
     fi_mr_reg(pair.domain, target, sizeof target, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 4711, 0, &region, NULL));
  uint64_t key = fi_mr_key(region);  // a real target sends it to its peer

  // The completion data arrives at the target's completion queue when the data is in place.
  const char text[] = "written from afar";
  ok("fi_writedata", fi_writedata(pair.ep[0], text, sizeof text, NULL, 42, FI_ADDR_UNSPEC, 0, key, NULL));
  for (int left = 2; left > 0; --left) {
    struct fi_cq_data_entry done = await_completion(pair.cq);
    if (done.flags & FI_REMOTE_WRITE) printf("notified with %llu: \"%s\"\n", (unsigned long long)done.data, target);
  }

  char copy[sizeof text] = "";
  ok("fi_read", fi_read(pair.ep[0], copy, sizeof copy, NULL, FI_ADDR_UNSPEC, 0, key, NULL));
  await_completion(pair.cq);
  printf("read \"%s\"\n", copy);

  ok("fi_close", fi_close(&region->fid));
  close_pair(&pair);
}
