// SPDX-License-Identifier: BSD-2-Clause
// The peers of datagram endpoints: the storage of their address vectors, which the data path reads; fi_av(3).
#pragma once

#include <infiniband/verbs.h>
#include <rdma/fabric.h>

#include <functional>

#include "objects/address.h"
#include "objects/address_table.h"
#include "verbs/device/gids.h"
#include "verbs/transfer/send_work.h"

namespace weft::verbs {

// Peers are equal if they are the same queue pair: a message identifies its source by GID and queue pair.
struct Peer {
  ibv_gid gid{};
  Destination to;
  Address name;       // with FI_SOCKADDR_...
  IbUdAddress raw{};  // with FI_ADDR_IB_UD

  friend bool operator==(const Peer& a, const Peer& b) noexcept {
    return a.to.qp_number == b.to.qp_number && a.gid == b.gid;
  }
};
using PeerTable = AddressTable<Peer>;

}  // namespace weft::verbs

template <>
struct std::hash<weft::verbs::Peer> {
  size_t operator()(const weft::verbs::Peer& peer) const noexcept {
    return peer.gid.global.interface_id * 0x9e3779b97f4a7c15 + peer.gid.global.subnet_prefix + peer.to.qp_number;
  }
};
