// SPDX-License-Identifier: BSD-2-Clause
// slides_server [PROVIDER [ADDRESS]]: the server of the slides on setting up a kernel's server endpoint, in their
// order, then connection, messages, half shutdown after the answer, and the end. Prints its port. Compiled for API 1.7
// and for 1.1.
#include <arpa/inet.h>
#include <kfi_cm.h>
#include <kfi_endpoint.h>
#include <kfi_eq.h>
#include <netinet/in.h>
#include <string.h>

#include "slides.h"

static struct {
  struct kfi_info* prov;
  struct kfid_fabric* fabric;
  struct kfid_domain* domain;
  struct kfid_ep* ep;
  struct kfid_pep* pep;
  struct kfid_eq* eq;
  struct kfid_cq* send_cq;
  struct kfid_cq* recv_cq;
  struct kfid_mr* mr;
  char buf[64];
} ctx;

// The steps up to the first wait.
static void set_up_the_listener(void) {
  struct kfi_eq_attr eq_attr = {10, 0, KFI_WAIT_UNSPEC, 0, NULL};
  OK(kfi_passive_ep(ctx.fabric, ctx.prov, &ctx.pep, (void*)0xCafeBabe));
#if KFI_API < 0x10007
  OK(kfi_eq_open(ctx.fabric, &eq_attr, &ctx.eq, 0));
#else
  OK(kfi_eq_open(ctx.fabric, &eq_attr, &ctx.eq, NULL, 0));
#endif
  OK(kfi_pep_bind(ctx.pep, &ctx.eq->fid, 0));
  OK(kfi_listen(ctx.pep));
}

// Peeking returns the event again, and leaves it in the queue.
static struct kfi_info* wait_for_the_request(void) {
  uint32_t event_id = 99;
  union event event;
  struct kfi_info* info;
  ssize_t peeked = kfi_eq_sread(ctx.eq, &event_id, &event, sizeof event, 20000, KFI_TIME_MS | KFI_PEEK);
  CHECK(peeked == (ssize_t)(sizeof event.entry + sizeof kHello));
  CHECK(event_id == KFI_CONNREQ);
  info = event.entry.info;
  CHECK(kfi_eq_read(ctx.eq, &event_id, &event, sizeof event, KFI_PEEK) == peeked);
  CHECK(event.entry.info == info);
  memset(&event, 0, sizeof event);
  CHECK(kfi_eq_sread(ctx.eq, &event_id, &event, sizeof event, 20000, KFI_TIME_MS) == peeked);
  CHECK(event_id == KFI_CONNREQ);
  CHECK(event.entry.fid == &ctx.pep->fid);
  CHECK(event.entry.fid->context == (void*)0xCafeBabe);
  CHECK(memcmp(event.entry.data, kHello, sizeof kHello) == 0);
  CHECK(event.entry.info != NULL && event.entry.info->handle != NULL);
  return event.entry.info;
}

static void accept_it(struct kfi_info* info) {
  struct kfi_cq_attr attr;
  memset(&attr, 0, sizeof attr);
  attr.format = KFI_CQ_FORMAT_MSG;
  OK(kfi_domain(ctx.fabric, info, &ctx.domain, NULL));
  OK(kfi_endpoint(ctx.domain, info, &ctx.ep, NULL));
  kfi_freeinfo(info);
  OK(kfi_ep_bind(ctx.ep, &ctx.eq->fid, 0));
  ctx.send_cq = open_cq(ctx.domain, &attr);
  ctx.recv_cq = open_cq(ctx.domain, &attr);
  OK(kfi_ep_bind(ctx.ep, &ctx.send_cq->fid, KFI_SEND));
  OK(kfi_ep_bind(ctx.ep, &ctx.recv_cq->fid, KFI_RECV));
  ctx.mr = register_buffer(ctx.domain, ctx.buf, sizeof ctx.buf);
  OK(kfi_enable(ctx.ep));
  read_too[0] = ctx.recv_cq;
  OK(kfi_recv(ctx.ep, ctx.buf, sizeof ctx.buf, kfi_mr_desc(ctx.mr), KFI_ADDR_UNSPEC, ctx.buf));
  OK(kfi_accept(ctx.ep, kWelcome, sizeof kWelcome));
  expect_event(ctx.eq, KFI_CONNECTED, &ctx.ep->fid, NULL);
}

int main(int argc, char** argv) {
  struct kfi_info* hints = hints_for(argc > 1 ? argv[1] : "tcp");
  struct sockaddr_in name;
  size_t size = sizeof name;
  char* thanks = ctx.buf + 32;
  hints->src_addr = address_of(argc > 2 ? argv[2] : "127.0.0.1", "0");
  hints->src_addrlen = sizeof name;
  ctx.prov = find(hints);
  OK(kfi_fabric(ctx.prov->fabric_attr, &ctx.fabric, NULL));
  set_up_the_listener();
  OK(kfi_getname(&ctx.pep->fid, &name, &size));
  printf("%d\n", ntohs(name.sin_port));
  fflush(stdout);
  accept_it(wait_for_the_request());

  expect_completion(ctx.recv_cq, ctx.buf, KFI_MSG | KFI_RECV, sizeof kRequest);
  CHECK(memcmp(ctx.buf, kRequest, sizeof kRequest) == 0);
  OK(kfi_recv(ctx.ep, thanks, 32, kfi_mr_desc(ctx.mr), KFI_ADDR_UNSPEC, thanks));
  memcpy(ctx.buf, kAnswer, sizeof kAnswer);
  OK(kfi_send(ctx.ep, ctx.buf, sizeof kAnswer, kfi_mr_desc(ctx.mr), KFI_ADDR_UNSPEC, ctx.buf));
  const int half = kfi_shutdown(ctx.ep, KFI_WRITE);
  CHECK(half == 0 || half == -KFI_ENOTCONN);  // a fast client has thanked and left
  expect_completion(ctx.send_cq, ctx.buf, KFI_MSG | KFI_SEND, 0);
  // Any client still sends.
  expect_completion(ctx.recv_cq, thanks, KFI_MSG | KFI_RECV, sizeof kThanks);
  CHECK(strcmp(thanks, kThanks) == 0);
  expect_event(ctx.eq, KFI_SHUTDOWN, &ctx.ep->fid, NULL);

#if KFI_API < 0x10007
  // Queues close before what is bound to them.
  OK(kfi_close(&ctx.eq->fid));
  OK(kfi_close(&ctx.send_cq->fid));
  OK(kfi_close(&ctx.recv_cq->fid));
  OK(kfi_close(&ctx.mr->fid));
  OK(kfi_close(&ctx.ep->fid));
  OK(kfi_close(&ctx.pep->fid));
#else
  CHECK(kfi_close(&ctx.eq->fid) == -KFI_EBUSY);
  CHECK(kfi_close(&ctx.recv_cq->fid) == -KFI_EBUSY);
  OK(kfi_close(&ctx.mr->fid));
  OK(kfi_close(&ctx.ep->fid));
  OK(kfi_close(&ctx.send_cq->fid));
  OK(kfi_close(&ctx.recv_cq->fid));
  OK(kfi_close(&ctx.pep->fid));
  OK(kfi_close(&ctx.eq->fid));
#endif
  OK(kfi_close(&ctx.domain->fid));
  OK(kfi_close(&ctx.fabric->fid));
  kfi_freeinfo(ctx.prov);
  kfi_freeinfo(hints);
  return 0;
}
