// SPDX-License-Identifier: BSD-2-Clause
// Shared by the MPI programs of these tests: the rank of this process (main sets it), and a check that ends the whole
// job with the failed line.
#pragma once

#include <mpi.h>
#include <stdio.h>

static int rank, ranks;

#define CHECK(condition)                                                                   \
  do {                                                                                     \
    if (!(condition)) {                                                                    \
      fprintf(stderr, "rank %d, line %d: %s does not hold\n", rank, __LINE__, #condition); \
      MPI_Abort(MPI_COMM_WORLD, 1);                                                        \
    }                                                                                      \
  } while (0)
