// SPDX-License-Identifier: BSD-2-Clause
// One application's worth of tcp objects, driven through the public interface without the core: for tests that connect
// two of them inside one process, over real sockets (tests/unit) or simulated ones (tests/sim).
#pragma once

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/providers/fi_prov.h>

#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "objects/info.h"

extern "C" fi_provider* weft_tcp_ini(void);

namespace weft::tcp::testing {

struct Event {
  uint32_t number = 0;  // FI_CONNREQ ..., or kError
  fid_t fid = nullptr;
  InfoPtr info;
  std::string data;  // the event's, or err_data
  int error = 0;
  std::string sentence;
};
inline constexpr uint32_t kError = 1000;

struct Done {
  void* context = nullptr;
  uint64_t flags = 0;
  int error = 0;
};

// The info for `address` ("127.0.0.1", "::1") as a source.
inline InfoPtr source_info(const char* address, const char* service = nullptr, fi_info* hints = nullptr) {
  fi_info* info = nullptr;
  weft_tcp_ini()->getinfo(FI_VERSION(2, 6), address, service, FI_SOURCE | FI_NUMERICHOST, hints, &info);
  return InfoPtr(info);
}

// Members are public: tests do unusual things with them. close() checks that every handle can be released.
class Side {
 public:
  explicit Side(const char* address = "127.0.0.1", fi_wait_obj wait = FI_WAIT_NONE)
      : Side(source_info(address), wait) {}
  Side(InfoPtr with, fi_wait_obj wait) : info(std::move(with)) {
    if (info == nullptr) return;
    EXPECT_EQ(weft_tcp_ini()->fabric(info->fabric_attr, &fabric, nullptr), 0);
    fi_eq_attr eq_attr{};
    eq_attr.wait_obj = wait;
    EXPECT_EQ(fi_eq_open(fabric, &eq_attr, &eq, nullptr), 0);
    EXPECT_EQ(fi_domain(fabric, info.get(), &domain, nullptr), 0);
    fi_cq_attr cq_attr{};
    cq_attr.format = FI_CQ_FORMAT_MSG;
    cq_attr.wait_obj = wait;
    EXPECT_EQ(fi_cq_open(domain, &cq_attr, &cq, nullptr), 0);
  }
  ~Side() { close(); }

  void close() {
    close_one(ep);
    close_one(pep);
    close_one(cq);
    close_one(domain);
    close_one(eq);
    close_one(fabric);
  }

  // A listening passive endpoint at any free port.
  void listen() {
    ASSERT_EQ(fi_passive_ep(fabric, info.get(), &pep, nullptr), 0);
    ASSERT_EQ(fi_pep_bind(pep, &eq->fid, 0), 0);
    ASSERT_EQ(fi_listen(pep), 0);
  }
  sockaddr_storage listening_at() {
    sockaddr_storage name{};
    size_t len = sizeof name;
    EXPECT_EQ(fi_getname(&pep->fid, &name, &len), 0);
    return name;
  }
  // `ep`, bound to the queues.
  void open_endpoint(fi_info* with = nullptr) {
    ASSERT_EQ(fi_endpoint(domain, with != nullptr ? with : info.get(), &ep, this), 0);
    ASSERT_EQ(fi_ep_bind(ep, &eq->fid, 0), 0);
    ASSERT_EQ(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
  }
  void connect(const sockaddr_storage& to, const std::string& data = "") {
    open_endpoint();
    ASSERT_EQ(fi_connect(ep, &to, data.data(), data.size()), 0);
  }
  void accept(const Event& request, const std::string& data = "") {
    open_endpoint(request.info.get());
    ASSERT_EQ(fi_accept(ep, data.data(), data.size()), 0);
  }

  // The next event or error of the queue, if there is one. Driving the queue drives the endpoints.
  bool poll(Event& event) {
    std::byte buffer[sizeof(fi_eq_cm_entry) + 512];
    event = Event();
    const ssize_t size = fi_eq_read(eq, &event.number, buffer, sizeof buffer, 0);
    if (size == -FI_EAGAIN) return false;
    if (size == -FI_EAVAIL) return poll_error(event);
    const auto* entry = reinterpret_cast<const fi_eq_cm_entry*>(buffer);
    EXPECT_GE(size, static_cast<ssize_t>(sizeof *entry));
    event.fid = entry->fid;
    event.info.reset(entry->info);
    event.data.assign(reinterpret_cast<const char*>(buffer) + sizeof *entry, static_cast<size_t>(size) - sizeof *entry);
    return true;
  }
  bool poll(Done& done) {
    fi_cq_msg_entry entry{};
    const ssize_t count = fi_cq_read(cq, &entry, 1);
    if (count == -FI_EAGAIN) return false;
    if (count == 1) {
      done = {entry.op_context, entry.flags, 0};
      return true;
    }
    EXPECT_EQ(count, -FI_EAVAIL);
    fi_cq_err_entry error{};
    EXPECT_EQ(fi_cq_readerr(cq, &error, 0), 1);
    done = {error.op_context, error.flags, error.err};
    return true;
  }

  template <class Fid>
  static void close_one(Fid*& handle) {
    if (handle == nullptr) return;
    EXPECT_EQ(fi_close(&handle->fid), 0);
    handle = nullptr;
  }

  InfoPtr info;
  fid_fabric* fabric = nullptr;
  fid_eq* eq = nullptr;
  fid_domain* domain = nullptr;
  fid_cq* cq = nullptr;
  fid_pep* pep = nullptr;
  fid_ep* ep = nullptr;

 private:
  bool poll_error(Event& event) {
    fi_eq_err_entry entry{};
    EXPECT_EQ(fi_eq_readerr(eq, &entry, 0), static_cast<ssize_t>(sizeof entry));
    event.number = kError;
    event.fid = entry.fid;
    event.error = entry.err;
    event.data.assign(static_cast<const char*>(entry.err_data), entry.err_data_size);
    event.sentence = fi_eq_strerror(eq, entry.prov_errno, entry.err_data, nullptr, 0);
    return true;
  }
};

}  // namespace weft::tcp::testing
