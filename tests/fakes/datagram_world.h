// SPDX-License-Identifier: BSD-2-Clause
// Two datagram endpoints of the verbs provider on the fakes, with their queues and a group, for tests that check what
// they report when something fails.
#pragma once

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <functional>
#include <thread>

#include "fake_rdma.h"

using Clock = std::chrono::steady_clock;

inline sockaddr_in ip(const char* host, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, host, &address.sin_addr);
  return address;
}
inline const sockaddr_in kGroup = ip("239.7.7.7", 4711);

// Closes what was opened; nothing may be busy.
template <class T>
void close_one(T*& object, const char* what) {
  if (object == nullptr) return;
  EXPECT_EQ(fi_close(&object->fid), 0) << what;
  object = nullptr;
}

struct Event {
  uint32_t type = 0;  // 0: none
  int error = 0;
  fid_t fid = nullptr;
  uint64_t data = 0;
  std::string sentence;
};

// An endpoint with its queues. Any step may fail; after that, nothing else can be done with it.
struct Member {
  fid_eq* eq = nullptr;
  fid_cq* cq = nullptr;
  fid_av* av = nullptr;
  fid_ep* ep = nullptr;
  fid_mc* mc = nullptr;
  union {
    sockaddr_in name{};
    char raw_name[64];  // FI_ADDR_IB_UD
  };
  char in[100] = "", out[100] = "hello";
  uint64_t selective = 0;  // FI_SELECTIVE_COMPLETION: of sends

  bool open(fid_fabric* fabric, fid_domain* domain, fi_info* info, uint64_t av_flags = 0,
            fi_wait_obj wait_obj = FI_WAIT_NONE) {
    fi_eq_attr eq_attr{};
    fi_cq_attr cq_attr{};
    cq_attr.format = FI_CQ_FORMAT_MSG;
    cq_attr.wait_obj = wait_obj;
    fi_av_attr av_attr{};
    av_attr.flags = av_flags;
    size_t size = sizeof raw_name;
    return fi_eq_open(fabric, &eq_attr, &eq, nullptr) == 0 && fi_cq_open(domain, &cq_attr, &cq, nullptr) == 0 &&
           fi_av_open(domain, &av_attr, &av, nullptr) == 0 && fi_av_bind(av, &eq->fid, 0) == 0 &&
           fi_endpoint(domain, info, &ep, nullptr) == 0 && fi_ep_bind(ep, &eq->fid, 0) == 0 &&
           fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | selective) == 0 && fi_ep_bind(ep, &cq->fid, FI_RECV) == 0 &&
           fi_ep_bind(ep, &av->fid, 0) == 0 && fi_enable(ep) == 0 && fi_getname(&ep->fid, &name, &size) == 0;
  }
  void close() {
    close_one(mc, "group");
    close_one(ep, "endpoint");
    close_one(av, "address vector");
    close_one(cq, "completion queue");
    close_one(eq, "event queue");
  }
  Event read() {
    Event event;
    fi_eq_entry entry{};
    const ssize_t got = fi_eq_read(eq, &event.type, &entry, sizeof entry, 0);
    if (got == sizeof entry) {
      event.fid = entry.fid;
      event.data = entry.data;
    } else if (got == -FI_EAVAIL) {
      fi_eq_err_entry error{};
      fi_eq_readerr(eq, &error, 0);
      event.error = error.err;
      event.fid = error.fid;
      event.sentence = fi_eq_strerror(eq, error.prov_errno, nullptr, nullptr, 0);
    }
    return event;
  }
  bool join() { return fi_join(ep, &kGroup, 0, &mc, nullptr) == 0; }
  // Sends one message to the group.
  bool send_to_group() {
    const iovec iov{out, sizeof "hello"};
    const fi_msg message{&iov, nullptr, 1, fi_mc_addr(mc), this, 0};
    return fi_sendmsg(ep, &message, FI_MULTICAST | FI_INJECT | FI_COMPLETION) == 0;
  }
  bool post_receive() { return fi_recv(ep, in, sizeof in, nullptr, FI_ADDR_UNSPEC, this) == 0; }
  // Reads the completions and errors that are ready; returns how many.
  int drain() {
    fi_cq_msg_entry entry;
    int count = 0;
    for (ssize_t got; (got = fi_cq_read(cq, &entry, 1)) == 1 || got == -FI_EAVAIL; ++count) {
      fi_cq_err_entry error{};
      if (got == -FI_EAVAIL) fi_cq_readerr(cq, &error, 0);
    }
    return count;
  }
};

struct World {
  fi_info* info = nullptr;
  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
  Member sender, receiver;

  // FI_ADDR_IB_UD: without multicast.
  bool open(uint64_t av_flags = 0, uint32_t addr_format = FI_SOCKADDR_IN, uint64_t mode = 0) {
    fi_info* hints = fi_allocinfo();
    const bool native = addr_format == FI_ADDR_IB_UD;
    hints->caps = FI_MSG | (native ? 0 : FI_MULTICAST);
    hints->addr_format = addr_format;
    hints->mode = mode;
    hints->ep_attr->type = FI_EP_DGRAM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL;
    const int got =
        fi_getinfo(FI_VERSION(1, 18), native ? nullptr : "127.0.0.1", nullptr, native ? 0 : FI_SOURCE, hints, &info);
    fi_freeinfo(hints);
    return got == 0 && fi_fabric(info->fabric_attr, &fabric, nullptr) == 0 &&
           fi_domain(fabric, info, &domain, nullptr) == 0 && sender.open(fabric, domain, info, av_flags) &&
           receiver.open(fabric, domain, info, av_flags);
  }
  void close() {
    sender.close();
    receiver.close();
    close_one(domain, "domain");
    close_one(fabric, "fabric");
  }
  ~World() {
    close();
    fi_freeinfo(info);
  }
};

inline bool wait(const std::function<bool()>& done, int milliseconds = 10'000) {
  const auto limit = Clock::now() + std::chrono::milliseconds(milliseconds);
  while (!done())
    if (Clock::now() > limit) return false;
  return true;
}

inline Event next_event(Member& member) {
  Event event;
  wait([&] { return (event = member.read()).fid != nullptr; });
  return event;
}

// Joins; returns whether the one event that follows reports success.
inline bool joins(Member& member) {
  if (!member.join()) return false;
  const Event event = next_event(member);
  EXPECT_EQ(event.fid, &member.mc->fid) << "a join has one event";
  EXPECT_TRUE(event.type == FI_JOIN_COMPLETE || !event.sentence.empty());
  EXPECT_EQ(event.error == 0, fi_mc_addr(member.mc) != FI_ADDR_NOTAVAIL);
  return event.error == 0;
}
