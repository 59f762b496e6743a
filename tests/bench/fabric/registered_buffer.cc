// SPDX-License-Identifier: BSD-2-Clause
// Message slots in registered memory; see registered_buffer.h.
#include "fabric/registered_buffer.h"

#include <cstdlib>

#include "process/process_pair.h"

namespace bench {
namespace {

constexpr std::size_t kCacheLine = 64;
constexpr std::size_t kPage = 4096;

std::size_t round_up(std::size_t value, std::size_t unit) {
  return (value + unit - 1) / unit * unit;
}

}  // namespace

void RegisteredBuffer::Free::operator()(std::byte* memory) const {
  std::free(memory);
}

RegisteredBuffer::RegisteredBuffer(const FabricNode& node, std::size_t size, std::size_t slots, std::uint64_t access)
    : stride_(round_up(size, kCacheLine)) {
  const std::size_t bytes = round_up(stride_ * slots, kPage);
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, bytes)));
  if (memory_ == nullptr) fail("out of memory");
  std::memset(memory_.get(), 0, bytes);
  static std::uint64_t next_key = 1;  // used where the application chooses keys
  node.check("fi_mr_reg", fi_mr_reg(node.domain(), memory_.get(), bytes, access, 0, next_key++, 0, &region_, nullptr));
  if ((node.info()->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0)
    remote_address_ = reinterpret_cast<std::uint64_t>(memory_.get());
}

RegisteredBuffer::~RegisteredBuffer() {
  fi_close(&region_->fid);
}

}  // namespace bench
