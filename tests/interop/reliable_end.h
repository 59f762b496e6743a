// SPDX-License-Identifier: BSD-2-Clause
// A reliable datagram end of a program that plays one of two peers; LD_LIBRARY_PATH decides whose library it is, and
// RELIABLE_PROVIDER which provider of it ("tcp;ofi_rxm" if it is not set), RELIABLE_ADDRESS and
// RELIABLE_PORT at which address (127.0.0.1, any).
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

constexpr std::chrono::seconds kPatience{30};

[[noreturn]] inline void fail(const char* what, ssize_t rc) {
  std::fprintf(stderr, "%s: %s\n", what, fi_strerror(static_cast<int>(-rc)));
  std::exit(1);
}
inline void ok(ssize_t rc, const char* call) {
  if (rc < 0) fail(call, rc);
}

// Everything of one process: the objects live until it exits.
struct ReliableEnd {
  ReliableEnd(uint64_t caps, size_t region_size) : region(region_size) {
    fi_info* hints = fi_allocinfo();
    hints->caps = caps;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    const char* provider = std::getenv("RELIABLE_PROVIDER");
    hints->fabric_attr->prov_name = strdup(provider != nullptr ? provider : "tcp;ofi_rxm");
    const char* address = std::getenv("RELIABLE_ADDRESS");
    if (address == nullptr) address = "127.0.0.1";
    ok(fi_getinfo(FI_VERSION(1, 17), address, std::getenv("RELIABLE_PORT"), FI_SOURCE, hints, &info), "fi_getinfo");
    fi_freeinfo(hints);
    fid_fabric* fabric = nullptr;
    ok(fi_fabric(info->fabric_attr, &fabric, nullptr), "fi_fabric");
    ok(fi_domain(fabric, info, &domain, nullptr), "fi_domain");
    fi_cq_attr cq_attr{};
    cq_attr.format = FI_CQ_FORMAT_TAGGED;
    ok(fi_cq_open(domain, &cq_attr, &cq, nullptr), "fi_cq_open");
    fi_av_attr av_attr{};
    ok(fi_av_open(domain, &av_attr, &av, nullptr), "fi_av_open");
    open_endpoint();
    inject_size = info->tx_attr->inject_size;
    virtual_addresses = (info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
    if (region.empty()) return;
    ok(fi_mr_reg(domain, region.data(), region.size(), FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &mr, nullptr),
       "fi_mr_reg");
  }

  // A new endpoint in place of a closed one.
  void open_endpoint() {
    ok(fi_endpoint(domain, info, &ep, nullptr), "fi_endpoint");
    ok(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    ok(fi_ep_bind(ep, &av->fid, 0), "fi_ep_bind");
    ok(fi_enable(ep), "fi_enable");
  }
  // Its name in hexadecimal digits.
  std::string name() const {
    unsigned char bytes[64];
    size_t len = sizeof bytes;
    ok(fi_getname(&ep->fid, bytes, &len), "fi_getname");
    std::string text;
    char digits[3];
    for (size_t i = 0; i < len; ++i) {
      std::snprintf(digits, sizeof digits, "%02x", bytes[i]);
      text += digits;
    }
    return text;
  }
  fi_addr_t insert(const char* hex) {
    unsigned char bytes[64]{};
    for (size_t i = 0; i < sizeof bytes && hex[2 * i] != 0; ++i)
      bytes[i] = static_cast<unsigned char>(std::stoul(std::string(hex + 2 * i, 2), nullptr, 16));
    fi_addr_t peer = FI_ADDR_UNSPEC;
    if (fi_av_insert(av, bytes, 1, &peer, 0, nullptr) != 1) fail("fi_av_insert", -FI_EINVAL);
    return peer;
  }

  // The next completion; an error is returned.
  int next(fi_cq_tagged_entry& entry) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while (std::chrono::steady_clock::now() < deadline) {
      const ssize_t rc = fi_cq_read(cq, &entry, 1);
      if (rc == 1) return 0;
      if (rc == -FI_EAVAIL) {
        fi_cq_err_entry error{};
        fi_cq_readerr(cq, &error, 0);
        return error.err;
      }
      if (rc == -FI_EAGAIN) std::this_thread::yield();
    }
    fail("completion", -FI_ETIMEDOUT);
  }
  // Waits for `context`; an error is returned. Nothing else is outstanding.
  int wait(void* expected) {
    fi_cq_tagged_entry entry{};
    for (;;) {
      const int error = next(entry);
      if (error != 0 || entry.op_context == expected) return error;
    }
  }
  template <class Call>
  ssize_t post(Call call) {
    ssize_t rc;
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while ((rc = call()) == -FI_EAGAIN && std::chrono::steady_clock::now() < deadline) fi_cq_read(cq, nullptr, 0);
    return rc;
  }
  template <class Call>
  int run(Call call) {
    const ssize_t rc = post(call);
    return rc == 0 ? wait(&context) : static_cast<int>(-rc);
  }

  fi_info* info = nullptr;
  fid_domain* domain = nullptr;
  fid_cq* cq = nullptr;
  fid_av* av = nullptr;
  fid_ep* ep = nullptr;
  fid_mr* mr = nullptr;
  size_t inject_size = 0;
  bool virtual_addresses = false;
  std::vector<char> region;
  fi_context2 context{};
};
