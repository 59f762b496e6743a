// SPDX-License-Identifier: BSD-2-Clause
// Concurrent calls of applications that promise to serialise others: fi_domain(3), threading. The promises let a
// provider leave locks out, so this is most telling under ThreadSanitizer.
#include <atomic>
#include <thread>

#include "fixture/node.h"

namespace threading_models {

CONFORMANCE_TOPIC(ThreadingModels);

namespace {

HintsEditor model(fi_threading threading) {
  return [threading](fi_info& hints) { hints.domain_attr->threading = threading; };
}
const HintsEditor kDomain = model(FI_THREAD_DOMAIN);

// Event queues do not belong to a domain: endpoints that need none have none.
NodeOptions plain(const Target& target) {
  NodeOptions options;
  options.binds_events = target.connected();
  return options;
}

template <class Ready>
bool poll_for(Ready ready) {
  for (const auto deadline = after(kPatience); Clock::now() < deadline;)
    if (ready()) return true;
  return false;
}

// Two endpoints of reliable datagrams, each in a domain of its own.
class DistantPair {
 public:
  DistantPair(const Fabric& first, const Fabric& second)
      : nodes_{std::make_unique<Node>(first, plain(first.target())),
               std::make_unique<Node>(second, plain(second.target()))} {
    for (int i = 0; i < 2; ++i) {
      fi_av_attr attr{};
      vectors_[i] = opened<fid_av>(
          "fi_av_open", [&](fid_av** v) { return fi_av_open(node(i).fabric().domain(), &attr, v, nullptr); });
      require_ok(fi_ep_bind(node(i).ep(), &vectors_[i]->fid, 0), "fi_ep_bind AV");
      node(i).enable();
    }
    for (int i = 0; i < 2; ++i) {
      const Address address = Address::local_name(node(1 - i).fid());
      require(fi_av_insert(vectors_[i].get(), address.get(), 1, &node(i).peer, 0, nullptr) == 1, "fi_av_insert");
    }
  }
  ~DistantPair() {
    for (auto& node : nodes_) node.reset();
  }
  Node& node(int i) { return *nodes_[i]; }

 private:
  Handle<fid_av> vectors_[2];
  std::unique_ptr<Node> nodes_[2];
};

// Messages of various lengths in both directions; all in the calling thread, which reads the queues of the two only.
class Conversation {
 public:
  Conversation(Node& first, Node& second) : ends_{End(first), End(second)} {}

  void run(unsigned rounds) {
    for (unsigned i = 0; i < rounds && !testing::Test::HasFailure(); ++i) {
      exchange(ends_[0], ends_[1], i);
      exchange(ends_[1], ends_[0], i);
    }
  }

 private:
  struct End {
    explicit End(Node& its) : node(its), out(its.fabric(), kLongest), in(its.fabric(), kLongest) {}
    Node& node;
    Buffer out, in;
  };

  void exchange(End& from, End& to, unsigned seed) {
    const size_t length = from.node.fabric().length_up_to(kLengths[seed % std::size(kLengths)]);
    Context sent, received;
    from.out.fill_pattern(seed);
    ASSERT_EQ(fi_recv(to.node.ep(), to.in.data(), length, to.in.desc(), FI_ADDR_UNSPEC, &received), 0);
    const bool posted = poll_for([&] {
      const ssize_t rc = fi_send(from.node.ep(), from.out.data(), length, from.out.desc(), from.node.peer, &sent);
      if (rc == -FI_EAGAIN) fi_cq_read(from.node.tx().get(), nullptr, 0);
      return rc == 0;
    });
    ASSERT_TRUE(posted);
    Completion gone, come;
    const bool done = poll_for([&] {
      if (!gone.ok()) gone = from.node.tx().read();
      if (!come.ok()) come = to.node.rx().read();
      return gone.ok() && come.ok();
    });
    ASSERT_TRUE(done) << gone << come;
    ASSERT_EQ(come.entry.len, length);
    ASSERT_TRUE(to.in.holds_pattern(seed, length));
  }

  static constexpr size_t kLongest = 100'000;
  static constexpr size_t kLengths[] = {1, 64, 512, 5'000, 20'000, kLongest};
  End ends_[2];
};

constexpr unsigned kRounds = 120;

}  // namespace

TEST_P(ThreadingModels, DomainsOfTwoThreadsWorkAtOnce) {
  NEEDS(kDomain, "FI_THREAD_DOMAIN");
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "datagrams may be dropped";
  Fabric first(target(), kDomain), second(target(), kDomain);
  Pair mine(first, plain(target())), other(second, plain(target()));
  std::thread thread([&] { Conversation(other.a(), other.b()).run(kRounds); });
  Conversation(mine.a(), mine.b()).run(kRounds);
  thread.join();
}

// One domain, each thread with endpoints and queues of its own.
TEST_P(ThreadingModels, EndpointsWithTheirOwnQueuesWorkAtOnce) {
  const HintsEditor completion = model(FI_THREAD_COMPLETION);
  NEEDS(completion, "FI_THREAD_COMPLETION");
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "datagrams may be dropped";
  Fabric fabric(target(), completion);
  Pair mine(fabric, plain(target())), other(fabric, plain(target()));
  std::thread thread([&] { Conversation(other.a(), other.b()).run(kRounds); });
  Conversation(mine.a(), mine.b()).run(kRounds);
  thread.join();
}

// Control calls are not serialised: while the only endpoints of two domains are in use, another thread opens its own
// there, registers memory, closes all of that, and at last exchanges messages as well.
TEST_P(ThreadingModels, OnlyEndpointIsJoinedByOthersAtWork) {
  RELIABLE_DATAGRAMS_ONLY();
  const HintsEditor completion = model(FI_THREAD_COMPLETION);
  NEEDS(completion, "FI_THREAD_COMPLETION");
  Fabric first(target(), completion), second(target(), completion);
  DistantPair mine(first, second);
  std::atomic<bool> over{false};
  std::thread thread([&] {
    for (int i = 0; i < 3; ++i) Buffer registered(first, 64, 0, FI_REMOTE_READ | FI_REMOTE_WRITE);
    for (int i = 0; i < 3; ++i) DistantPair others(first, second);
    DistantPair others(second, first);
    Conversation(others.node(0), others.node(1)).run(kRounds);
    over = true;
  });
  Conversation talk(mine.node(0), mine.node(1));
  do {
    talk.run(kRounds / 4);
  } while (!over && !HasFailure());
  thread.join();
}

// One posts, one reads the queue.
TEST_P(ThreadingModels, QueueIsReadWhileItsEndpointIsPostedTo) {
  const HintsEditor fid = model(FI_THREAD_FID);
  NEEDS(fid, "FI_THREAD_FID");
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "datagrams may be dropped";
  Fabric fabric(target(), fid);
  Pair pair(fabric, plain(target()));
  const int messages = static_cast<int>(std::min<size_t>(fabric.info()->rx_attr->size, 200));
  Buffer in(fabric, 64), out(fabric, 64);
  std::vector<Context> contexts(2 * messages);
  for (int i = 0; i < messages; ++i)
    ASSERT_EQ(fi_recv(pair.b().ep(), in.data(), 64, in.desc(), FI_ADDR_UNSPEC, &contexts[i]), 0);
  std::thread poster([&] {
    for (int i = 0; i < messages; ++i) {
      const bool posted = poll_for([&] {
        return fi_send(pair.a().ep(), out.data(), 64, out.desc(), pair.a().peer, &contexts[messages + i]) == 0;
      });
      ASSERT_TRUE(posted);
    }
  });
  int sent = 0, received = 0;
  const bool all = poll_for([&] {
    sent += pair.a().tx().read().ok();
    received += pair.b().rx().read().ok();
    return sent == messages && received == messages;
  });
  poster.join();
  EXPECT_TRUE(all) << sent << " sent, " << received << " received";
}

// An event queue belongs to the fabric: reading it is not serialised with a domain, and drives the endpoints bound to
// it.
TEST_P(ThreadingModels, EventQueueIsReadBesideItsDomain) {
  NEEDS(kDomain, "FI_THREAD_DOMAIN");
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "datagrams may be dropped";
  Fabric fabric(target(), kDomain);
  Pair pair(fabric);
  std::atomic<bool> over{false};
  std::thread reader([&] {
    while (!over) {
      uint32_t event;
      fi_eq_cm_entry entry;
      fi_eq_read(pair.a().eq().get(), &event, &entry, sizeof entry, 0);
      fi_eq_read(pair.b().eq().get(), &event, &entry, sizeof entry, 0);
    }
  });
  Conversation(pair.a(), pair.b()).run(kRounds);
  over = true;
  reader.join();
}

// So does a wait set, which drives its members' engines.
TEST_P(ThreadingModels, WaitSetIsWaitedForBesideItsDomain) {
  NEEDS(kDomain, "FI_THREAD_DOMAIN");
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "datagrams may be dropped";
  Fabric fabric(target(), kDomain);
  fi_wait_attr attr{};
  attr.wait_obj = FI_WAIT_UNSPEC;
  fid_wait* opened_set = nullptr;
  if (const int rc = fi_wait_open(fabric.fabric(), &attr, &opened_set); rc == -FI_ENOSYS)
    GTEST_SKIP() << "no wait sets";
  ASSERT_NE(opened_set, nullptr);
  Handle<fid_wait> set(opened_set);
  NodeOptions options = plain(target());
  options.rx_cq.wait_obj = FI_WAIT_SET;
  options.rx_cq.wait_set = set.get();
  Pair pair(fabric, options);
  std::atomic<bool> over{false};
  std::thread waiter([&] {
    while (!over) fi_wait(set.get(), 1);
  });
  Conversation(pair.a(), pair.b()).run(kRounds);
  over = true;
  waiter.join();
}

// A thread of the provider is not serialised with the application.
TEST_P(ThreadingModels, ProviderMakesProgressBesideTheApplication) {
  const HintsEditor automatic = [](fi_info& hints) {
    hints.domain_attr->threading = FI_THREAD_DOMAIN;
    hints.domain_attr->control_progress = hints.domain_attr->data_progress = FI_PROGRESS_AUTO;
  };
  NEEDS(automatic, "FI_THREAD_DOMAIN with FI_PROGRESS_AUTO");
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "datagrams may be dropped";
  Fabric fabric(target(), automatic);
  Pair pair(fabric, plain(target()));
  Conversation(pair.a(), pair.b()).run(kRounds);
}

TEST_P(ThreadingModels, QueueWithAConditionIsReadInItsDomain) {
  NEEDS(kDomain, "FI_THREAD_DOMAIN");
  if (target().ep_type == FI_EP_DGRAM) GTEST_SKIP() << "datagrams may be dropped";
  Fabric fabric(target(), kDomain);
  NodeOptions options = plain(target());
  options.rx_cq.wait_obj = FI_WAIT_MUTEX_COND;
  Pair pair(fabric, options);
  Conversation(pair.a(), pair.b()).run(kRounds);
}

}  // namespace threading_models
