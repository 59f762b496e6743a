// SPDX-License-Identifier: BSD-2-Clause
// tags: receives select messages by tag and mask, and a program looks for a message without receiving it; fi_tagged(3).
#include "own_peer.h"

static struct fi_cq_tagged_entry await_tagged(struct fid_cq* cq) {
  struct fi_cq_tagged_entry entry;
  ok("fi_cq_sread", fi_cq_sread(cq, &entry, 1, NULL, TIMEOUT_MS));
  return entry;
}

int main(void) {
  struct own_peer peer;
  open_own_peer(&peer, FI_TAGGED);

  // The second receive ignores the low byte of the tag: it takes any tag from 0x500 to 0x5ff.
  char answer[32] = "", job[32] = "";
  ok("fi_trecv", fi_trecv(peer.ep, answer, sizeof answer, NULL, FI_ADDR_UNSPEC, 7, 0, answer));
  ok("fi_trecv", fi_trecv(peer.ep, job, sizeof job, NULL, FI_ADDR_UNSPEC, 0x500, 0xff, job));
  ok("fi_tinject", fi_tinject(peer.ep, "a job", 6, peer.self, 0x542));
  ok("fi_tinject", fi_tinject(peer.ep, "an answer", 10, peer.self, 7));
  for (int left = 2; left > 0; --left) {
    struct fi_cq_tagged_entry done = await_tagged(peer.cq);
    printf("tag 0x%llx: %s\n", (unsigned long long)done.tag, (const char*)done.op_context);
  }

  // FI_PEEK describes a message that has no receive yet; the message stays.
  ok("fi_tinject", fi_tinject(peer.ep, "unexpected", 11, peer.self, 9));
  struct fi_msg_tagged peek = {.addr = FI_ADDR_UNSPEC, .tag = 9};
  struct fi_cq_tagged_entry found;
  ssize_t got;
  do {
    ok("fi_trecvmsg", fi_trecvmsg(peer.ep, &peek, FI_PEEK));
    got = fi_cq_sread(peer.cq, &found, 1, NULL, TIMEOUT_MS);
    if (got == -FI_EAVAIL) {  // FI_ENOMSG: not yet
      struct fi_cq_err_entry error = {0};
      ok("fi_cq_readerr", fi_cq_readerr(peer.cq, &error, 0));
    }
  } while (got == -FI_EAVAIL);
  char late[32] = "";
  ok("fi_trecv", fi_trecv(peer.ep, late, found.len, NULL, FI_ADDR_UNSPEC, 9, 0, NULL));
  await_tagged(peer.cq);
  printf("%zu bytes wait: %s\n", found.len, late);

  close_own_peer(&peer);
}
