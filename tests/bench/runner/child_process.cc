// SPDX-License-Identifier: BSD-2-Clause
// Runs one bench program; see child_process.h.
#include "runner/child_process.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <sstream>

namespace bench {
namespace {

constexpr int kExitSkipped = 77;

[[noreturn]] void become(const std::vector<std::string>& arguments, int output) {
  setpgid(0, 0);
  dup2(output, STDOUT_FILENO);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  _exit(127);
}

// Everything until end of file; false when the time is up first.
bool read_all(int fd, unsigned limit_seconds, std::string& text) {
  using Clock = std::chrono::steady_clock;
  const auto end = Clock::now() + std::chrono::seconds(limit_seconds);
  for (char chunk[4096];;) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end - Clock::now()).count();
    pollfd p{fd, POLLIN, 0};
    if (left <= 0 || poll(&p, 1, static_cast<int>(left)) == 0) return false;
    const ssize_t n = read(fd, chunk, sizeof chunk);
    if (n == 0) return true;
    if (n > 0) text.append(chunk, static_cast<std::size_t>(n));
  }
}

Answer parse(const std::string& text) {
  Answer answer;
  std::istringstream lines(text);
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string kind;
    std::string name;
    double value = 0;
    words >> kind;
    if (kind == "metric" && words >> name >> value) answer.metrics[name] = value;
    if (kind == "skip" && answer.skipped.empty()) answer.skipped = line.substr(5);
    if (kind == "fail" && answer.failed.empty()) answer.failed = line.substr(5);
  }
  return answer;
}

}  // namespace

Answer execute(const std::vector<std::string>& arguments, unsigned limit_seconds) {
  int ends[2];
  if (pipe(ends) != 0) return {{}, {}, "pipe failed"};
  const pid_t pid = fork();
  if (pid == 0) become(arguments, ends[1]);
  close(ends[1]);
  std::string text;
  const bool in_time = pid > 0 && read_all(ends[0], limit_seconds, text);
  close(ends[0]);
  if (pid < 0) return {{}, {}, "fork failed"};
  if (!in_time) kill(-pid, SIGKILL);
  int status = 0;
  waitpid(pid, &status, 0);

  Answer answer = parse(text);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (!in_time) answer.failed = fmt::format("no answer within {} s", limit_seconds);
  if (code == kExitSkipped && answer.skipped.empty()) answer.skipped = "no reason given";
  if (code != 0 && code != kExitSkipped && answer.failed.empty()) answer.failed = fmt::format("exit code {}", code);
  return answer;
}

}  // namespace bench
