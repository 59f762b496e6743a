// SPDX-License-Identifier: BSD-2-Clause
// One side of a fabric measurement: fabric, domain, one event queue, one completion queue, and connected endpoints of
// the chosen provider that all share them. Every error ends the process with its reason. Governed by fi_cm(3),
// fi_endpoint(3).
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <vector>

#include "fabric/fabric_library.h"
#include "process/measurement.h"

namespace bench {

class Channel;

class FabricNode {
 public:
  // The server listens on a free port and tells it over the channel; the client gets it from there.
  FabricNode(const Measurement& m, Role role, Wait wait, Channel& channel);
  ~FabricNode();
  FabricNode(const FabricNode&) = delete;
  FabricNode& operator=(const FabricNode&) = delete;

  // Server: accepts until `count` more endpoints are connected.
  void accept(std::size_t count);
  // Client: connects `count` more endpoints, at most `outstanding` at once.
  void connect(std::size_t count, std::size_t outstanding);
  // Makes `count` connections from both sides; the client reports what one of them took. The first endpoint of either
  // side is the same connection.
  void establish(std::size_t count);
  // Waits, while driving progress, until the peer has come to the same point; then closes every endpoint.
  void leave(Channel& channel);

  // Server: accepts `count` connections and closes each when its peer leaves.
  void serve_short_connections(std::size_t count);
  // Client: connects one endpoint, and closes it as soon as it is connected.
  void connect_and_close();

  fid_ep* endpoint(std::size_t index) const { return endpoints_[index]; }
  fid_domain* domain() const { return domain_; }
  fid_cq* cq() const { return cq_; }
  fid_eq* eq() const { return eq_; }
  const fi_info* info() const { return info_; }
  Wait wait() const { return wait_; }
  // Whether transfers have completions only where FI_COMPLETION asks for one, and after how many one is due.
  bool selective() const { return measurement_.selective; }
  unsigned completion_every() const { return measurement_.selective ? bench::completion_every(measurement_) : 1; }

  void check(const char* what, ssize_t result) const;  // negative results fail with fi_strerror
  [[noreturn]] void fail_with_completion_error() const;

 private:
  void query(const char* service, std::uint64_t flags);
  void open_queues(bool waitable);
  std::uint64_t listen();
  fid_ep* open_endpoint(fi_info* info);
  fid_ep* start_connect();
  fid_ep* accept_request(fi_info* info);
  std::uint32_t next_event(fi_eq_cm_entry& entry);

  FabricLibrary library_;
  Measurement measurement_;
  Role role_;
  Wait wait_;
  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_eq* eq_ = nullptr;
  fid_cq* cq_ = nullptr;
  fid_pep* listener_ = nullptr;
  std::vector<fid_ep*> endpoints_;
};

}  // namespace bench
