// SPDX-License-Identifier: BSD-2-Clause
// fi_open and its objects; fi_open(3).
#include <rdma/fi_ext.h>

#include "fake_provider.h"
#include "objects/monitor_source.h"

namespace weft::core {
namespace {

class OpenTest : public CoreTest {};

struct Seen {
  uint64_t flags = 0;
  std::string line;
} seen;

fi_ops_log make_ops() {
  return {sizeof(fi_ops_log),
          [](const fi_provider*, fi_log_level, fi_log_subsys, uint64_t flags) {
            seen.flags = flags;
            return 1;
          },
          [](const fi_provider*, fi_log_level, fi_log_subsys, uint64_t flags, uint64_t* showtime) {
            seen.flags = flags;
            return *showtime == 3 ? 1 : 0;
          },
          [](const fi_provider*, fi_log_level, fi_log_subsys, const char*, int, const char* message) {
            seen.line = message;
          }};
}

TEST_F(OpenTest, InvalidArgumentsAreRefused) {
  fid* fid = nullptr;
  EXPECT_EQ(fi_open(FI_VERSION(1, 13), nullptr, nullptr, 0, 0, &fid, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_open(FI_VERSION(1, 13), "logging", nullptr, 0, 0, nullptr, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_open(FI_VERSION(1, 13), "logging", &fid, sizeof fid, 0, &fid, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_open(FI_VERSION(1, 12), "logging", nullptr, 0, 0, &fid, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_open(FI_VERSION(99, 0), "logging", nullptr, 0, 0, &fid, nullptr), -FI_ENOSYS);
  EXPECT_EQ(fi_open(FI_VERSION(1, 13), "logging", nullptr, 0, 1, &fid, nullptr), -FI_EBADFLAGS);
  EXPECT_EQ(fid, nullptr);
}

TEST_F(OpenTest, UnsupportedNamesAreLogged) {
  record();
  fid* fid = nullptr;
  EXPECT_EQ(fi_open(FI_VERSION(1, 13), "zork", nullptr, 0, 0, &fid, nullptr), -FI_ENOSYS);
  EXPECT_TRUE(logged("unknown name zork"));
}

// ---- Memory monitors ----

struct Watcher : fid_mem_monitor {
  Watcher() : fid_mem_monitor{} {
    fid.fclass = FI_CLASS_MEM_MONITOR;
    export_ops = &calls;
  }
  static Watcher& of(fid_mem_monitor* monitor) { return *static_cast<Watcher*>(monitor); }
  fi_ops_mem_monitor calls{sizeof calls,
                           [](fid_mem_monitor* self) { return ++of(self).starts, 0; },
                           [](fid_mem_monitor* self) { ++of(self).stops; },
                           [](fid_mem_monitor* self, const void*, size_t len) { return of(self).watched += len, 0; },
                           [](fid_mem_monitor* self, const void*, size_t len) { of(self).watched -= len; },
                           [](fid_mem_monitor*, const void* addr, size_t) { return addr != nullptr; }};
  int starts = 0, stops = 0;
  size_t watched = 0;
};

const MonitorSource* source_of(fid* cache) {
  void* table = nullptr;
  EXPECT_EQ(fi_open_ops(cache, kMonitorSource, 0, &table, nullptr), 0);
  return static_cast<const MonitorSource*>(table);
}

void count_bytes(void* context, const void*, size_t len) {
  *static_cast<size_t*>(context) += len;
}

TEST_F(OpenTest, ImportedMonitorIsUsedUntilItIsClosed) {
  fid* cache = nullptr;
  ASSERT_EQ(fi_open(FI_VERSION(1, 13), "mr_cache", nullptr, 0, 0, &cache, nullptr), 0);
  const MonitorSource& source = *source_of(cache);
  size_t noticed = 0;
  EXPECT_EQ(source.start(count_bytes, &noticed), -FI_ENODATA);
  Watcher first, watcher;
  ASSERT_EQ(fi_import_fid(cache, &first.fid, 0), 0);
  ASSERT_EQ(fi_import_fid(cache, &watcher.fid, 0), 0);
  ASSERT_EQ(source.start(count_bytes, &noticed), 0);
  EXPECT_EQ(source.start(count_bytes, &noticed), -FI_EBUSY);
  EXPECT_EQ(first.starts, 0) << "the last import is used";
  EXPECT_EQ(watcher.starts, 1);
  EXPECT_EQ(source.subscribe(&noticed, 8), 0);
  EXPECT_EQ(watcher.watched, 8U);
  source.unsubscribe(&noticed, 3);
  EXPECT_EQ(watcher.watched, 5U);
  EXPECT_TRUE(source.valid(&noticed, 1));
  EXPECT_FALSE(source.valid(nullptr, 1));
  watcher.import_ops->notify(&watcher, &noticed, 4);
  EXPECT_EQ(noticed, 4U);
  EXPECT_EQ(fi_close(&watcher.fid), 0);
  EXPECT_EQ(watcher.stops, 1);
  EXPECT_FALSE(source.valid(&noticed, 1));
  EXPECT_LT(source.subscribe(&noticed, 8), 0);
  source.stop();
  EXPECT_EQ(watcher.stops, 1);
  watcher.import_ops->notify(&watcher, &noticed, 4);
  EXPECT_EQ(noticed, 4U) << "nobody is told any more";
  EXPECT_EQ(fi_close(cache), 0);
}

TEST_F(OpenTest, MonitorsThatLackACallAreRefused) {
  fid* cache = nullptr;
  ASSERT_EQ(fi_open(FI_VERSION(1, 13), "mr_cache", nullptr, 0, 0, &cache, nullptr), 0);
  Watcher watcher;
  EXPECT_EQ(fi_import_fid(cache, &watcher.fid, 1), -FI_EBADFLAGS);
  EXPECT_EQ(fi_import_fid(cache, cache, 0), -FI_EINVAL);
  watcher.calls.valid = nullptr;
  EXPECT_EQ(fi_import_fid(cache, &watcher.fid, 0), -FI_EINVAL);
  watcher.export_ops = nullptr;
  EXPECT_EQ(fi_import_fid(cache, &watcher.fid, 0), -FI_EINVAL);
  void* table = nullptr;
  EXPECT_EQ(fi_open_ops(cache, "zork", 0, &table, nullptr), -FI_ENOSYS);
  EXPECT_EQ(fi_close(cache), 0);
}

TEST_F(OpenTest, ImportedLogReplacesTheLogUntilItIsClosed) {
  set("FI_LOG_PROV", "^udp");
  fi_ops_log ops = make_ops();
  fid_logging log{};
  log.ops = &ops;
  ASSERT_EQ(fi_import_log(FI_VERSION(1, 13), 0, &log), 0);

  fi_provider tcp{}, udp{};
  tcp.name = "tcp";
  udp.name = "udp";
  FI_INFO(&tcp, FI_LOG_CORE, "hello %d\n", 1);
  EXPECT_EQ(seen.line, "hello 1\n");
  EXPECT_EQ(seen.flags, 0u);
  EXPECT_TRUE(fi_log_enabled(&udp, FI_LOG_WARN, FI_LOG_CORE));
  EXPECT_EQ(seen.flags, FI_LOG_PROV_FILTERED);
  uint64_t showtime = 3;
  EXPECT_TRUE(fi_log_ready(&tcp, FI_LOG_WARN, FI_LOG_CORE, &showtime));
  showtime = 4;
  EXPECT_FALSE(fi_log_ready(&tcp, FI_LOG_WARN, FI_LOG_CORE, &showtime));

  ASSERT_EQ(fi_close(&log.fid), 0);
  EXPECT_FALSE(fi_log_enabled(&tcp, FI_LOG_WARN, FI_LOG_CORE));
}

TEST_F(OpenTest, LastImportWins) {
  fi_ops_log first = make_ops(), second = make_ops();
  fid_logging one{}, two{};
  one.ops = &first;
  two.ops = &second;
  ASSERT_EQ(fi_import_log(FI_VERSION(1, 13), 0, &one), 0);
  ASSERT_EQ(fi_import_log(FI_VERSION(1, 13), 0, &two), 0);
  EXPECT_EQ(fi_close(&one.fid), 0);
  EXPECT_EQ(state().log.handler(), &second);
  EXPECT_EQ(fi_close(&two.fid), 0);
  EXPECT_EQ(state().log.handler(), nullptr);
}

TEST_F(OpenTest, IncompleteLogIsRefused) {
  fid* opened = nullptr;
  ASSERT_EQ(fi_open(FI_VERSION(1, 13), "logging", nullptr, 0, 0, &opened, nullptr), 0);
  fi_ops_log ops = make_ops();
  fid_logging log{};
  log.ops = &ops;
  EXPECT_EQ(fi_import_fid(opened, nullptr, 0), -FI_EINVAL);
  EXPECT_EQ(fi_import_fid(opened, opened, 0), -FI_EINVAL);
  EXPECT_EQ(fi_import_fid(opened, &log.fid, 0), -FI_EINVAL) << "class not set";
  log.fid.fclass = FI_CLASS_LOG;
  EXPECT_EQ(fi_import_fid(opened, &log.fid, 1), -FI_EBADFLAGS);
  ops.log = nullptr;
  EXPECT_EQ(fi_import_fid(opened, &log.fid, 0), -FI_EINVAL) << "a call is missing";
  log.ops = nullptr;
  EXPECT_EQ(fi_import_fid(opened, &log.fid, 0), -FI_EINVAL);
  EXPECT_EQ(state().log.handler(), nullptr);
  EXPECT_EQ(fi_close(opened), 0);
}

}  // namespace
}  // namespace weft::core
