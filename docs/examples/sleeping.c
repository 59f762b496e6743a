// SPDX-License-Identifier: BSD-2-Clause
// sleeping: one poll() for a completion queue and for a descriptor of the program's own; fi_poll(3), fi_cq(3).
#include <poll.h>
#include <unistd.h>

#include "own_peer.h"

int main(void) {
  struct own_peer peer;
  open_own_peer(&peer, FI_MSG);
  int orders[2], ready;
  if (pipe(orders) != 0) return 1;
  ok("fi_control", fi_control(&peer.cq->fid, FI_GETWAIT, &ready));  // the queue was opened with FI_WAIT_FD

  char in[32] = "";
  ok("fi_recv", fi_recv(peer.ep, in, sizeof in, NULL, FI_ADDR_UNSPEC, NULL));
  if (write(orders[1], "!", 1) != 1) return 1;

  struct pollfd sources[] = {{.fd = ready, .events = POLLIN}, {.fd = orders[0], .events = POLLIN}};
  struct fid* queues[] = {&peer.cq->fid};
  for (;;) {
    // Read until the queue is empty; reading also drives the transfers.
    struct fi_cq_tagged_entry done;
    ssize_t got = fi_cq_read(peer.cq, &done, 1);
    if (got == 1) break;
    if (got != -FI_EAGAIN) return 1;

    // fi_trywait answers -FI_EAGAIN if something arrived since: then read again, do not sleep.
    int may_sleep = fi_trywait(peer.fabric, queues, 1);
    if (may_sleep == -FI_EAGAIN) continue;
    ok("fi_trywait", may_sleep);
    poll(sources, 2, -1);

    if (sources[1].revents & POLLIN) {
      char order;
      if (read(orders[0], &order, 1) != 1) return 1;
      ok("fi_inject", fi_inject(peer.ep, "woken by a message", 19, peer.self));
    }
  }
  printf("%s\n", in);

  close(orders[0]), close(orders[1]);
  close_own_peer(&peer);
}
