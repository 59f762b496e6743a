// SPDX-License-Identifier: BSD-2-Clause
// The provider is built into this binary, so that tests and provider share the fakes.
#include <gtest/gtest.h>
#include <rdma/providers/fi_prov.h>

#include <cstdlib>

extern "C" {
fi_provider* fi_prov_ini(void);
fi_provider* weft_verbs_ini(void);  // the name under which the library looks for it
fi_provider* weft_verbs_ini(void) {
  return fi_prov_ini();
}
}

int main(int argc, char** argv) {
  testing::InitGoogleTest(&argc, argv);
  setenv("FI_PROVIDER_PATH", "/nonexistent", 1);
  return RUN_ALL_TESTS();
}
