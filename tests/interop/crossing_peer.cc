// SPDX-License-Identifier: BSD-2-Clause
// One of two processes whose ends of reliable datagrams send to each other at the same moment, so that their requests
// for a connection cross; fi_cm(3). Every round has a fresh pair of ends. LD_LIBRARY_PATH decides whose library it is.
//   crossing_peer lead|follow ROUNDS    standard input and output lead to the other process
// The first deviation ends the program with a sentence and code 1.
#include <fcntl.h>
#include <unistd.h>

#include <ctime>
#include <utility>

#include "reliable_end.h"

namespace {

constexpr size_t kLengths[] = {64, 100'000};
constexpr size_t kCount = std::size(kLengths);

uint64_t now_ns() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<uint64_t>(now.tv_sec) * 1'000'000'000 + static_cast<uint64_t>(now.tv_nsec);
}

void tell(const std::string& line) {
  const std::string bytes = line + "\n";
  if (write(STDOUT_FILENO, bytes.data(), bytes.size()) != static_cast<ssize_t>(bytes.size())) fail("write", -FI_EIO);
}
// Makes progress meanwhile, because the other end may need this one.
std::string receive(ReliableEnd& end, bool progress = true) {
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  std::string line;
  while (std::chrono::steady_clock::now() < deadline) {
    char byte = 0;
    const ssize_t count = read(STDIN_FILENO, &byte, 1);
    if (count == 0) fail("the other process", -FI_ECONNRESET);
    if (count == 1 && byte == '\n') return line;
    if (count == 1)
      line += byte;
    else if (progress)
      fi_cq_read(end.cq, nullptr, 0);
    else
      std::this_thread::yield();
  }
  fail("the other process", -FI_ETIMEDOUT);
}

// Returns at a moment soon after both ends have reached this point; the follower is early or late by a bit.
void meet(ReliableEnd& end, bool leads, unsigned round) {
  uint64_t moment = 0;
  if (leads) {
    receive(end);
    moment = now_ns() + 1'000'000;
    tell(std::to_string(moment));
  } else {
    tell("ready");
    moment = std::stoull(receive(end)) + round % 5 * 20'000 - 40'000;
  }
  while (now_ns() < moment) continue;
}

void run_round(ReliableEnd& end, bool leads, unsigned round) {
  end.open_endpoint();
  tell(end.name());
  const fi_addr_t peer = end.insert(receive(end).c_str());
  std::vector<char> in[kCount], out[kCount];
  fi_context2 contexts[2 * kCount]{};
  for (size_t i = 0; i < kCount; ++i) {
    in[i].assign(kLengths[i], 0);
    out[i].assign(kLengths[i], static_cast<char>(round + 2 * i + leads));
    ok(fi_trecv(end.ep, in[i].data(), in[i].size(), nullptr, FI_ADDR_UNSPEC, i, 0, &contexts[i]), "fi_trecv");
  }
  const auto send = [&](size_t i) {
    return fi_tsend(end.ep, out[i].data(), out[i].size(), nullptr, peer, i, &contexts[kCount + i]);
  };
  meet(end, leads, round);
  size_t sent = 0;
  if (round % 2 == 0) {
    const ssize_t rc = send(0);
    if (rc != 0 && rc != -FI_EAGAIN) fail("fi_tsend", rc);
    if (rc == 0) ++sent;
    tell("asked");
    receive(end, false);
  }
  for (; sent < kCount; ++sent)
    if (const ssize_t rc = end.post([&] { return send(sent); }); rc != 0) fail("fi_tsend", rc);
  bool seen[2 * kCount]{};
  for (size_t i = 0; i < 2 * kCount; ++i) {
    fi_cq_tagged_entry entry{};
    if (const int error = end.next(entry); error != 0) fail("a completion", -error);
    const auto which = static_cast<size_t>(static_cast<fi_context2*>(entry.op_context) - contexts);
    if (which >= 2 * kCount || std::exchange(seen[which], true)) fail("a completion for nothing", -FI_EOTHER);
  }
  for (size_t i = 0; i < kCount; ++i)
    if (in[i] != std::vector<char>(kLengths[i], static_cast<char>(round + 2 * i + !leads)))
      fail("what arrived", -FI_EIO);
  tell("done");
  receive(end);
  ok(fi_close(&end.ep->fid), "fi_close");
}

}  // namespace

int main(int argc, char** argv) {
  const bool leads = argc == 3 && std::strcmp(argv[1], "lead") == 0;
  if (argc != 3 || (!leads && std::strcmp(argv[1], "follow") != 0)) {
    std::fprintf(stderr, "usage: crossing_peer lead|follow ROUNDS\n");
    return 2;
  }
  fcntl(STDIN_FILENO, F_SETFL, fcntl(STDIN_FILENO, F_GETFL) | O_NONBLOCK);
  ReliableEnd end(FI_TAGGED, 0);
  ok(fi_close(&end.ep->fid), "fi_close");  // only the domain is needed
  for (unsigned round = 0; round < std::strtoul(argv[2], nullptr, 10); ++round) run_round(end, leads, round);
  return 0;
}
