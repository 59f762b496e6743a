// SPDX-License-Identifier: BSD-2-Clause
// One side of a measurement over datagrams, reliable or not: one endpoint and its peer. Every error ends the process
// with its reason. Governed by fi_endpoint(3), fi_av(3), and fi_cm(3) for groups.
#pragma once

#include <netinet/in.h>

#include "fabric/fabric_node.h"

namespace bench {

class Channel;

class DatagramNode : public FabricNode {
 public:
  // The sides exchange their endpoints' names over the channel.
  DatagramNode(const Measurement& m, Wait wait, Channel& channel);
  ~DatagramNode();

  fid_ep* endpoint() const { return endpoint_; }
  fi_addr_t peer() const { return peer_; }

  // Waits, while driving progress, until the peer has reached the same point.
  void meet(Channel& channel);
  void leave(Channel& channel) { meet(channel); }
  // meet() asleep, for a side without messages meanwhile.
  static void stand_by(Channel& channel);

  // Joins the group and waits until that is complete; leaves it.
  void join(const sockaddr_in& group);
  void leave_group();

 private:
  void open_addressed_endpoint();
  void find_peer(Channel& channel);

  fid_av* av_ = nullptr;
  fid_ep* endpoint_ = nullptr;
  fid_mc* group_ = nullptr;
  fi_addr_t peer_ = FI_ADDR_NOTAVAIL;
};

// Joining and leaving groups, one after the other; the server only waits.
void fabric_joins_server(const Measurement& m, Channel& channel);
void fabric_joins_client(const Measurement& m, Channel& channel);
// The other side, when one sends to itself.
void fabric_self_server(const Measurement& m, Channel& channel);

}  // namespace bench
