// SPDX-License-Identifier: BSD-2-Clause
// Real plug-ins, loaded through FI_PROVIDER_PATH; fabric(7), fi_provider(3).
#include "core/plugin_loader.h"

#include <thread>

#include "fake_provider.h"

namespace weft::core {
namespace {

std::string folder(const char* name) {
  return std::string(WEFT_TEST_PLUGINS) + name;
}

class PluginLoaderTest : public CoreTest {
 protected:
  static void set_path(const std::string& path) { set("FI_PROVIDER_PATH", path.c_str()); }
  void TearDown() override {
    CoreTest::TearDown();
    ::unsetenv("WEFT_TEST_CLEANED_UP");
  }
  static uint32_t version_of(const char* name) {
    EXPECT_TRUE(state().registry.load().ok());
    const Provider* provider = state().registry.find(name);
    return provider == nullptr ? 0 : provider->abi->version;
  }
};

TEST_F(PluginLoaderTest, PathIsParsed) {
  const PluginPath unset = parse_plugin_path(nullptr);
  EXPECT_TRUE(unset.by_name);
  EXPECT_EQ(unset.folders, std::vector{default_plugin_folder()});

  const PluginPath empty = parse_plugin_path("");
  EXPECT_FALSE(empty.by_name);
  EXPECT_EQ(empty.folders, std::vector{default_plugin_folder()});

  const PluginPath folders = parse_plugin_path("/a::/b");
  EXPECT_EQ(folders.folders, list({"/a", "/b"}));
  EXPECT_FALSE(folders.first_wins);

  const PluginPath all = parse_plugin_path("@+/x/libx-fi.so:/a:+/y.so");
  EXPECT_TRUE(all.first_wins);
  EXPECT_EQ(all.preferred, list({"/x/libx-fi.so", "/y.so"}));
  EXPECT_EQ(all.folders, list({"/a"}));

  EXPECT_EQ(parse_plugin_path("@+/y.so").folders, std::vector{default_plugin_folder()});
}

TEST_F(PluginLoaderTest, PluginIsLoadedUsedAndUnloaded) {
  set_path(folder("good"));
  EXPECT_EQ(getinfo(), list({"zork"}));
  int speed = 0;
  fi_provider zork{};
  zork.name = "zork";
  set("FI_ZORK_SPEED", "3");
  EXPECT_EQ(fi_param_get_int(&zork, "speed", &speed), 0) << "defined by the plug-in";
  unload();
  EXPECT_STREQ(std::getenv("WEFT_TEST_CLEANED_UP"), "zork");
}

TEST_F(PluginLoaderTest, FilesWithTheSuffixLoadInReverseOrder) {
  set_path(folder("two"));
  EXPECT_EQ(getinfo(), list({"b", "a"}));
}

TEST_F(PluginLoaderTest, ReasonsOfPluginsAreLogged) {
  set_path(folder("good"));
  record();
  const InfoPtr hints(allocate_info());
  hints->caps = FI_ATOMIC;
  EXPECT_TRUE(getinfo(hints.get()).empty());
  EXPECT_TRUE(logged("provider zork: hints request FI_ATOMIC, zork has none"));
}

TEST_F(PluginLoaderTest, RefusedPluginIsLoggedWithTheReason) {
  set_path(folder("bad"));
  record(FI_LOG_INFO);
  EXPECT_TRUE(getinfo().empty());
  EXPECT_TRUE(logged("provider ancient refused (" + folder("bad") + "/libancient-fi.so): it implements API 1.2"));
  EXPECT_TRUE(logged("plug-in " + folder("bad") + "/libnoentry-fi.so refused: it exports no fi_prov_ini"));
  EXPECT_TRUE(logged("provider refused (" + folder("bad") + "/libnofabric-fi.so)"));
  EXPECT_TRUE(logged("plug-in " + folder("bad") + "/libnothing-fi.so has nothing to offer"));
  EXPECT_TRUE(logged("plug-in " + folder("bad") + "/libgarbage-fi.so refused: "));
  EXPECT_STREQ(std::getenv("WEFT_TEST_CLEANED_UP"), "ancient") << "the last one, before it was unloaded";
}

TEST_F(PluginLoaderTest, MissingFoldersAndFilesAreLogged) {
  set_path("/nonexistent/folder:+/nonexistent/libx-fi.so");
  record();
  getinfo();
  EXPECT_TRUE(logged("cannot search folder /nonexistent/folder for plug-ins"));
  EXPECT_TRUE(logged("plug-in /nonexistent/libx-fi.so refused"));
}

TEST_F(PluginLoaderTest, AbsentDefaultPluginsAreNotLogged) {
  ::unsetenv("FI_PROVIDER_PATH");
  Fake<0>::install("tcp");
  record();
  getinfo_named("tcp");
  EXPECT_TRUE(log().empty()) << log().front();
}

TEST_F(PluginLoaderTest, PathDecidesAmongPluginsOfOneName) {
  const std::string good = folder("good");
  const std::string newer = folder("newer");
  const std::pair<std::string, uint32_t> cases[] = {
      {good + ":" + newer, FI_VERSION(2u, 0u)},
      {newer + ":" + good, FI_VERSION(2u, 0u)},
      {"@" + good + ":" + newer, FI_VERSION(1u, 0u)},
      {newer + ":+" + good + "/libzork-fi.so", FI_VERSION(1u, 0u)},
      {"@" + newer + ":+" + good + "/libzork-fi.so", FI_VERSION(1u, 0u)},
  };
  for (const auto& [path, version] : cases) {
    unload();
    set_path(path);
    EXPECT_EQ(version_of("zork"), version) << path;
  }
}

TEST_F(PluginLoaderTest, PluginsCompeteWithBuiltIns) {
  Fake<0>::install("zork", FI_VERSION(1, 5));
  set_path(folder("newer"));
  EXPECT_EQ(version_of("zork"), FI_VERSION(2u, 0u));
  unload();
  set_path(folder("good"));
  EXPECT_EQ(version_of("zork"), FI_VERSION(1u, 5u));
  unload();
  set_path("@" + folder("good"));
  EXPECT_EQ(version_of("zork"), FI_VERSION(1u, 0u));
}

TEST_F(PluginLoaderTest, LayeredPluginCallsBackIntoTheLibrary) {
  Fake<0>::install("tcp");
  set_path(folder("layer"));
  EXPECT_EQ(getinfo(), list({"tcp", "tcp;ofi_layer"}));
  EXPECT_EQ(getinfo_named("ofi_layer"), list({"tcp;ofi_layer"}));
}

TEST_F(PluginLoaderTest, ConcurrentFirstCallsLoadOnce) {
  Fake<0>::install("tcp");
  set_path(folder("layer") + ":" + folder("two"));
  std::vector<std::thread> threads;
  std::atomic<int> wrong{0};
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] {
      fi_info* info = nullptr;
      if (fi_getinfo(FI_VERSION(2, 6), nullptr, nullptr, 0, nullptr, &info) != 0) ++wrong;
      int count = 0;
      for (const fi_info* each = info; each != nullptr; each = each->next) ++count;
      if (count != 6) ++wrong;  // tcp, b, a and each of them under the layer
      fi_freeinfo(info);
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(wrong, 0);
}

}  // namespace
}  // namespace weft::core
