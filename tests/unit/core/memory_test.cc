// SPDX-License-Identifier: BSD-2-Clause
// The core when memory runs out: every call returns -FI_ENOMEM or succeeds, and works again afterwards; fi_errno(3).
#include <rdma/providers/fi_prov.h>

#include "../failing_allocations.h"
#include "fake_provider.h"

namespace weft::core {
namespace {

using test::fail_each_allocation;
using test::FailingAllocation;

class MemoryTest : public CoreTest {
 protected:
  void SetUp() override {
    CoreTest::SetUp();
    if (!FailingAllocation::complete()) GTEST_SKIP() << "a sanitizer has its own allocator";
    set_up();
  }
  void set_up() {
    CoreTest::SetUp();
    set("FI_PROVIDER_PATH", WEFT_TEST_PLUGINS "good:" WEFT_TEST_PLUGINS "layer:" WEFT_TEST_PLUGINS "bad:/nonexistent");
    set("FI_PROVIDER", "tcp,udp,zork,nosuch");
    set("FI_MR_CACHE_MONITOR", "userfaultfd");
    set("FI_HOOK", "zork;nosuch");
    set("FI_LOG_LEVEL", "info");
    set("FI_LOG_LOCATION", "/dev/null");
    Fake<0>::install("tcp");
    Fake<1>::install("udp");
    Fake<2>::install("ofi_hook_zork");
    Fake<2>::abi.getinfo = nullptr;
  }

  // Runs `call` with each allocation failing, alone or with all that follow. `call` returns 0 or a negative fi_errno.
  // A failed call must be repeatable: afterwards it succeeds in the same process state.
  template <class Call>
  void expect_survival(Call call) {
    for (const std::size_t count : {std::size_t{1}, FailingAllocation::kAll}) {
      std::size_t runs = 0, failures = 0;
      fail_each_allocation(
          [&](std::size_t nth, std::size_t failures_at_once) {
            set_up();
            bool failed = false;
            int error = 0;
            {
              const FailingAllocation failing(nth, failures_at_once);
              error = call();
              failed = failing.failed();
            }
            ++runs;
            if (error != 0) ++failures;
            EXPECT_TRUE(error == 0 || error == -FI_ENOMEM) << "allocation " << nth << ": " << fi_strerror(-error);
            EXPECT_EQ(call(), 0) << "once there is memory again, after allocation " << nth;
            return failed;
          },
          count);
      EXPECT_GT(runs, 1u) << "something was allocated";
      EXPECT_GT(failures, 0u) << "some failure shows";
    }
  }
};

int get_all() {
  fi_info* info = nullptr;
  const int error = fi_getinfo(FI_VERSION(2, 6), nullptr, nullptr, 0, nullptr, &info);
  fi_freeinfo(info);
  return error;
}

TEST_F(MemoryTest, FirstGetinfoLoadsPluginsOrReportsNoMemory) {
  expect_survival([] { return get_all(); });
  EXPECT_EQ(getinfo(), list({"udp", "tcp", "zork", "udp;ofi_layer", "tcp;ofi_layer", "zork;ofi_layer"}));
}

TEST_F(MemoryTest, LaterGetinfoReportsNoMemory) {
  const InfoPtr hints(allocate_info());
  hints->ep_attr->type = FI_EP_MSG;
  expect_survival([&] {
    fi_info* info = nullptr;
    const int error = fi_getinfo(FI_VERSION(2, 6), "node", "service", 0, hints.get(), &info);
    fi_freeinfo(info);
    return error;
  });
}

TEST_F(MemoryTest, FailingGetinfoReportsNoMemory) {
  const InfoPtr hints(allocate_info());
  hints->fabric_attr->prov_name = ::strdup("nosuch");
  expect_survival([&] {
    fi_info* info = nullptr;
    const int error = fi_getinfo(FI_VERSION(2, 6), nullptr, nullptr, 0, hints.get(), &info);
    return error == -FI_ENODATA ? 0 : error;
  });
}

TEST_F(MemoryTest, ProviderNamesReportNoMemory) {
  expect_survival([] {
    fi_info* info = nullptr;
    const int error = fi_getinfo(FI_VERSION(2, 6), nullptr, nullptr, FI_PROV_ATTR_ONLY, nullptr, &info);
    fi_freeinfo(info);
    return error;
  });
}

TEST_F(MemoryTest, FabricReportsNoMemory) {
  expect_survival([] {
    char name[] = "net", provider[] = "udp";
    fi_fabric_attr attr{};
    attr.name = name;
    attr.prov_name = provider;
    fid_fabric* fabric = nullptr;
    return fi_fabric(&attr, &fabric, nullptr);
  });
}

TEST_F(MemoryTest, ParametersReportNoMemory) {
  expect_survival([] {
    if (const int error = fi_param_define(nullptr, "memory_test", FI_PARAM_INT, "help %d", 1); error != 0) return error;
    fi_param* parameters = nullptr;
    int count = 0;
    const int error = fi_getparams(&parameters, &count);
    if (error == 0) fi_freeparams(parameters);
    return error;
  });
}

TEST_F(MemoryTest, SettingsNeedNoMemory) {
  set("FI_UDP_MEMORY_TEST", "7");
  ASSERT_EQ(fi_param_define(&Fake<1>::abi, "memory_test", FI_PARAM_INT, "help"), 0);
  const FailingAllocation failing(1, FailingAllocation::kAll);
  int value = 0;
  const int error = fi_param_get_int(&Fake<1>::abi, "memory_test", &value);
  EXPECT_EQ(error, 0) << fi_strerror(-error);
  EXPECT_EQ(value, 7);
}

TEST_F(MemoryTest, ObjectsAndCopiesReportNoMemory) {
  expect_survival([] {
    fid* log = nullptr;
    if (const int error = fi_open(FI_VERSION(1, 13), "logging", nullptr, 0, 0, &log, nullptr); error != 0) return error;
    fi_close(log);
    fi_info* info = fi_dupinfo(nullptr);
    fi_info* copy = info == nullptr ? nullptr : fi_dupinfo(info);
    const bool complete = copy != nullptr;
    fi_freeinfo(info);
    fi_freeinfo(copy);
    return complete ? 0 : -FI_ENOMEM;
  });
}

TEST_F(MemoryTest, TextsAreNullOrEmptyWithoutMemory) {
  expect_survival([] {
    const fi_info info{};
    char buffer[64];
    EXPECT_NE(fi_tostr_r(buffer, sizeof buffer, &info, FI_TYPE_INFO), nullptr);
    return fi_tostr(&info, FI_TYPE_INFO) == nullptr ? -FI_ENOMEM : 0;
  });
}

TEST_F(MemoryTest, LoggingIsOffWithoutMemory) {
  expect_survival([] {
    const bool enabled = fi_log_enabled(&Fake<0>::abi, FI_LOG_WARN, FI_LOG_CORE) != 0;
    FI_WARN(&Fake<0>::abi, FI_LOG_CORE, "a line\n");
    return enabled ? 0 : -FI_ENOMEM;
  });
}

}  // namespace
}  // namespace weft::core
