// SPDX-License-Identifier: BSD-2-Clause
// Protection domains and memory regions: ibv_alloc_pd(3), ibv_reg_mr(3), and the check that every transfer makes.
#pragma once
#include "fake_device.h"

namespace fake {

struct Pd : ibv_pd {
  Tag tag;
  Device* device = nullptr;
};

struct Mr : ibv_mr {
  Tag tag;
  Device* device = nullptr;
  unsigned int access = 0;
  uint64_t iova = 0;
  char* host = nullptr;
  void* mapping = nullptr;  // a dmabuf's
  size_t mapping_length = 0;
};

// The memory at `address` in the region of `key`, for `length` bytes. Null if the key is wrong or dead, belongs to
// another domain, or lacks an access bit, or if the region is shorter.
char* resolve(const ibv_pd* pd, uint32_t key, uint64_t address, uint64_t length, unsigned int access);

// Checks a limit of the device and counts an object against it; false when the limit is reached.
bool take(Device& device, Kind kind, int limit);
void give_back(Device& device, Kind kind);

}  // namespace fake
