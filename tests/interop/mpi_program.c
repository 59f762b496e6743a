// SPDX-License-Identifier: BSD-2-Clause
// What an MPI program does, with every result checked: point-to-point in all its forms and sizes, all collectives,
// communicators. Any number of ranks from 2 on; prints "all right" on rank 0, or says what went wrong and aborts.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int rank, ranks;

#define CHECK(condition)                                                                   \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      fprintf(stderr, "rank %d, line %d: %s does not hold\n", rank, __LINE__, #condition); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                        \
    }                                                                                      \
  } while (0)

static void fill(unsigned char* buffer, int size, unsigned seed) {
  for (int i = 0; i < size; ++i) buffer[i] = (unsigned char)(i * 31u + (unsigned)(i >> 8) * 7u + seed);
}

static int holds(const unsigned char* buffer, int size, unsigned seed) {
  for (int i = 0; i < size; ++i)
    if (buffer[i] != (unsigned char)(i * 31u + (unsigned)(i >> 8) * 7u + seed)) return 0;
  return 1;
}

// Around each limit that a transport may have, from every rank to every other.
static void sizes(void) {
  static const int kSizes[] = {0,     1,     8,      63,     64,     65,     127,     128,           129,
                               1023,  1024,  1025,   4096,   16319,  16320,  16383,   16384,         16385,
                               65535, 65536, 131071, 131072, 131073, 262144, 1 << 20, (1 << 20) + 1, 4 << 20};
  const int count = (int)(sizeof kSizes / sizeof *kSizes);
  unsigned char* out = malloc(4 << 20);
  unsigned char* in = malloc(4 << 20);
  for (int i = 0; i < count; ++i) {
    const int size = kSizes[i];
    for (int distance = 1; distance < ranks; ++distance) {
      const int to = (rank + distance) % ranks, from = (rank + ranks - distance) % ranks;
      MPI_Status status;
      int got = -1;
      fill(out, size, (unsigned)(rank + i));
      memset(in, 0, (size_t)size);
      MPI_Sendrecv(out, size, MPI_BYTE, to, i, in, size, MPI_BYTE, from, i, MPI_COMM_WORLD, &status);
      MPI_Get_count(&status, MPI_BYTE, &got);
      CHECK(got == size && status.MPI_SOURCE == from && status.MPI_TAG == i);
      CHECK(holds(in, size, (unsigned)(from + i)));
    }
  }
  free(out);
  free(in);
}

// A rank to itself, short and long, both before and after its receive.
static void self(void) {
  static unsigned char out[100000], in[100000];
  for (int early = 0; early < 2; ++early) {
    for (int size = 10; size <= 100000; size *= 100) {
      MPI_Request requests[2];
      fill(out, size, 5);
      memset(in, 0, sizeof in);
      if (early) MPI_Irecv(in, size, MPI_BYTE, rank, 7, MPI_COMM_WORLD, &requests[0]);
      MPI_Isend(out, size, MPI_BYTE, rank, 7, MPI_COMM_WORLD, &requests[1]);
      if (!early) MPI_Irecv(in, size, MPI_BYTE, rank, 7, MPI_COMM_WORLD, &requests[0]);
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
      CHECK(holds(in, size, 5));
    }
  }
}

// Many messages with one tag arrive in order, whatever their sizes.
static void order(void) {
  enum { kCount = 500 };
  const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  MPI_Request requests[kCount];
  static int data[kCount][8000];
  for (int i = 0; i < kCount; ++i) {
    data[i][0] = i;
    MPI_Isend(data[i], i % 10 == 0 ? 8000 : 1 + i % 100, MPI_INT, to, 3, MPI_COMM_WORLD, &requests[i]);
  }
  static int in[8000];
  for (int i = 0; i < kCount; ++i) {
    MPI_Recv(in, 8000, MPI_INT, from, i % 3 == 0 ? MPI_ANY_TAG : 3, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    CHECK(in[0] == i);
  }
  MPI_Waitall(kCount, requests, MPI_STATUSES_IGNORE);
}

static void wildcards_and_probes(void) {
  MPI_Status status;
  int value = 100 + rank, got = 0, sum = 0;
  if (rank == 0) {
    for (int i = 1; i < ranks; ++i) {
      MPI_Recv(&got, 1, MPI_INT, MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &status);
      CHECK(got == 100 + status.MPI_SOURCE && status.MPI_TAG == status.MPI_SOURCE);
      sum += got;
    }
    CHECK(sum == (ranks - 1) * 100 + ranks * (ranks - 1) / 2);
  } else {
    MPI_Send(&value, 1, MPI_INT, 0, rank, MPI_COMM_WORLD);
  }
  MPI_Barrier(MPI_COMM_WORLD);  // what follows is not for the wildcards
  const int sizes[] = {17, 50000};
  for (int i = 0; i < 2; ++i) {
    static unsigned char bytes[50000];
    if (rank == 1) {
      fill(bytes, sizes[i], 9);
      MPI_Send(bytes, sizes[i], MPI_BYTE, 0, 40, MPI_COMM_WORLD);
      MPI_Send(bytes, sizes[i], MPI_BYTE, 0, 41, MPI_COMM_WORLD);
    } else if (rank == 0) {
      int size = 0, flag = 0;
      MPI_Message message;
      MPI_Probe(MPI_ANY_SOURCE, 40, MPI_COMM_WORLD, &status);
      MPI_Get_count(&status, MPI_BYTE, &size);
      CHECK(size == sizes[i] && status.MPI_SOURCE == 1);
      MPI_Recv(bytes, size, MPI_BYTE, status.MPI_SOURCE, 40, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
      while (!flag) MPI_Improbe(1, 41, MPI_COMM_WORLD, &flag, &message, &status);
      MPI_Iprobe(1, 41, MPI_COMM_WORLD, &flag, MPI_STATUS_IGNORE);
      CHECK(!flag);  // it is ours alone now
      memset(bytes, 0, sizeof bytes);
      MPI_Mrecv(bytes, sizes[i], MPI_BYTE, &message, &status);
      CHECK(holds(bytes, sizes[i], 9));
    }
  }
}

static void persistent_and_cancelled(void) {
  const int to = (rank + 1) % ranks, from = (rank + ranks - 1) % ranks;
  int out = 0, in = 0, cancelled = 0;
  MPI_Request requests[2], never;
  MPI_Status status;
  MPI_Send_init(&out, 1, MPI_INT, to, 60, MPI_COMM_WORLD, &requests[0]);
  MPI_Recv_init(&in, 1, MPI_INT, from, 60, MPI_COMM_WORLD, &requests[1]);
  for (int i = 0; i < 100; ++i) {
    out = i * ranks + rank;
    MPI_Startall(2, requests);
    MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    CHECK(in == i * ranks + from);
  }
  MPI_Request_free(&requests[0]);
  MPI_Request_free(&requests[1]);
  MPI_Irecv(&in, 1, MPI_INT, from, 61, MPI_COMM_WORLD, &never);
  MPI_Cancel(&never);
  MPI_Wait(&never, &status);
  MPI_Test_cancelled(&status, &cancelled);
  CHECK(cancelled);
  MPI_Issend(&rank, 1, MPI_INT, to, 62, MPI_COMM_WORLD, &never);
  MPI_Recv(&in, 1, MPI_INT, from, 62, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  MPI_Wait(&never, MPI_STATUS_IGNORE);
  CHECK(in == from);
}

static void collectives(MPI_Comm comm) {
  int me, n;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &n);
  int* all = malloc(sizeof(int) * (size_t)n);
  int* mine = malloc(sizeof(int) * (size_t)n);
  int* ones = malloc(sizeof(int) * (size_t)n);
  int value, sum = -1;
  MPI_Barrier(comm);
  for (int root = 0; root < n; ++root) {
    value = me == root ? 77 + root : 0;
    MPI_Bcast(&value, 1, MPI_INT, root, comm);
    CHECK(value == 77 + root);
    value = me;
    MPI_Reduce(&value, &sum, 1, MPI_INT, MPI_SUM, root, comm);
    if (me == root) CHECK(sum == n * (n - 1) / 2);
    MPI_Gather(&value, 1, MPI_INT, all, 1, MPI_INT, root, comm);
    for (int i = 0; me == root && i < n; ++i) CHECK(all[i] == i);
    for (int i = 0; i < n; ++i) mine[i] = 10 * i;
    MPI_Scatter(mine, 1, MPI_INT, &value, 1, MPI_INT, root, comm);
    CHECK(value == 10 * me);
  }
  value = me + 1;
  MPI_Allreduce(&value, &sum, 1, MPI_INT, MPI_MAX, comm);
  CHECK(sum == n);
  MPI_Scan(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
  CHECK(sum == (me + 1) * (me + 2) / 2);
  sum = 0;
  MPI_Exscan(&value, &sum, 1, MPI_INT, MPI_SUM, comm);
  if (me > 0) CHECK(sum == me * (me + 1) / 2);
  MPI_Allgather(&me, 1, MPI_INT, all, 1, MPI_INT, comm);
  for (int i = 0; i < n; ++i) CHECK(all[i] == i);
  for (int i = 0; i < n; ++i) mine[i] = 100 * me + i;
  MPI_Alltoall(mine, 1, MPI_INT, all, 1, MPI_INT, comm);
  for (int i = 0; i < n; ++i) CHECK(all[i] == 100 * i + me);
  for (int i = 0; i < n; ++i) {
    mine[i] = me + i;
    ones[i] = 1;
  }
  MPI_Reduce_scatter(mine, &value, ones, MPI_INT, MPI_SUM, comm);
  CHECK(value == n * (n - 1) / 2 + n * me);
  MPI_Reduce_scatter_block(mine, &value, 1, MPI_INT, MPI_SUM, comm);
  CHECK(value == n * (n - 1) / 2 + n * me);
  free(all);
  free(mine);
  free(ones);
  // Long ones, and those that do not block.
  enum { kLong = 200000 };
  double* in = malloc(sizeof(double) * kLong);
  double* out = malloc(sizeof(double) * kLong);
  MPI_Request request;
  for (int i = 0; i < kLong; ++i) in[i] = i + me;
  MPI_Iallreduce(in, out, kLong, MPI_DOUBLE, MPI_SUM, comm, &request);
  MPI_Wait(&request, MPI_STATUS_IGNORE);
  for (int i = 0; i < kLong; ++i) CHECK(out[i] == (double)i * n + n * (n - 1) / 2);
  MPI_Bcast(in, kLong, MPI_DOUBLE, n - 1, comm);
  for (int i = 0; i < kLong; ++i) CHECK(in[i] == i + n - 1);
  free(in);
  free(out);
}

static void communicators(void) {
  for (int i = 0; i < 200; ++i) {
    MPI_Comm half, copy;
    MPI_Comm_split(MPI_COMM_WORLD, rank % 2, rank, &half);
    MPI_Comm_dup(half, &copy);
    int sum = 0, one = 1, size;
    MPI_Comm_size(copy, &size);
    MPI_Allreduce(&one, &sum, 1, MPI_INT, MPI_SUM, copy);
    CHECK(sum == size);
    if (i == 0) collectives(copy);
    MPI_Comm_free(&copy);
    MPI_Comm_free(&half);
  }
}

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  CHECK(ranks >= 2);
  sizes();
  self();
  order();
  wildcards_and_probes();
  persistent_and_cancelled();
  collectives(MPI_COMM_WORLD);
  communicators();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) puts("all right");
  MPI_Finalize();
  return 0;
}
