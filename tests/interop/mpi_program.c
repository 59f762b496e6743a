// SPDX-License-Identifier: BSD-2-Clause
// The operations of an MPI program, with every result checked: point-to-point in all its forms and sizes, all
// collectives, one- sided communication, communicators. Any number of ranks from 2 on; prints "all right" on rank 0, or
// says what went wrong and aborts.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "mpi_check.h"

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
  MPI_Barrier(MPI_COMM_WORLD);  // later messages are not for the wildcards
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
      CHECK(!flag);  // only this rank receives it now
      memset(bytes, 0, sizeof bytes);
      MPI_Mrecv(bytes, sizes[i], MPI_BYTE, &message, &status);
      CHECK(holds(bytes, sizes[i], 9));
    }
    MPI_Barrier(MPI_COMM_WORLD);  // the next one must not be probed for yet
  }
}

// A message of a matched probe is received later, several at once, whichever others arrive.
static void matched_probes(void) {
  enum { kSizes = 3, kMost = 300000 };
  static const int kLengths[kSizes] = {10, 20000, kMost};
  const int count = (ranks - 1) * kSizes;
  unsigned char* out = malloc(kSizes * kMost);
  unsigned char** in = calloc((size_t)count, sizeof *in);
  int* from = malloc(sizeof(int) * (size_t)count);
  int* lengths = malloc(sizeof(int) * (size_t)count);
  MPI_Request* sends = malloc(sizeof(MPI_Request) * (size_t)count);
  MPI_Request* receives = malloc(sizeof(MPI_Request) * (size_t)count);
  MPI_Status status;
  MPI_Message message;
  for (int i = 0; i < kSizes; ++i) fill(out + i * kMost, kLengths[i], (unsigned)(rank + i));
  for (int i = 0, sent = 0; i < kSizes; ++i)
    for (int distance = 1; distance < ranks; ++distance)
      MPI_Isend(out + i * kMost, kLengths[i], MPI_BYTE, (rank + distance) % ranks, 50 + i, MPI_COMM_WORLD,
                &sends[sent++]);
  for (int i = 0; i < count; ++i) {
    int flag = 1;
    if (i % 2 == 0)
      MPI_Mprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &message, &status);
    else
      for (flag = 0; !flag;) MPI_Improbe(MPI_ANY_SOURCE, MPI_ANY_TAG, MPI_COMM_WORLD, &flag, &message, &status);
    MPI_Get_count(&status, MPI_BYTE, &lengths[i]);
    from[i] = status.MPI_SOURCE;
    CHECK(status.MPI_TAG >= 50 && status.MPI_TAG < 50 + kSizes && lengths[i] == kLengths[status.MPI_TAG - 50]);
    in[i] = calloc((size_t)lengths[i], 1);
    receives[i] = MPI_REQUEST_NULL;
    if (i % 3 == 0)
      MPI_Mrecv(in[i], lengths[i], MPI_BYTE, &message, MPI_STATUS_IGNORE);
    else
      MPI_Imrecv(in[i], lengths[i], MPI_BYTE, &message, &receives[i]);
    CHECK(message == MPI_MESSAGE_NULL);
  }
  MPI_Waitall(count, receives, MPI_STATUSES_IGNORE);
  MPI_Waitall(count, sends, MPI_STATUSES_IGNORE);
  for (int i = 0; i < count; ++i) {
    unsigned size = 0;
    while (kLengths[size] != lengths[i]) ++size;
    CHECK(holds(in[i], lengths[i], (unsigned)from[i] + size));
    free(in[i]);
  }
  MPI_Mprobe(MPI_PROC_NULL, 0, MPI_COMM_WORLD, &message, &status);
  CHECK(message == MPI_MESSAGE_NO_PROC);
  MPI_Mrecv(NULL, 0, MPI_BYTE, &message, &status);
  CHECK(status.MPI_SOURCE == MPI_PROC_NULL);
  free(out);
  free(in);
  free(from);
  free(lengths);
  free(sends);
  free(receives);
  MPI_Barrier(MPI_COMM_WORLD);  // nothing else is for the wildcards
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
  // Long ones, and non-blocking ones.
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

// Blocks of different lengths: rank i has i + 1 elements.
static void collectives_of_parts(MPI_Comm comm) {
  int me, n;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &n);
  const int total = n * (n + 1) / 2;
  int* counts = malloc(sizeof(int) * (size_t)n);
  int* places = malloc(sizeof(int) * (size_t)n);
  int* bytes = malloc(sizeof(int) * (size_t)n);
  int* mine = malloc(sizeof(int) * (size_t)n * (size_t)n);
  int* all = malloc(sizeof(int) * (size_t)total);
  int* square = malloc(sizeof(int) * (size_t)n * (size_t)n);
  MPI_Datatype* types = malloc(sizeof(MPI_Datatype) * (size_t)n);
  for (int i = 0; i < n; ++i) {
    counts[i] = i + 1;
    places[i] = i * (i + 1) / 2;
    bytes[i] = (int)sizeof(int) * i * n;
    types[i] = MPI_INT;
  }
#define IS_WHOLE(list)        \
  for (int i = 0; i < n; ++i) \
    for (int j = 0; j <= i; ++j) CHECK((list)[places[i] + j] == 1000 * i + j)
  for (int j = 0; j <= me; ++j) mine[j] = 1000 * me + j;
  for (int root = 0; root < n; ++root) {
    memset(all, 0xff, sizeof(int) * (size_t)total);
    MPI_Gatherv(mine, me + 1, MPI_INT, all, counts, places, MPI_INT, root, comm);
    if (me == root) IS_WHOLE(all);
    memset(square, 0xff, sizeof(int) * (size_t)n);
    MPI_Scatterv(all, counts, places, MPI_INT, square, me + 1, MPI_INT, root, comm);
    for (int j = 0; j <= me; ++j) CHECK(square[j] == 1000 * me + j);
  }
  memset(all, 0xff, sizeof(int) * (size_t)total);
  MPI_Allgatherv(mine, me + 1, MPI_INT, all, counts, places, MPI_INT, comm);
  IS_WHOLE(all);
  // Rank i gets i + 1 elements, and returns me + 1; each block has room for n.
  for (int kind = 0; kind < 2; ++kind) {
    int* back = malloc(sizeof(int) * (size_t)n);
    int* rows = malloc(sizeof(int) * (size_t)n);
    for (int i = 0; i < n; ++i) {
      back[i] = me + 1;
      rows[i] = i * n;
      for (int j = 0; j <= i; ++j) mine[i * n + j] = 10000 * me + 100 * i + j;
    }
    memset(square, 0xff, sizeof(int) * (size_t)n * (size_t)n);
    if (kind == 0)
      MPI_Alltoallv(mine, counts, rows, MPI_INT, square, back, rows, MPI_INT, comm);
    else
      MPI_Alltoallw(mine, counts, bytes, types, square, back, bytes, types, comm);
    for (int i = 0; i < n; ++i)
      for (int j = 0; j <= me; ++j) CHECK(square[i * n + j] == 10000 * i + 100 * me + j);
    free(back);
    free(rows);
  }
  free(counts);
  free(places);
  free(bytes);
  free(mine);
  free(all);
  free(square);
  free(types);
}

// Several non-blocking ones, all outstanding at once.
static void collectives_at_once(MPI_Comm comm) {
  enum { kKinds = 7 };
  int me, n, sums[2] = {0, 0}, from_root, one = 1;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &n);
  int* gathered = calloc((size_t)n, sizeof(int));
  int* everywhere = calloc((size_t)n, sizeof(int));
  int* out = malloc(sizeof(int) * (size_t)n);
  int* in = calloc((size_t)n, sizeof(int));
  MPI_Request requests[kKinds];
  for (int i = 0; i < n; ++i) out[i] = 100 * me + i;
  from_root = me == n - 1 ? 4711 : 0;
  MPI_Ibarrier(comm, &requests[0]);
  MPI_Ibcast(&from_root, 1, MPI_INT, n - 1, comm, &requests[1]);
  MPI_Igather(&me, 1, MPI_INT, gathered, 1, MPI_INT, 0, comm, &requests[2]);
  MPI_Iallgather(&me, 1, MPI_INT, everywhere, 1, MPI_INT, comm, &requests[3]);
  MPI_Ialltoall(out, 1, MPI_INT, in, 1, MPI_INT, comm, &requests[4]);
  MPI_Ireduce(&one, &sums[0], 1, MPI_INT, MPI_SUM, 0, comm, &requests[5]);
  MPI_Iscan(&one, &sums[1], 1, MPI_INT, MPI_SUM, comm, &requests[6]);
  MPI_Waitall(kKinds, requests, MPI_STATUSES_IGNORE);
  CHECK(from_root == 4711 && sums[1] == me + 1);
  if (me == 0) CHECK(sums[0] == n);
  for (int i = 0; i < n; ++i) {
    if (me == 0) CHECK(gathered[i] == i);
    CHECK(everywhere[i] == i && in[i] == 100 * i + me);
  }
  free(gathered);
  free(everywhere);
  free(out);
  free(in);
}

// Long non-blocking ones, with other messages between them, until all are complete.
static void long_collectives_at_once(MPI_Comm comm) {
  enum { kKinds = 8, kLong = 20000 };
  int me, n, done = 0, echoes = 0;
  MPI_Comm_rank(comm, &me);
  MPI_Comm_size(comm, &n);
  const size_t block = sizeof(int) * kLong, all = block * (size_t)n;
  int *sums = malloc(block), *most = malloc(block), *copy = malloc(block), *part = malloc(block),
      *before = malloc(block);
  int *mine = malloc(block), *blocks = malloc(all), *swapped = malloc(all), *parts = malloc(all),
      *gathered = malloc(all);
  int* swapped_too = malloc(all);
  int* counts = malloc(sizeof(int) * (size_t)n);
  int* places = malloc(sizeof(int) * (size_t)n);
  MPI_Request requests[kKinds];
  for (int i = 0; i < kLong; ++i) {
    mine[i] = i + me;
    copy[i] = me == 0 ? 3 * i : -1;
  }
  for (int i = 0; i < n; ++i) {
    counts[i] = kLong;
    places[i] = i * kLong;
    for (int j = 0; j < kLong; ++j) blocks[i * kLong + j] = 1000 * me + i + j;
  }
  MPI_Iallreduce(mine, sums, kLong, MPI_INT, MPI_SUM, comm, &requests[0]);
  MPI_Iallreduce(mine, most, kLong, MPI_INT, MPI_MAX, comm, &requests[1]);
  MPI_Ibcast(copy, kLong, MPI_INT, 0, comm, &requests[2]);
  MPI_Ialltoall(blocks, kLong, MPI_INT, swapped, kLong, MPI_INT, comm, &requests[3]);
  MPI_Ialltoallv(blocks, counts, places, MPI_INT, swapped_too, counts, places, MPI_INT, comm, &requests[4]);
  MPI_Iscatter(blocks, kLong, MPI_INT, part, kLong, MPI_INT, n - 1, comm, &requests[5]);
  MPI_Iallgatherv(mine, kLong, MPI_INT, gathered, counts, places, MPI_INT, comm, &requests[6]);
  MPI_Iexscan(mine, before, kLong, MPI_INT, MPI_SUM, comm, &requests[7]);
  while (echoes < 20) {
    int out = me + echoes, in = -1;
    MPI_Sendrecv(&out, 1, MPI_INT, (me + 1) % n, 90, &in, 1, MPI_INT, (me + n - 1) % n, 90, comm, MPI_STATUS_IGNORE);
    CHECK(in == (me + n - 1) % n + echoes);
    ++echoes;
    MPI_Testall(kKinds, requests, &done, MPI_STATUSES_IGNORE);
  }
  MPI_Waitall(kKinds, requests, MPI_STATUSES_IGNORE);
  MPI_Ireduce_scatter_block(blocks, parts, kLong, MPI_INT, MPI_SUM, comm, &requests[0]);
  MPI_Wait(&requests[0], MPI_STATUS_IGNORE);
  for (int i = 0; i < kLong; ++i) {
    CHECK(sums[i] == i * n + n * (n - 1) / 2 && most[i] == i + n - 1 && copy[i] == 3 * i);
    CHECK(part[i] == 1000 * (n - 1) + me + i);
    if (me > 0) CHECK(before[i] == i * me + me * (me - 1) / 2);
    CHECK(parts[i] == 1000 * n * (n - 1) / 2 + n * (me + i));
  }
  for (int i = 0; i < n; ++i)
    for (int j = 0; j < kLong; ++j) {
      const int at = i * kLong + j;
      CHECK(swapped[at] == 1000 * i + me + j && swapped_too[at] == swapped[at] && gathered[at] == j + i);
    }
  int* const used[] = {sums,    most,  copy,     part,        before, mine,  blocks,
                       swapped, parts, gathered, swapped_too, counts, places};
  for (size_t i = 0; i < sizeof used / sizeof *used; ++i) free(used[i]);
}

// Between neighbours only: on a line, whose ends have one neighbour, and on a ring that is a graph.
static void neighbours(void) {
  enum { kLong = 5000 };
  MPI_Comm line, ring;
  MPI_Request requests[2];
  const int size = ranks, open = 0, left = (rank + ranks - 1) % ranks, right = (rank + 1) % ranks;
  int got[2] = {-1, -1}, out[2] = {10 * rank, 10 * rank + 1}, in[2] = {-1, -1};
  MPI_Cart_create(MPI_COMM_WORLD, 1, &size, &open, 0, &line);
  MPI_Neighbor_allgather(&rank, 1, MPI_INT, got, 1, MPI_INT, line);
  CHECK(got[0] == (rank > 0 ? rank - 1 : -1) && got[1] == (rank + 1 < ranks ? rank + 1 : -1));
  MPI_Neighbor_alltoall(out, 1, MPI_INT, in, 1, MPI_INT, line);
  CHECK(in[0] == (rank > 0 ? 10 * (rank - 1) + 1 : -1) && in[1] == (rank + 1 < ranks ? 10 * (rank + 1) : -1));
  MPI_Comm_free(&line);
  // From the left, to the right: one edge between two ranks, also where there are no more.
  MPI_Dist_graph_create_adjacent(MPI_COMM_WORLD, 1, &left, MPI_UNWEIGHTED, 1, &right, MPI_UNWEIGHTED, MPI_INFO_NULL, 0,
                                 &ring);
  int* sent = malloc(sizeof(int) * kLong);
  int* all = malloc(sizeof(int) * kLong);
  int* own = malloc(sizeof(int) * kLong);
  const int count = kLong, from_left = kLong, start = 0;
  const MPI_Aint begin = 0;
  const MPI_Datatype type = MPI_INT;
  for (int i = 0; i < kLong; ++i) sent[i] = 7 * rank + i;
  for (int round = 0; round < 3; ++round) {
    memset(all, 0xff, sizeof(int) * kLong);
    memset(own, 0xff, sizeof(int) * kLong);
    if (round == 0) {
      MPI_Neighbor_allgatherv(sent, kLong, MPI_INT, all, &from_left, &start, MPI_INT, ring);
      MPI_Neighbor_alltoallw(sent, &count, &begin, &type, own, &from_left, &begin, &type, ring);
    } else if (round == 1) {
      MPI_Ineighbor_allgather(sent, kLong, MPI_INT, all, kLong, MPI_INT, ring, &requests[0]);
      MPI_Ineighbor_alltoall(sent, kLong, MPI_INT, own, kLong, MPI_INT, ring, &requests[1]);
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    } else {
      MPI_Ineighbor_alltoallv(sent, &count, &start, MPI_INT, all, &from_left, &start, MPI_INT, ring, &requests[0]);
      MPI_Ineighbor_allgatherv(sent, kLong, MPI_INT, own, &from_left, &start, MPI_INT, ring, &requests[1]);
      MPI_Waitall(2, requests, MPI_STATUSES_IGNORE);
    }
    for (int i = 0; i < kLong; ++i) CHECK(all[i] == 7 * left + i && own[i] == all[i]);
  }
  free(sent);
  free(all);
  free(own);
  MPI_Comm_free(&ring);
}

// Each rank has a window: a number to which all ranks add, a slot for each rank, and a long array.
static void one_sided(void) {
  enum { kRounds = 50, kLong = 30000 };
  const int next = (rank + 1) % ranks, last = (rank + ranks - 1) % ranks;
  long* memory;
  MPI_Win window;
  const MPI_Aint bytes = (MPI_Aint)sizeof(long) * (2 + ranks + kLong);
  MPI_Win_allocate(bytes, sizeof(long), MPI_INFO_NULL, MPI_COMM_WORLD, &memory, &window);
  memset(memory, 0, (size_t)bytes);
  MPI_Win_fence(0, window);
  long* array = malloc(sizeof(long) * kLong);
  for (int i = 0; i < kLong; ++i) array[i] = 7L * rank + i;
  const long value = 50 + rank;
  MPI_Put(&value, 1, MPI_LONG, next, 2 + rank, 1, MPI_LONG, window);
  MPI_Put(array, kLong, MPI_LONG, next, 2 + ranks, kLong, MPI_LONG, window);
  MPI_Win_fence(0, window);
  CHECK(memory[2 + last] == 50 + last);
  for (int i = 0; i < kLong; ++i) CHECK(memory[2 + ranks + i] == 7L * last + i);
  memset(array, 0, sizeof(long) * kLong);
  MPI_Get(array, kLong, MPI_LONG, next, 2 + ranks, kLong, MPI_LONG, window);
  MPI_Win_fence(0, window);
  for (int i = 0; i < kLong; ++i) CHECK(array[i] == 7L * rank + i);
  // All ranks add to the numbers of all; locks of both kinds.
  const long one = 1;
  for (int round = 0; round < kRounds; ++round)
    for (int to = 0; to < ranks; ++to) {
      MPI_Win_lock(round % 5 == 0 ? MPI_LOCK_EXCLUSIVE : MPI_LOCK_SHARED, to, 0, window);
      MPI_Accumulate(&one, 1, MPI_LONG, to, 0, 1, MPI_LONG, MPI_SUM, window);
      MPI_Win_unlock(to, window);
    }
  // Each rank draws one ticket, and the highest one is swapped for a mark.
  long ticket = -1, none = -1, swapped = -1;
  MPI_Win_lock_all(0, window);
  MPI_Fetch_and_op(&one, &ticket, MPI_LONG, 0, 1, MPI_SUM, window);
  MPI_Win_flush(0, window);
  CHECK(ticket >= 0 && ticket < ranks);
  MPI_Win_unlock_all(window);
  MPI_Barrier(MPI_COMM_WORLD);
  const long all = ranks;
  MPI_Win_lock_all(0, window);
  MPI_Compare_and_swap(&none, &all, &swapped, MPI_LONG, 0, 1, window);
  MPI_Win_flush_all(window);
  CHECK(swapped == all || swapped == none);
  MPI_Win_unlock_all(window);
  int mine = swapped == all, winners = 0;
  MPI_Allreduce(&mine, &winners, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  CHECK(winners == 1);
  MPI_Win_fence(0, window);
  CHECK(memory[0] == (long)kRounds * ranks);
  if (rank == 0) CHECK(memory[1] == none);
  free(array);
  MPI_Win_free(&window);
}

static void communicators(void) {
  for (int i = 0; i < 1000; ++i) {
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
  if (argc == 1) matched_probes();  // "unmatched": ranks other than 0 receive no matched probes
  persistent_and_cancelled();
  collectives(MPI_COMM_WORLD);
  collectives_of_parts(MPI_COMM_WORLD);
  collectives_at_once(MPI_COMM_WORLD);
  long_collectives_at_once(MPI_COMM_WORLD);
  neighbours();
  one_sided();
  communicators();
  MPI_Barrier(MPI_COMM_WORLD);
  if (rank == 0) puts("all right");
  MPI_Finalize();
  return 0;
}
