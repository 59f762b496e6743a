// SPDX-License-Identifier: BSD-2-Clause
// The log: levels, filters, rate limit, destinations, and an application's handler; fabric(7).
#include "core/log.h"

#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <regex>
#include <thread>

#include "fake_provider.h"

namespace weft::core {
namespace {

class LogTest : public CoreTest {
 protected:
  void SetUp() override {
    CoreTest::SetUp();
    path_ = testing::TempDir() + "weft_log_test_" + std::to_string(::getpid());
    std::remove(path_.c_str());
    set("FI_LOG_LOCATION", path_.c_str());
  }
  void TearDown() override {
    CoreTest::TearDown();
    std::remove(path_.c_str());
  }
  std::vector<std::string> written() const {
    std::ifstream file(path_);
    std::vector<std::string> result;
    for (std::string line; std::getline(file, line);) result.push_back(line);
    return result;
  }

  std::string path_;
  fi_provider tcp_ = named("tcp");
  fi_provider udp_ = named("udp");

 private:
  static fi_provider named(const char* name) {
    fi_provider provider{};
    provider.name = name;
    return provider;
  }
};

TEST_F(LogTest, NothingIsLoggedByDefault) {
  EXPECT_FALSE(fi_log_enabled(&tcp_, FI_LOG_WARN, FI_LOG_CORE));
  FI_WARN(&tcp_, FI_LOG_CORE, "quiet\n");
  EXPECT_TRUE(written().empty());
}

TEST_F(LogTest, LineHasTheFormatOfLibfabric) {
  set("FI_LOG_LEVEL", "warn");
  fi_log(&tcp_, FI_LOG_WARN, FI_LOG_EP_CTRL, "connect", 42, "no route to %s\n", "moon");
  fi_log(&tcp_, FI_LOG_WARN, FI_LOG_EP_CTRL, "connect", 43, "no newline");
  ASSERT_EQ(written().size(), 2u);
  EXPECT_TRUE(std::regex_match(written()[0],
                               std::regex(R"(libfabric:\d+:\d+::tcp:ep_ctrl:connect\(\):42<warn> no route to moon)")))
      << written()[0];
}

TEST_F(LogTest, LongMessageIsCut) {
  set("FI_LOG_LEVEL", "warn");
  const std::string message(5000, 'x');
  fi_log(&tcp_, FI_LOG_WARN, FI_LOG_CORE, "f", 1, "%s", message.c_str());
  ASSERT_EQ(written().size(), 1u);
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(written()[0], 'x')), kLogMessageSize - 1);
}

TEST_F(LogTest, LevelIncludesMoreUrgentOnes) {
  set("FI_LOG_LEVEL", "Trace");
  EXPECT_TRUE(fi_log_enabled(&tcp_, FI_LOG_WARN, FI_LOG_CORE));
  EXPECT_TRUE(fi_log_enabled(&tcp_, FI_LOG_TRACE, FI_LOG_CORE));
  EXPECT_FALSE(fi_log_enabled(&tcp_, FI_LOG_INFO, FI_LOG_CORE));
}

TEST_F(LogTest, UnknownLevelMeansWarnings) {
  set("FI_LOG_LEVEL", "3");
  EXPECT_TRUE(fi_log_enabled(&tcp_, FI_LOG_WARN, FI_LOG_CORE));
  EXPECT_FALSE(fi_log_enabled(&tcp_, FI_LOG_TRACE, FI_LOG_CORE));
}

TEST_F(LogTest, ProviderAndSubsystemFilters) {
  set("FI_LOG_LEVEL", "debug");
  set("FI_LOG_PROV", "^udp");
  set("FI_LOG_SUBSYS", "core,av");
  EXPECT_TRUE(fi_log_enabled(&tcp_, FI_LOG_DEBUG, FI_LOG_AV));
  EXPECT_FALSE(fi_log_enabled(&udp_, FI_LOG_DEBUG, FI_LOG_AV));
  EXPECT_FALSE(fi_log_enabled(&tcp_, FI_LOG_DEBUG, FI_LOG_CQ));
}

TEST_F(LogTest, AListOfProvidersKeepsTheCore) {
  set("FI_LOG_LEVEL", "warn");
  set("FI_LOG_PROV", "tcp");
  EXPECT_TRUE(fi_log_enabled(&tcp_, FI_LOG_WARN, FI_LOG_CORE));
  EXPECT_FALSE(fi_log_enabled(&udp_, FI_LOG_WARN, FI_LOG_CORE));
  EXPECT_TRUE(fi_log_enabled(&core_provider(), FI_LOG_WARN, FI_LOG_CORE));
}

TEST_F(LogTest, ANegatedListMayLeaveOutTheCore) {
  set("FI_LOG_LEVEL", "warn");
  set("FI_LOG_PROV", "^core");
  EXPECT_TRUE(fi_log_enabled(&tcp_, FI_LOG_WARN, FI_LOG_CORE));
  EXPECT_FALSE(fi_log_enabled(&core_provider(), FI_LOG_WARN, FI_LOG_CORE));
}

TEST_F(LogTest, WrongSettingsAreNamed) {
  set("FI_LOG_LEVEL", "warn");
  set("FI_LOG_INTERVAL", "soon");
  set("FI_LOG_LOCATION_MODE", "rw");
  set("FI_LOG_SUBSYS", "fabrik,cq");
  EXPECT_TRUE(fi_log_enabled(&tcp_, FI_LOG_WARN, FI_LOG_CQ));
  const std::vector<std::string> lines = written();
  for (const char* part : {"variable FI_LOG_INTERVAL=soon has the wrong type", "FI_LOG_LOCATION_MODE=rw",
                           "FI_LOG_SUBSYS names fabrik, but no subsystem has this name"})
    EXPECT_TRUE(std::ranges::any_of(lines, [&](const std::string& line) { return line.find(part) != line.npos; }))
        << part;
}

TEST_F(LogTest, AnUnknownLevelIsNamed) {
  set("FI_LOG_LEVEL", "bogus");
  EXPECT_TRUE(fi_log_enabled(&tcp_, FI_LOG_WARN, FI_LOG_CORE));
  const std::vector<std::string> lines = written();
  ASSERT_EQ(lines.size(), 1u);
  EXPECT_NE(lines[0].find("FI_LOG_LEVEL=bogus is no level: warnings are logged"), std::string::npos) << lines[0];
}

TEST_F(LogTest, SubsystemFilterNegated) {
  set("FI_LOG_LEVEL", "warn");
  set("FI_LOG_SUBSYS", "^cq");
  EXPECT_TRUE(fi_log_enabled(&tcp_, FI_LOG_WARN, FI_LOG_AV));
  EXPECT_FALSE(fi_log_enabled(&tcp_, FI_LOG_WARN, FI_LOG_CQ));
}

TEST_F(LogTest, RateLimitLetsOneLinePerIntervalThrough) {
  set("FI_LOG_LEVEL", "warn");
  set("FI_LOG_INTERVAL", "20");
  uint64_t showtime = 0;
  EXPECT_TRUE(fi_log_ready(&tcp_, FI_LOG_WARN, FI_LOG_CORE, &showtime));
  EXPECT_FALSE(fi_log_ready(&tcp_, FI_LOG_WARN, FI_LOG_CORE, &showtime));
  EXPECT_FALSE(fi_log_ready(&tcp_, FI_LOG_INFO, FI_LOG_CORE, &showtime));
  std::this_thread::sleep_for(std::chrono::milliseconds(25));
  EXPECT_TRUE(fi_log_ready(&tcp_, FI_LOG_WARN, FI_LOG_CORE, &showtime));
}

TEST_F(LogTest, RateLimitLetsOneOfManyThreadsThrough) {
  set("FI_LOG_LEVEL", "warn");
  uint64_t showtime = 0;
  std::atomic<int> through{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([&] { through += fi_log_ready(&tcp_, FI_LOG_WARN, FI_LOG_CORE, &showtime); });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(through, 1);
}

TEST_F(LogTest, FloodFromOnePlaceIsCutAndCounted) {
  set("FI_LOG_LEVEL", "warn");
  set("FI_LOG_INTERVAL", "200");
  const auto flood = [&](int count) {
    for (int i = 0; i < count; ++i) fi_log(&tcp_, FI_LOG_WARN, FI_LOG_EP_CTRL, "accept", 7, "bad connection %d\n", i);
  };
  constexpr std::size_t kFlood = 100'000;
  const auto begun = std::chrono::steady_clock::now();
  flood(kFlood);
  fi_log(&tcp_, FI_LOG_WARN, FI_LOG_EP_CTRL, "accept", 8, "from another place\n");
  const auto lasted = std::chrono::steady_clock::now() - begun;
  const auto intervals = static_cast<std::size_t>(lasted / std::chrono::milliseconds(200)) + 2;
  std::vector<std::string> all = written();
  EXPECT_GE(all.size(), LineLimit::kLines + 1u);
  EXPECT_LE(all.size(), intervals * (LineLimit::kLines + 1u) + 1);
  EXPECT_TRUE(all.back().ends_with("from another place"));
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  flood(1);
  all = written();
  std::size_t shown = 0, left_out = 0;
  for (const std::string& line : all) {
    std::smatch found;
    if (std::regex_search(line, found, std::regex("> ([0-9]+) lines like the next one were left out$")))
      left_out += std::stoul(found[1]);
    else
      shown += line.find("bad connection") != std::string::npos;
  }
  EXPECT_NE(left_out, 0u);
  EXPECT_EQ(shown + left_out, kFlood + 1);
}

// Callers hold locks that the data path needs.
TEST_F(LogTest, FullPipesAndSocketsLoseLinesInsteadOfBlocking) {
  set("FI_LOG_LEVEL", "warn");
  set("FI_LOG_INTERVAL", "0");  // no other limit
  set("FI_LOG_LOCATION", "stderr");
  const std::string line(1000, 'x');
  for (const bool socket : {false, true}) {
    int ends[2];
    ASSERT_EQ(socket ? ::socketpair(AF_UNIX, SOCK_STREAM, 0, ends) : ::pipe(ends), 0);
    const int own = ::dup(STDERR_FILENO);
    ::dup2(ends[1], STDERR_FILENO);
    for (int i = 0; i < 3000; ++i) FI_WARN(&tcp_, FI_LOG_CORE, "%s\n", line.c_str());
    ::dup2(own, STDERR_FILENO);
    ::close(own);
    EXPECT_EQ(::fcntl(ends[1], F_GETFL) & O_NONBLOCK, 0) << "the mode of the application's descriptor has changed";
    ::close(ends[1]);
    std::string text;
    char bytes[4096];
    for (ssize_t got; (got = ::read(ends[0], bytes, sizeof bytes)) > 0;) text.append(bytes, static_cast<size_t>(got));
    ::close(ends[0]);
    EXPECT_GE(text.size(), 10 * line.size());
    EXPECT_TRUE(text.ends_with("xxx\n")) << "only whole lines are written";
  }
}

// Peers cause lines: they must not end a process whose log has lost its reader, or reached the limit for files.
TEST_F(LogTest, LinesThatNobodyCanReadRaiseNoSignal) {
  set("FI_LOG_LEVEL", "warn");
  set("FI_LOG_LOCATION", "stderr");
  const auto log_to = [&](int fd) {
    const int own = ::dup(STDERR_FILENO);
    ::dup2(fd, STDERR_FILENO);
    FI_WARN(&tcp_, FI_LOG_CORE, "lost\n");
    ::dup2(own, STDERR_FILENO);
    ::close(own);
    ::close(fd);
  };
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ::close(ends[0]);
  log_to(ends[1]);
  ASSERT_EQ(::socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
  ::close(ends[0]);
  log_to(ends[1]);
  const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  ASSERT_EQ(::write(file, "first\n", 6), 6);
  rlimit limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_FSIZE, &limit), 0);
  const rlimit low{6, limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &low), 0);
  log_to(file);
  ASSERT_EQ(::setrlimit(RLIMIT_FSIZE, &limit), 0);
  EXPECT_EQ(written(), std::vector<std::string>{"first"});
}

TEST_F(LogTest, FileModeIsOctalAndPrivateByDefault) {
  set("FI_LOG_LEVEL", "warn");
  const mode_t mask = ::umask(0);
  fi_log(&tcp_, FI_LOG_WARN, FI_LOG_CORE, "f", 1, "x\n");
  struct stat first {};
  ASSERT_EQ(::stat(path_.c_str(), &first), 0);
  EXPECT_EQ(first.st_mode & 0777, 0600u);

  unload();
  std::remove(path_.c_str());
  set("FI_LOG_LOCATION_MODE", "644");
  fi_log(&tcp_, FI_LOG_WARN, FI_LOG_CORE, "f", 1, "x\n");
  ::umask(mask);
  struct stat second {};
  ASSERT_EQ(::stat(path_.c_str(), &second), 0);
  EXPECT_EQ(second.st_mode & 0777, 0644u);
}

TEST_F(LogTest, BadLocationFallsBackToStandardError) {
  set("FI_LOG_LEVEL", "warn");
  set("FI_LOG_LOCATION", "/nonexistent/log");
  testing::internal::CaptureStderr();
  fi_log(&tcp_, FI_LOG_WARN, FI_LOG_CORE, "f", 1, "still here\n");
  const std::string text = testing::internal::GetCapturedStderr();
  EXPECT_NE(text.find("FI_LOG_LOCATION /nonexistent/log"), std::string::npos) << text;
  EXPECT_NE(text.find("still here"), std::string::npos) << text;
}

TEST_F(LogTest, FifoThatNobodyReadsIsNotWaitedFor) {
  set("FI_LOG_LEVEL", "warn");
  ASSERT_EQ(::mkfifo(path_.c_str(), 0600), 0);
  std::atomic<bool> returned{false}, waited{false};
  std::thread reader([&] {
    for (int i = 0; i < 200 && !returned; ++i) std::this_thread::sleep_for(std::chrono::milliseconds(10));
    if (returned) return;
    waited = true;
    ::close(::open(path_.c_str(), O_RDONLY | O_NONBLOCK));
  });
  testing::internal::CaptureStderr();
  fi_log(&tcp_, FI_LOG_WARN, FI_LOG_CORE, "f", 1, "still here\n");
  returned = true;
  reader.join();
  EXPECT_FALSE(waited);
  EXPECT_NE(testing::internal::GetCapturedStderr().find("still here"), std::string::npos);
}

TEST_F(LogTest, StandardStreamsAreLocations) {
  set("FI_LOG_LEVEL", "warn");
  set("FI_LOG_LOCATION", "stdout");
  testing::internal::CaptureStdout();
  fi_log(&tcp_, FI_LOG_WARN, FI_LOG_CORE, "f", 1, "to standard output\n");
  EXPECT_NE(testing::internal::GetCapturedStdout().find("to standard output"), std::string::npos);

  unload();
  set("FI_LOG_LOCATION", "stderr");
  testing::internal::CaptureStderr();
  fi_log(&tcp_, FI_LOG_WARN, FI_LOG_CORE, "f", 1, "to standard error\n");
  EXPECT_NE(testing::internal::GetCapturedStderr().find("to standard error"), std::string::npos);
  EXPECT_NE(::access("stdout", F_OK), 0) << "a file was created";
  EXPECT_NE(::access("stderr", F_OK), 0) << "a file was created";
}

TEST_F(LogTest, FolderGetsOneFilePerProcess) {
  set("FI_LOG_LEVEL", "warn");
  ASSERT_EQ(::mkdir(path_.c_str(), 0700), 0);
  const std::string folder = path_;
  fi_log(&tcp_, FI_LOG_WARN, FI_LOG_CORE, "f", 1, "in a folder\n");
  path_ += "/ofi_" + std::to_string(::getpid()) + ".log";
  EXPECT_EQ(written().size(), 1u);
  std::remove(path_.c_str());
  path_ = folder;
}

TEST_F(LogTest, LevelNoneLogsNothing) {
  set("FI_LOG_LEVEL", "None");
  EXPECT_FALSE(fi_log_enabled(&tcp_, FI_LOG_WARN, FI_LOG_CORE));
}

TEST_F(LogTest, CaptureKeepsLinesThatTheUserDisabled) {
  Capture capture;
  FI_INFO(&tcp_, FI_LOG_CORE, "hints request %d\n", 4);
  FI_LOG(&tcp_, FI_LOG_DEBUG, FI_LOG_CORE, "debug\n");
  EXPECT_EQ(capture.reason(), "hints request 4");
  EXPECT_TRUE(written().empty());
}

TEST_F(LogTest, CapturesNestAndBelongToOneThread) {
  Capture outer;
  {
    Capture inner;
    fi_log(&tcp_, FI_LOG_WARN, FI_LOG_CORE, "f", 1, "inner\n");
    std::thread([&] { FI_WARN(&tcp_, FI_LOG_CORE, "elsewhere\n"); }).join();
    EXPECT_EQ(inner.reason(), "inner");
  }
  fi_log(&tcp_, FI_LOG_WARN, FI_LOG_CORE, "f", 1, "outer\n");
  EXPECT_EQ(outer.reason(), "outer");
}

TEST_F(LogTest, CaptureKeepsTheLastDistinctLines) {
  Capture capture;
  for (const char* line : {"a", "b", "a", "c", "d", "e", "e"}) capture.add(line);
  EXPECT_EQ(capture.reason(), "a; c; d; e");
}

}  // namespace
}  // namespace weft::core
