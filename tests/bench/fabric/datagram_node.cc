// SPDX-License-Identifier: BSD-2-Clause
// One side of a measurement over datagrams; see datagram_node.h.
#include "fabric/datagram_node.h"

#include <array>

#include "process/join_workload.h"
#include "process/message_workloads.h"
#include "process/process_pair.h"

namespace bench {
namespace {

// An endpoint's name as words of a channel, its length first.
struct Name {
  std::array<std::uint64_t, 8> words{};
  std::size_t length = sizeof words;
};

void put(Channel& channel, const Name& name) {
  channel.put(name.length);
  for (const std::uint64_t word : name.words) channel.put(word);
}

Name get(Channel& channel) {
  Name name;
  name.length = channel.get();
  for (std::uint64_t& word : name.words) word = channel.get();
  return name;
}

void hint_datagrams(fi_info& hints) {
  hints.caps = FI_MSG;
  hints.ep_attr->type = FI_EP_DGRAM;
}

void hint_groups(fi_info& hints) {
  hint_datagrams(hints);
  hints.caps |= FI_MULTICAST;
}

void hint_reliable(fi_info& hints) {
  hints.caps = FI_MSG | FI_TAGGED;
  hints.ep_attr->type = FI_EP_RDM;
}

// For providers within the host, whose addresses are not those of IP.
void hint_local(fi_info& hints) {
  hint_reliable(hints);
  hints.addr_format = FI_FORMAT_UNSPEC;
}

// Queue-pair addresses, and room for the route header in front of every message: some providers support nothing else.
void hint_queue_pairs(fi_info& hints) {
  hint_datagrams(hints);
  hints.addr_format = FI_ADDR_IB_UD;
  hints.mode = FI_MSG_PREFIX;
}

}  // namespace

DatagramNode::DatagramNode(const Measurement& m, Wait wait, Channel& channel) : FabricNode(m, wait) {
  const bool groups = m.workload == kJoinsWorkload;
  const auto hint = groups ? hint_groups : m.reliable ? hint_reliable : hint_datagrams;
  int result = query(m.address.c_str(), nullptr, FI_SOURCE, hint);
  if (result == -FI_ENODATA && groups) skip("no groups");
  if (result == -FI_ENODATA) result = query(nullptr, nullptr, 0, m.reliable ? hint_local : hint_queue_pairs);
  check("fi_getinfo", result);
  open_queues(wait == Wait::kBlock || m.waitable);
  open_addressed_endpoint();
  find_peer(channel);
}

DatagramNode::~DatagramNode() {
  close(endpoint_);
  close(av_);
}

void DatagramNode::open_addressed_endpoint() {
  fi_av_attr attr{};
  attr.type = info_->domain_attr->av_type;
  attr.count = 1;
  check("fi_av_open", fi_av_open(domain_, &attr, &av_, nullptr));
  endpoint_ = open_endpoint(info_);
  check("fi_ep_bind", fi_ep_bind(endpoint_, &av_->fid, 0));
  if ((info_->caps & FI_MULTICAST) != 0) check("fi_ep_bind", fi_ep_bind(endpoint_, &eq_->fid, 0));
  check("fi_enable", fi_enable(endpoint_));
}

// Inserting an address may need an answer from the peer.
void DatagramNode::find_peer(Channel& channel) {
  Name own;
  check("fi_getname", fi_getname(&endpoint_->fid, own.words.data(), &own.length));
  put(channel, own);
  const Name other = get(channel);
  const Name& peer = measurement_.workload == kSelfWorkload ? own : other;
  if (fi_av_insert(av_, peer.words.data(), 1, &peer_, 0, nullptr) != 1) fail("fi_av_insert does not know the peer");
  meet(channel);
}

void DatagramNode::meet(Channel& channel) {
  channel.put(0);
  while (!channel.ready()) {
    std::uint32_t event = 0;
    fi_eq_entry entry{};
    fi_eq_read(eq_, &event, &entry, sizeof entry, FI_PEEK);
    fi_cq_read(cq_, nullptr, 0);
  }
  channel.get();
}

void DatagramNode::stand_by(Channel& channel) {
  channel.put(0);
  channel.get();
}

void DatagramNode::join(const sockaddr_in& group) {
  check("fi_join", fi_join(endpoint_, &group, 0, &group_, nullptr));
  fi_eq_entry entry{};
  if (next_event(&entry, sizeof entry) != FI_JOIN_COMPLETE) fail("an event that is not FI_JOIN_COMPLETE");
}

void DatagramNode::leave_group() {
  close(group_);
  group_ = nullptr;
}

void fabric_joins_server(const Measurement& m, Channel& channel) {
  DatagramNode node(m, Wait::kSpin, channel);
  node.stand_by(channel);
}

void fabric_self_server(const Measurement& m, Channel& channel) {
  DatagramNode node(m, Wait::kSpin, channel);
  node.meet(channel);
  node.stand_by(channel);
}

void fabric_joins_client(const Measurement& m, Channel& channel) {
  DatagramNode node(m, Wait::kSpin, channel);
  make_joins(node, m);
  node.leave(channel);
}

}  // namespace bench
