// SPDX-License-Identifier: BSD-2-Clause
// Old layouts of fi_info: sizes, and their conversion to the current one.
#include "core/abi_layout.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <memory>

namespace weft::core {
namespace {

// A block in front of a page without access: a read past its end crashes.
class GuardedBlock {
 public:
  explicit GuardedBlock(std::size_t size)
      : page_(static_cast<std::size_t>(::sysconf(_SC_PAGESIZE))),
        base_(static_cast<char*>(
            ::mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {
    ::mprotect(base_ + page_, page_, PROT_NONE);
    data_ = base_ + page_ - size;
    std::memset(data_, 0x5a, size);
  }
  ~GuardedBlock() { ::munmap(base_, 2 * page_); }
  GuardedBlock(const GuardedBlock&) = delete;
  GuardedBlock& operator=(const GuardedBlock&) = delete;

  template <class T>
  T* as() noexcept {
    return reinterpret_cast<T*>(data_);
  }

 private:
  std::size_t page_;
  char* base_;
  char* data_;
};

// Exactly as large as the structures of that release; every byte that is not a pointer is 0x5a.
struct OldInfo {
  explicit OldInfo(const AbiLayout& layout)
      : info(layout.info), tx(layout.tx), rx(layout.rx), ep(layout.ep), domain(layout.domain), fabric(layout.fabric) {
    auto* i = info.as<fi_info>();
    i->next = i;  // must be ignored
    i->tx_attr = tx.as<fi_tx_attr>();
    i->rx_attr = rx.as<fi_rx_attr>();
    i->ep_attr = ep.as<fi_ep_attr>();
    i->domain_attr = domain.as<fi_domain_attr>();
    i->fabric_attr = fabric.as<fi_fabric_attr>();
  }
  GuardedBlock info, tx, rx, ep, domain, fabric;
};

// The first `size` bytes are the old ones, the rest is zero.
template <class T>
void expect_prefix(const T* current, std::size_t size) {
  const auto* bytes = reinterpret_cast<const unsigned char*>(current);
  for (std::size_t i = 0; i < sizeof(T); ++i) ASSERT_EQ(bytes[i], i < size ? 0x5a : 0) << typeid(T).name() << " " << i;
}

TEST(AbiLayout, OldLayoutsAreReadExactlyToTheirEnd) {
  for (const AbiLayout& layout : {kAbi1_0, kAbi1_1, kAbi1_2, kAbi1_3, kAbi1_7, kAbi1_8, kAbi1_9, kAbi1_10}) {
    OldInfo old(layout);
    const UpgradedInfo upgraded(old.info.as<fi_info>(), layout);
    const fi_info* info = upgraded.get();
    ASSERT_NE(info, nullptr);
    EXPECT_EQ(info->next, nullptr);
    EXPECT_EQ(info->caps, 0x5a5a5a5a5a5a5a5aull);
    EXPECT_EQ(info->nic == nullptr, layout.info < sizeof(fi_info));
    expect_prefix(info->tx_attr, layout.tx);
    expect_prefix(info->rx_attr, layout.rx);
    expect_prefix(info->ep_attr, layout.ep);
    expect_prefix(info->domain_attr, layout.domain);
    expect_prefix(info->fabric_attr, layout.fabric);
  }
}

TEST(AbiLayout, AbsentStructuresStayAbsent) {
  const fi_info empty{};
  const UpgradedInfo upgraded(&empty, kAbi1_0);
  EXPECT_EQ(upgraded.get()->tx_attr, nullptr);
  EXPECT_EQ(upgraded.get()->domain_attr, nullptr);
  EXPECT_EQ(UpgradedInfo(nullptr, kAbi1_0).get(), nullptr);
}

TEST(AbiLayout, ApiVersionMapsToTheLayoutOfItsRelease) {
  EXPECT_EQ(layout_of_api(FI_VERSION(1, 4)), kAbi1_0);
  EXPECT_EQ(layout_of_api(FI_VERSION(1, 5)), kAbi1_1);
  EXPECT_EQ(layout_of_api(FI_VERSION(1, 8)), kAbi1_2);
  EXPECT_EQ(layout_of_api(FI_VERSION(1, 17)), kAbi1_3);
  EXPECT_EQ(layout_of_api(FI_VERSION(1, 22)), kAbi1_7);
  EXPECT_EQ(layout_of_api(FI_VERSION(2, 4)), kAbi1_8);
  EXPECT_EQ(layout_of_api(FI_VERSION(2, 6)), kAbi1_9);
  EXPECT_EQ(layout_of_api(FI_VERSION(2, 7)), kAbi1_10);
  EXPECT_EQ(layout_of_api(FI_VERSION(3, 0)), kAbi1_10);
}

}  // namespace
}  // namespace weft::core
