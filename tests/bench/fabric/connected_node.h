// SPDX-License-Identifier: BSD-2-Clause
// One side of a measurement over connected endpoints that all share one domain and its queues. Every error ends the
// process with its reason. Governed by fi_cm(3), fi_endpoint(3).
#pragma once

#include <vector>

#include "fabric/fabric_node.h"

namespace bench {

class Channel;

class ConnectedNode : public FabricNode {
 public:
  // The server listens on a free port and sends its number over the channel.
  ConnectedNode(const Measurement& m, Role role, Wait wait, Channel& channel);
  ~ConnectedNode();

  // Server: accepts until `count` more endpoints are connected.
  void accept(std::size_t count);
  // Client: connects `count` more endpoints, at most `outstanding` at once.
  void connect(std::size_t count, std::size_t outstanding);
  // Makes `count` connections from both sides; the client reports the time of one. The first endpoint of either side is
  // the same connection.
  void establish(std::size_t count);
  // Waits, while driving progress, until the peer has reached the same point; then closes every endpoint.
  void leave(Channel& channel);

  // Server: accepts `count` connections and closes each when its peer leaves.
  void serve_short_connections(std::size_t count);
  // Client: connects one endpoint, and closes it as soon as it is connected.
  void connect_and_close();

  fid_ep* endpoint(std::size_t index) const { return endpoints_[index]; }

 private:
  std::uint64_t listen();
  fid_ep* open_enabled_endpoint(fi_info* info);
  fid_ep* start_connect();
  fid_ep* accept_request(fi_info* info);
  std::uint32_t next_connection_event(fi_eq_cm_entry& entry) { return next_event(&entry, sizeof entry); }

  Role role_;
  fid_pep* listener_ = nullptr;
  std::vector<fid_ep*> endpoints_;
};

}  // namespace bench
