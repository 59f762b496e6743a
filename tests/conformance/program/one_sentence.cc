// SPDX-License-Identifier: BSD-2-Clause
// One sentence in a process of its own; see one_sentence.h.
#include "program/one_sentence.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string>

#include "fixture/call.h"
#include "fixture/library.h"

namespace conform {
namespace {

int records_fd = -1;

void write_record(Record kind, const std::string& text) {
  const std::string record = static_cast<char>(kind) + text + kRecordEnd;
  [[maybe_unused]] const ssize_t written = ::write(records_fd, record.data(), record.size());
}

// A crash, or the driver's time limit (SIGTERM): reports the call in progress, then ends as the signal would have.
void on_signal(int number) {
  static const char start = kPlace, end = kRecordEnd;
  [[maybe_unused]] ssize_t written = ::write(records_fd, &start, 1);
  calls::Call::write_current(records_fd);
  written = ::write(records_fd, &end, 1);
  signal(number, SIG_DFL);
  raise(number);
}

void catch_signals() {
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  for (int number : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT}) signal(number, on_signal);
#endif
  signal(SIGTERM, on_signal);
}

// Whether a failure says that the library lacks what the test needs, which is nobody's fault here: weft's own tests run
// without this rule. A call that answers -FI_ENOSYS is not offered.
bool means_absence(const std::string& text) {
  const char* const phrases[] = {library::kAbsent,
                                 "fi_getinfo does not offer ",
                                 "fi_getinfo offers no ",
                                 "fi_getinfo offers nothing for ",
                                 " contexts are offered",
                                 " endpoints are offered",
                                 ": Function not implemented (-38)\" thrown in the test body",
                                 "Which is: -38\n"};  // -FI_ENOSYS
  return std::any_of(std::begin(phrases), std::end(phrases),
                     [&](const char* phrase) { return text.find(phrase) != std::string::npos; });
}

class Recorder : public testing::EmptyTestEventListener {
  void OnTestStart(const testing::TestInfo& info) override {
    const char* const slash = std::strrchr(info.name(), '/');
    target_ = slash ? slash + 1 : "";
    absent_ = false;
  }

  void OnTestPartResult(const testing::TestPartResult& result) override {
    std::string text = result.message();
    if (result.failed() && means_absence(text)) absent_ = true;
    if (result.passed()) return;
    if (result.failed() && result.file_name() != nullptr) {
      const char* const slash = std::strrchr(result.file_name(), '/');
      text += std::string("\n[") + (slash ? slash + 1 : result.file_name()) + ":" +
              std::to_string(result.line_number()) + "]";
    }
    write_record(result.skipped() ? kSkipped : absent_ ? kAbsent : kFailed, target_ + kTargetEnd + text);
  }

  void OnTestEnd(const testing::TestInfo& info) override {
    if (info.result()->Passed() && !info.result()->Skipped()) write_record(kPassed, target_ + kTargetEnd);
  }

  std::string target_;
  bool absent_ = false;
};

}  // namespace

bool is_child() {
  return std::getenv(kRecordsVariable) != nullptr;
}

int run_one(int argc, char** argv) {
  records_fd = std::atoi(std::getenv(kRecordsVariable));
  unsetenv(kRecordsVariable);        // not for processes that the test starts
  prctl(PR_SET_PDEATHSIG, SIGKILL);  // the driver was interrupted
  library::path();                   // first: libraries that it needs install handlers of their own
  catch_signals();
  testing::InitGoogleTest(&argc, argv);
  auto& listeners = testing::UnitTest::GetInstance()->listeners();
  delete listeners.Release(listeners.default_result_printer());
  listeners.Append(new Recorder);
  const int result = RUN_ALL_TESTS();
  if (calls::tracing) calls::show_repetitions();
  write_record(kEnd, "");
  return result;
}

}  // namespace conform
