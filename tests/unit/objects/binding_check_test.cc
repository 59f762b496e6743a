// SPDX-License-Identifier: BSD-2-Clause
// Which error of a binding comes first, for every combination of errors.
#include "objects/binding_check.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

TEST(BindingCheck, DomainStateFlagsAndSecondBindingInThisOrder) {
  constexpr int kErrors[] = {FI_EDOMAIN, FI_EOPBADSTATE, FI_EBADFLAGS, FI_EINVAL};
  for (unsigned wrong = 0; wrong < 16; ++wrong) {
    const Binding binding{.same_domain = (wrong & 1) == 0,
                          .enabled = (wrong & 2) != 0,
                          .flags = (wrong & 4) != 0 ? uint64_t{1} : 0,
                          .second = (wrong & 8) != 0};
    int first = 0;
    for (int i = 3; i >= 0; --i)
      if ((wrong >> i & 1) != 0) first = kErrors[i];
    EXPECT_EQ(check_binding(binding).error(), first) << wrong;
  }
}

}  // namespace
}  // namespace weft
