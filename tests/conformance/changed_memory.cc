// SPDX-License-Identifier: BSD-2-Clause
// Memory of messages and accesses that the program unmaps, moves or discards between two transfers: each transfer moves
// the bytes that are at the addresses now, also with a cache of registrations; fi_mr(3) MEMORY REGISTRATION CACHE.
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <sys/mman.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <thread>
#include <vector>

#include "fixture/driver.h"
#include "fixture/node.h"

namespace changed_memory {

CONFORMANCE_TOPIC(ChangedMemory);

namespace {

constexpr size_t kPage = 4096, kSize = 64 * kPage;  // beyond all eager messages of the default
constexpr int kTries = 100;

char* map(void* at = nullptr, size_t size = kSize, int flags = 0) {
  void* const memory = mmap(at, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | flags, -1, 0);
  return memory != MAP_FAILED ? static_cast<char*>(memory) : nullptr;
}

// Maps what was unmapped; nullptr: another thread of the process has got the address in between.
char* map_again(char* at, size_t size = kSize) {
  return map(at, size, MAP_FIXED_NOREPLACE);
}

// Each leaves memory at the same addresses, with other pages. nullptr: see map_again(); the rest is unmapped then.
char* unmap_and_map(char* memory) {
  munmap(memory, kSize);
  return map_again(memory);
}
char* map_over(char* memory) {
  return map(memory, kSize, MAP_FIXED);
}
char* replace_one_page(char* memory) {
  char* const page = memory + 9 * kPage;
  munmap(page, kPage);
  if (map_again(page, kPage) != nullptr) return memory;
  munmap(memory, 9 * kPage);
  munmap(page + kPage, kSize - 10 * kPage);
  return nullptr;
}
char* move_away(char* memory) {
  void* const moved = mremap(memory, kSize, kSize, MREMAP_MAYMOVE | MREMAP_FIXED, map());
  munmap(moved, kSize);
  return map_again(memory);
}
char* move_over(char* memory) {
  return static_cast<char*>(mremap(map(), kSize, kSize, MREMAP_MAYMOVE | MREMAP_FIXED, memory));
}
char* shrink_and_grow(char* memory) {
  mremap(memory, kSize, kPage, 0);
  if (map_again(memory + kPage, kSize - kPage) != nullptr) return memory;
  munmap(memory, kPage);
  return nullptr;
}
char* discard(char* memory) {
  madvise(memory, kSize, MADV_DONTNEED);
  return memory;
}
char* free_lazily(char* memory) {
  madvise(memory, kSize, MADV_FREE);
  return memory;
}

constexpr char* (*kChanges[])(char*) = {unmap_and_map, map_over,        replace_one_page, move_away,
                                        move_over,     shrink_and_grow, discard,          free_lazily};

void fill(char* memory, unsigned seed) {
  for (size_t i = 0; i < kSize; ++i) memory[i] = static_cast<char>(i * 7 + i / kPage + seed * 31);
}

// A message from `out` to `in`; every byte is checked.
void expect_transfer(Pair& pair, char* out, char* in, unsigned seed) {
  fill(out, seed);
  std::memset(in, 0, kSize);
  Context sent, received;
  ASSERT_EQ(fi_trecv(pair.b().ep(), in, kSize, nullptr, FI_ADDR_UNSPEC, 1, 0, &received), 0);
  ssize_t result;
  while ((result = fi_tsend(pair.a().ep(), out, kSize, nullptr, pair.a().peer, 1, &sent)) == -FI_EAGAIN) driver::poke();
  ASSERT_EQ(result, 0);
  const Completion arrival = pair.b().rx().wait();
  ASSERT_TRUE(arrival.ok()) << arrival;
  ASSERT_TRUE(pair.a().tx().wait().ok());
  EXPECT_EQ(std::memcmp(in, out, kSize), 0) << "message " << seed;
}

// Two messages, a change of the memory of one end, two more. False: see map_again().
bool exchange_around(Pair& pair, char* (*change)(char*), bool sender, bool elsewhere, unsigned& seed) {
  char *out = map(), *in = map();
  for (int i = 0; i < 2; ++i) expect_transfer(pair, out, in, ++seed);
  char*& changed = sender ? out : in;
  if (elsewhere)
    std::thread([&] { changed = change(changed); }).join();
  else
    changed = change(changed);
  const bool done = changed != nullptr;
  for (int i = 0; done && i < 2; ++i) expect_transfer(pair, out, in, ++seed);
  for (char* memory : {out, in})
    if (memory != nullptr) munmap(memory, kSize);
  return done;
}

bool registers_locally(const Fabric& fabric) {
  return (fabric.info()->domain_attr->mr_mode & FI_MR_LOCAL) != 0;
}

}  // namespace

TEST_P(ChangedMemory, MessagesMoveTheBytesThatAreThereNow) {
  RELIABLE_DATAGRAMS_ONLY();
  Fabric fabric(target());
  if (registers_locally(fabric)) GTEST_SKIP() << "the application registers the memory";
  Pair pair(fabric);
  unsigned seed = 0;
  for (const auto change : kChanges)
    for (const bool sender : {true, false})
      for (const bool elsewhere : {false, true}) {
        int tries = 0;
        while (!exchange_around(pair, change, sender, elsewhere, seed)) ASSERT_LT(++tries, kTries);
      }
}

// The kernel gives an address to this thread as soon as another one has unmapped it.
TEST_P(ChangedMemory, ThreadsThatUnmapAndMapDisturbNoMessage) {
  RELIABLE_DATAGRAMS_ONLY();
  Fabric fabric(target());
  if (registers_locally(fabric)) GTEST_SKIP() << "the application registers the memory";
  Pair pair(fabric);
  std::atomic<char*> given[3]{};
  std::atomic<bool> stopping{false};
  std::vector<std::thread> threads;
  for (std::atomic<char*>& place : given)
    threads.emplace_back([&] {
      while (!stopping) {
        if (char* const memory = place.exchange(nullptr); memory != nullptr) munmap(memory, kSize);
        char* const own = map();
        own[0] = 'x';
        munmap(own, kSize);
        std::this_thread::yield();
      }
    });
  for (unsigned round = 0; round < 200; ++round) {
    char *out = map(), *in = map();
    expect_transfer(pair, out, in, round);
    munmap(in, kSize);
    if (char* const left = given[round % 3].exchange(out); left != nullptr) munmap(left, kSize);
  }
  stopping = true;
  for (std::thread& thread : threads) thread.join();
  for (std::atomic<char*>& place : given)
    if (char* const left = place.load(); left != nullptr) munmap(left, kSize);
}

}  // namespace changed_memory
