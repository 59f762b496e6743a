// SPDX-License-Identifier: BSD-2-Clause
// Datagram queue pairs that break and are reset: each operation that was under way completes once, all buffers return,
// and the endpoint continues. fi_msg(3), ibv_modify_qp(3).
#include <map>

#include "datagram_world.h"

namespace faults_restart_test {

class FaultsRestart : public testing::Test {
 protected:
  void SetUp() override {
    fake::reset();
    ASSERT_TRUE(world_.open());
    ASSERT_EQ(fi_av_insert(world_.sender.av, &world_.receiver.name, 1, &peer_, 0, nullptr), 1);
  }
  void TearDown() override {
    fake::deliver_data();
    world_.close();
    fake::reset();
    EXPECT_EQ(fake::leaks(), "");
  }

  bool send(uint64_t flags, int number) {
    const iovec iov{world_.sender.out, sizeof "hello"};
    const fi_msg message{&iov, nullptr, 1, peer_, context(number), 0};
    return fi_sendmsg(world_.sender.ep, &message, flags | FI_INJECT | FI_COMPLETION) == 0;
  }
  // The queue pairs of the sender and the receiver were created last.
  static ibv_qp* queue_pair_of_sender() { return *(fake::queue_pairs().end() - 2); }
  static ibv_qp* queue_pair_of_receiver() { return fake::queue_pairs().back(); }
  // Breaks it and waits until the provider has reset it.
  void restart(ibv_qp* qp) {
    const uint64_t before = fake::calls()["ibv_modify_qp"];
    fake::raise(qp, IBV_EVENT_QP_FATAL);
    constexpr uint64_t kTransitions = 5;  // to ERR, RESET, INIT, RTR and RTS
    EXPECT_TRUE(wait([&] {
      world_.sender.read();
      world_.receiver.read();
      return fake::calls()["ibv_modify_qp"] == before + kTransitions;
    }));
  }
  // Counts what the sender's queue reports, by number.
  void read_completions() {
    fi_cq_msg_entry entry;
    for (ssize_t got; (got = fi_cq_read(world_.sender.cq, &entry, 1)) == 1 || got == -FI_EAVAIL;) {
      fi_cq_err_entry error{};
      if (got == -FI_EAVAIL) fi_cq_readerr(world_.sender.cq, &error, 0);
      ++(got == 1 ? completed_[entry.op_context] : failed_[error.op_context]);
    }
  }
  void* context(int number) { return &contexts_[number]; }
  void expect_messages_pass(int count) {
    completed_.clear();
    for (int i = 0; i < count; ++i) {
      ASSERT_TRUE(world_.receiver.post_receive());
      ASSERT_TRUE(send(0, kLater + i));
      ASSERT_TRUE(wait([&] { return world_.receiver.drain() == 1; })) << i;
    }
    read_completions();
    for (int i = 0; i < count; ++i) EXPECT_EQ(completed_[context(kLater + i)], 1) << i;
  }

  static constexpr int kLater = 10;
  World world_;
  fi_addr_t peer_ = FI_ADDR_NOTAVAIL;
  fi_context2 contexts_[64] = {};
  std::map<void*, int> completed_, failed_;
};

TEST_F(FaultsRestart, ChainThatWasNotPostedIsCancelledOnce) {
  const ssize_t room = fi_tx_size_left(world_.sender.ep);
  ASSERT_TRUE(send(FI_MORE, 0) && send(FI_MORE, 1));
  restart(queue_pair_of_sender());
  read_completions();
  for (int i = 0; i < 2; ++i) EXPECT_EQ(failed_[context(i)], 1);
  EXPECT_TRUE(completed_.empty());
  EXPECT_EQ(fi_tx_size_left(world_.sender.ep), room);
  expect_messages_pass(3);
  EXPECT_EQ(failed_.size(), 2u);
}

// A device that flushes late may keep the work completions of a queue pair that is reset, or forget them.
TEST_F(FaultsRestart, OperationsThatAreFlushedLateCompleteOnce) {
  for (const bool keep : {false, true}) {
    SCOPED_TRACE(keep ? "completions stay" : "completions vanish");
    completed_.clear();
    failed_.clear();
    const ssize_t room = fi_tx_size_left(world_.sender.ep);
    fake::keep_completions_of_destroyed(keep);
    fake::flush_late(true);
    fake::hold_data();
    ASSERT_TRUE(send(0, 0) && send(0, 1));
    restart(queue_pair_of_sender());
    fake::flush_late(false);
    fake::deliver_data();
    read_completions();
    for (int i = 0; i < 2; ++i) EXPECT_EQ(failed_[context(i)], 1);
    EXPECT_TRUE(completed_.empty());
    EXPECT_EQ(fi_tx_size_left(world_.sender.ep), room);
    expect_messages_pass(3);
    EXPECT_EQ(failed_.size(), 2u);
  }
}

TEST_F(FaultsRestart, BuffersThatAreFlushedLateAreUsedAgain) {
  for (const bool keep : {false, true}) {
    SCOPED_TRACE(keep ? "completions stay" : "completions vanish");
    fake::keep_completions_of_destroyed(keep);
    fake::flush_late(true);
    restart(queue_pair_of_receiver());
    fake::flush_late(false);
    expect_messages_pass(3);
  }
}

// Messages that wait for a receive stay.
TEST_F(FaultsRestart, ArrivedMessagesOutliveTheRestart) {
  ASSERT_TRUE(send(0, 0) && send(0, 1));
  EXPECT_EQ(world_.receiver.drain(), 0);  // the messages have arrived
  fake::flush_late(true);
  restart(queue_pair_of_receiver());
  fake::flush_late(false);
  for (int i = 0; i < 2; ++i) {
    std::memset(world_.receiver.in, 0, sizeof world_.receiver.in);
    ASSERT_TRUE(world_.receiver.post_receive());
    ASSERT_TRUE(wait([&] { return world_.receiver.drain() == 1; })) << i;
    EXPECT_STREQ(world_.receiver.in, "hello");
  }
  expect_messages_pass(3);
}

}  // namespace faults_restart_test
