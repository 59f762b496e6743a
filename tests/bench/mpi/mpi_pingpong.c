// SPDX-License-Identifier: BSD-2-Clause
// Two MPI ranks: half round trips of four sizes in microseconds, and messages a second in one direction with 64 of 8
// bytes under way. More ranks: the microseconds in which 8 bytes go from one to the next in a ring. Prints one line
// "NAME VALUE" each; tests/bench/mpi/run.sh makes tables of them.
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { kMost = 1 << 20, kWindow = 64 };

static int rank;

static void once(char* out, char* in, int size) {
  if (rank == 0) MPI_Send(out, size, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
  MPI_Recv(in, size, MPI_BYTE, 1 - rank, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
  if (rank == 1) MPI_Send(out, size, MPI_BYTE, 0, 1, MPI_COMM_WORLD);
}

static double half_round_trip(char* out, char* in, int size, int rounds) {
  for (int i = 0; i < rounds / 10; ++i) once(out, in, size);
  MPI_Barrier(MPI_COMM_WORLD);
  const double start = MPI_Wtime();
  for (int i = 0; i < rounds; ++i) once(out, in, size);
  return (MPI_Wtime() - start) / rounds / 2 * 1e6;
}

static double rate(char* out, char* in, int rounds) {
  MPI_Request requests[kWindow];
  double start = 0;
  for (int i = -rounds / 10; i < rounds; ++i) {
    if (i == 0) {
      MPI_Barrier(MPI_COMM_WORLD);
      start = MPI_Wtime();
    }
    for (int j = 0; j < kWindow; ++j)
      if (rank == 0)
        MPI_Isend(out, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD, &requests[j]);
      else
        MPI_Irecv(in + 8 * j, 8, MPI_BYTE, 0, 1, MPI_COMM_WORLD, &requests[j]);
    MPI_Waitall(kWindow, requests, MPI_STATUSES_IGNORE);
    if (rank == 0)
      MPI_Recv(in, 1, MPI_BYTE, 1, 2, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    else
      MPI_Send(out, 1, MPI_BYTE, 0, 2, MPI_COMM_WORLD);
  }
  return (double)rounds * kWindow / (MPI_Wtime() - start);
}

static double hop(char* out, char* in, int ranks, int rounds) {
  double start = 0;
  for (int i = -rounds / 10; i < rounds; ++i) {
    if (i == 0) {
      MPI_Barrier(MPI_COMM_WORLD);
      start = MPI_Wtime();
    }
    if (rank == 0) MPI_Send(out, 8, MPI_BYTE, 1, 1, MPI_COMM_WORLD);
    MPI_Recv(in, 8, MPI_BYTE, (rank + ranks - 1) % ranks, 1, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    if (rank != 0) MPI_Send(out, 8, MPI_BYTE, (rank + 1) % ranks, 1, MPI_COMM_WORLD);
  }
  return (MPI_Wtime() - start) / rounds / ranks * 1e6;
}

static void measure_pair(char* out, char* in) {
  static const struct {
    const char* name;
    int size, rounds;
  } kSizes[] = {{"8_B", 8, 4000}, {"4_KiB", 4096, 3000}, {"64_KiB", 65536, 1000}, {"1_MiB", kMost, 200}};
  for (size_t i = 0; i < sizeof kSizes / sizeof *kSizes; ++i) {
    const double us = half_round_trip(out, in, kSizes[i].size, kSizes[i].rounds);
    if (rank == 0) printf("%s %.2f\n", kSizes[i].name, us);
  }
  const double messages = rate(out, in, 1000);
  if (rank == 0) printf("rate %.0f\n", messages);
}

int main(int argc, char** argv) {
  int ranks = 0;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  char* out = malloc(kMost);
  char* in = malloc(kMost);
  memset(out, 1, kMost);
  memset(in, 1, kMost);
  if (ranks == 2) {
    measure_pair(out, in);
  } else {
    const double us = hop(out, in, ranks, 20000);
    if (rank == 0) printf("hop %.2f\n", us);
  }
  MPI_Finalize();
  return 0;
}
