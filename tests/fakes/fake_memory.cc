// SPDX-License-Identifier: BSD-2-Clause
// Protection domains and memory regions. A key is an index and eight bits that change with each use of the index, so a
// stale key is detected as on a device.
#include "fake_memory.h"

#include <sys/mman.h>
#include <unistd.h>

#undef ibv_reg_mr
#undef ibv_reg_mr_iova

namespace fake {

namespace {

struct Slot {
  Mr* region = nullptr;
  uint8_t generation = 0;
};

std::vector<Slot>& keys() {
  static auto* table = new std::vector<Slot>(1);  // key 0 is never valid
  return *table;
}
std::vector<uint32_t>& free_keys() {
  static auto* table = new std::vector<uint32_t>;
  return *table;
}

uint32_t new_key(Mr* region) {
  uint32_t index;
  if (free_keys().size() > 64) {  // delayed, so that a stale key stays stale
    index = free_keys().front();
    free_keys().erase(free_keys().begin());
  } else {
    index = static_cast<uint32_t>(keys().size());
    keys().emplace_back();
  }
  Slot& slot = keys()[index];
  slot.region = region;
  return index << 8 | ++slot.generation;
}

bool mapped(const void* address, size_t length) {
  if (!length) return true;
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto start = reinterpret_cast<uintptr_t>(address);
  if (start + length < start) return false;
  unsigned char present;
  const uintptr_t pages[] = {start & ~(page - 1), (start + length - 1) & ~(page - 1)};
  for (const uintptr_t at : pages)
    if (mincore(reinterpret_cast<void*>(at), page, &present)) return false;
  return true;
}

// Whether the first and the last page are writable, where the kernel (5.14) can tell.
bool writable(const void* address, size_t length) {
  constexpr int kPopulateWrite = 23;  // MADV_POPULATE_WRITE
  const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto populates = [page](uintptr_t at) {
    return madvise(reinterpret_cast<void*>(at & ~(page - 1)), page, kPopulateWrite) == 0;
  };
  char here;
  if (!length || !populates(reinterpret_cast<uintptr_t>(&here))) return true;
  const auto start = reinterpret_cast<uintptr_t>(address);
  return populates(start) && populates(start + length - 1);
}

bool valid_access(unsigned int access) {
  return !(access & (IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_REMOTE_ATOMIC)) || (access & IBV_ACCESS_LOCAL_WRITE);
}

ibv_mr* register_region(Pd& pd, char* host, size_t length, uint64_t iova, unsigned int access, void* mapping) {
  if (pd.device->removed) return null_error(EIO);
  if (!valid_access(access)) return null_error(EINVAL);
  if (length > pd.device->config.lockable_bytes - pd.device->locked_bytes) return null_error(ENOMEM);
  if (!take(*pd.device, Kind::kMr, pd.device->config.max_mr)) return null_error(ENOMEM);
  auto* mr = new Mr{};
  register_object(mr->tag, Kind::kMr);
  mr->context = pd.context;
  mr->pd = &pd;
  mr->device = pd.device;
  mr->addr = host;
  mr->length = length;
  mr->handle = static_cast<uint32_t>(mr->tag.serial);
  mr->lkey = mr->rkey = new_key(mr);
  mr->access = access;
  mr->iova = iova;
  mr->host = host;
  mr->mapping = mapping;
  mr->mapping_length = length;
  pd.device->locked_bytes += length;
  ++pd.tag.users;
  return mr;
}

ibv_mr* reg_mr(ibv_pd* pd, void* address, size_t length, uint64_t iova, unsigned int access) {
  Entry entry(Call::ibv_reg_mr);
  Pd& own = checked<Pd>(pd, Kind::kPd, entry.name());
  if (entry.error()) return null_error(entry.error());
  if (!mapped(address, length)) return null_error(EFAULT);
  if ((access & IBV_ACCESS_LOCAL_WRITE) && !writable(address, length)) return null_error(EFAULT);
  return register_region(own, static_cast<char*>(address), length, iova, access, nullptr);
}

}  // namespace

char* resolve(const ibv_pd* pd, uint32_t key, uint64_t address, uint64_t length, unsigned int access) {
  const uint32_t index = key >> 8;
  if (index >= keys().size()) return nullptr;
  const Mr* mr = keys()[index].region;
  if (!mr || mr->lkey != key || mr->pd != pd || (mr->access & access) != access) return nullptr;
  if (address < mr->iova || length > mr->length || address - mr->iova > mr->length - length) return nullptr;
  return mr->host + (address - mr->iova);
}

bool take(Device& device, Kind kind, int limit) {
  int& live = device.live[static_cast<int>(kind)];
  if (live >= limit) return false;
  ++live;
  return true;
}

std::map<const ibv_pd*, uint64_t> registered_bytes() {
  Guard guard(World::get().mutex);
  std::map<const ibv_pd*, uint64_t> bytes;
  for (const Slot& slot : keys())
    if (slot.region != nullptr) bytes[slot.region->pd] += slot.region->length;
  return bytes;
}

void give_back(Device& device, Kind kind) {
  --device.live[static_cast<int>(kind)];
}

}  // namespace fake

using namespace fake;

extern "C" {

ibv_pd* ibv_alloc_pd(ibv_context* context) {
  Entry entry(Call::ibv_alloc_pd);
  Context& own = context_of(context, entry.name());
  Device& device = *own.device_of;
  if (entry.error()) return null_error(entry.error());
  if (device.removed) return null_error(EIO);
  if (!take(device, Kind::kPd, device.config.max_pd)) return null_error(ENOMEM);
  auto* pd = new Pd{};
  register_object(pd->tag, Kind::kPd);
  pd->context = context;
  pd->handle = static_cast<uint32_t>(pd->tag.serial);
  pd->device = &device;
  ++own.tag.users;
  return pd;
}

int ibv_dealloc_pd(ibv_pd* pd) {
  Entry entry(Call::ibv_dealloc_pd);
  Pd& own = checked<Pd>(pd, Kind::kPd, entry.name());
  if (entry.error()) {
    excuse(own.tag);
    return entry.error();
  }
  if (own.tag.users) return busy(own.tag);
  --context_of(pd->context, entry.name()).tag.users;
  give_back(*own.device, Kind::kPd);
  destroy_object(&own);
  return 0;
}

ibv_mr* ibv_reg_mr(ibv_pd* pd, void* address, size_t length, int access) {
  return reg_mr(pd, address, length, reinterpret_cast<uintptr_t>(address), static_cast<unsigned int>(access));
}

ibv_mr* ibv_reg_mr_iova(ibv_pd* pd, void* address, size_t length, uint64_t iova, int access) {
  return reg_mr(pd, address, length, iova, static_cast<unsigned int>(access));
}

ibv_mr* ibv_reg_mr_iova2(ibv_pd* pd, void* address, size_t length, uint64_t iova, unsigned int access) {
  return reg_mr(pd, address, length, iova, access & ~static_cast<unsigned int>(IBV_ACCESS_OPTIONAL_RANGE));
}

// The "device memory" is the memory that the descriptor maps, for example that of a memfd.
ibv_mr* ibv_reg_dmabuf_mr(ibv_pd* pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access) {
  Entry entry(Call::ibv_reg_dmabuf_mr);
  Pd& own = checked<Pd>(pd, Kind::kPd, entry.name());
  if (entry.error()) return null_error(entry.error());
  if (!own.device->config.takes_dmabufs) return null_error(EOPNOTSUPP);
  const auto page = static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  const uint64_t skipped = offset % page;
  void* mapping =
      mmap(nullptr, length + skipped, PROT_READ | PROT_WRITE, MAP_SHARED, fd, static_cast<off_t>(offset - skipped));
  if (mapping == MAP_FAILED) return null_error(errno);
  ibv_mr* mr = register_region(own, static_cast<char*>(mapping) + skipped, length, iova,
                               static_cast<unsigned int>(access), mapping);
  if (!mr) {
    const int error = errno;
    munmap(mapping, length + skipped);
    return null_error(error);
  }
  static_cast<Mr*>(mr)->mapping_length = length + skipped;
  return mr;
}

int ibv_dereg_mr(ibv_mr* mr) {
  Entry entry(Call::ibv_dereg_mr);
  Mr& own = checked<Mr>(mr, Kind::kMr, entry.name());
  Pd& pd = checked<Pd>(mr->pd, Kind::kPd, entry.name());
  if (entry.error()) {
    excuse(own.tag);
    return entry.error();
  }
  if (own.mapping) munmap(own.mapping, own.mapping_length);
  keys()[own.lkey >> 8].region = nullptr;
  free_keys().push_back(own.lkey >> 8);
  own.device->locked_bytes -= own.length;
  give_back(*own.device, Kind::kMr);
  --pd.tag.users;
  destroy_object(&own);
  return 0;
}

}  // extern "C"
