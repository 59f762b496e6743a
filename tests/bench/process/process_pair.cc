// SPDX-License-Identifier: BSD-2-Clause
// Server and client of a measurement; see process_pair.h.
#include "process/process_pair.h"

#include <fmt/format.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <iterator>

namespace bench {
namespace {

// Descriptors of a process besides its connections: standard streams, listener, epoll, queues, files of the libraries.
constexpr unsigned kSpareDescriptors = 128;

constexpr int kHighestPriority = -20;

bool core_is_shared = false;

// The client gets the first permitted core, the server the last: with one core they share it.
void pin(Role role) {
  cpu_set_t allowed;
  if (sched_getaffinity(0, sizeof allowed, &allowed) != 0) return;
  int first = -1;
  int last = -1;
  for (int cpu = 0; cpu < CPU_SETSIZE; ++cpu) {
    if (!CPU_ISSET(cpu, &allowed)) continue;
    if (first < 0) first = cpu;
    last = cpu;
  }
  cpu_set_t chosen;
  CPU_ZERO(&chosen);
  CPU_SET(role == Role::kClient ? first : last, &chosen);
  core_is_shared = first == last;
  sched_setaffinity(0, sizeof chosen, &chosen);
}

// Reduces the influence of other processes, where that is permitted. Where the kernel's threads carry the messages, a
// spinning process has to make room for them at once: otherwise each message may wait for the end of a time slice.
void set_priority(bool busy_kernel) {
  const sched_param none{};
  if (busy_kernel)
    sched_setscheduler(0, SCHED_IDLE, &none);
  else
    setpriority(PRIO_PROCESS, 0, kHighestPriority);
}

// As in a container that denies it: process_vm_readv(2) fails with EPERM.
void deny_tracing() {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_process_vm_readv, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  const sock_fprog program{std::size(filter), filter};
  check("prctl", prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0));
  check("prctl", prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program));
}

pid_t start(Role role, const Workload& workload, const Measurement& measurement, int fd, unsigned limit_seconds) {
  std::fflush(nullptr);
  const pid_t pid = static_cast<pid_t>(check("fork", fork()));
  if (pid != 0) return pid;
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(limit_seconds);  // survives all threads of the library under test
  pin(role);
  set_priority(measurement.busy_kernel);
  if (measurement.untraced && !measurement.library.empty()) deny_tracing();
  Channel channel(fd);
  (role == Role::kServer ? workload.server : workload.client)(measurement, channel);
  std::fflush(nullptr);
  _exit(0);
}

int exit_code(int status) {
  if (WIFEXITED(status)) return WEXITSTATUS(status);
  fmt::print("fail ended by signal {} ({})\n", WTERMSIG(status), strsignal(WTERMSIG(status)));
  return 1;
}

// Exits without running destructors of a library in an unknown state.
[[noreturn]] void end(const char* word, const std::string& reason, int code) {
  fmt::print("{} {}\n", word, reason);
  std::fflush(stdout);
  _exit(code);
}

}  // namespace

void Channel::put(std::uint64_t value) {
  if (send(fd_, &value, sizeof value, MSG_NOSIGNAL) != sizeof value) _exit(1);
}

std::uint64_t Channel::get() {
  std::uint64_t value = 0;
  if (recv(fd_, &value, sizeof value, 0) != sizeof value) _exit(1);
  return value;
}

bool Channel::ready() const {
  pollfd p{fd_, POLLIN, 0};
  return poll(&p, 1, 0) != 0;
}

int run_pair(const Workload& workload, const Measurement& measurement, unsigned limit_seconds) {
  int ends[2];
  check("socketpair", socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends));
  pid_t pids[2] = {start(Role::kServer, workload, measurement, ends[0], limit_seconds),
                   start(Role::kClient, workload, measurement, ends[1], limit_seconds)};
  close(ends[0]);
  close(ends[1]);
  int result = 0;
  for (int left = 2; left > 0; --left) {
    int status = 0;
    const auto ended = static_cast<pid_t>(check("wait", wait(&status)));
    const int code = exit_code(status);
    if (result == 0) result = code;
    if (code != 0 && left == 2) kill(ended == pids[0] ? pids[1] : pids[0], SIGKILL);
    if (code != 0 && left == 2) left = 1, wait(nullptr);
  }
  return result;
}

void report(const char* metric, double value) {
  fmt::print("metric {} {}\n", metric, value);
  std::fflush(stdout);
}

void say(const char* line) {
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

void skip(const std::string& reason) {
  end("skip", reason, kExitSkipped);
}

void fail(const std::string& reason) {
  end("fail", reason, 1);
}

long check(const char* what, long result) {
  if (result == -1) fail(fmt::format("{}: {}", what, std::strerror(errno)));
  return result;
}

void reserve_descriptors(unsigned connections) {
  rlimit limit{};
  check("getrlimit", getrlimit(RLIMIT_NOFILE, &limit));
  limit.rlim_cur = limit.rlim_max;
  check("setrlimit", setrlimit(RLIMIT_NOFILE, &limit));
  if (limit.rlim_max < connections + kSpareDescriptors)
    skip(fmt::format("{} connections need more descriptors than the hard limit of {}", connections, limit.rlim_max));
}

void yield_if_shared() {
  if (core_is_shared) sched_yield();
}

std::uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<std::uint64_t>(now.tv_sec) * 1'000'000'000u + static_cast<std::uint64_t>(now.tv_nsec);
}

}  // namespace bench
