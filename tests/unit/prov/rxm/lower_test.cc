// SPDX-License-Identifier: BSD-2-Clause
// The answers of lower providers that ofi_rxm uses.
#include "rxm/lower.h"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

#include <cstdlib>
#include <utility>

namespace {

// Builds the answer of the provider "partial".
int (*partial_answer)(fi_info** list) = nullptr;

int answer_partially(uint32_t, const char*, const char*, uint64_t, const fi_info*, fi_info** list) {
  return partial_answer != nullptr ? partial_answer(list) : -FI_ENODATA;
}

template <class Attr>
fi_info* without(Attr* fi_info::*attribute, fi_info* next) {
  fi_info* info = weft::allocate_info();
  std::free(std::exchange(info->*attribute, nullptr));
  info->next = next;
  return info;
}
fi_info* incomplete(fi_info* next) {
  next = without(&fi_info::tx_attr, next);
  next = without(&fi_info::rx_attr, next);
  next = without(&fi_info::ep_attr, next);
  return without(&fi_info::domain_attr, next);
}

}  // namespace

// A built-in provider of this test program.
extern "C" fi_provider* weft_partial_ini(void) {
  static fi_provider provider{};
  provider.version = FI_VERSION(1, 0);
  provider.fi_version = FI_VERSION(1, 17);
  provider.name = "partial";
  provider.getinfo = answer_partially;
  provider.fabric = [](fi_fabric_attr*, fid_fabric**, void*) { return -FI_ENOSYS; };
  return &provider;
}

namespace weft::rxm {
namespace {

Result<InfoPtr> ask_partial() {
  const InfoPtr hints = lower_hints(FI_VERSION(1, 17), nullptr);
  EXPECT_TRUE(set_name(hints->fabric_attr->prov_name, "partial"));
  return find_lower(FI_VERSION(1, 17), nullptr, nullptr, 0, hints.get());
}

TEST(Lower, InfosWithoutAttributesAreDropped) {
  partial_answer = [](fi_info** list) {
    *list = incomplete(allocate_info());
    (*list)->next->next = incomplete((*list)->next->next);
    return 0;
  };
  const auto found = ask_partial();
  ASSERT_TRUE(found);
  int count = 0;
  for (const fi_info* info = found->get(); info != nullptr; info = info->next, ++count)
    EXPECT_TRUE(info->tx_attr && info->rx_attr && info->ep_attr && info->domain_attr);
  EXPECT_EQ(count, 1);
  partial_answer = [](fi_info** list) {
    *list = incomplete(nullptr);
    return 0;
  };
  EXPECT_EQ(ask_partial().error().error(), FI_ENODATA);
  partial_answer = nullptr;
}

}  // namespace
}  // namespace weft::rxm
