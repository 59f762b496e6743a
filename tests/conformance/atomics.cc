// SPDX-License-Identifier: BSD-2-Clause
// Atomic operations: offered ones work and are atomic, all others are refused and change nothing; fi_atomic(3).
#include <rdma/fi_atomic.h>

#include <atomic>
#include <thread>

#include "fixture/driver.h"
#include "fixture/member.h"

namespace atomics {

CONFORMANCE_TOPIC(Atomics);

namespace {

const HintsEditor kAtomic = [](fi_info& hints) { hints.caps = FI_MSG | FI_RMA | FI_ATOMIC; };
constexpr uint64_t kRemote = FI_REMOTE_READ | FI_REMOTE_WRITE;
constexpr fi_datatype kType = FI_UINT64;

struct Scene {
  explicit Scene(const Target& target, const NodeOptions& options = {}, uint64_t access = kRemote)
      : fabric(target, kAtomic),
        pair(fabric, options),
        remote(fabric, 64, 0, access),
        local(fabric, 64, 0, FI_READ | FI_WRITE) {}

  bool has(fi_op op, uint64_t flags = 0) {
    fi_atomic_attr attr{};
    return fi_query_atomic(fabric.domain(), kType, op, &attr, flags) == 0;
  }
  fid_ep* ep() { return pair.a().ep(); }
  uint64_t& target_value() { return *reinterpret_cast<uint64_t*>(remote.data()); }
  uint64_t& operand() { return *reinterpret_cast<uint64_t*>(local.data()); }
  uint64_t& comparand() { return *reinterpret_cast<uint64_t*>(local.data() + 8); }
  uint64_t& result() { return *reinterpret_cast<uint64_t*>(local.data() + 16); }

  ssize_t update(fi_op op) {
    return retry([&] {
      return fi_atomic(ep(), &operand(), 1, local.desc(), pair.a().peer, remote.remote_address(), remote.key(), kType,
                       op, &context);
    });
  }
  ssize_t fetch(fi_op op) {
    return retry([&] {
      return fi_fetch_atomic(ep(), &operand(), 1, local.desc(), &result(), local.desc(), pair.a().peer,
                             remote.remote_address(), remote.key(), kType, op, &context);
    });
  }
  ssize_t compare(fi_op op) {
    return retry([&] {
      return fi_compare_atomic(ep(), &operand(), 1, local.desc(), &comparand(), local.desc(), &result(), local.desc(),
                               pair.a().peer, remote.remote_address(), remote.key(), kType, op, &context);
    });
  }
  void expect_done() {
    const Completion completion = pair.a().tx().wait();
    ASSERT_TRUE(completion.ok()) << completion;
    EXPECT_EQ(completion.context(), &context);
    EXPECT_TRUE(completion.entry.flags & FI_ATOMIC);
  }

  Fabric fabric;
  Pair pair;
  Buffer remote, local;
  Context context;
};

}  // namespace

#define ATOMIC_SCENE(...)                                                                        \
  if (!Fabric::offers(target(), kAtomic)) GTEST_SKIP() << "fi_getinfo does not offer FI_ATOMIC"; \
  Scene scene(target() __VA_OPT__(, ) __VA_ARGS__)

#define NEEDS_OPERATION(op, ...) \
  if (!scene.has(op __VA_OPT__(, ) __VA_ARGS__)) GTEST_SKIP() << "this device has no " #op

TEST_P(Atomics, DomainAndEndpointReportTheSame) {
  ATOMIC_SCENE();
  size_t offered = 0;
  for (int type = FI_INT8; type <= FI_LONG_DOUBLE_COMPLEX; ++type) {
    for (int op = FI_MIN; op <= FI_MSWAP; ++op) {
      const auto datatype = static_cast<fi_datatype>(type);
      const auto operation = static_cast<fi_op>(op);
      for (uint64_t kind : {uint64_t{0}, uint64_t{FI_FETCH_ATOMIC}, uint64_t{FI_COMPARE_ATOMIC}}) {
        fi_atomic_attr attr{};
        size_t count = 0;
        const int domain = fi_query_atomic(scene.fabric.domain(), datatype, operation, &attr, kind);
        const int endpoint = kind == 0 ? fi_atomicvalid(scene.ep(), datatype, operation, &count)
                             : kind == FI_FETCH_ATOMIC
                                 ? fi_fetch_atomicvalid(scene.ep(), datatype, operation, &count)
                                 : fi_compare_atomicvalid(scene.ep(), datatype, operation, &count);
        EXPECT_EQ(domain, endpoint) << type << " " << op << " " << kind;
        if (domain != 0) {
          EXPECT_EQ(domain, -FI_EOPNOTSUPP) << type << " " << op << " " << kind;
          continue;
        }
        ++offered;
        EXPECT_EQ(attr.count, count);
        EXPECT_GE(attr.count, 1u);
        EXPECT_TRUE(attr.size == 1 || attr.size == 2 || attr.size == 4 || attr.size == 8 || attr.size >= 10);
      }
    }
  }
  EXPECT_GT(offered, 0u) << "FI_ATOMIC is offered, so something must be";
}

TEST_P(Atomics, OperationsThatAreNotOfferedAreRefused) {
  ATOMIC_SCENE();
  scene.target_value() = 1000;
  scene.operand() = 1;
  for (int op = FI_MIN; op <= FI_MSWAP; ++op) {
    const auto operation = static_cast<fi_op>(op);
    if (!scene.has(operation)) {
      EXPECT_EQ(scene.update(operation), -FI_EOPNOTSUPP) << op;
    }
    if (!scene.has(operation, FI_FETCH_ATOMIC)) {
      EXPECT_EQ(scene.fetch(operation), -FI_EOPNOTSUPP) << op;
    }
    if (!scene.has(operation, FI_COMPARE_ATOMIC)) {
      EXPECT_EQ(scene.compare(operation), -FI_EOPNOTSUPP) << op;
    }
  }
  EXPECT_EQ(scene.target_value(), 1000u);
  EXPECT_TRUE(scene.pair.a().tx().stays_silent(milliseconds(20)));
}

TEST_P(Atomics, SumAddsAtTheTarget) {
  ATOMIC_SCENE();
  NEEDS_OPERATION(FI_SUM);
  scene.target_value() = 40;
  scene.operand() = 2;
  ASSERT_EQ(scene.update(FI_SUM), 0);
  scene.expect_done();
  EXPECT_EQ(scene.target_value(), 42u);
  EXPECT_EQ(scene.operand(), 2u);
}

TEST_P(Atomics, FetchReturnsThePreviousValue) {
  ATOMIC_SCENE();
  NEEDS_OPERATION(FI_SUM, FI_FETCH_ATOMIC);
  scene.target_value() = ~uint64_t{0};
  scene.operand() = 3;
  ASSERT_EQ(scene.fetch(FI_SUM), 0);
  scene.expect_done();
  EXPECT_EQ(scene.result(), ~uint64_t{0});
  EXPECT_EQ(scene.target_value(), 2u) << "sums wrap around";
}

TEST_P(Atomics, ReadNeedsNoOperandAndChangesNothing) {
  ATOMIC_SCENE();
  NEEDS_OPERATION(FI_ATOMIC_READ, FI_FETCH_ATOMIC);
  scene.target_value() = 0x0123456789abcdef;
  ASSERT_EQ(retry([&] {
              return fi_fetch_atomic(scene.ep(), nullptr, 1, nullptr, &scene.result(), scene.local.desc(),
                                     scene.pair.a().peer, scene.remote.remote_address(), scene.remote.key(), kType,
                                     FI_ATOMIC_READ, &scene.context);
            }),
            0);
  scene.expect_done();
  EXPECT_EQ(scene.result(), 0x0123456789abcdefu);
  EXPECT_EQ(scene.target_value(), 0x0123456789abcdefu);
}

TEST_P(Atomics, CompareSwapsOnlyEqualElements) {
  ATOMIC_SCENE();
  NEEDS_OPERATION(FI_CSWAP, FI_COMPARE_ATOMIC);
  scene.target_value() = 7;
  scene.comparand() = 7;
  scene.operand() = 8;
  ASSERT_EQ(scene.compare(FI_CSWAP), 0);
  scene.expect_done();
  EXPECT_EQ(scene.result(), 7u);
  EXPECT_EQ(scene.target_value(), 8u);
  scene.operand() = 9;
  ASSERT_EQ(scene.compare(FI_CSWAP), 0);
  scene.expect_done();
  EXPECT_EQ(scene.result(), 8u) << "the value that was there";
  EXPECT_EQ(scene.target_value(), 8u) << "not equal, not swapped";
}

TEST_P(Atomics, InjectedUpdateGivesNoCompletion) {
  ATOMIC_SCENE();
  NEEDS_OPERATION(FI_SUM);
  NEEDS_OPERATION(FI_SUM, FI_FETCH_ATOMIC);
  uint64_t operand = 5;
  ASSERT_EQ(retry([&] {
              return fi_inject_atomic(scene.ep(), &operand, 1, scene.pair.a().peer, scene.remote.remote_address(),
                                      scene.remote.key(), kType, FI_SUM);
            }),
            0);
  operand = 0;
  scene.operand() = 0;
  ASSERT_EQ(scene.fetch(FI_SUM), 0);  // completes after it
  scene.expect_done();
  EXPECT_EQ(scene.result(), 5u);
  EXPECT_TRUE(scene.pair.a().tx().stays_silent(milliseconds(20)));
}

TEST_P(Atomics, VectorAndMessageFormsDoTheSame) {
  ATOMIC_SCENE();
  NEEDS_OPERATION(FI_SUM, FI_FETCH_ATOMIC);
  NEEDS_OPERATION(FI_CSWAP, FI_COMPARE_ATOMIC);
  scene.target_value() = 1;
  scene.operand() = 1;
  fi_ioc operand{&scene.operand(), 1}, result{&scene.result(), 1}, comparand{&scene.comparand(), 1};
  void* desc = scene.local.desc();
  const fi_rma_ioc remote{scene.remote.remote_address(), 1, scene.remote.key()};
  ASSERT_EQ(retry([&] {
              return fi_fetch_atomicv(scene.ep(), &operand, &desc, 1, &result, &desc, 1, scene.pair.a().peer,
                                      remote.addr, remote.key, kType, FI_SUM, &scene.context);
            }),
            0);
  scene.expect_done();
  EXPECT_EQ(scene.result(), 1u);
  fi_msg_atomic message{&operand, &desc, 1, scene.pair.a().peer, &remote, 1, kType, FI_SUM, &scene.context, 0};
  ASSERT_EQ(retry([&] { return fi_fetch_atomicmsg(scene.ep(), &message, &result, &desc, 1, 0); }), 0);
  scene.expect_done();
  EXPECT_EQ(scene.result(), 2u);
  message.op = FI_CSWAP;
  scene.comparand() = 3;
  scene.operand() = 11;
  ASSERT_EQ(
      retry([&] { return fi_compare_atomicmsg(scene.ep(), &message, &comparand, &desc, 1, &result, &desc, 1, 0); }), 0);
  scene.expect_done();
  EXPECT_EQ(scene.result(), 3u);
  EXPECT_EQ(scene.target_value(), 11u);
}

TEST_P(Atomics, MoreElementsThanOfferedAreRefused) {
  ATOMIC_SCENE();
  NEEDS_OPERATION(FI_SUM, FI_FETCH_ATOMIC);
  size_t most = 0;
  ASSERT_EQ(fi_fetch_atomicvalid(scene.ep(), kType, FI_SUM, &most), 0);
  for (size_t count : {size_t{0}, most + 1}) {
    const ssize_t rc = fi_fetch_atomic(scene.ep(), scene.local.data(), count, scene.local.desc(), scene.local.data(),
                                       scene.local.desc(), scene.pair.a().peer, scene.remote.remote_address(),
                                       scene.remote.key(), kType, FI_SUM, &scene.context);
    EXPECT_LT(rc, 0) << count;
    EXPECT_NE(rc, -FI_EAGAIN) << count;
  }
}

TEST_P(Atomics, UpdatesOfManyEndpointsAllCount) {
  ATOMIC_SCENE();
  NEEDS_OPERATION(FI_SUM, FI_FETCH_ATOMIC);
  constexpr int kThreads = 2, kRounds = 100;
  Pair second(scene.fabric);
  fid_ep* const endpoints[kThreads] = {scene.ep(), second.a().ep()};
  CompletionQueue* const queues[kThreads] = {&scene.pair.a().tx(), &second.a().tx()};
  const fi_addr_t peers[kThreads] = {scene.pair.a().peer, second.a().peer};
  std::vector<uint64_t> seen[kThreads];
  std::vector<std::thread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      Buffer mine(scene.fabric, 16, 0, FI_READ | FI_WRITE);
      auto* const words = reinterpret_cast<uint64_t*>(mine.data());
      words[0] = 1;
      Context context;
      const auto deadline = after(kPatience);
      for (int i = 0; i < kRounds && Clock::now() < deadline; ++i) {
        ssize_t rc;
        do {
          rc = fi_fetch_atomic(endpoints[t], words, 1, mine.desc(), words + 1, mine.desc(), peers[t],
                               scene.remote.remote_address(), scene.remote.key(), kType, FI_SUM, &context);
        } while (rc == -FI_EAGAIN && Clock::now() < deadline);
        ASSERT_EQ(rc, 0);
        fi_cq_tagged_entry entry;
        while ((rc = fi_cq_read(queues[t]->get(), &entry, 1)) == -FI_EAGAIN && Clock::now() < deadline) {
        }
        ASSERT_EQ(rc, 1);
        seen[t].push_back(words[1]);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(scene.target_value(), uint64_t{kThreads * kRounds});
  std::vector<bool> values(kThreads * kRounds, false);
  for (const auto& list : seen)
    for (uint64_t value : list) {
      ASSERT_LT(value, values.size());
      EXPECT_FALSE(values[value]) << "two updates saw " << value;
      values[value] = true;
    }
}

TEST_P(Atomics, MemoryThatMayNotBeWrittenIsNotUpdated) {
  ATOMIC_SCENE({}, FI_REMOTE_READ);
  NEEDS_OPERATION(FI_SUM, FI_FETCH_ATOMIC);
  scene.target_value() = 77;
  scene.operand() = 1;
  ASSERT_EQ(scene.fetch(FI_SUM), 0) << "only the target can know";
  const Completion completion = scene.pair.a().tx().wait();
  EXPECT_EQ(completion.err(), FI_EACCES) << completion;
  EXPECT_EQ(completion.context(), &scene.context);
  EXPECT_EQ(scene.target_value(), 77u);
}

namespace {

// `ranges` remote pieces for local pieces of other lengths, 4 elements in total.
void scatter_and_gather(Scene& scene) {
  auto* const local = reinterpret_cast<uint64_t*>(scene.local.data());
  auto* const remote = reinterpret_cast<uint64_t*>(scene.remote.data());
  const uint64_t operands[] = {1, 2, 3, 4}, before[] = {10, 20, 30, 40, 50};
  std::copy_n(operands, 4, local);
  std::copy_n(before, 5, remote);
  fi_ioc from[] = {{local, 1}, {local + 1, 3}}, to[] = {{local + 4, 3}, {local + 7, 1}};
  void* desc[] = {scene.local.desc(), scene.local.desc()};
  const uint64_t base = scene.remote.remote_address(), key = scene.remote.key();
  const fi_rma_ioc ranges[] = {{base + 24, 2, key}, {base, 2, key}};
  fi_msg_atomic message{from, desc, 2, scene.pair.a().peer, ranges, 2, kType, FI_SUM, &scene.context, 0};
  ASSERT_EQ(retry([&] { return fi_fetch_atomicmsg(scene.ep(), &message, to, desc, 2, 0); }), 0);
  scene.expect_done();
  const uint64_t was[] = {40, 50, 10, 20}, now[] = {13, 24, 30, 41, 52};
  EXPECT_TRUE(std::equal(was, was + 4, local + 4));
  EXPECT_TRUE(std::equal(now, now + 5, remote));
}

}  // namespace

TEST_P(Atomics, LocalAndRemoteVectorsNeedNotMatch) {
  ATOMIC_SCENE();
  size_t most = 0;
  if (fi_fetch_atomicvalid(scene.ep(), kType, FI_SUM, &most) != 0 || most < 4)
    GTEST_SKIP() << "not so many elements in an operation";
  scatter_and_gather(scene);
}

TEST_P(Atomics, AsManyElementsAsOfferedAreUpdated) {
  ATOMIC_SCENE();
  NEEDS_OPERATION(FI_CSWAP, FI_COMPARE_ATOMIC);
  size_t most = 0;
  ASSERT_EQ(fi_compare_atomicvalid(scene.ep(), kType, FI_CSWAP, &most), 0);
  const size_t bytes = most * sizeof(uint64_t);
  Buffer there(scene.fabric, bytes, 0, kRemote), mine(scene.fabric, bytes, 0, FI_READ | FI_WRITE);
  Buffer expected(scene.fabric, bytes, 0, FI_READ | FI_WRITE), was(scene.fabric, bytes, 0, FI_READ | FI_WRITE);
  there.fill_pattern(1);
  expected.fill_pattern(1);
  mine.fill_pattern(2);
  ASSERT_EQ(retry([&] {
              return fi_compare_atomic(scene.ep(), mine.data(), most, mine.desc(), expected.data(), expected.desc(),
                                       was.data(), was.desc(), scene.pair.a().peer, there.remote_address(), there.key(),
                                       kType, FI_CSWAP, &scene.context);
            }),
            0);
  scene.expect_done();
  EXPECT_TRUE(there.holds_pattern(2, bytes));
  EXPECT_TRUE(was.holds_pattern(1, bytes));
}

TEST_P(Atomics, AccessesBehindAnUpdateSeeItsResult) {
  ATOMIC_SCENE();
  NEEDS_OPERATION(FI_SUM);
  constexpr uint64_t kPromise = FI_ORDER_RAW | FI_ORDER_WAW;
  if ((scene.fabric.info()->tx_attr->msg_order & kPromise) != kPromise) GTEST_SKIP() << "no such order is offered";
  Context contexts[2];
  fid_ep* const ep = scene.ep();
  const uint64_t address = scene.remote.remote_address(), key = scene.remote.key();
  void* const desc = scene.local.desc();
  const fi_addr_t peer = scene.pair.a().peer;
  const auto updated_and = [&](auto access) {
    scene.operand() = 1;
    scene.target_value() = 5;
    ASSERT_EQ(retry([&] {
                return fi_atomic(ep, &scene.operand(), 1, desc, peer, address, key, kType, FI_SUM, &contexts[0]);
              }),
              0);
    ASSERT_EQ(retry(access), 0);
    for (int i = 0; i < 2; ++i) ASSERT_TRUE(scene.pair.a().tx().wait().ok());
  };
  for (uint64_t round = 1; round <= 50; ++round) {
    updated_and([&] { return fi_read(ep, &scene.result(), 8, desc, peer, address, key, &contexts[1]); });
    EXPECT_EQ(scene.result(), 6u) << "read behind it";
    scene.comparand() = 1000 * round;
    updated_and([&] { return fi_write(ep, &scene.comparand(), 8, desc, peer, address, key, &contexts[1]); });
    for (int i = 0; i < 1000 && scene.target_value() != 1000 * round; ++i) driver::poke();
    EXPECT_EQ(scene.target_value(), 1000 * round) << "written behind it";
  }
}

TEST_P(Atomics, ClosedOrTooShortMemoryIsNotUpdated) {
  ATOMIC_SCENE();
  NEEDS_OPERATION(FI_SUM, FI_FETCH_ATOMIC);
  if (target().connected()) GTEST_SKIP() << "a refusal ends the connection";
  scene.operand() = 1;
  const uint64_t address = scene.remote.remote_address(), key = scene.remote.key();
  uint64_t gone = 0;
  {
    Buffer closed(scene.fabric, 64, 0, kRemote);
    gone = closed.key();
  }
  const fi_rma_ioc wrong[] = {
      {address + 60, 1, key}, {address + 64, 1, key}, {address, 1, gone}, {address - 8, 1, key}};
  for (const fi_rma_ioc& where : wrong) {
    ASSERT_EQ(retry([&] {
                return fi_fetch_atomic(scene.ep(), &scene.operand(), 1, scene.local.desc(), &scene.result(),
                                       scene.local.desc(), scene.pair.a().peer, where.addr, where.key, kType, FI_SUM,
                                       &scene.context);
              }),
              0);
    const Completion completion = scene.pair.a().tx().wait();
    EXPECT_FALSE(completion.ok());
    EXPECT_EQ(completion.context(), &scene.context);
  }
  scene.target_value() = 1;
  ASSERT_EQ(scene.fetch(FI_SUM), 0) << "all else goes on";
  scene.expect_done();
  EXPECT_EQ(scene.target_value(), 2u);
}

namespace {

// An end in a domain of its own, which makes progress apart from the others of the fabric.
class ApartEnd {
 public:
  explicit ApartEnd(const Fabric& fabric)
      : domain_(opened<fid_domain>(
            "fi_domain", [&](fid_domain** d) { return fi_domain(fabric.fabric(), fabric.info(), d, nullptr); })),
        cq_(opened<fid_cq>("fi_cq_open",
                           [&](fid_cq** q) {
                             fi_cq_attr attr{};
                             return fi_cq_open(domain_.get(), &attr, q, nullptr);
                           })),
        av_(opened<fid_av>("fi_av_open",
                           [&](fid_av** v) {
                             fi_av_attr attr{};
                             return fi_av_open(domain_.get(), &attr, v, nullptr);
                           })),
        ep_(opened<fid_ep>("fi_endpoint",
                           [&](fid_ep** e) { return fi_endpoint(domain_.get(), fabric.info(), e, nullptr); })) {
    require_ok(fi_ep_bind(ep(), &cq_->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    require_ok(fi_ep_bind(ep(), &av_->fid, 0), "fi_ep_bind");
    require_ok(fi_enable(ep()), "fi_enable");
  }
  fid_ep* ep() const { return ep_.get(); }
  fi_addr_t insert(const Address& peer) {
    fi_addr_t handle = FI_ADDR_UNSPEC;
    require(fi_av_insert(av_.get(), peer.get(), 1, &handle, 0, nullptr) == 1, "fi_av_insert");
    return handle;
  }
  // Makes progress; whether an operation has completed.
  bool done() {
    fi_cq_tagged_entry entry;
    return fi_cq_read(cq_.get(), &entry, 1) == 1;
  }

 private:
  Handle<fid_domain> domain_;
  Handle<fid_cq> cq_;
  Handle<fid_av> av_;
  Handle<fid_ep> ep_;
};

}  // namespace

// A packet of the peer may arrive before the event that the connection is there.
TEST_P(Atomics, RequestsThatComeBeforeTheConnectionAreAnswered) {
  RELIABLE_DATAGRAMS_ONLY();
  const HintsEditor with_atomics = [](fi_info& hints) { hints.caps = FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC; };
  NEEDS(with_atomics, "FI_ATOMIC");
  Fabric fabric(target(), with_atomics);
  for (int pokes = 1; pokes < 40; ++pokes) {
    DatagramEnd a(fabric);
    ApartEnd b(fabric);
    Buffer memory(fabric, 8, 0, FI_REMOTE_READ | FI_REMOTE_WRITE), out(fabric, 8);
    Context sent, fetched;
    uint64_t operand = 1, result = 0;
    a->peer = a.insert(Address::local_name(&b.ep()->fid));
    const fi_addr_t peer = b.insert(a.address());
    ASSERT_EQ(a->tsend(out, 8, 1, &sent), 0);
    for (int i = 0; i < pokes; ++i) b.done();
    ASSERT_EQ(fi_fetch_atomic(b.ep(), &operand, 1, nullptr, &result, nullptr, peer, memory.remote_address(),
                              memory.key(), FI_UINT64, FI_SUM, &fetched),
              0);
    bool done = false;
    for (int i = 0; i < 300 && !done; ++i) done = b.done();
    for (const auto deadline = after(kPatience); !done && Clock::now() < deadline; done = b.done())
      driver::poke_and_rest();
    ASSERT_TRUE(done) << "not answered, posted after " << pokes;
  }
}

// A program may repeat a call until there is room, and read no queue meanwhile.
TEST_P(Atomics, RepeatedCallsFindRoom) {
  ATOMIC_SCENE();
  NEEDS_OPERATION(FI_SUM);
  constexpr uint64_t kTimes = 3000;
  scene.target_value() = 0;
  const uint64_t one = 1;
  for (uint64_t i = 0; i < kTimes; ++i)
    ASSERT_EQ(repeat([&] {
                return fi_inject_atomic(scene.ep(), &one, 1, scene.pair.a().peer, scene.remote.remote_address(),
                                        scene.remote.key(), kType, FI_SUM);
              }),
              0)
        << i;
  // A later operation reports their end.
  scene.operand() = 0;
  ASSERT_EQ(scene.fetch(FI_SUM), 0);
  scene.expect_done();
  EXPECT_EQ(scene.result(), kTimes);
}

// The target makes its first progress after the call and the close have begun.
TEST_P(Atomics, InjectedUpdatesArriveAlthoughTheirEndpointCloses) {
  RELIABLE_DATAGRAMS_ONLY();
  if (!target().provider.starts_with("tcp")) GTEST_SKIP() << "a queue pair ends with what its device has not sent";
  const HintsEditor safe = [](fi_info& hints) {
    hints.caps = FI_MSG | FI_RMA | FI_ATOMIC;
    hints.domain_attr->threading = FI_THREAD_SAFE;
  };
  if (!Fabric::offers(target(), safe)) GTEST_SKIP() << "no atomic operations";
  Fabric theirs(target(), safe);
  DatagramEnd receiver(theirs);
  Buffer remote(theirs, 8, 0, FI_REMOTE_READ | FI_REMOTE_WRITE);
  std::atomic_ref<uint64_t> value(*reinterpret_cast<uint64_t*>(remote.data()));
  value = 0;
  const auto deadline = after(kPatience);
  std::jthread reader([&] {
    std::this_thread::sleep_for(milliseconds(200));
    while (value == 0 && Clock::now() < deadline) receiver->rx().read();
  });
  {
    Fabric ours(target(), safe);
    DatagramEnd sender(ours);
    const fi_addr_t peer = sender.insert(receiver.address());
    const uint64_t one = 1;
    ssize_t rc = 0;
    while ((rc = fi_inject_atomic(sender->ep(), &one, 1, peer, remote.remote_address(), remote.key(), FI_UINT64,
                                  FI_SUM)) == -FI_EAGAIN)
      sender->tx().read();
    EXPECT_EQ(rc, 0);
  }
  reader.join();
  EXPECT_EQ(value.load(), 1u);
}

}  // namespace atomics
