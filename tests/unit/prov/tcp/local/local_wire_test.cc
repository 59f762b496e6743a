// SPDX-License-Identifier: BSD-2-Clause
// Two ends of shared memory in one process: all bytes arrive once and in order, whichever way they take; an end is safe
// from any contents of the memory.
#include "tcp/local/local_wire.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstring>
#include <random>
#include <semaphore>
#include <thread>
#include <vector>

namespace weft::tcp {
namespace {

using Bytes = std::vector<std::byte>;
constexpr std::chrono::seconds kPatience{20};

// An emulator of another processor may lack the system call.
bool fetches_work() {
  return ::process_vm_readv(::getpid(), nullptr, 0, nullptr, 0, 0) == 0;
}

struct Ends {
  // `fetches`: each end reads the memory of the other.
  explicit Ends(bool fetches) {
    auto made = LocalWire::create(memory);
    b = std::move(made.value());
    a = std::move(LocalWire::attach(memory).value());
    a->keep_proof();
    b->keep_proof();
    if (!fetches) return;
    EXPECT_TRUE(a->test_peer_access(::getpid()).ok());
    EXPECT_TRUE(b->test_peer_access(::getpid()).ok());
  }

  UniqueFd memory;
  std::unique_ptr<LocalWire> a, b;
};

Bytes pattern(std::size_t size, unsigned seed) {
  std::mt19937 random(seed);
  Bytes bytes(size);
  for (std::byte& each : bytes) each = static_cast<std::byte>(random());
  return bytes;
}

// Writes what is left, in pieces of random lengths; returns how many bytes were taken.
std::size_t write_some(LocalWire& to, const Bytes& all, std::size_t done, std::mt19937& random) {
  if (to.is_settled()) return static_cast<std::size_t>(to.settle());
  if (done == all.size()) return 0;
  iovec pieces[3];
  std::size_t count = 0, at = done;
  for (; count < 3 && at < all.size(); ++count) {
    const std::size_t len =
        std::min<std::size_t>(all.size() - at, random() % 2 == 0 ? random() % 300 : random() % 60'000);
    pieces[count] = {const_cast<std::byte*>(all.data()) + at, len};
    at += len;
  }
  const ssize_t sent = to.write({pieces, count});
  return sent > 0 ? static_cast<std::size_t>(sent) : 0;
}

void read_some(LocalWire& from, Bytes& all, std::mt19937& random) {
  const std::size_t before = all.size(), room = 1 + random() % 50'000;
  all.resize(before + room);
  const std::size_t first = random() % room;
  const iovec pieces[] = {{all.data() + before, first}, {all.data() + before + first, room - first}};
  const ssize_t got = from.read(pieces);
  all.resize(before + static_cast<std::size_t>(std::max<ssize_t>(got, 0)));
}

TEST(LocalWire, ReadsAnOpenEndAtOnce) {
  const Bytes there = pattern(5'000, 1);
  const auto from = reinterpret_cast<std::uintptr_t>(there.data());
  Bytes here(6'000);
  const iovec to[] = {{here.data(), 1'000}, {here.data() + 1'000, 5'000}};
  Ends strangers(false);
  EXPECT_FALSE(strangers.b->is_readable());
  EXPECT_EQ(strangers.b->read_peer(to, from, there.size()).code(), -FI_EOPNOTSUPP);
  if (!fetches_work()) GTEST_SKIP() << "without process_vm_readv";
  Ends ends(true);
  EXPECT_TRUE(ends.b->is_readable());
  ASSERT_TRUE(ends.b->read_peer(to, from, there.size()).ok());
  EXPECT_TRUE(std::equal(there.begin(), there.end(), here.begin()));
  EXPECT_TRUE(std::all_of(here.begin() + 5'000, here.end(), [](std::byte each) { return each == std::byte{}; }));
  EXPECT_EQ(ends.b->read_peer({to, 1}, from, there.size()).code(), -FI_EOPNOTSUPP);
  EXPECT_EQ(ends.b->read_peer(to, from, std::size_t{1} << 30).code(), -FI_EOPNOTSUPP);
  EXPECT_EQ(ends.b->read_peer(to, 8, 5).code(), -FI_EFAULT);
  ends.a->close();
  EXPECT_EQ(ends.b->read_peer(to, from, there.size()).code(), -FI_ECONNRESET);
}

TEST(LocalWire, AllBytesArriveInOrder) {
  for (const unsigned kind : {0, 1, 2, 3}) {
    const bool fetches = kind % 2 != 0, overflows = kind >= 2;
    if (fetches && !fetches_work()) GTEST_SKIP() << "without process_vm_readv";
    Ends ends(fetches);
    std::mt19937 random(3);
    const Bytes there = pattern(3'000'000, 1), back = pattern(400'000, 2);
    Bytes at_b, at_a;
    std::size_t sent_a = 0, sent_b = 0;
    // Offered bytes have to come again until they are settled, in pieces of any lengths.
    for (int i = 0; i < 1'000'000 && (at_b.size() < there.size() || at_a.size() < back.size()); ++i) {
      if (overflows && !ends.a->has_room() && random() % 8 == 0) ends.a->allow_overflow();
      sent_a += write_some(*ends.a, there, sent_a, random);
      sent_b += write_some(*ends.b, back, sent_b, random);
      if (random() % (i % 1000 < 100 ? 50 : 2) == 0) read_some(*ends.b, at_b, random);
      if (random() % 2 == 0) read_some(*ends.a, at_a, random);
    }
    EXPECT_TRUE(at_b == there);
    EXPECT_TRUE(at_a == back);
  }
}

// From a random moment on, fetches fail.
TEST(LocalWire, BytesBehindARefusedPieceArriveInOrder) {
  if (!fetches_work()) GTEST_SKIP() << "without process_vm_readv";
  const Bytes there = pattern(400'000, 1);
  for (unsigned seed = 0; seed < 200; ++seed) {
    Ends ends(true);
    std::mt19937 random(seed);
    Bytes at_b;
    std::size_t sent = 0;
    const unsigned last = random() % 60;
    for (unsigned i = 0; i < 1'000'000 && at_b.size() < there.size(); ++i) {
      if (i == last) ends.a->revoke_offers();
      sent += write_some(*ends.a, there, sent, random);
      if (random() % 2 == 0) read_some(*ends.b, at_b, random);
    }
    EXPECT_TRUE(at_b == there) << seed;
  }
}

TEST(LocalWire, AReaderThatStopsLeavesRoomInTheOverflow) {
  Ends ends(false);
  constexpr std::size_t kRing = LocalMemory::kRing, kOverflow = LocalMemory::kOverflow;
  const Bytes there = pattern(kRing + kOverflow + 100'000, 1);
  Bytes at_b(there.size());
  const auto send = [&](std::size_t from) {
    const iovec rest{const_cast<std::byte*>(there.data()) + from, there.size() - from};
    return ends.a->write({&rest, 1});
  };
  const auto memory = [&] {
    struct stat about {};
    EXPECT_EQ(::fstat(ends.memory.get(), &about), 0);
    return static_cast<std::size_t>(about.st_blocks) * 512;
  };
  EXPECT_EQ(send(0), kRing);
  EXPECT_FALSE(ends.a->has_room());
  EXPECT_EQ(send(kRing), -EAGAIN);
  EXPECT_LE(memory(), 32u * 1024);
  EXPECT_TRUE(ends.a->lacks_overflow());
  ends.a->allow_overflow();
  EXPECT_FALSE(ends.a->lacks_overflow());
  EXPECT_TRUE(ends.a->has_room());
  EXPECT_EQ(send(kRing), kOverflow);
  EXPECT_FALSE(ends.a->has_room());
  EXPECT_EQ(send(kRing + kOverflow), -EAGAIN);
  std::size_t got = 0;
  for (int i = 0; i < 10'000 && got < kRing + kOverflow; ++i) {
    const iovec room{at_b.data() + got, 5000};
    const ssize_t more = ends.b->read({&room, 1});
    ASSERT_GT(more, 0);
    got += static_cast<std::size_t>(more);
    EXPECT_EQ(ends.a->has_room(), got == kRing + kOverflow);
  }
  EXPECT_LE(memory(), 40u * 1024) << "pages that were read are given back";
  EXPECT_EQ(send(got), kRing) << "the ring is used again";
  const iovec room{at_b.data() + got, kRing};
  EXPECT_EQ(ends.b->read({&room, 1}), kRing);
  EXPECT_TRUE(std::equal(at_b.begin(), at_b.begin() + got + kRing, there.begin()));
}

TEST(LocalWire, ThreadsExchangeBytes) {
  Ends ends(false);
  const Bytes there = pattern(5'000'000, 1);
  std::thread writer([&] {
    std::mt19937 random(5);
    for (std::size_t sent = 0; sent < there.size();) {
      if (random() % 16 == 0) ends.a->allow_overflow();
      sent += write_some(*ends.a, there, sent, random);
    }
  });
  std::mt19937 random(7);
  Bytes at_b;
  while (at_b.size() < there.size()) read_some(*ends.b, at_b, random);
  writer.join();
  EXPECT_TRUE(at_b == there);
}

TEST(LocalWire, NothingIsFetchedOnceTheWriterHasClosed) {
  if (!fetches_work()) GTEST_SKIP() << "without process_vm_readv";
  Ends ends(true);
  Bytes secret = pattern(100'000, 1), into(100'000);
  const iovec out{secret.data(), secret.size()}, in{into.data(), into.size()};
  EXPECT_EQ(ends.a->write({&out, 1}), -EAGAIN);  // offered
  EXPECT_FALSE(ends.a->lacks_overflow()) << "no thread needs to wake for it";
  ends.a->close();
  std::fill(secret.begin(), secret.end(), std::byte{'s'});
  EXPECT_EQ(ends.b->read({&in, 1}), -EAGAIN);
  EXPECT_TRUE(ends.b->peer_closed());
}

TEST(LocalWire, AnEndThatSleepsIsWokenOnce) {
  Ends ends(false);
  std::byte byte{};
  const iovec piece{&byte, 1};
  ends.b->fall_asleep(true, false);
  EXPECT_FALSE(ends.b->has_input());
  EXPECT_EQ(ends.a->write({&piece, 1}), 1);
  EXPECT_TRUE(ends.a->must_wake_reader());
  EXPECT_FALSE(ends.a->must_wake_reader());
}

TEST(LocalWire, AWriterThatAwaitsRoomIsWoken) {
  Ends ends(false);
  Bytes much(20'000);
  const iovec piece{much.data(), much.size()};
  EXPECT_LT(ends.a->write({&piece, 1}), 20'000);
  EXPECT_FALSE(ends.a->has_room());
  ends.a->fall_asleep(false, true);
  EXPECT_GT(ends.b->read({&piece, 1}), 0);
  EXPECT_TRUE(ends.b->must_wake_writer());
  EXPECT_FALSE(ends.b->must_wake_writer());
  EXPECT_TRUE(ends.a->has_room());
}

// Both ends sleep whenever they can. The reader takes few bytes at a time.
TEST(LocalWire, NoWakeUpIsLost) {
  for (const std::size_t bytes_at_once : {8, 700, 5'000, 9'000}) {
    Ends ends(false);
    const std::size_t len = bytes_at_once * 2000;
    std::counting_semaphore<> room{0}, input{0};
    std::atomic<bool> lost = false;
    std::thread writer([&] {
      Bytes bytes(bytes_at_once);
      for (std::size_t sent = 0; sent < len && !lost;) {
        const iovec piece{bytes.data(), std::min(bytes.size(), len - sent)};
        const ssize_t taken = ends.a->write({&piece, 1});
        if (ends.a->must_wake_reader()) input.release();
        if (taken > 0) sent += static_cast<std::size_t>(taken);
        if (taken == static_cast<ssize_t>(piece.iov_len)) continue;
        for (ends.a->fall_asleep(false, true); !ends.a->has_room() && !lost; ends.a->fall_asleep(false, true))
          if (!room.try_acquire_for(kPatience)) lost = true;
        ends.a->awake();
      }
    });
    Bytes into(bytes_at_once * 3 / 2);
    const iovec piece{into.data(), into.size()};
    for (std::size_t got = 0; got < len && !lost;) {
      const ssize_t taken = ends.b->read({&piece, 1});
      if (ends.b->must_wake_writer()) room.release();
      if (taken > 0) {
        got += static_cast<std::size_t>(taken);
        continue;
      }
      for (ends.b->fall_asleep(true, false); !ends.b->has_input() && !lost; ends.b->fall_asleep(true, false))
        if (!input.try_acquire_for(kPatience)) lost = true;
      ends.b->awake();
    }
    writer.join();
    EXPECT_FALSE(lost) << bytes_at_once;
  }
}

TEST(LocalWire, MemoryThatMayBeTruncatedIsRefused) {
  UniqueFd memory(::memfd_create("test", MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(memory.get(), kLocalMemorySize), 0);
  EXPECT_FALSE(LocalWire::attach(memory));
  ASSERT_EQ(::fcntl(memory.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  EXPECT_TRUE(LocalWire::attach(memory));
  UniqueFd small(::memfd_create("test", MFD_ALLOW_SEALING));
  ASSERT_EQ(::ftruncate(small.get(), 4096), 0);
  ASSERT_EQ(::fcntl(small.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL), 0);
  EXPECT_FALSE(LocalWire::attach(small));
}

// The other process writes random words into the memory, all the time. The buffers are on the heap, where a sanitizer
// sees accesses beside them.
TEST(LocalWire, GarbageInTheMemoryIsHarmless) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    Ends ends(seed % 2 == 0 && fetches_work());
    void* const mapped = ::mmap(nullptr, kLocalMemorySize, PROT_READ | PROT_WRITE, MAP_SHARED, ends.memory.get(), 0);
    ASSERT_NE(mapped, MAP_FAILED);
    auto* const words = static_cast<std::atomic<std::uint64_t>*>(mapped);
    std::mt19937_64 random(seed);
    std::mt19937 lengths(seed);
    const Bytes there = pattern(200'000, seed);
    std::size_t sent = 0;
    for (int i = 0; i < 2000; ++i) {
      if (random() % 4 == 0) {
        const std::uint64_t values[] = {random(), random() % 70'000, ~std::uint64_t{0}, 0};
        words[random() % (offsetof(LocalMemory, rings) / sizeof *words)].store(values[random() % std::size(values)]);
      }
      if (ends.a->is_settled() && ends.a->settle() < 0) break;
      if (random() % 64 == 0) ends.a->allow_overflow();
      sent = std::min(there.size() - 1, sent + write_some(*ends.a, there, sent, lengths));
      Bytes arrived;
      read_some(*ends.b, arrived, lengths);
      ASSERT_LE(arrived.size(), 50'000u);
      (void)ends.b->has_room();
      (void)ends.b->must_wake_writer();
    }
    ::munmap(mapped, kLocalMemorySize);
  }
}

}  // namespace
}  // namespace weft::tcp
