// SPDX-License-Identifier: BSD-2-Clause
// Runs one bench program; see child_process.h.
#include "runner/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>
#include <sstream>
#include <utility>

namespace bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr int kExitSkipped = 77;

[[noreturn]] void become(const std::vector<std::string>& arguments, int input, int output) {
  setpgid(0, 0);
  dup2(input, STDIN_FILENO);
  dup2(output, STDOUT_FILENO);
  std::vector<char*> argv;
  for (const std::string& argument : arguments) argv.push_back(const_cast<char*>(argument.c_str()));
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  _exit(127);
}

void parse(const std::string& line, Answer& answer) {
  std::istringstream words(line);
  std::string kind;
  std::string name;
  double value = 0;
  words >> kind;
  if (kind == "metric" && words >> name >> value) answer.metrics[name] = value;
  if (kind == "skip" && answer.skipped.empty()) answer.skipped = line.substr(5);
  if (kind == "fail" && answer.failed.empty()) answer.failed = line.substr(5);
}

}  // namespace

ChildProcess::ChildProcess(const std::vector<std::string>& arguments, unsigned limit_seconds)
    : end_(Clock::now() + std::chrono::seconds(limit_seconds)), limit_seconds_(limit_seconds) {
  int in[2];   // a socket, since writing to a closed one can be made not to raise SIGPIPE
  int out[2];  // neither end is inherited by programs that start later
  if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, in) != 0) return;
  if (pipe2(out, O_CLOEXEC) != 0) {
    close(in[0]);
    close(in[1]);
    return;
  }
  pid_ = fork();
  if (pid_ == 0) become(arguments, in[1], out[1]);
  close(in[1]);
  close(out[1]);
  input_ = in[0];
  output_ = out[0];
}

ChildProcess::ChildProcess(ChildProcess&& other) noexcept
    : pid_(std::exchange(other.pid_, -1)),
      input_(std::exchange(other.input_, -1)),
      output_(std::exchange(other.output_, -1)),
      end_(other.end_),
      limit_seconds_(other.limit_seconds_),
      late_(other.late_),
      text_(std::move(other.text_)) {}

ChildProcess::~ChildProcess() {
  if (input_ >= 0) close(input_);
  if (output_ >= 0) close(output_);
  if (pid_ <= 0) return;
  kill(-pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
}

void ChildProcess::go() {
  if (input_ >= 0) send(input_, "g", 1, MSG_NOSIGNAL);
}

// False at the end of the output, or at the time limit.
bool ChildProcess::read_line(std::string& line) {
  for (char chunk[4096];;) {
    if (const std::size_t end = text_.find('\n'); end != std::string::npos) {
      line = text_.substr(0, end);
      text_.erase(0, end + 1);
      return true;
    }
    if (output_ < 0) return false;
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(end_ - Clock::now()).count();
    pollfd p{output_, POLLIN, 0};
    late_ = left <= 0 || poll(&p, 1, static_cast<int>(left)) == 0;
    if (late_) return false;
    const ssize_t n = read(output_, chunk, sizeof chunk);
    if (n == 0) return false;
    if (n > 0) text_.append(chunk, static_cast<std::size_t>(n));
  }
}

bool ChildProcess::read_until(const std::string& last, Answer& answer) {
  for (std::string line; read_line(line);) {
    if (!last.empty() && line == last) return true;
    parse(line, answer);
  }
  return false;
}

void ChildProcess::finish(Answer& answer) {
  if (pid_ < 0) {
    answer.failed = "cannot be started";
    return;
  }
  read_until("", answer);
  if (late_) kill(-pid_, SIGKILL);
  int status = 0;
  waitpid(std::exchange(pid_, -1), &status, 0);
  const int code = WIFEXITED(status) ? WEXITSTATUS(status) : -1;
  if (late_) answer.failed = fmt::format("no answer within {} s", limit_seconds_);
  if (code == kExitSkipped && answer.skipped.empty()) answer.skipped = "no reason given";
  if (code != 0 && code != kExitSkipped && answer.failed.empty()) answer.failed = fmt::format("exit code {}", code);
}

Answer execute(const std::vector<std::string>& arguments, unsigned limit_seconds) {
  Answer answer;
  ChildProcess(arguments, limit_seconds).finish(answer);
  return answer;
}

}  // namespace bench
