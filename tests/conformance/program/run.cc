// SPDX-License-Identifier: BSD-2-Clause
// Starts children and judges their ends; see run.h.
#include "program/run.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstring>
#include <stdexcept>

#include "fixture/own_program.h"
#include "program/one_sentence.h"

namespace conform {
namespace {

constexpr off_t kMostOutput = 64 * 1024;       // a child may print without end: its last bytes
constexpr std::chrono::seconds kLastWords{2};  // between SIGTERM and SIGKILL

std::string contents(int fd, off_t most) {
  const off_t size = lseek(fd, 0, SEEK_END);
  const off_t start = std::max<off_t>(0, size - most);
  std::string text(static_cast<size_t>(size - start), '\0');
  const ssize_t count = pread(fd, text.data(), text.size(), start);
  text.resize(count > 0 ? static_cast<size_t>(count) : 0);
  return text;
}

int file_in_memory(const char* name) {
  const int fd = memfd_create(name, MFD_CLOEXEC);
  if (fd < 0) throw std::runtime_error(std::string("memfd_create: ") + std::strerror(errno));
  return fd;
}

// The child's environment: a name that is repeated keeps its first value.
std::vector<std::string> joined(const Variables& environment) {
  std::vector<std::string> list;
  for (const auto& [name, value] : environment) list.push_back(name + "=" + value);
  for (char** inherited = environ; *inherited; ++inherited) list.emplace_back(*inherited);
  return list;
}

// GoogleTest's message, with the calls as the test writes them.
std::string plain(std::string message) {
  for (const char* prefix : {"calls::", "Failed\n", "Skipped\n", "Failure\n"}) {
    const std::string word(prefix);
    for (size_t at; (at = message.find(word)) != std::string::npos;) message.erase(at, word.size());
  }
  while (!message.empty() && message.back() == '\n') message.pop_back();
  return message;
}

struct Records {
  std::vector<std::string> passed, failures, skips, absences;
  std::string place;
  bool complete = false;
};

Records parse(const std::string& text) {
  Records found;
  for (size_t at = 0, end; (end = text.find(kRecordEnd, at)) != std::string::npos; at = end + 1) {
    if (end == at) continue;
    const char kind = text[at];
    const std::string rest = text.substr(at + 1, end - at - 1);
    const size_t split = rest.find(kTargetEnd);
    const std::string target = rest.substr(0, split);
    std::string message = split == std::string::npos ? "" : plain(rest.substr(split + 1));
    if (kind == kFailed && target.ends_with("_ipv6")) message = "over IPv6: " + message;
    if (kind == kPassed) found.passed.push_back(target);
    if (kind == kFailed) found.failures.push_back(message);
    if (kind == kSkipped) found.skips.push_back(message);
    if (kind == kAbsent) found.absences.push_back(message);
    if (kind == kPlace) found.place = rest;
    if (kind == kEnd) found.complete = true;
  }
  return found;
}

}  // namespace

const char* name_of(Verdict verdict) {
  return verdict == Verdict::kHolds ? "holds" : verdict == Verdict::kDoesNotHold ? "does not hold" : "not offered";
}

Run::Run(const std::string& filter, const Variables& environment, std::chrono::seconds limit)
    : records_(file_in_memory("records")), output_(file_in_memory("output")), deadline_(start_ + limit), limit_(limit) {
  constexpr int kChildRecords = 3;
  Variables own = environment;
  if (!filter.empty()) own.emplace_back(kRecordsVariable, std::to_string(kChildRecords));
  std::vector<std::string> variables = joined(own);
  std::vector<char*> envp;
  for (std::string& variable : variables) envp.push_back(variable.data());
  envp.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, output_, STDOUT_FILENO);
  posix_spawn_file_actions_adddup2(&actions, output_, STDERR_FILENO);
  posix_spawn_file_actions_adddup2(&actions, records_, kChildRecords);
  posix_spawnattr_t attributes;
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);  // its own children end with it
  std::vector<std::string> options;
  if (!filter.empty()) options.push_back("--gtest_filter=" + filter);
  const int error = spawn_own_program(pid_, actions, &attributes, options, envp);
  posix_spawn_file_actions_destroy(&actions);
  posix_spawnattr_destroy(&attributes);
  if (error != 0) throw std::runtime_error(std::string("posix_spawn: ") + std::strerror(error));
}

Run::~Run() {
  if (pid_ > 0) {
    ::kill(-pid_, SIGKILL);
    waitpid(pid_, &status_, 0);
  }
  ::close(records_);
  ::close(output_);
}

bool Run::ended() {
  if (pid_ < 0) return true;
  if (waitpid(pid_, &status_, WNOHANG) == pid_) {
    ::kill(-pid_, SIGKILL);  // processes that it has left behind
    pid_ = -1;
    end_ = Clock::now();
    return true;
  }
  if (Clock::now() < deadline_) return false;
  ::kill(-pid_, late_ ? SIGKILL : SIGTERM);
  late_ = true;
  deadline_ = Clock::now() + kLastWords;
  return false;
}

std::string Run::death() const {
  if (late_) return "no answer in " + std::to_string(limit_.count()) + " s";
  if (WIFSIGNALED(status_)) {
    const char* const name = sigabbrev_np(WTERMSIG(status_));
    return "crashed: SIG" + std::string(name ? name : "?");
  }
  return "the process ended with status " + std::to_string(WEXITSTATUS(status_));
}

std::string Run::output() const {
  return contents(output_, kMostOutput);
}

Outcome Run::outcome() const {
  const Records records = parse(contents(records_, kMostOutput));
  Outcome result;
  result.seconds = std::chrono::duration<double>(end_ - start_).count();
  result.output = output();
  const bool clean = WIFEXITED(status_) && WEXITSTATUS(status_) <= 1 && records.complete && !late_;
  // A test that goes on without what the library lacks may crash by itself.
  if (!records.absences.empty() && records.failures.empty() && records.passed.empty()) {
    result.reason = records.absences.front();
  } else if (!clean) {
    result.verdict = Verdict::kDoesNotHold;
    result.reason = death() + (records.place.empty() ? "" : " " + records.place);
  } else if (!records.failures.empty()) {
    result.verdict = Verdict::kDoesNotHold;
  } else if (!records.passed.empty()) {
    result.verdict = Verdict::kHolds;
  } else {
    result.reason = records.skips.empty() ? "no test for this target" : records.skips.front();
  }
  for (const std::string& failure : records.failures) result.reason += (result.reason.empty() ? "" : "\n") + failure;
  return result;
}

}  // namespace conform
