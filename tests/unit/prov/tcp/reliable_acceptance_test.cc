// SPDX-License-Identifier: BSD-2-Clause
// The request of a reliable-datagram peer while the system can watch no further socket, epoll_ctl(2): ENOSPC.
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <utility>

#include "unit/prov/tcp/side.h"

namespace {
bool adds_fail = false;
int failed_adds = 0;
}  // namespace

extern "C" int epoll_ctl(int epoll, int operation, int fd, epoll_event* event) noexcept {
  if (operation == EPOLL_CTL_ADD && std::exchange(adds_fail, false)) {
    ++failed_adds;
    errno = ENOSPC;
    return -1;
  }
  return static_cast<int>(syscall(SYS_epoll_ctl, epoll, operation, fd, event));
}

namespace weft::tcp::testing {
namespace {

InfoPtr reliable_info() {
  const InfoPtr hints(fi_allocinfo());
  hints->ep_attr->type = FI_EP_RDM;
  return source_info("127.0.0.1", nullptr, hints.get());
}

struct ReliableSide : Side {
  ReliableSide() : Side(reliable_info(), FI_WAIT_FD) {
    fi_av_attr av_attr{};
    EXPECT_EQ(fi_av_open(domain, &av_attr, &av, nullptr), 0);
    EXPECT_EQ(fi_endpoint(domain, info.get(), &ep, nullptr), 0);
    EXPECT_EQ(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), 0);
    EXPECT_EQ(fi_ep_bind(ep, &av->fid, 0), 0);
    EXPECT_EQ(fi_enable(ep), 0);
  }
  ~ReliableSide() {
    close_one(ep);
    close_one(av);
  }

  fid_av* av = nullptr;
};

TEST(ReliableAcceptance, IsNotSentWhileTheSocketCannotBeWatched) {
  using namespace std::chrono_literals;
  ReliableSide client, server;
  int fd = -1;  // once it is fetched, each new socket is watched at once
  ASSERT_EQ(fi_control(&server.cq->fid, FI_GETWAIT, &fd), 0);
  char name[64], byte = 0;
  size_t len = sizeof name;
  fi_addr_t to = 0;
  ASSERT_EQ(fi_getname(&server.ep->fid, name, &len), 0);
  ASSERT_EQ(fi_av_insert(client.av, name, 1, &to, 0, nullptr), 1);
  ASSERT_EQ(fi_recv(server.ep, &byte, 1, nullptr, FI_ADDR_UNSPEC, nullptr), 0);
  ASSERT_EQ(fi_send(client.ep, "x", 1, nullptr, to, nullptr), 0);
  bool sent = false, arrived = false;
  failed_adds = 0;
  for (const auto end = std::chrono::steady_clock::now() + 10s;
       !(sent && arrived) && std::chrono::steady_clock::now() < end;) {
    Done done;
    sent |= client.poll(done) && done.error == 0;
    adds_fail = failed_adds == 0;
    arrived |= server.poll(done) && done.error == 0;
    adds_fail = false;
  }
  EXPECT_EQ(failed_adds, 1);
  EXPECT_TRUE(sent && arrived);
}

}  // namespace
}  // namespace weft::tcp::testing
