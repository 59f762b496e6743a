// SPDX-License-Identifier: BSD-2-Clause
// An endpoint of reliable datagrams whose peer is itself, for the tests that make each call of kfabric once.
#ifndef KFI_TESTS_CALLS_H
#define KFI_TESTS_CALLS_H

#include <cstring>

#include "connected.h"

// The result of a call that posts, made again while the provider has no room, or no connection yet: reads make
// progress.
template <class Call>
ssize_t post(kfid_cq* cq, Call call) {
  ssize_t result = call();
  for (int i = 0; i < 20000 && result == -KFI_EAGAIN; i++) {
    kfi_cq_read(cq, nullptr, 0);
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    result = call();
  }
  return result;
}
#define POSTED(call) EXPECT_EQ(post(cq, [&]() -> ssize_t { return call; }), 0)

// For an endpoint without connections.
inline void open_vector_and_queue(kfid_domain* domain, kfid_av** av, kfid_cq** cq) {
  kfi_av_attr av_attr{};
  av_attr.type = KFI_AV_TABLE;
  OK(kfi_av_open(domain, &av_attr, av, nullptr));
  kfi_cq_attr cq_attr{};
  cq_attr.format = KFI_CQ_FORMAT_TAGGED;
  *cq = open_cq(domain, &cq_attr);
}

// An endpoint whose peer is itself, and a region of memory that it may access.
class Calls : public testing::Test {
 protected:
  Calls() {
    kfi_info* hints = hints_for("tcp");
    hints->ep_attr->type = KFI_EP_RDM;
    hints->caps = KFI_MSG | KFI_TAGGED | KFI_RMA | KFI_ATOMIC | KFI_SOURCE;
    hints->src_addr = address_of("127.0.0.1", "0");
    hints->src_addrlen = sizeof(sockaddr_in);
    info = find(hints);
    kfi_freeinfo(hints);
    OK(kfi_fabric(info->fabric_attr, &fabric, nullptr));
    OK(kfi_domain(fabric, info, &domain, nullptr));
    open_vector_and_queue(domain, &av, &cq);
    kfi_cntr_attr cntr_attr{};
    OK(kfi_cntr_open(domain, &cntr_attr, &counter, nullptr));
    OK(kfi_endpoint(domain, info, &ep, nullptr));
    OK(kfi_ep_bind(ep, &av->fid, 0));
    OK(kfi_ep_bind(ep, &cq->fid, KFI_SEND | KFI_RECV));
    OK(kfi_ep_bind(ep, &counter->fid, KFI_RECV));
    OK(kfi_enable(ep));
    size_t size = sizeof name;
    OK(kfi_getname(&ep->fid, &name, &size));
    EXPECT_EQ(kfi_av_insert(av, &name, 1, &self, 0, nullptr), 1);
    OK(kfi_mr_reg(domain, &target, sizeof target, KFI_REMOTE_READ | KFI_REMOTE_WRITE, 0, 5, 0, &region, nullptr));
    at = region->iova;
    key = kfi_mr_key(region);
  }
  ~Calls() override {
    for (kfid* object : {&region->fid, &ep->fid, &counter->fid, &cq->fid, &av->fid, &domain->fid, &fabric->fid}) {
      EXPECT_EQ(kfi_close(object), 0);
    }
    kfi_freeinfo(info);
  }
  // The completions of a message from `sent` to `received`.
  void expect_message(uint64_t kind, uint64_t data = 0, bool has_send = true) {
    uint64_t flags = 0, wanted = kind | KFI_RECV | (has_send ? KFI_SEND : 0) | (data ? KFI_REMOTE_CQ_DATA : 0);
    for (int i = 0; i < (has_send ? 2 : 1); i++) {
      const kfi_cq_tagged_entry entry = next(cq);
      flags |= entry.flags;
      if (entry.flags & KFI_RECV) {
        EXPECT_EQ(entry.data, data);
        EXPECT_EQ(entry.len, sizeof sent);
        EXPECT_EQ(entry.tag, kind == KFI_TAGGED ? 3u : 0u);
      }
    }
    EXPECT_EQ(flags, wanted);
    EXPECT_EQ(memcmp(sent, received, sizeof sent), 0);
    memset(received, 0, sizeof received);
    for (char& byte : sent) byte++;
  }
  // The completion of a remote access, if it has one.
  void expect_access(uint64_t flags) { EXPECT_EQ(next(cq).flags, flags); }

  kfi_info* info = nullptr;
  kfid_fabric* fabric = nullptr;
  kfid_domain* domain = nullptr;
  kfid_av* av = nullptr;
  kfid_cq* cq = nullptr;
  kfid_cntr* counter = nullptr;
  kfid_ep* ep = nullptr;
  kfid_mr* region = nullptr;
  sockaddr_in name{};
  kfi_addr_t self = KFI_ADDR_NOTAVAIL;
  uint64_t at = 0, key = 0;
  alignas(8) char sent[32] = "thirty-one letters in a message";
  alignas(8) char received[32] = {};
  uint64_t target[4] = {};
};

// Both halves of a buffer in each of the forms.
struct Halves {
  kvec vec[2];
  bio_vec bvec[2];
  scatterlist sgl[2];

  explicit Halves(void* memory, unsigned len = 16) {
    for (unsigned i = 0; i < 2; i++) {
      char* const base = static_cast<char*>(memory) + i * len;
      const auto address = reinterpret_cast<uintptr_t>(base);
      vec[i] = {base, len};
      bvec[i] = {reinterpret_cast<page*>(address & ~4095ul), len, static_cast<unsigned>(address & 4095)};
      sgl[i] = {i == 1 ? 2ul : 0ul, 0, len, address, len};
    }
  }
};

#endif  // KFI_TESTS_CALLS_H
