// SPDX-License-Identifier: BSD-2-Clause
// Providers made of lambdas, and a fixture that restarts the core for each test.
#pragma once

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>

#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include "core/state.h"
#include "objects/info.h"

namespace weft::core {

// The built-in providers of this test program.
std::vector<ProviderEntry>& builtins();

// Each Tag is a separate provider, because the C calls carry no context. Reset by CoreTest.
template <int Tag>
struct Fake {
  using GetInfo = std::function<int(uint32_t version, uint64_t flags, const fi_info* hints, fi_info** info)>;
  static inline GetInfo getinfo;
  static inline int cleanups = 0;
  static inline int fabrics = 0;
  static inline fid_fabric fabric{};
  static inline fi_provider abi{};

  static fi_provider* entry() { return &abi; }

  // Returns one empty info unless a test replaces it.
  static void install(const char* name, uint32_t version = FI_VERSION(1, 0), uint32_t api = FI_VERSION(2, 6)) {
    abi = {};
    abi.version = version;
    abi.fi_version = api;
    abi.name = name;
    abi.getinfo = [](uint32_t v, const char*, const char*, uint64_t flags, const fi_info* hints, fi_info** info) {
      return getinfo(v, flags, hints, info);
    };
    abi.fabric = [](fi_fabric_attr*, fid_fabric** out, void*) {
      ++fabrics;
      *out = &fabric;
      return 0;
    };
    abi.cleanup = [] { ++cleanups; };
    getinfo = [](uint32_t, uint64_t, const fi_info*, fi_info** info) {
      *info = allocate_info();
      return 0;
    };
    cleanups = fabrics = 0;
    fabric = {};
    builtins().push_back(entry);
  }
};

// Records the lines that the log would show.
class CoreTest : public testing::Test {
 protected:
  void SetUp() override;
  void TearDown() override;

  // Takes effect on the next call into the library.
  static void set(const char* variable, const char* value) { ::setenv(variable, value, 1); }
  // After this call lines at `level` or above go to log().
  static void record(fi_log_level level = FI_LOG_WARN);
  static std::vector<std::string>& log();
  static bool logged(const std::string& part);

  // prov_names of fi_getinfo in order; the result of the call in error().
  std::vector<std::string> getinfo(const fi_info* hints = nullptr, uint64_t flags = 0,
                                   uint32_t version = FI_VERSION(2, 6));
  std::vector<std::string> getinfo_named(const char* prov_name);
  int error() const { return error_; }

 private:
  int error_ = 0;
};

inline std::vector<std::string> list(std::initializer_list<const char*> names) {
  return {names.begin(), names.end()};
}

}  // namespace weft::core
