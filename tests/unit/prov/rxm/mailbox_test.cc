// SPDX-License-Identifier: BSD-2-Clause
// Acknowledgements between processes of one host arrive as they were posted, and no call blocks.
#include "rxm/local/mailbox.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <memory>

namespace weft::rxm {
namespace {

TEST(Mailbox, TakesWakeupsInOrder) {
  Mailbox from, to;
  ASSERT_TRUE(from.open().ok());
  ASSERT_TRUE(to.open().ok());
  EXPECT_NE(from.name(), to.name());
  Wakeup wakeup;
  pid_t sender = 0;
  EXPECT_FALSE(to.take(wakeup, sender));
  ASSERT_TRUE(from.post(to.name(), {.proof = {1, 2, 3}, .message = 7}));
  ASSERT_TRUE(from.post(to.name(), {.proof = {4}, .message = 8}));
  ASSERT_TRUE(to.take(wakeup, sender));
  EXPECT_EQ(sender, ::getpid());
  EXPECT_EQ(wakeup.proof, (Proof{1, 2, 3}));
  EXPECT_EQ(wakeup.message, 7u);
  ASSERT_TRUE(to.take(wakeup, sender));
  EXPECT_EQ(wakeup.message, 8u);
  EXPECT_FALSE(to.take(wakeup, sender));
}

TEST(Mailbox, PostFailsWithoutRoomOrDestination) {
  Mailbox from;
  auto to = std::make_unique<Mailbox>();
  EXPECT_FALSE(from.post(to->name(), {}));
  ASSERT_TRUE(from.open().ok());
  EXPECT_FALSE(from.post(to->name(), {}));  // it has no name yet
  ASSERT_TRUE(to->open().ok());
  int posted = 0;
  while (posted < 1'000'000 && from.post(to->name(), {})) ++posted;
  EXPECT_GT(posted, 0);
  EXPECT_LT(posted, 1'000'000);
  const MailboxName gone = to->name();
  to.reset();
  EXPECT_FALSE(from.post(gone, {}));
}

TEST(Mailbox, SkipsDatagramsOfAnotherSize) {
  Mailbox from, to;
  ASSERT_TRUE(from.open().ok());
  ASSERT_TRUE(to.open().ok());
  sockaddr_storage name{};
  socklen_t len = sizeof name;
  ASSERT_EQ(::getsockname(to.fd(), reinterpret_cast<sockaddr*>(&name), &len), 0);
  const char junk[2 * sizeof(Wakeup)] = {};
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, sizeof(Wakeup) - 1, sizeof junk})
    ASSERT_GE(::sendto(from.fd(), junk, size, 0, reinterpret_cast<sockaddr*>(&name), len), 0);
  ASSERT_TRUE(from.post(to.name(), {.message = 9}));
  Wakeup wakeup;
  pid_t sender = 0;
  ASSERT_TRUE(to.take(wakeup, sender));
  EXPECT_EQ(wakeup.message, 9u);
}

TEST(Mailbox, NameIsNotAFileName) {
  Mailbox box;
  ASSERT_TRUE(box.open().ok());
  EXPECT_NE(box.name(), MailboxName{});
  EXPECT_EQ(box.name()[0], '\0');
}

}  // namespace
}  // namespace weft::rxm
