// SPDX-License-Identifier: BSD-2-Clause
// Which error of a binding comes first, for every combination of errors, and what may be bound late.
#include "objects/binding_check.h"

#include <gtest/gtest.h>

#include "public_symbols.h"

namespace weft {
namespace {

TEST(BindingCheck, DomainStateFlagsAndSecondBindingInThisOrder) {
  constexpr int kErrors[] = {FI_EDOMAIN, FI_EOPBADSTATE, FI_EBADFLAGS, FI_EINVAL};
  const fi_provider provider{};
  for (const std::size_t fclass :
       {FI_CLASS_CQ, FI_CLASS_CNTR, FI_CLASS_AV, FI_CLASS_SRX_CTX, FI_CLASS_STX_CTX, FI_CLASS_EQ})
    for (unsigned wrong = 0; wrong < 16; ++wrong) {
      SCOPED_TRACE(testing::Message() << "class " << fclass << " wrong " << wrong);
      const ::fid object{fclass, nullptr, nullptr};
      const Binding binding{.object = object,
                            .same_domain = (wrong & 1) == 0,
                            .enabled = (wrong & 2) != 0,
                            .flags = (wrong & 4) != 0 ? uint64_t{1} : 0,
                            .second = (wrong & 8) != 0};
      const bool late = fclass == FI_CLASS_CNTR || fclass == FI_CLASS_STX_CTX;
      int first = 0;
      for (int i = 3; i >= 0; --i)
        if ((wrong >> i & 1) != 0 && !(i == 1 && late)) first = kErrors[i];
      take_log();
      EXPECT_EQ(check_binding(provider, binding).error(), first);
      EXPECT_EQ(take_log().size(), first != 0 ? 1u : 0u);
    }
}

}  // namespace
}  // namespace weft
