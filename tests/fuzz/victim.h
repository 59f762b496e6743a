// SPDX-License-Identifier: BSD-2-Clause
// A reliable-datagram endpoint that fuzzers attack: receives of several kinds are posted, memory is exposed, long and
// short messages are on their way to the peer. Every operation completes once; fi_endpoint(3) (FI_EP_RDM).
#pragma once

#include <netinet/in.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <array>
#include <cstring>
#include <deque>
#include <vector>

#include "input.h"
#include "objects/info.h"

namespace weft::fuzz {

// The attacked endpoint.
class Victim {
 public:
  static constexpr std::size_t kExposed = 256;

  // `more`: capabilities beside messages and remote memory access.
  explicit Victim(const char* provider, std::uint64_t more = 0) {
    fi_info* hints = fi_allocinfo();
    hints->ep_attr->type = FI_EP_RDM;
    hints->fabric_attr->prov_name = strdup(provider);
    hints->caps = FI_MSG | FI_TAGGED | FI_RMA | more;
    fi_info* found = nullptr;
    WEFT_FUZZ_CHECK(fi_getinfo(FI_VERSION(2, 6), "127.0.0.1", nullptr, FI_SOURCE | FI_NUMERICHOST, hints, &found) == 0);
    fi_freeinfo(hints);
    info_.reset(found);
    fi_cq_attr cq{};
    cq.format = FI_CQ_FORMAT_TAGGED;
    fi_av_attr av{};
    av.type = FI_AV_TABLE;
    WEFT_FUZZ_CHECK(fi_fabric(found->fabric_attr, &fabric_, nullptr) == 0);
    WEFT_FUZZ_CHECK(fi_domain(fabric_, found, &domain_, nullptr) == 0);
    WEFT_FUZZ_CHECK(fi_cq_open(domain_, &cq, &cq_, nullptr) == 0);
    WEFT_FUZZ_CHECK(fi_av_open(domain_, &av, &av_, nullptr) == 0);
    WEFT_FUZZ_CHECK(fi_endpoint(domain_, found, &ep_, nullptr) == 0);
    WEFT_FUZZ_CHECK(fi_ep_bind(ep_, &cq_->fid, FI_TRANSMIT | FI_RECV) == 0);
    WEFT_FUZZ_CHECK(fi_ep_bind(ep_, &av_->fid, 0) == 0);
    WEFT_FUZZ_CHECK(fi_enable(ep_) == 0);
    WEFT_FUZZ_CHECK(
        fi_mr_reg(domain_, exposed_.data(), kExposed, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 7, 0, &mr_, nullptr) == 0);
  }
  ~Victim() {
    for (fid* object : {&ep_->fid, &mr_->fid, &av_->fid, &cq_->fid, &domain_->fid, &fabric_->fid})
      WEFT_FUZZ_CHECK(fi_close(object) == 0);
  }

  sockaddr_in name() {
    sockaddr_in name{};
    std::size_t len = sizeof name;
    WEFT_FUZZ_CHECK(fi_getname(&ep_->fid, &name, &len) == 0);
    return name;
  }
  std::uint64_t exposed_key() { return fi_mr_key(mr_); }

  void post_receives() {
    for (const std::size_t size : {std::size_t{16}, std::size_t{4096}, std::size_t{200'000}}) {
      for (const bool tagged : {false, true}) {
        std::vector<char>& buffer = buffers_.emplace_back(size);
        posted_ += (tagged ? fi_trecv(ep_, buffer.data(), size, nullptr, FI_ADDR_UNSPEC, 1, ~std::uint64_t{1}, &buffer)
                           : fi_recv(ep_, buffer.data(), size, nullptr, FI_ADDR_UNSPEC, &buffer)) == 0;
      }
    }
  }
  fi_addr_t send_to(const sockaddr_in& peer) {
    fi_addr_t handle = FI_ADDR_UNSPEC;
    WEFT_FUZZ_CHECK(fi_av_insert(av_, &peer, 1, &handle, 0, nullptr) == 1);
    for (const std::size_t size : {std::size_t{8}, std::size_t{8000}, std::size_t{200'000}}) {
      std::vector<char>& buffer = buffers_.emplace_back(size);
      posted_ += fi_tsend(ep_, buffer.data(), size, nullptr, handle, 5, &buffer) == 0;
    }
    return handle;
  }
  void fetch_from(fi_addr_t handle) {
    std::vector<char>& operand = buffers_.emplace_back(16);
    posted_ += fi_fetch_atomic(ep_, operand.data(), 1, nullptr, operand.data() + 8, nullptr, handle, 0, 1, FI_UINT64,
                               FI_SUM, &operand) == 0;
  }
  void access(fi_addr_t handle) {
    std::vector<char>& read = buffers_.emplace_back(64);
    posted_ += fi_read(ep_, read.data(), read.size(), nullptr, handle, 0, 1, &read) == 0;
    std::vector<char>& written = buffers_.emplace_back(64);
    const iovec iov{written.data(), written.size()};
    const fi_rma_iov remote{0, written.size(), 1};
    const fi_msg_rma message{&iov, nullptr, 1, handle, &remote, 1, &written, 0};
    posted_ += fi_writemsg(ep_, &message, FI_DELIVERY_COMPLETE | FI_COMPLETION) == 0;
  }
  void drive() {
    fi_cq_tagged_entry entry;
    const ssize_t count = fi_cq_read(cq_, &entry, 1);
    if (count == -FI_EAVAIL) {
      fi_cq_err_entry error{};
      WEFT_FUZZ_CHECK(fi_cq_readerr(cq_, &error, 0) == 1 && error.err > 0);
      ended(error.op_context);
    } else if (count == 1) {
      ended(entry.op_context);
    }
  }
  // Cancels the receives that no message filled.
  void cancel() {
    for (std::vector<char>& buffer : buffers_)
      if (!buffer.empty()) fi_cancel(&ep_->fid, &buffer);
  }
  int outstanding() const { return posted_ - ended_; }

 private:
  void ended(void* context) {
    if (context == nullptr) return;  // a peer's write with data
    ++ended_;
    auto& buffer = *static_cast<std::vector<char>*>(context);
    WEFT_FUZZ_CHECK(!buffer.empty());  // else it completed before
    std::vector<char>().swap(buffer);  // later writes to it are errors
  }

  InfoPtr info_;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_cq* cq_ = nullptr;
  fid_av* av_ = nullptr;
  fid_ep* ep_ = nullptr;
  fid_mr* mr_ = nullptr;
  alignas(16) std::array<char, kExposed> exposed_{};
  std::deque<std::vector<char>> buffers_;
  int posted_ = 0;
  int ended_ = 0;
};

}  // namespace weft::fuzz
