// SPDX-License-Identifier: BSD-2-Clause
// One end of a connection as a raw rdma_cm program makes it, for the tests of the fakes themselves.
#pragma once
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>

#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "fake_rdma.h"

namespace raw {

inline sockaddr_in loopback(uint16_t port_be = 0) {
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  address.sin_port = port_be;
  return address;
}
inline sockaddr* generic(sockaddr_in& address) {
  return reinterpret_cast<sockaddr*>(&address);
}

constexpr int kWaitMs = 10000;

struct Seen {  // an event, acknowledged
  rdma_cm_event_type type;
  int status;
  rdma_cm_id* id;
  std::string data;
  rdma_conn_param conn;
};

class Events {
 public:
  Events() : channel_(rdma_create_event_channel()) { fcntl(channel_->fd, F_SETFL, O_NONBLOCK); }
  ~Events() { rdma_destroy_event_channel(channel_); }
  rdma_event_channel* channel() { return channel_; }

  bool readable(int timeout_ms = 0) {
    pollfd entry = {channel_->fd, POLLIN, 0};
    return poll(&entry, 1, timeout_ms) == 1;
  }
  Seen next() {
    EXPECT_TRUE(readable(kWaitMs));
    rdma_cm_event* event = nullptr;
    if (rdma_get_cm_event(channel_, &event)) {
      ADD_FAILURE() << "no event: " << std::strerror(errno);
      return {};
    }
    Seen seen = {event->event, event->status, event->id, {}, event->param.conn};
    if (event->param.conn.private_data)
      seen.data.assign(static_cast<const char*>(event->param.conn.private_data), event->param.conn.private_data_len);
    rdma_ack_cm_event(event);
    return seen;
  }
  Seen expect(rdma_cm_event_type type, int status = 0) {
    const Seen seen = next();
    EXPECT_STREQ(rdma_event_str(seen.type), rdma_event_str(type));
    EXPECT_EQ(seen.status, status);
    return seen;
  }

 private:
  rdma_event_channel* channel_;
};

struct Sizes {
  uint32_t sends = 16, receives = 16, sges = 4, inline_data = 64;
  int cqe = 64;
  int signal_all = 0;
};

// Domain, completion queue, memory and queue pair of one identifier.
class End {
 public:
  End(rdma_cm_id* id, const Sizes& sizes = {}, ibv_srq* srq = nullptr, ibv_pd* pd = nullptr) : id_(id) {
    own_pd_ = !pd;
    pd_ = pd ? pd : ibv_alloc_pd(id->verbs);
    comp_ = ibv_create_comp_channel(id->verbs);
    fcntl(comp_->fd, F_SETFL, O_NONBLOCK);
    cq_ = ibv_create_cq(id->verbs, sizes.cqe, this, comp_, 0);
    mr_ = ibv_reg_mr(pd_, memory_.data(), memory_.size(), kAllAccess);
    ibv_qp_init_attr attr = {};
    attr.send_cq = attr.recv_cq = cq_;
    attr.srq = srq;
    attr.cap = {sizes.sends, sizes.receives, sizes.sges, sizes.sges, sizes.inline_data};
    attr.qp_type = id->ps == RDMA_PS_UDP ? IBV_QPT_UD : IBV_QPT_RC;
    attr.sq_sig_all = sizes.signal_all;
    EXPECT_EQ(rdma_create_qp(id, pd_, &attr), 0) << std::strerror(errno);
  }
  ~End() {
    rdma_destroy_qp(id_);
    rdma_destroy_id(id_);
    EXPECT_EQ(ibv_dereg_mr(mr_), 0);
    EXPECT_EQ(ibv_destroy_cq(cq_), 0);
    EXPECT_EQ(ibv_destroy_comp_channel(comp_), 0);
    EXPECT_EQ(own_pd_ ? ibv_dealloc_pd(pd_) : 0, 0);
  }

  rdma_cm_id* id() { return id_; }
  ibv_qp* qp() { return id_->qp; }
  ibv_cq* cq() { return cq_; }
  ibv_pd* pd() { return pd_; }
  ibv_mr* mr() { return mr_; }
  ibv_comp_channel* comp() { return comp_; }
  char* memory() { return memory_.data(); }

  ibv_sge sge(size_t offset, uint32_t length) {
    return {reinterpret_cast<uint64_t>(memory_.data()) + offset, length, mr_->lkey};
  }
  int receive(uint64_t wr_id, size_t offset, uint32_t length) {
    ibv_sge entry = sge(offset, length);
    ibv_recv_wr wr = {wr_id, nullptr, &entry, 1}, *bad = nullptr;
    return ibv_post_recv(qp(), &wr, &bad);
  }
  ibv_send_wr request(uint64_t wr_id, ibv_wr_opcode opcode, ibv_sge* entry, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_send_wr wr = {};
    wr.wr_id = wr_id;
    wr.opcode = opcode;
    wr.sg_list = entry;
    wr.num_sge = entry ? 1 : 0;
    wr.send_flags = flags;
    return wr;
  }
  int post(ibv_send_wr wr) {
    ibv_send_wr* bad = nullptr;
    return ibv_post_send(qp(), &wr, &bad);
  }
  int send(uint64_t wr_id, size_t offset, uint32_t length, unsigned flags = IBV_SEND_SIGNALED) {
    ibv_sge entry = sge(offset, length);
    return post(request(wr_id, IBV_WR_SEND, &entry, flags));
  }
  int rdma(ibv_wr_opcode opcode, uint64_t wr_id, ibv_sge entry, uint64_t address, uint32_t rkey) {
    ibv_send_wr wr = request(wr_id, opcode, &entry);
    wr.wr.rdma.remote_addr = address;
    wr.wr.rdma.rkey = rkey;
    wr.imm_data = htobe32(77);
    return post(wr);
  }

  std::vector<ibv_wc> poll_all() {
    std::vector<ibv_wc> list(64);
    const int count = ibv_poll_cq(cq_, 64, list.data());
    list.resize(count < 0 ? 0 : static_cast<size_t>(count));
    return list;
  }
  // Waits, because some errors take time.
  ibv_wc completion() {
    ibv_wc wc = {};
    for (int i = 0; i < kWaitMs; ++i) {
      if (ibv_poll_cq(cq_, 1, &wc) == 1) return wc;
      poll(nullptr, 0, 1);
    }
    ADD_FAILURE() << "no completion";
    return wc;
  }

 private:
  static constexpr int kAllAccess =
      IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_READ | IBV_ACCESS_REMOTE_ATOMIC;
  rdma_cm_id* id_;
  bool own_pd_;
  ibv_pd* pd_;
  ibv_comp_channel* comp_;
  ibv_cq* cq_;
  ibv_mr* mr_;
  std::vector<char> memory_ = std::vector<char>(1 << 16);
};

// Every test starts without objects and must leave none.
class Fakes : public testing::Test {
 protected:
  void SetUp() override {
    fake::reset();
    fake::retire_devices();
    fake::add_device({.addresses = {"127.0.0.1", "10.0.0.1", "::1"}});
  }
  void TearDown() override { EXPECT_EQ(fake::leaks(), ""); }
};

// A listener and identifiers on one channel of events.
class Lab {
 public:
  Lab() : listener(new_id()) {
    sockaddr_in address = loopback();
    EXPECT_EQ(rdma_bind_addr(listener, generic(address)), 0);
    EXPECT_EQ(rdma_listen(listener, 8), 0);
  }
  ~Lab() { rdma_destroy_id(listener); }

  rdma_cm_id* new_id(rdma_port_space space = RDMA_PS_TCP) {
    rdma_cm_id* id = nullptr;
    EXPECT_EQ(rdma_create_id(events.channel(), &id, nullptr, space), 0);
    return id;
  }
  // An identifier with a route to the listener.
  rdma_cm_id* route() {
    rdma_cm_id* id = new_id();
    sockaddr_in address = loopback(rdma_get_src_port(listener));
    EXPECT_EQ(rdma_resolve_addr(id, nullptr, generic(address), 1000), 0);
    events.expect(RDMA_CM_EVENT_ADDR_RESOLVED);
    EXPECT_EQ(rdma_resolve_route(id, 1000), 0);
    events.expect(RDMA_CM_EVENT_ROUTE_RESOLVED);
    return id;
  }
  static rdma_conn_param parameters(const std::string& data = {}) {
    rdma_conn_param param = {};
    param.private_data = data.data();
    param.private_data_len = static_cast<uint8_t>(data.size());
    param.responder_resources = param.initiator_depth = 4;
    param.retry_count = 7;
    param.rnr_retry_count = 7;
    return param;
  }

  Events events;
  rdma_cm_id* listener;
};

// Both ends connected.
class Pair {
 public:
  explicit Pair(Lab& lab, const Sizes& sizes = {}, uint8_t rnr_retry = 7) : client(lab.route(), sizes) {
    rdma_conn_param param = Lab::parameters();
    param.rnr_retry_count = rnr_retry;
    EXPECT_EQ(rdma_connect(client.id(), &param), 0);
    server = std::make_unique<End>(lab.events.expect(RDMA_CM_EVENT_CONNECT_REQUEST).id, sizes);
    EXPECT_EQ(rdma_accept(server->id(), &param), 0);
    EXPECT_EQ(lab.events.expect(RDMA_CM_EVENT_ESTABLISHED).id, client.id());
    EXPECT_EQ(lab.events.expect(RDMA_CM_EVENT_ESTABLISHED).id, server->id());
  }
  End client;
  std::unique_ptr<End> server;
};

}  // namespace raw
