// SPDX-License-Identifier: BSD-2-Clause
// kfabric in user space: a listener and its client in one program, as a kernel module would write them, with a handler
// in place of a wait. `cc kfabric.c $(pkg-config --cflags --libs libkfabric)`
#include <kfi_cm.h>
#include <kfi_endpoint.h>
#include <netinet/in.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct kfid_fabric* fabric;
static struct kfid_domain* domain;
static atomic_int received;

static void check(long result, const char* what) {
  if (result >= 0) return;
  fprintf(stderr, "%s: %s\n", what, kfi_strerror((int)-result));
  exit(1);
}
#define CHECK(call) check((long)(call), #call)

// Reads until the queue is empty: only that arms the handler again.
static void on_completions(struct kfid_cq* cq, void* context) {
  struct kfi_cq_msg_entry entry;
  (void)context;
  while (kfi_cq_read(cq, &entry, 1) == 1) {
    if (entry.flags == (KFI_MSG | KFI_RECV)) atomic_fetch_add(&received, (int)entry.len);
  }
}

static struct kfid_ep* open_endpoint(struct kfi_info* info, struct kfid_eq* eq, struct kfid_cq** cq) {
  struct kfi_cq_attr attr = {.format = KFI_CQ_FORMAT_MSG};
  struct kfid_ep* ep;
  CHECK(kfi_cq_open(domain, &attr, cq, on_completions, NULL));
  CHECK(kfi_endpoint(domain, info, &ep, NULL));
  CHECK(kfi_ep_bind(ep, &eq->fid, 0));
  CHECK(kfi_ep_bind(ep, &(*cq)->fid, KFI_SEND | KFI_RECV));
  CHECK(kfi_enable(ep));
  return ep;
}

// The next event within 10 seconds, and its info.
static struct kfi_info* wait_for(struct kfid_eq* eq, uint32_t wanted) {
  struct kfi_eq_cm_entry entry;
  uint32_t event;
  CHECK(kfi_eq_sread(eq, &event, &entry, sizeof entry, 10000000, KFI_TIME_US));
  if (event != wanted) exit(1);
  return entry.info;
}

int main(void) {
  struct kfi_info *hints = kfi_allocinfo(), *info, *request;
  struct sockaddr_in name = {.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
  size_t size = sizeof name;
  hints->caps = KFI_MSG;
  hints->ep_attr->type = KFI_EP_MSG;
  hints->addr_format = KFI_SOCKADDR_IN;
  hints->fabric_attr->prov_name = strdup("tcp");
  hints->src_addr = memcpy(malloc(size), &name, size);
  hints->src_addrlen = size;
  CHECK(kfi_getinfo(0, NULL, NULL, 0, hints, &info));
  CHECK(kfi_fabric(info->fabric_attr, &fabric, NULL));
  CHECK(kfi_domain(fabric, info, &domain, NULL));

  // The server.
  struct kfi_eq_attr eq_attr = {10, 0, KFI_WAIT_UNSPEC, 0, NULL};
  struct kfid_eq *server_eq, *client_eq;
  struct kfid_pep* pep;
  CHECK(kfi_passive_ep(fabric, info, &pep, NULL));
  CHECK(kfi_eq_open(fabric, &eq_attr, &server_eq, NULL, NULL));
  CHECK(kfi_pep_bind(pep, &server_eq->fid, 0));
  CHECK(kfi_listen(pep));
  CHECK(kfi_getname(&pep->fid, &name, &size));

  // The client has an address of its own choice.
  info->src_addrlen = 0;
  free(info->src_addr);
  info->src_addr = NULL;
  struct kfid_cq *client_cq, *server_cq;
  CHECK(kfi_eq_open(fabric, &eq_attr, &client_eq, NULL, NULL));
  struct kfid_ep* client = open_endpoint(info, client_eq, &client_cq);
  CHECK(kfi_connect(client, &name, NULL, 0));

  request = wait_for(server_eq, KFI_CONNREQ);
  struct kfid_ep* server = open_endpoint(request, server_eq, &server_cq);
  kfi_freeinfo(request);
  char text[32] = "";
  CHECK(kfi_recv(server, text, sizeof text, NULL, KFI_ADDR_UNSPEC, NULL));
  CHECK(kfi_accept(server, NULL, 0));
  wait_for(server_eq, KFI_CONNECTED);
  wait_for(client_eq, KFI_CONNECTED);

  // Two pieces; and then the client sends no more, but would still receive.
  struct kvec pieces[2] = {{"hello, ", 7}, {"kernel", 7}};
  CHECK(kfi_sendv(client, pieces, NULL, 2, KFI_ADDR_UNSPEC, NULL));
  while (atomic_load(&received) == 0) continue;
  printf("received \"%s\"\n", text);
  CHECK(kfi_shutdown(client, KFI_WRITE));
  printf("a send now: %s\n", kfi_strerror((int)-kfi_send(client, text, 1, NULL, KFI_ADDR_UNSPEC, NULL)));
  CHECK(kfi_shutdown(client, 0));
  wait_for(server_eq, KFI_SHUTDOWN);

  CHECK(kfi_close(&client->fid));
  CHECK(kfi_close(&server->fid));
  CHECK(kfi_close(&pep->fid));
  CHECK(kfi_close(&client_cq->fid));
  CHECK(kfi_close(&server_cq->fid));
  CHECK(kfi_close(&client_eq->fid));
  CHECK(kfi_close(&server_eq->fid));
  CHECK(kfi_close(&domain->fid));
  CHECK(kfi_close(&fabric->fid));
  kfi_freeinfo(info);
  kfi_freeinfo(hints);
  return 0;
}
