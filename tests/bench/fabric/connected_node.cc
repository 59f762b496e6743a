// SPDX-License-Identifier: BSD-2-Clause
// One side of a measurement over connections; see connected_node.h.
#include "fabric/connected_node.h"

#include <fmt/format.h>
#include <netinet/in.h>

#include "process/process_pair.h"

namespace bench {
namespace {

constexpr std::size_t kConnectsAtOnce = 256;  // while setting up; workloads that time connects have their own

void hint_connected(fi_info& hints) {
  hints.caps = FI_MSG | FI_RMA;
  hints.ep_attr->type = FI_EP_MSG;
}

}  // namespace

ConnectedNode::ConnectedNode(const Measurement& m, Role role, Wait wait, Channel& channel)
    : FabricNode(m, wait), role_(role) {
  endpoints_.reserve(m.connections);
  const bool serves = role == Role::kServer;
  const std::string service = serves ? "0" : std::to_string(channel.get());
  check("fi_getinfo", query(m.address.c_str(), service.c_str(), serves ? FI_SOURCE : 0, hint_connected));
  open_queues(wait == Wait::kBlock || m.waitable);
  if (serves) channel.put(listen());
}

ConnectedNode::~ConnectedNode() {
  for (fid_ep* ep : endpoints_) close(ep);
  close(listener_);
}

std::uint64_t ConnectedNode::listen() {
  check("fi_passive_ep", fi_passive_ep(fabric_, info_, &listener_, nullptr));
  check("fi_pep_bind", fi_pep_bind(listener_, &eq_->fid, 0));
  check("fi_listen", fi_listen(listener_));
  sockaddr_in address{};
  std::size_t length = sizeof address;
  check("fi_getname", fi_getname(&listener_->fid, &address, &length));
  return ntohs(address.sin_port);
}

fid_ep* ConnectedNode::open_enabled_endpoint(fi_info* info) {
  fid_ep* ep = open_endpoint(info);
  check("fi_ep_bind", fi_ep_bind(ep, &eq_->fid, 0));
  check("fi_enable", fi_enable(ep));
  return ep;
}

fid_ep* ConnectedNode::start_connect() {
  fid_ep* ep = open_enabled_endpoint(info_);
  check("fi_connect", fi_connect(ep, info_->dest_addr, nullptr, 0));
  return ep;
}

fid_ep* ConnectedNode::accept_request(fi_info* info) {
  fid_ep* ep = open_enabled_endpoint(info);
  library_.freeinfo(info);
  check("fi_accept", fi_accept(ep, nullptr, 0));
  return ep;
}

void ConnectedNode::accept(std::size_t count) {
  for (std::size_t connected = 0; connected < count;) {
    fi_eq_cm_entry entry{};
    const std::uint32_t event = next_connection_event(entry);
    if (event == FI_CONNREQ) endpoints_.push_back(accept_request(entry.info));
    if (event == FI_CONNECTED) ++connected;
  }
}

void ConnectedNode::connect(std::size_t count, std::size_t outstanding) {
  std::size_t started = 0;
  for (std::size_t connected = 0; connected < count;) {
    for (; started < count && started - connected < outstanding; ++started) endpoints_.push_back(start_connect());
    fi_eq_cm_entry entry{};
    if (next_connection_event(entry) == FI_CONNECTED) ++connected;
  }
}

void ConnectedNode::establish(std::size_t count) {
  const std::uint64_t start = now_ns();
  const auto make = [this](std::size_t n) { role_ == Role::kServer ? accept(n) : connect(n, kConnectsAtOnce); };
  make(1);
  make(count - 1);
  if (role_ == Role::kClient)
    report("connect_us", static_cast<double>(now_ns() - start) / 1e3 / static_cast<double>(count));
}

void ConnectedNode::leave(Channel& channel) {
  channel.put(0);
  while (!channel.ready()) fi_cq_read(cq_, nullptr, 0);
  channel.get();
  for (fid_ep* ep : endpoints_) close(ep);
  endpoints_.clear();
}

void ConnectedNode::serve_short_connections(std::size_t count) {
  for (std::size_t closed = 0; closed < count;) {
    fi_eq_cm_entry entry{};
    const std::uint32_t event = next_connection_event(entry);
    if (event == FI_CONNREQ) accept_request(entry.info);
    if (event == FI_SHUTDOWN) {
      check("fi_close", fi_close(entry.fid));
      ++closed;
    }
  }
}

void ConnectedNode::connect_and_close() {
  fid_ep* ep = start_connect();
  fi_eq_cm_entry entry{};
  if (const std::uint32_t event = next_connection_event(entry); event != FI_CONNECTED)
    fail(fmt::format("event {} in place of FI_CONNECTED", event));
  check("fi_close", fi_close(&ep->fid));
}

}  // namespace bench
