// SPDX-License-Identifier: BSD-2-Clause
// Target of the wire fuzzers: one application's tcp objects on the simulated network (tests/sim), and a peer that is a
// plain socket. One thread.
#pragma once

#include <netinet/in.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/providers/fi_prov.h>
#include <sys/socket.h>

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/unique_fd.h"
#include "input.h"
#include "objects/info.h"
#include "sim/network.h"
#include "tcp/connection/cm_message.h"
#include "tcp/socket.h"

extern "C" fi_provider* weft_tcp_ini(void);

namespace weft::fuzz {

// A fabric with everything an endpoint needs, and a listening passive endpoint. Nothing may be in use at destruction.
class Application {
 public:
  Application() {
    fi_info* found = nullptr;
    WEFT_FUZZ_CHECK(weft_tcp_ini()->getinfo(FI_VERSION(2, 6), "127.0.0.1", nullptr, FI_SOURCE | FI_NUMERICHOST, nullptr,
                                            &found) == 0);
    info.reset(found);
    fi_eq_attr eq_attr{};
    eq_attr.wait_obj = FI_WAIT_NONE;
    fi_cq_attr cq_attr{};
    cq_attr.format = FI_CQ_FORMAT_TAGGED;
    cq_attr.wait_obj = FI_WAIT_NONE;
    WEFT_FUZZ_CHECK(weft_tcp_ini()->fabric(info->fabric_attr, &fabric, nullptr) == 0);
    WEFT_FUZZ_CHECK(fi_eq_open(fabric, &eq_attr, &eq, nullptr) == 0);
    WEFT_FUZZ_CHECK(fi_domain(fabric, info.get(), &domain, nullptr) == 0);
    WEFT_FUZZ_CHECK(fi_cq_open(domain, &cq_attr, &cq, nullptr) == 0);
    WEFT_FUZZ_CHECK(fi_passive_ep(fabric, info.get(), &pep, nullptr) == 0);
    WEFT_FUZZ_CHECK(fi_pep_bind(pep, &eq->fid, 0) == 0);
    WEFT_FUZZ_CHECK(fi_listen(pep) == 0);
  }
  ~Application() {
    if (ep != nullptr) WEFT_FUZZ_CHECK(fi_close(&ep->fid) == 0);
    if (mr != nullptr) WEFT_FUZZ_CHECK(fi_close(&mr->fid) == 0);
    WEFT_FUZZ_CHECK(fi_close(&pep->fid) == 0);
    WEFT_FUZZ_CHECK(fi_close(&cq->fid) == 0);
    WEFT_FUZZ_CHECK(fi_close(&domain->fid) == 0);
    WEFT_FUZZ_CHECK(fi_close(&eq->fid) == 0);
    WEFT_FUZZ_CHECK(fi_close(&fabric->fid) == 0);
  }

  void open_endpoint(fi_info* with) {
    WEFT_FUZZ_CHECK(fi_endpoint(domain, with, &ep, nullptr) == 0);
    WEFT_FUZZ_CHECK(fi_ep_bind(ep, &eq->fid, 0) == 0);
    WEFT_FUZZ_CHECK(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) == 0);
  }
  // Number of the next event, FI_NOTIFY for none, -1 for an error. `request` receives the info of FI_CONNREQ.
  int next_event(InfoPtr& request) {
    std::byte buffer[sizeof(fi_eq_cm_entry) + tcp::kCmDataSize];
    uint32_t event = FI_NOTIFY;
    const ssize_t size = fi_eq_read(eq, &event, buffer, sizeof buffer, 0);
    if (size == -FI_EAVAIL) {
      fi_eq_err_entry error{};
      WEFT_FUZZ_CHECK(fi_eq_readerr(eq, &error, 0) > 0 && error.err > 0);
      return -1;
    }
    if (size < 0) return FI_NOTIFY;
    request.reset(reinterpret_cast<fi_eq_cm_entry*>(buffer)->info);
    return static_cast<int>(event);
  }
  sockaddr_in listening_at() {
    sockaddr_in name{};
    std::size_t len = sizeof name;
    WEFT_FUZZ_CHECK(fi_getname(&pep->fid, &name, &len) == 0);
    return name;
  }
  UniqueFd connected_socket() {
    const sockaddr_in to = listening_at();
    UniqueFd peer(tcp::net::open_stream(AF_INET));
    WEFT_FUZZ_CHECK(tcp::net::connect(peer.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == -EINPROGRESS);
    return peer;
  }

  InfoPtr info;
  fid_fabric* fabric = nullptr;
  fid_eq* eq = nullptr;
  fid_domain* domain = nullptr;
  fid_cq* cq = nullptr;
  fid_pep* pep = nullptr;
  fid_ep* ep = nullptr;
  fid_mr* mr = nullptr;
};

// Sends the next part of the input to the peer: a length, then that many bytes.
inline void say(Input& input, int peer) {
  std::byte bytes[255];
  const std::size_t len = input.take<std::uint8_t>();
  input.take_bytes(bytes, len);
  if (len != 0) (void)tcp::net::send(peer, bytes, len);
}

}  // namespace weft::fuzz
