// SPDX-License-Identifier: BSD-2-Clause
// slides_client PORT [PROVIDER [ADDRESS]]: the client of the slides' server, in kfi. It connects without naming the
// address again, as the kernel's clients do.
#include "slides.h"

int main(int argc, char** argv) {
  struct kfi_info *hints, *info;
  struct kfid_fabric* fabric = NULL;
  struct kfid_domain* domain = NULL;
  struct kfid_eq* eq = NULL;
  struct kfid_ep* ep = NULL;
  struct kfid_cq* cq;
  struct kfid_mr* mr;
  struct kfi_cq_attr attr;
  char buf[64] = "";
  CHECK(argc > 1);
  hints = hints_for(argc > 2 ? argv[2] : "tcp");
  hints->dest_addr = address_of(argc > 3 ? argv[3] : "127.0.0.1", argv[1]);
  hints->dest_addrlen = sizeof(struct sockaddr_in);
  info = find(hints);
  OK(kfi_fabric(info->fabric_attr, &fabric, NULL));
  OK(kfi_domain(fabric, info, &domain, NULL));
#if KFI_API < 0x10007
  OK(kfi_eq_open(fabric, NULL, &eq, NULL));
#else
  OK(kfi_eq_open(fabric, NULL, &eq, NULL, NULL));
#endif
  memset(&attr, 0, sizeof attr);
  attr.format = KFI_CQ_FORMAT_MSG;
  cq = open_cq(domain, &attr);
  OK(kfi_endpoint(domain, info, &ep, NULL));
  CHECK(kfi_shutdown(ep, KFI_WRITE) == -KFI_ENOTCONN);
  OK(kfi_ep_bind(ep, &eq->fid, 0));
  OK(kfi_ep_bind(ep, &cq->fid, KFI_SEND | KFI_RECV));
  mr = register_buffer(domain, buf, sizeof buf);
  OK(kfi_connect(ep, NULL, kHello, sizeof kHello));
  expect_event(eq, KFI_CONNECTED, &ep->fid, kWelcome);
  memcpy(buf, kRequest, sizeof kRequest);
  OK(kfi_send(ep, buf, sizeof kRequest, kfi_mr_desc(mr), KFI_ADDR_UNSPEC, &attr));
  expect_completion(cq, &attr, KFI_MSG | KFI_SEND, 0);
  OK(kfi_recv(ep, buf, sizeof buf, kfi_mr_desc(mr), KFI_ADDR_UNSPEC, buf));
  expect_completion(cq, buf, KFI_MSG | KFI_RECV, sizeof kAnswer);
  CHECK(strcmp(buf, kAnswer) == 0);
  memcpy(buf, kThanks, sizeof kThanks);
  OK(kfi_send(ep, buf, sizeof kThanks, kfi_mr_desc(mr), KFI_ADDR_UNSPEC, &attr));
  CHECK(kfi_shutdown(ep, 1) == -KFI_EBADFLAGS);
  OK(kfi_shutdown(ep, KFI_WRITE));
  expect_completion(cq, &attr, KFI_MSG | KFI_SEND, 0);
  {
    // The server closes as soon as it gets KFI_SHUTDOWN, which the half shutdown may have caused.
    int result = kfi_shutdown(ep, 0);
    CHECK(result == 0 || result == -KFI_ENOTCONN);
  }
  OK(kfi_close(&ep->fid));
  OK(kfi_close(&mr->fid));
  OK(kfi_close(&cq->fid));
  OK(kfi_close(&eq->fid));
  OK(kfi_close(&domain->fid));
  OK(kfi_close(&fabric->fid));
  kfi_freeinfo(info);
  kfi_freeinfo(hints);
  return 0;
}
