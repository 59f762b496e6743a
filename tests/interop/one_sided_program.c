// SPDX-License-Identifier: BSD-2-Clause
// One-sided communication of MPI in all its forms, with every result checked: put, get, accumulate, fetching and
// comparing updates; fences, locks of both kinds, post-start-complete-wait. The window is memory of the program's own,
// so that Open MPI reaches it through the network also within a host. Any number of ranks from 2 on; prints "all right"
// on rank 0, or says what went wrong and aborts.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_check.h"

// A window: numbers that everybody updates, a slot for each rank, a long array.
enum { kNumbers = 8, kSlots = 16, kLong = 30000, kWhole = kNumbers + kSlots + kLong };
static long* memory;
static MPI_Win window;

static void quiet(void) {
  MPI_Win_fence(0, window);
  memset(memory, 0, sizeof(long) * kWhole);
  MPI_Win_fence(0, window);
}

static void puts_and_gets(void) {
  const int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
  long* array = malloc(sizeof(long) * kLong);
  for (int round = 0; round < 5; ++round) {
    quiet();
    for (int i = 0; i < kLong; ++i) array[i] = 7L * rank + i + round;
    const long value = 50 + rank;
    MPI_Put(&value, 1, MPI_LONG, next, kNumbers + rank % kSlots, 1, MPI_LONG, window);
    MPI_Put(array, kLong, MPI_LONG, next, kNumbers + kSlots, kLong, MPI_LONG, window);
    MPI_Win_fence(0, window);
    CHECK(memory[kNumbers + last % kSlots] == 50 + last);
    for (int i = 0; i < kLong; ++i) CHECK(memory[kNumbers + kSlots + i] == 7L * last + i + round);
    memset(array, 0, sizeof(long) * kLong);
    MPI_Get(array, kLong, MPI_LONG, next, kNumbers + kSlots, kLong, MPI_LONG, window);
    MPI_Win_fence(0, window);
    for (int i = 0; i < kLong; ++i) CHECK(array[i] == 7L * rank + i + round);
  }
  // Strided pieces at both ends.
  MPI_Datatype stride;
  MPI_Type_vector(100, 1, 3, MPI_LONG, &stride);
  MPI_Type_commit(&stride);
  quiet();
  for (int i = 0; i < 300; ++i) array[i] = 1000L * rank + i;
  MPI_Put(array, 1, stride, next, kNumbers + kSlots, 1, stride, window);
  MPI_Win_fence(0, window);
  for (int i = 0; i < 298; ++i) CHECK(memory[kNumbers + kSlots + i] == (i % 3 == 0 ? 1000L * last + i : 0));
  MPI_Type_free(&stride);
  free(array);
}

static void accumulations(void) {
  enum { kRounds = 20 };
  long values[100], was[100];
  quiet();
  for (int i = 0; i < 100; ++i) values[i] = i + 1;
  for (int to = 0; to < ranks; ++to)
    MPI_Accumulate(values, 100, MPI_LONG, to, kNumbers, 100, MPI_LONG, MPI_SUM, window);
  MPI_Win_fence(0, window);
  for (int i = 0; i < 100; ++i) CHECK(memory[kNumbers + i] == (long)ranks * (i + 1));
  MPI_Win_fence(0, window);
  const long one = 1;
  for (int round = 0; round < kRounds; ++round) {
    for (int to = 0; to < ranks; ++to) {
      MPI_Win_lock(round % 5 == 0 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, to, 0, window);
      MPI_Accumulate(&one, 1, MPI_LONG, to, 0, 1, MPI_LONG, MPI_SUM, window);
      MPI_Win_unlock(to, window);
    }
  }
  const double half = 0.5;
  const int small = 3;
  MPI_Win_lock_all(0, window);
  for (int to = 0; to < ranks; ++to) {
    MPI_Accumulate(&half, 1, MPI_DOUBLE, to, 3, 1, MPI_DOUBLE, MPI_SUM, window);
    MPI_Accumulate(&small, 1, MPI_INT, to, 4, 1, MPI_INT, MPI_SUM, window);
    MPI_Get_accumulate(values, 100, MPI_LONG, was, 100, MPI_LONG, to, kNumbers, 100, MPI_LONG, MPI_NO_OP, window);
    MPI_Win_flush(to, window);
    for (int i = 0; i < 100; ++i) CHECK(was[i] == (long)ranks * (i + 1));
  }
  MPI_Win_unlock_all(window);
  MPI_Win_fence(0, window);
  double sum;
  int total;
  memcpy(&sum, &memory[3], sizeof sum);
  memcpy(&total, &memory[4], sizeof total);
  CHECK(memory[0] == (long)kRounds * ranks && sum == 0.5 * ranks && total == 3 * ranks);
}

// All ranks draw tickets at all ranks; no ticket is drawn twice, and each is drawn.
static void tickets(void) {
  enum { kEach = 25 };
  const long one = 1;
  long* mine = malloc(sizeof(long) * kEach);
  long* all = malloc(sizeof(long) * kEach * (size_t)ranks);
  quiet();
  for (int owner = 0; owner < ranks; ++owner) {
    MPI_Win_lock_all(0, window);
    for (int i = 0; i < kEach; ++i) {
      MPI_Fetch_and_op(&one, &mine[i], MPI_LONG, owner, 0, MPI_SUM, window);
      MPI_Win_flush(owner, window);
      CHECK(i == 0 || mine[i] > mine[i - 1]);
    }
    MPI_Win_unlock_all(window);
    MPI_Allgather(mine, kEach, MPI_LONG, all, kEach, MPI_LONG, MPI_COMM_WORLD);
    char* seen = calloc((size_t)(kEach * ranks), 1);
    for (int i = 0; i < kEach * ranks; ++i) {
      CHECK(all[i] >= 0 && all[i] < kEach * ranks && !seen[all[i]]);
      seen[all[i]] = 1;
    }
    free(seen);
  }
  free(mine);
  free(all);
}

// One of all wins; then a lock made of swaps guards a number that is read and written. Not by the owner of the memory:
// Open MPI 4.1.4 gives btl/ofi no handle for a rank's own memory here, which that dereferences, whatever the provider.
static void swaps(int owner) {
  enum { kRounds = 10 };
  const long none = 0, me = rank + 1;
  long was = -1;
  quiet();
  MPI_Win_lock_all(0, window);
  if (rank != owner) {
    MPI_Compare_and_swap(&me, &none, &was, MPI_LONG, owner, 0, window);
    MPI_Win_flush(owner, window);
    CHECK(was >= 0 && was <= ranks && was != me);
  }
  int won = was == none, winners = 0;
  MPI_Allreduce(&won, &winners, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(winners == 1);
  for (int round = 0; round < kRounds && rank != owner; ++round) {
    long number;
    do {
      MPI_Compare_and_swap(&me, &none, &was, MPI_LONG, owner, 1, window);
      MPI_Win_flush(owner, window);
    } while (was != none);
    MPI_Get(&number, 1, MPI_LONG, owner, 2, 1, MPI_LONG, window);
    MPI_Win_flush(owner, window);
    ++number;
    MPI_Put(&number, 1, MPI_LONG, owner, 2, 1, MPI_LONG, window);
    MPI_Win_flush(owner, window);
    MPI_Fetch_and_op(&none, &was, MPI_LONG, owner, 1, MPI_REPLACE, window);
    MPI_Win_flush(owner, window);
    CHECK(was == me);
  }
  MPI_Win_unlock_all(window);
  MPI_Win_fence(0, window);
  if (rank == owner) CHECK(memory[2] == (long)kRounds * (ranks - 1));
}

static void post_and_start(void) {
  const int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
  MPI_Group world, to, from;
  MPI_Comm_group(MPI_COMM_WORLD, &world);
  MPI_Group_incl(world, 1, &next, &to);
  MPI_Group_incl(world, 1, &last, &from);
  quiet();
  for (int round = 0; round < 20; ++round) {
    const long value = 1000L * round + rank;
    MPI_Win_post(from, 0, window);
    MPI_Win_start(to, 0, window);
    MPI_Put(&value, 1, MPI_LONG, next, 5, 1, MPI_LONG, window);
    MPI_Win_complete(window);
    MPI_Win_wait(window);
    CHECK(memory[5] == 1000L * round + last);
  }
  MPI_Group_free(&to);
  MPI_Group_free(&from);
  MPI_Group_free(&world);
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  CHECK(ranks >= 2 && ranks <= kSlots);
  memory = malloc(sizeof(long) * kWhole);
  MPI_Win_create(memory, (MPI_Aint)sizeof(long) * kWhole, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &window);
  puts_and_gets();
  accumulations();
  tickets();
  for (int owner = 0; owner < ranks; ++owner) swaps(owner);
  post_and_start();
  MPI_Win_free(&window);
  free(memory);
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) puts("all right");
  MPI_Finalize();
  return 0;
}
