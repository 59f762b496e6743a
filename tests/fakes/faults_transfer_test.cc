// SPDX-License-Identifier: BSD-2-Clause
// Failures of the data path: every status of a work completion, lost messages and acknowledgements, operations that are
// outstanding at an end. The accounts balance (two_ends.h).
#include <gtest/gtest.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <chrono>
#include <thread>

#include "fake_rdma.h"
#include "log_capture.h"
#include "two_ends.h"
#include "without_devices.h"

namespace faults_transfer_test {

class FaultsTransfer : public testing::Test {
 protected:
  void SetUp() override {
    fake::reset();
    fake::set_timing({.request_timeout = 500, .disconnect_timeout = 100, .retries_exceeded = 30});
  }
  void TearDown() override { fake::reset(); }

  // Runs `act` on a connection; then the client closes, and all accounts balance.
  static void with_connection(const std::string& what, const ends::Options& options,
                              const std::function<void(ends::TwoEnds&)>& act) {
    ends::TwoEnds both(options);
    ASSERT_TRUE(both.open() && both.connect()) << what;
    ASSERT_TRUE(both.wait([&] { return both.client.established() && both.server.established(); })) << what;
    act(both);
    fake::deliver_data();
    if (both.client.established()) both.client.close_endpoint(both);
    both.expect_ended();
    both.close();
    EXPECT_EQ(both.verdict(), "") << what;
  }
};

TEST_F(FaultsTransfer, EachStatusBreaksTheConnectionOnce) {
  for (int status = IBV_WC_LOC_LEN_ERR; status <= IBV_WC_GENERAL_ERR; ++status) {
    if (status == IBV_WC_WR_FLUSH_ERR) continue;  // never the first error
    const auto name = ibv_wc_status_str(static_cast<ibv_wc_status>(status));
    with_connection(name, {}, [&](ends::TwoEnds& both) {
      fake::script_status(0, static_cast<ibv_wc_status>(status));
      ASSERT_TRUE(both.client.post_send());
      both.client.post_send();
      both.client.post_rma(both.server, false);
      ASSERT_TRUE(both.wait([&] { return both.client.terminals == 1; })) << name << ": the failure must be reported";
      EXPECT_GE(both.client.failed, 3U) << name;
    });
    fake::reset();
  }
}

TEST_F(FaultsTransfer, LostMessagesAndAcknowledgementsFail) {
  for (const bool acknowledgement : {false, true}) {
    with_connection("lost", {}, [&](ends::TwoEnds& both) {
      acknowledgement ? fake::lose_acknowledgements(0) : fake::lose_messages(0);
      ASSERT_TRUE(both.client.post_send());
      ASSERT_TRUE(both.wait([&] { return both.client.terminals == 1; }));
    });
  }
}

// The sleeper has requested the interrupts of the queues that there were.
TEST_F(FaultsTransfer, SleeperOnACounterIsWokenByAQueueThatIsOpenedLater) {
  fid_cntr* counter = nullptr;
  ends::Options options;
  options.automatic_progress = true;
  options.before_connect = [&](fid_ep* ep) { EXPECT_EQ(fi_ep_bind(ep, &counter->fid, FI_RECV), 0); };
  ends::TwoEnds both(options);
  ASSERT_TRUE(both.open());
  fi_cntr_attr attr{};
  attr.wait_obj = FI_WAIT_FD;
  ASSERT_EQ(fi_cntr_open(both.client.domain, &attr, &counter, nullptr), 0);
  ASSERT_EQ(fi_close(&both.client.cq->fid), 0);
  std::thread sleeper([&] { EXPECT_EQ(fi_cntr_wait(counter, 1, 5000), 0); });
  std::this_thread::sleep_for(std::chrono::milliseconds(50));
  fi_cq_attr queue{};
  queue.format = FI_CQ_FORMAT_MSG;
  EXPECT_EQ(fi_cq_open(both.client.domain, &queue, &both.client.cq, nullptr), 0);
  EXPECT_TRUE(both.connect());
  EXPECT_TRUE(both.wait([&] { return both.client.established() && both.server.established(); }));
  EXPECT_TRUE(both.server.post_send());
  sleeper.join();
  both.client.close_endpoint(both);
  both.expect_ended();
  EXPECT_EQ(fi_close(&counter->fid), 0);
  both.close();
  EXPECT_EQ(both.verdict(), "");
}

TEST_F(FaultsTransfer, CloseWithOperationsOutstandingCancelsThem) {
  for (const bool keep : {false, true}) {
    fake::keep_completions_of_destroyed(keep);
    with_connection(keep ? "completions stay" : "completions vanish", {}, [&](ends::TwoEnds& both) {
      ASSERT_TRUE(both.client.post_send()) << "this send completes";
      fake::hold_data();
      for (int i = 0; i < 4; ++i) both.client.post_send();
      both.client.post_rma(both.server, true);
      both.client.close_endpoint(both);
      EXPECT_EQ(both.client.outstanding(), 0U);
      EXPECT_GE(both.client.completed, 1U) << "what finished is reported as finished";
    });
  }
}

TEST_F(FaultsTransfer, ShutdownWithOperationsOutstandingReportsTheEndLast) {
  with_connection("shutdown", {}, [&](ends::TwoEnds& both) {
    fake::hold_data();
    for (int i = 0; i < 4; ++i) both.client.post_send();
    EXPECT_EQ(fi_shutdown(both.client.ep, 0), 0);
    ASSERT_TRUE(both.wait([&] { return both.client.terminals == 1; }));
    EXPECT_EQ(both.client.outstanding(), 0U);
  });
}

TEST_F(FaultsTransfer, VanishedPeerIsDetected) {
  for (const bool keep : {false, true}) {
    fake::keep_completions_of_destroyed(keep);
    with_connection("vanished", {}, [&](ends::TwoEnds& both) {
      fake::lose(fake::Message::kDisconnect);
      both.server.close_endpoint(both);
      ASSERT_TRUE(both.client.post_send());
      ASSERT_TRUE(both.wait([&] { return both.client.terminals == 1; }));
    });
  }
}

TEST_F(FaultsTransfer, SharedReceivesOutliveTheirEndpoints) {
  with_connection("shared", {.shared_receives = true}, [&](ends::TwoEnds& both) {
    for (int i = 0; i < 3; ++i) both.client.post_send();
    ASSERT_TRUE(both.wait([&] { return both.server.completed >= 3; }));
    fake::hold_data();
    both.client.post_send();
    both.server.close_endpoint(both);
  });
}

TEST_F(FaultsTransfer, FullQueuesAnswerTryAgain) {
  with_connection("full", {}, [&](ends::TwoEnds& both) {
    fake::hold_data();
    size_t accepted = 0;
    while (accepted < 400 && both.client.post_send()) ++accepted;
    EXPECT_GE(accepted, 16U) << "as many as asked for";
    EXPECT_LT(accepted, 400U);
    EXPECT_EQ(fake::overruns(), 0U);
    fake::deliver_data();
    for (size_t i = 0; i < 20; ++i) both.server.post_receive();
    both.wait([&] { return both.client.completed >= 4; });
    EXPECT_TRUE(both.client.established());
  });
}

TEST_F(FaultsTransfer, LengthsWithoutABufferAreRefused) {
  with_connection("no buffer", {}, [&](ends::TwoEnds& both) {
    fid_ep* const ep = both.client.ep;
    const auto address = reinterpret_cast<uint64_t>(both.server.memory());
    const uint64_t key = fi_mr_key(both.server.mr);
    const iovec none{nullptr, 8};
    for (const size_t length : {size_t{8}, size_t{1000}}) {
      for (void* desc : {static_cast<void*>(nullptr), fi_mr_desc(both.client.mr)}) {
        EXPECT_EQ(fi_send(ep, nullptr, length, desc, FI_ADDR_UNSPEC, nullptr), -FI_EINVAL);
        EXPECT_EQ(fi_read(ep, nullptr, length, desc, FI_ADDR_UNSPEC, address, key, nullptr), -FI_EINVAL);
        EXPECT_EQ(fi_write(ep, nullptr, length, desc, FI_ADDR_UNSPEC, address, key, nullptr), -FI_EINVAL);
      }
    }
    EXPECT_EQ(fi_sendv(ep, &none, nullptr, 1, FI_ADDR_UNSPEC, nullptr), -FI_EINVAL);
    EXPECT_EQ(fi_inject(ep, nullptr, 8, FI_ADDR_UNSPEC), -FI_EINVAL);
    EXPECT_EQ(fi_inject_write(ep, nullptr, 8, FI_ADDR_UNSPEC, address, key), -FI_EINVAL);
    ASSERT_TRUE(both.client.post_send());
    EXPECT_TRUE(both.wait([&] { return both.client.completed == 1; }));
  });
}

// FI_DELIVERY_COMPLETE: the device takes the write and refuses the read behind it.
TEST_F(FaultsTransfer, DeliveredWriteWithoutItsReadFailsOnce) {
  with_connection("half", {}, [&](ends::TwoEnds& both) {
    uint64_t flags = FI_TRANSMIT | FI_DELIVERY_COMPLETE;
    ASSERT_EQ(fi_control(&both.client.ep->fid, FI_SETOPSFLAG, &flags), 0);
    fake::refuse_second_request(ENOMEM);
    ASSERT_TRUE(both.client.post_rma(both.server, false)) << "the device has the write, so it is not to be repeated";
    ASSERT_TRUE(both.wait([&] { return both.client.failed == 1; }));
    EXPECT_TRUE(both.client.established());
    ASSERT_TRUE(both.client.post_rma(both.server, false));
    EXPECT_TRUE(both.wait([&] { return both.client.completed == 1; }));
  });
}

TEST_F(FaultsTransfer, StatusOfAWriteWithoutItsReadStaysWithTheWrite) {
  with_connection("half and broken", {}, [&](ends::TwoEnds& both) {
    uint64_t flags = FI_TRANSMIT | FI_DELIVERY_COMPLETE;
    ASSERT_EQ(fi_control(&both.client.ep->fid, FI_SETOPSFLAG, &flags), 0);
    fake::hold_data();
    fake::script_status(0, IBV_WC_REM_ACCESS_ERR);
    fake::refuse_second_request(ENOMEM);
    ASSERT_TRUE(both.client.post_rma(both.server, false));
    ASSERT_TRUE(both.client.post_send());
    fake::deliver_data();
    ASSERT_TRUE(both.wait([&] { return both.client.terminals == 1; }));
    EXPECT_EQ(both.client.send_error, FI_ECANCELED) << "the send was flushed, the write was refused";
  });
}

// FI_DELIVERY_COMPLETE: a write is followed by a read, an injected write too.
TEST_F(FaultsTransfer, DeliveredWritesTakeTwoPlacesOfTheQueue) {
  with_connection("delivered", {}, [&](ends::TwoEnds& both) {
    uint64_t flags = FI_TRANSMIT | FI_DELIVERY_COMPLETE;
    ASSERT_EQ(fi_control(&both.client.ep->fid, FI_SETOPSFLAG, &flags), 0);
    ASSERT_TRUE(both.client.post_send());
    fake::hold_data();
    const ssize_t room = fi_tx_size_left(both.client.ep);
    ASSERT_TRUE(both.client.post_rma(both.server, false));
    EXPECT_EQ(fi_tx_size_left(both.client.ep), room - 2);
    const auto address = reinterpret_cast<uint64_t>(both.server.memory());
    ASSERT_EQ(fi_inject_write(both.client.ep, "x", 1, FI_ADDR_UNSPEC, address, fi_mr_key(both.server.mr)), 0);
    EXPECT_EQ(fi_tx_size_left(both.client.ep), room - 4);
    ASSERT_EQ(fi_inject_writedata(both.client.ep, "x", 1, 5, FI_ADDR_UNSPEC, address, fi_mr_key(both.server.mr)), 0);
    EXPECT_EQ(fi_tx_size_left(both.client.ep), room - 6);
  });
}

TEST_F(FaultsTransfer, DeliveredSendsTakeTwoPlacesOfTheQueue) {
  with_connection("delivered", {}, [&](ends::TwoEnds& both) {
    ASSERT_TRUE(both.client.post_send());  // as the endpoint's flags say: acknowledged
    uint64_t flags = FI_TRANSMIT | FI_DELIVERY_COMPLETE;
    ASSERT_EQ(fi_control(&both.client.ep->fid, FI_SETOPSFLAG, &flags), 0);
    fake::hold_data();
    const ssize_t room = fi_tx_size_left(both.client.ep);
    ASSERT_TRUE(both.client.post_send());
    EXPECT_EQ(fi_tx_size_left(both.client.ep), room - 2);
    ASSERT_EQ(fi_inject(both.client.ep, "x", 1, FI_ADDR_UNSPEC), 0);
    EXPECT_EQ(fi_tx_size_left(both.client.ep), room - 4);
    ASSERT_EQ(fi_inject(both.client.ep, nullptr, 0, FI_ADDR_UNSPEC), 0);
    EXPECT_EQ(fi_tx_size_left(both.client.ep), room - 5) << "no bytes to deliver";
    fake::deliver_data();
    EXPECT_TRUE(both.wait([&] { return both.client.completed == 2; }));
  });
}

// The device reads into two buffers at most.
TEST_F(FaultsTransfer, ReadsIntoMoreBuffersThanTheDeviceHasTakeSeveralRequests) {
  with_connection("split", {}, [&](ends::TwoEnds& both) {
    ASSERT_TRUE(both.client.post_send());
    for (int i = 0; i < 64; ++i) both.server.memory()[i] = static_cast<char>(i + 1);
    fake::hold_data();
    const ssize_t room = fi_tx_size_left(both.client.ep);
    ASSERT_TRUE(both.client.post_read_of(both.server, 3));
    EXPECT_EQ(fi_tx_size_left(both.client.ep), room - 2);
    fake::deliver_data();
    ASSERT_TRUE(both.wait([&] { return both.client.completed == 2; })) << "one completion for the operation";
    for (int i = 0; i < 48; ++i) EXPECT_EQ(both.client.memory()[1024 + i / 16 * 32 + i % 16], i + 1) << i;
  });
}

TEST_F(FaultsTransfer, TheSmallestQueueHasRoomForASplitRead) {
  with_connection("small queue", {.iwarp = true}, [&](ends::TwoEnds& both) {
    fid_ep* ep = nullptr;
    ASSERT_EQ(fi_endpoint(both.client.domain, both.info, &ep, nullptr), 0);
    size_t size = 2, length = sizeof size;
    EXPECT_EQ(fi_setopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_TX_SIZE, &size, sizeof size), 0);
    EXPECT_EQ(fi_getopt(&ep->fid, FI_OPT_ENDPOINT, FI_OPT_TX_SIZE, &size, &length), 0);
    EXPECT_GE(size, both.info->tx_attr->iov_limit);
    EXPECT_EQ(fi_close(&ep->fid), 0);
  });
}

TEST_F(FaultsTransfer, SplitReadThatTheDeviceTakesInPartFailsOnceWithTheConnection) {
  with_connection("split and refused", {}, [&](ends::TwoEnds& both) {
    fake::refuse_second_request(ENOMEM);
    ASSERT_TRUE(both.client.post_read_of(both.server, 4)) << "a part is under way, so it is not to be repeated";
    ASSERT_TRUE(both.wait([&] { return both.client.terminals == 1; }));
    EXPECT_GE(both.client.failed, 1U);
  });
}

TEST_F(FaultsTransfer, CompletionQueuesGrowWithTheFirstOperation) {
  with_connection("growing", {.queue_entries = 8}, [&](ends::TwoEnds& both) {
    const auto resizes = [] { return fake::calls()["ibv_resize_cq"]; };
    const uint64_t before = resizes();
    fake::fail("ibv_resize_cq", 1, ENOMEM);
    EXPECT_FALSE(both.client.post_send());
    EXPECT_EQ(resizes(), before + 1);
    EXPECT_TRUE(both.client.post_send()) << "memory is available again";
    EXPECT_EQ(resizes(), before + 2);
    EXPECT_TRUE(both.client.post_send());
    EXPECT_EQ(resizes(), before + 2) << "once for each direction";
  });
}

// As on hns, mana and qedr.
class FaultsFixedQueues : public WithoutDevices {};

TEST_F(FaultsFixedQueues, QueueThatARoceDeviceCannotEnlargeIsLongEnoughFromTheStart) {
  fake::DeviceConfig config;
  config.enlarges_queues = false;
  fake::add_device(config);
  ends::TwoEnds both({.queue_entries = 4});
  both.run();
  EXPECT_EQ(fake::overruns(), 0u);
  EXPECT_EQ(both.verdict(), "");
  EXPECT_GT(both.client.completed, 0u);
}

TEST_F(FaultsTransfer, LateBindingOfAPassiveEndpointIsLogged) {
  with_connection("late binding", {}, [&](ends::TwoEnds& both) {
    const LogCapture log;
    EXPECT_EQ(fi_pep_bind(both.listener, &both.client.eq->fid, 0), -FI_EOPBADSTATE);
    EXPECT_TRUE(log.has("fi_pep_bind refused: the endpoint is listening")) << log.text();
  });
}

// The device reports it with an asynchronous event; a reader of the queue must learn that completions are missing.
TEST_F(FaultsTransfer, OverrunQueuesAreReported) {
  with_connection("overrun", {}, [&](ends::TwoEnds& both) {
    const LogCapture log;
    fake::raise(fake::queue_pairs().back()->send_cq, IBV_EVENT_CQ_ERR);
    const auto overrun = [](ends::End& end) {
      fi_cq_msg_entry entry;
      return fi_cq_read(end.cq, &entry, 1) == -FI_EOVERRUN;
    };
    EXPECT_TRUE(both.wait([&] { return overrun(both.client) || overrun(both.server); }));
    EXPECT_NE(overrun(both.client), overrun(both.server)) << "the overrun persists, and for that queue only";
    EXPECT_TRUE(log.has("a completion queue of fake0 was overrun")) << log.text();
  });
}

}  // namespace faults_transfer_test
