// SPDX-License-Identifier: BSD-2-Clause
// Every allocation of a conversation in kfabric fails once: set-up, connection, lists of memory, handlers, the end.
// Each call works, or returns an error and leaves its out-parameter alone; everything can be closed, and all memory is
// free again.
#include <algorithm>
#include <atomic>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "connected.h"
#include "unit/failing_allocations.h"

namespace {

using weft::test::FailingAllocation;

template <class T>
T* untouched() {
  static T mark;
  return &mark;
}

void drain(kfid_cq* cq, void*) {
  kfi_cq_tagged_entry entry;
  while (kfi_cq_read(cq, &entry, 1) == 1) {
  }
}

// One conversation of two ends. It stops at the first call that fails.
class Conversation {
 public:
  // `nth`: the allocation of this thread that fails; 0: none.
  explicit Conversation(size_t nth) : failing_(nth, 1) {
    set_up() && connect() && transfer();
    failed = failing_.failed();
    close();
  }

  bool failed = false;
  bool whole = false;  // all of it was done

 private:
  // A call with an out-parameter.
  template <class T, class Call>
  bool open(T*& out, Call call) {
    T* result = untouched<T>();
    const int status = call(&result);
    if (status == 0) {
      out = result;
      return true;
    }
    EXPECT_EQ(result, untouched<T>()) << status;
    EXPECT_TRUE(failing_.failed()) << kfi_strerror(-status);
    EXPECT_TRUE(status == -KFI_ENOMEM || status == -KFI_EAGAIN) << kfi_strerror(-status);
    return false;
  }
  bool done(int status) {
    EXPECT_TRUE(status == 0 || failing_.failed()) << kfi_strerror(-status);
    return status == 0;
  }
  bool set_up() {
    hints_ = kfi_allocinfo();
    if (hints_ == nullptr) return false;
    hints_->caps = KFI_MSG;
    hints_->addr_format = KFI_SOCKADDR_IN;
    hints_->ep_attr->type = KFI_EP_MSG;
    hints_->fabric_attr->prov_name = strdup("tcp");
    auto* name = static_cast<sockaddr_in*>(calloc(1, sizeof(sockaddr_in)));
    if (name == nullptr || hints_->fabric_attr->prov_name == nullptr) return free(name), false;
    name->sin_family = AF_INET;
    name->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    hints_->src_addr = name;
    hints_->src_addrlen = sizeof *name;
    int status = kfi_getinfo(0, nullptr, nullptr, 0, hints_, &info_);
    if (!done(status)) return false;
    kfi_info* copy = kfi_dupinfo(info_);
    if (copy == nullptr) return false;
    EXPECT_STREQ(copy->fabric_attr->name, info_->fabric_attr->name);
    kfi_freeinfo(copy);
    kfi_eq_attr eq_attr{};
    return open(fabric_, [&](auto out) { return kfi_fabric(info_->fabric_attr, out, nullptr); }) &&
           open(domain_, [&](auto out) { return kfi_domain(fabric_, info_, out, nullptr); }) &&
           open(listening_, [&](auto out) { return kfi_eq_open(fabric_, &eq_attr, out, nullptr, nullptr); }) &&
           open(pep_, [&](auto out) { return kfi_passive_ep(fabric_, info_, out, nullptr); }) &&
           done(kfi_pep_bind(pep_, &listening_->fid, 0)) && done(kfi_listen(pep_));
  }
  bool open_end(int i, kfi_info* info) {
    kfi_cq_attr attr{};
    attr.format = KFI_CQ_FORMAT_TAGGED;
    attr.wait_obj = KFI_WAIT_QUEUE;
    return open(eq_[i], [&](auto out) { return kfi_eq_open(fabric_, nullptr, out, nullptr, nullptr); }) &&
           open(cq_[i],
                [&](auto out) { return kfi_cq_open(domain_, &attr, out, i == 0 ? nullptr : drain, nullptr); }) &&
           open(ep_[i], [&](auto out) { return kfi_endpoint(domain_, info, out, nullptr); }) &&
           done(kfi_ep_bind(ep_[i], &eq_[i]->fid, 0)) && done(kfi_ep_bind(ep_[i], &cq_[i]->fid, KFI_SEND | KFI_RECV)) &&
           done(kfi_enable(ep_[i]));
  }
  // The next event, of this kind; a read without memory leaves it in the queue.
  bool await(kfid_eq* eq, uint32_t wanted, kfi_info** info = nullptr) {
    for (int i = 0; i < 2000 && !hopeless(i); i++) {
      uint32_t event = 99;
      union event entry;
      const ssize_t size = kfi_eq_sread(eq, &event, &entry, sizeof entry, 10, 0);
      if (size == -KFI_ETIMEDOUT || size == -KFI_ENOMEM) continue;
      if (size < 0) return done(static_cast<int>(size));
      EXPECT_EQ(event, wanted);
      if (info != nullptr) *info = entry.entry.info;
      return true;
    }
    EXPECT_TRUE(failing_.failed()) << "no event";
    return false;
  }
  // A peer that has no memory may say nothing.
  bool hopeless(int tries) const { return failing_.failed() && tries > 20; }
  bool connect() {
    sockaddr_in name{};
    size_t size = sizeof name;
    if (!done(kfi_getname(&pep_->fid, &name, &size))) return false;
    kfi_info* const client = kfi_dupinfo(info_);
    if (client == nullptr) return false;
    reinterpret_cast<sockaddr_in*>(client->src_addr)->sin_port = 0;
    const bool opened = open_end(0, client);
    kfi_freeinfo(client);
    if (!opened || !done(kfi_connect(ep_[0], &name, "hello", 6))) return false;
    kfi_info* request = nullptr;
    if (!await(listening_, KFI_CONNREQ, &request)) return false;
    EXPECT_NE(request, nullptr);
    const bool answered = request != nullptr && open_end(1, request);
    kfi_freeinfo(request);
    return answered && done(kfi_accept(ep_[1], nullptr, 0)) && await(eq_[0], KFI_CONNECTED) &&
           await(eq_[1], KFI_CONNECTED);
  }
  // Both through buffers.
  bool transfer() {
    constexpr int kPieces = 40;
    kvec to[kPieces], from[kPieces];
    for (int i = 0; i < kPieces; i++) {
      to[i] = {&received_[i * 2], 1};
      from[i] = {&sent_[i * 2], 1};
      sent_[i * 2] = static_cast<char>(i);
    }
    if (!done(static_cast<int>(kfi_recvv(ep_[0], to, nullptr, kPieces, 0, nullptr)))) return false;
    if (!done(static_cast<int>(kfi_sendv(ep_[1], from, nullptr, kPieces, 0, nullptr)))) return false;
    kfi_cq_tagged_entry entry;
    ssize_t count = -KFI_ETIMEDOUT;
    for (int i = 0; i < 2000 && count == -KFI_ETIMEDOUT && !hopeless(i); i++) {
      count = kfi_cq_sread(cq_[0], &entry, 1, nullptr, 10);
    }
    EXPECT_TRUE(count == 1 || failing_.failed());
    if (count == 1) {
      EXPECT_EQ(memcmp(received_, sent_, sizeof sent_), 0);
    }
    if (count != 1 || !done(kfi_shutdown(ep_[0], KFI_WRITE)) || !done(kfi_shutdown(ep_[0], 0))) return false;
    return whole = true;
  }
  template <class T>
  static void close(T*& object) {
    if (object != nullptr) {
      EXPECT_EQ(kfi_close(&object->fid), 0);
    }
    object = nullptr;
  }
  void close() {
    for (int i : {0, 1}) close(ep_[i]);
    for (int i : {0, 1}) close(cq_[i]), close(eq_[i]);
    close(pep_);
    close(listening_);
    close(domain_);
    close(fabric_);
    kfi_freeinfo(info_);
    kfi_freeinfo(hints_);
  }

  FailingAllocation failing_;
  kfi_info* hints_ = nullptr;
  kfi_info* info_ = nullptr;
  kfid_fabric* fabric_ = nullptr;
  kfid_domain* domain_ = nullptr;
  kfid_eq* listening_ = nullptr;
  kfid_pep* pep_ = nullptr;
  kfid_ep* ep_[2] = {};
  kfid_cq* cq_[2] = {};
  kfid_eq* eq_[2] = {};
  char received_[80] = {};
  char sent_[80] = {};
};

TEST(Memory, EachAllocationFailsOnce) {
  for (int i = 0; i < 3; i++) ASSERT_TRUE(Conversation(0).whole) << "without a failure";
  if (!FailingAllocation::supported()) GTEST_SKIP() << "a sanitizer has its own allocator";
  size_t nth = 1;
  for (bool failed = true; failed; nth++) {
    SCOPED_TRACE("allocation " + std::to_string(nth));
    const long before = weft::test::live_allocations();
    bool whole = false;
    {
      const Conversation conversation(nth);
      failed = conversation.failed;
      whole = conversation.whole;
    }
    EXPECT_EQ(weft::test::live_allocations(), before) << "blocks were lost";
    EXPECT_TRUE(failed || whole);
    ASSERT_LT(nth, 5000u);
  }
  EXPECT_GT(nth, 60u) << "something was allocated";
  EXPECT_TRUE(Conversation(0).whole) << "with memory again";
}

}  // namespace
