// SPDX-License-Identifier: BSD-2-Clause
// Every kind of transfer between two connected endpoints, as the kernel's test of connected data has them: compiled for
// API 1.1 and 1.7.
#include "pair.h"

enum { kSize = 4096 };
static char mine[kSize], theirs[kSize];

static void fill(char first) {
  int i;
  for (i = 0; i < kSize; i++) mine[i] = (char)(first + i);
  memset(theirs, 0, kSize);
}

static void expect_same(void) {
  CHECK(memcmp(mine, theirs, kSize) == 0);
}

static void messages(struct pair* pair) {
  struct kfid_ep *from = pair->ends[0].ep, *to = pair->ends[1].ep;
  struct kvec pieces[2], many[9];
  int i;
  fill('a');
  OK(kfi_recv(to, theirs, kSize, NULL, KFI_ADDR_UNSPEC, theirs));
  OK(kfi_send(from, mine, kSize, NULL, KFI_ADDR_UNSPEC, mine));
  expect_completion(pair->ends[0].cq, mine, KFI_MSG | KFI_SEND, 0);
  expect_completion(pair->ends[1].cq, theirs, KFI_MSG | KFI_RECV, kSize);
  expect_same();

  // Nine neighbours are one piece.
  fill('b');
  for (i = 0; i < 2; i++) {
    pieces[i].iov_base = theirs + i * (kSize / 2);
    pieces[i].iov_len = kSize / 2;
  }
  for (i = 0; i < 9; i++) {
    many[i].iov_base = mine + i * (kSize / 9);
    many[i].iov_len = kSize / 9;
  }
  many[8].iov_len = kSize - 8 * (kSize / 9);
  OK(kfi_recvv(to, pieces, NULL, 2, KFI_ADDR_UNSPEC, theirs));
  OK(kfi_sendv(from, many, NULL, 9, KFI_ADDR_UNSPEC, mine));
  expect_completion(pair->ends[0].cq, mine, KFI_MSG | KFI_SEND, 0);
  expect_completion(pair->ends[1].cq, theirs, KFI_MSG | KFI_RECV, kSize);
  expect_same();

  fill('c');
  OK(kfi_recv(to, theirs, kSize, NULL, KFI_ADDR_UNSPEC, theirs));
  OK(kfi_senddata(from, mine, kSize, NULL, 4711, KFI_ADDR_UNSPEC, mine));
  expect_completion(pair->ends[0].cq, mine, KFI_MSG | KFI_SEND, 0);
  expect_completion(pair->ends[1].cq, theirs, KFI_MSG | KFI_RECV | KFI_REMOTE_CQ_DATA, kSize);
  expect_same();
}

static void a_message_structure(struct pair* pair) {
  struct kfi_msg msg;
  struct kvec piece;
  fill('d');
  memset(&msg, 0, sizeof msg);
  piece.iov_base = mine;
  piece.iov_len = kSize;
#if KFI_API >= 0x10007
  msg.type = KFI_KVEC;
#endif
  msg.msg_iov = &piece;
  msg.iov_count = 1;
  msg.context = mine;
  OK(kfi_recv(pair->ends[1].ep, theirs, kSize, NULL, KFI_ADDR_UNSPEC, theirs));
  OK(kfi_sendmsg(pair->ends[0].ep, &msg, KFI_COMPLETION));
  expect_completion(pair->ends[0].cq, mine, KFI_MSG | KFI_SEND, 0);
  expect_completion(pair->ends[1].cq, theirs, KFI_MSG | KFI_RECV, kSize);
  expect_same();
}

static struct kfid_mr* expose(struct pair* pair, uint64_t* address) {
  struct kfid_mr* mr = NULL;
#if KFI_API < 0x10007
  OK(kfi_mr_reg(pair->domain, theirs, kSize, KFI_REMOTE_READ | KFI_REMOTE_WRITE, 0, 7, 0, &mr, NULL, address));
#else
  OK(kfi_mr_reg(pair->domain, theirs, kSize, KFI_REMOTE_READ | KFI_REMOTE_WRITE, 0, 7, 0, &mr, NULL));
  *address = mr->iova;
#endif
  return mr;
}

static void remote_access(struct pair* pair) {
  struct kfid_ep* ep = pair->ends[0].ep;
  struct kfid_cq* cq = pair->ends[0].cq;
  struct kvec pieces[2];
  uint64_t address;
  struct kfid_mr* mr = expose(pair, &address);
  uint64_t key = kfi_mr_key(mr);
  pieces[0].iov_base = mine;
  pieces[0].iov_len = 100;
  pieces[1].iov_base = mine + 100;
  pieces[1].iov_len = kSize - 100;

  fill('e');
  OK(kfi_write(ep, mine, kSize, NULL, KFI_ADDR_UNSPEC, address, key, mine));
  expect_completion(cq, mine, KFI_RMA | KFI_WRITE, 0);
  OK(kfi_read(ep, mine, 1, NULL, KFI_ADDR_UNSPEC, address, key, mine));  // behind the write: the bytes are there
  expect_completion(cq, mine, KFI_RMA | KFI_READ, 0);
  expect_same();

  fill('f');
  OK(kfi_writev(ep, pieces, NULL, 2, KFI_ADDR_UNSPEC, address, key, mine));
  expect_completion(cq, mine, KFI_RMA | KFI_WRITE, 0);
  OK(kfi_writedata(ep, mine, kSize, NULL, 42, KFI_ADDR_UNSPEC, address, key, mine));
  expect_completion(cq, mine, KFI_RMA | KFI_WRITE, 0);
  {
    struct kfi_cq_msg_entry entry;
    CHECK(next_completion(pair->ends[1].cq, &entry) == 1);
    CHECK(entry.flags & KFI_REMOTE_CQ_DATA);
  }
  expect_same();

  fill('g');
  memcpy(theirs, mine, kSize);
  memset(mine, 0, kSize);
  OK(kfi_readv(ep, pieces, NULL, 2, KFI_ADDR_UNSPEC, address, key, mine));
  expect_completion(cq, mine, KFI_RMA | KFI_READ, 0);
  expect_same();
  OK(kfi_close(&mr->fid));
}

// tcp's connected endpoints have no atomic operations: the slots answer.
static void what_is_missing(struct pair* pair) {
  uint64_t value = 1, result = 0;
  CHECK(kfi_atomic(pair->ends[0].ep, &value, 1, NULL, 0, 0, 7, KFI_UINT64, KFI_SUM, NULL) == -KFI_ENOSYS);
  CHECK(kfi_fetch_atomic(pair->ends[0].ep, &value, 1, NULL, &result, NULL, 0, 0, 7, KFI_UINT64, KFI_SUM, NULL) ==
        -KFI_ENOSYS);
  CHECK(kfi_tx_context(pair->ends[0].ep, 0, NULL, &pair->ends[0].ep, NULL) != 0);
}

static void an_error(struct pair* pair) {
  struct kfi_cq_err_entry error;
  char small[4];
  ssize_t result;
  memset(&error, 0, sizeof error);
  OK(kfi_recv(pair->ends[1].ep, small, sizeof small, NULL, KFI_ADDR_UNSPEC, small));
  OK(kfi_send(pair->ends[0].ep, mine, kSize, NULL, KFI_ADDR_UNSPEC, mine));
  expect_completion(pair->ends[0].cq, mine, KFI_MSG | KFI_SEND, 0);
  CHECK(next_completion(pair->ends[1].cq, mine) == -KFI_EAVAIL);
  result = kfi_cq_readerr(pair->ends[1].cq, &error, 0);
#if KFI_API < 0x10007
  CHECK(result == (ssize_t)sizeof error);
#else
  CHECK(result == 1);
#endif
  CHECK(error.op_context == small);
  CHECK(error.err == KFI_ETRUNC);
}

int main(void) {
  struct pair pair;
  memset(&pair, 0, sizeof pair);
  pair.cq_attr.format = KFI_CQ_FORMAT_MSG;
  open_pair(&pair, KFI_MSG | KFI_RMA);
  messages(&pair);
  a_message_structure(&pair);
  remote_access(&pair);
  what_is_missing(&pair);
  an_error(&pair);
  close_pair(&pair);
  return 0;
}
