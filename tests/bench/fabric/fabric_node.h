// SPDX-License-Identifier: BSD-2-Clause
// One side of a fabric measurement, with the common parts of connected_node.h and datagram_node.h: fabric, domain, one
// event queue and one completion queue of the chosen provider. Every error ends the process with its reason. Governed
// by fi_domain(3), fi_eq(3), fi_cq(3).
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include "fabric/fabric_library.h"
#include "process/measurement.h"

namespace bench {

class FabricNode {
 public:
  FabricNode(const FabricNode&) = delete;
  FabricNode& operator=(const FabricNode&) = delete;

  fid_domain* domain() const { return domain_; }
  fid_cq* cq() const { return cq_; }
  fid_eq* eq() const { return eq_; }
  const fi_info* info() const { return info_; }
  Wait wait() const { return wait_; }
  // Bytes in front of each message that is sent or received (FI_MSG_PREFIX): some providers require them in one
  // direction only.
  std::size_t sent_prefix() const { return prefix(info_->tx_attr->mode); }
  std::size_t received_prefix() const { return prefix(info_->rx_attr->mode); }
  // Whether transfers have completions only with FI_COMPLETION, and after how many one is due.
  bool selective() const { return measurement_.selective; }
  bool tagged() const { return measurement_.tagged; }
  unsigned completion_every() const { return measurement_.selective ? bench::completion_every(measurement_) : 1; }

  void check(const char* what, ssize_t result) const;  // negative results fail with fi_strerror
  [[noreturn]] void fail_with_completion_error() const;

 private:
  std::size_t prefix(std::uint64_t mode) const {
    return (mode & FI_MSG_PREFIX) != 0 ? info_->ep_attr->msg_prefix_size : 0;
  }

 protected:
  FabricNode(const Measurement& m, Wait wait) : library_(m.library, m.plugins), measurement_(m), wait_(wait) {}
  ~FabricNode();

  // fi_getinfo for the measurement's provider, with the rest of the hints from `hint`. A negative code where nothing is
  // offered.
  int query(const char* node, const char* service, std::uint64_t flags, void (*hint)(fi_info& hints));
  void open_queues(bool waitable);
  // An endpoint bound to the completion queue, not enabled.
  fid_ep* open_endpoint(fi_info* info);
  // Waits for the next one, driving progress; an error ends the process. `entry` gets `size` bytes at most.
  std::uint32_t next_event(void* entry, std::size_t size);
  static void close(fid* object);
  template <class Object>
  static void close(Object* object) {
    if (object != nullptr) close(&object->fid);
  }

  FabricLibrary library_;
  Measurement measurement_;
  Wait wait_;
  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_eq* eq_ = nullptr;
  fid_cq* cq_ = nullptr;
};

}  // namespace bench
