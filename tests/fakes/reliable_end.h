// SPDX-License-Identifier: BSD-2-Clause
// An endpoint of reliable datagrams over verbs (fi_endpoint(3), FI_EP_RDM) for tests that script the device.
#pragma once
#include <gtest/gtest.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_tagged.h>

#include <chrono>
#include <cstring>
#include <map>
#include <string>
#include <vector>

namespace ends {

inline constexpr size_t kLong = 1 << 20;  // bytes; a rendezvous, which the receiver reads from the sender's memory

// An endpoint that talks to itself, over a connection with both ends here, unless meet() names another one.
class ReliableEnd {
 public:
  bool open() {
    fi_info* hints = fi_allocinfo();
    hints->fabric_attr->prov_name = strdup("verbs;ofi_rxm");
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG | FI_TAGGED;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->addr_format = FI_SOCKADDR_IN;
    int error = fi_getinfo(FI_VERSION(1, 17), nullptr, nullptr, 0, hints, &info_);
    fi_freeinfo(hints);
    fi_cq_attr cq{};
    cq.format = FI_CQ_FORMAT_TAGGED;
    fi_av_attr av{};
    av.type = FI_AV_TABLE;
    if (error == 0) error = fi_fabric(info_->fabric_attr, &fabric_, nullptr);
    if (error == 0) error = fi_domain(fabric_, info_, &domain_, nullptr);
    if (error == 0) error = fi_cq_open(domain_, &cq, &cq_, nullptr);
    if (error == 0) error = fi_av_open(domain_, &av, &av_, nullptr);
    if (error == 0) error = fi_endpoint(domain_, info_, &ep_, nullptr);
    if (error == 0) error = fi_ep_bind(ep_, &cq_->fid, FI_TRANSMIT | FI_RECV);
    if (error == 0) error = fi_ep_bind(ep_, &av_->fid, 0);
    if (error == 0) error = fi_enable(ep_);
    return error == 0 && meet(*this);
  }
  // Sets the peer.
  bool meet(const ReliableEnd& other) {
    char name[64];
    size_t len = sizeof name;
    return fi_getname(&other.ep_->fid, name, &len) == 0 && fi_av_insert(av_, name, 1, &peer_, 0, nullptr) == 1;
  }
  void close() {
    for (fid* object : {ep_ ? &ep_->fid : nullptr, av_ ? &av_->fid : nullptr, cq_ ? &cq_->fid : nullptr,
                        domain_ ? &domain_->fid : nullptr, fabric_ ? &fabric_->fid : nullptr})
      EXPECT_TRUE(object == nullptr || fi_close(object) == 0);
    fi_freeinfo(info_);
  }

  bool receive(size_t len, uint64_t tag) {
    return fi_trecv(ep_, in_.data(), len, nullptr, peer_, tag, 0, &contexts_[0]) == 0;
  }
  bool send(size_t len, uint64_t tag) {
    const auto until = std::chrono::steady_clock::now() + std::chrono::seconds(10);
    ssize_t result;
    while ((result = fi_tsend(ep_, out_.data(), len, nullptr, peer_, tag, &contexts_[1])) == -FI_EAGAIN &&
           std::chrono::steady_clock::now() < until)
      progress();
    return result == 0;
  }
  // The outcome of the last receive and of the last send, within 10 s: 0, or a positive error; -1 is none.
  int received() { return outcome(&contexts_[0], std::chrono::seconds(10)); }
  int sent() { return outcome(&contexts_[1], std::chrono::seconds(10)); }
  bool has_sent() const { return outcomes_.count(const_cast<fi_context2*>(&contexts_[1])) != 0; }
  bool has_received() const { return outcomes_.count(const_cast<fi_context2*>(&contexts_[0])) != 0; }
  // received() for a message that may have been lost: cancels the receive if no message arrives.
  int received_or_cancelled() {
    const int result = outcome(&contexts_[0], std::chrono::milliseconds(200));
    if (result != -1) return result;
    fi_cancel(&ep_->fid, &contexts_[0]);
    return received();
  }
  void progress() {
    fi_cq_tagged_entry entry;
    fi_cq_err_entry failed{};
    const ssize_t count = fi_cq_read(cq_, &entry, 1);
    if (count == 1)
      outcomes_[entry.op_context] = 0;
    else if (count == -FI_EAVAIL && fi_cq_readerr(cq_, &failed, 0) == 1)
      outcomes_[failed.op_context] = failed.err;
  }
  // One entry of the completion queue, which is lost.
  ssize_t read() {
    fi_cq_tagged_entry entry;
    return fi_cq_read(cq_, &entry, 1);
  }
  std::vector<char>& in() { return in_; }
  fid* domain() { return &domain_->fid; }
  std::vector<char>& out() { return out_; }

 private:
  int outcome(void* context, std::chrono::milliseconds patience) {
    const auto until = std::chrono::steady_clock::now() + patience;
    while (outcomes_.count(context) == 0)
      if (progress(); std::chrono::steady_clock::now() > until) return -1;
    const int result = outcomes_[context];
    outcomes_.erase(context);
    return result;
  }

  std::vector<char> in_ = std::vector<char>(kLong), out_ = std::vector<char>(kLong, 'x');
  fi_context2 contexts_[2]{};
  std::map<void*, int> outcomes_;
  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_cq* cq_ = nullptr;
  fid_av* av_ = nullptr;
  fid_ep* ep_ = nullptr;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
};

}  // namespace ends
