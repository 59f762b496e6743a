// SPDX-License-Identifier: BSD-2-Clause
// One end of a conversation in reliable datagrams between two hosts, of which one may die and whose wire may break;
// fi_endpoint(3) (FI_EP_RDM), fi_cq(3). It prints its observations, one line each, which reliable_hosts.sh evaluates.
//   reliable_peer serve                       returns every message to who introduced itself, until it is killed
//   reliable_peer talk ADDRESS PORT [PAUSE]   sends to the server there until sends fail, then until one arrives again;
//                                             with PAUSE it is silent for so many seconds first
// RELIABLE_PROVIDER, RELIABLE_ADDRESS, RELIABLE_PORT: see reliable_end.h. RELIABLE_LAST: the server does not come back.
// Lines: listening; talking; failed CODE: SENTENCE (the first one); sends POSTED DONE FAILED, within MS (since the last
// sign of life); back after MS. An operation that ends twice or not at all, or a wrong byte, ends the program with 1.
#include <arpa/inet.h>

#include <algorithm>

#include "reliable_end.h"

namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kSizes[] = {1, 64, 1000, 16'384, 65'536, 300'000};  // eager, segmented, rendezvous
constexpr size_t kLongest = 300'000;
constexpr size_t kWindow = 6;
constexpr unsigned kAnswers = 30;  // then it talks
constexpr uint64_t kIntroduction = 1, kQuestion = 2, kAnswer = 1000;
constexpr std::chrono::seconds kBound{60};

long ms_since(Clock::time_point start) {
  return static_cast<long>(std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - start).count());
}
char byte_of(uint64_t number, size_t at) {
  return static_cast<char>(number * 31 + at * 7 + (at >> 8));
}

struct Operation {
  fi_context2 context{};  // first
  std::vector<char> bytes;
  uint64_t number = 0;
  bool open = false;
};

// The outcome of one operation; null: none yet.
struct End {
  Operation* operation = nullptr;
  int error = 0;
  size_t len = 0;
  char sentence[300] = "";
};
End next(ReliableEnd& end) {
  End found;
  fi_cq_tagged_entry entry{};
  const ssize_t rc = fi_cq_read(end.cq, &entry, 1);
  if (rc == -FI_EAGAIN) return found;
  if (rc == 1) {
    found.operation = static_cast<Operation*>(entry.op_context);
    found.len = entry.len;
  } else {
    fi_cq_err_entry error{};
    if (rc != -FI_EAVAIL || fi_cq_readerr(end.cq, &error, 0) != 1) fail("fi_cq_read", rc);
    found.operation = static_cast<Operation*>(error.op_context);
    found.error = error.err;
    fi_cq_strerror(end.cq, error.prov_errno, error.err_data, found.sentence, sizeof found.sentence);
  }
  if (!found.operation->open) fail("an operation ended twice", -FI_EOTHER);
  found.operation->open = false;
  return found;
}

int serve() {
  ReliableEnd end(FI_TAGGED, 0);
  std::printf("listening\n");
  std::fflush(stdout);
  fi_addr_t peer = FI_ADDR_UNSPEC;
  std::vector<Operation> receives(kWindow), sends(20 * kWindow);
  Operation introduction;
  introduction.bytes.resize(200);
  const auto receive = [&](Operation& operation, uint64_t tag) {
    operation.open = true;
    ok(fi_trecv(end.ep, operation.bytes.data(), operation.bytes.size(), nullptr, FI_ADDR_UNSPEC, tag, 0, &operation),
       "fi_trecv");
  };
  receive(introduction, kIntroduction);
  for (Operation& each : receives) {
    each.bytes.resize(kLongest);
    receive(each, kQuestion);
  }
  for (;;) {
    const End done = next(end);
    if (done.operation == nullptr || done.error != 0) continue;
    if (done.operation == &introduction) {
      peer = end.insert(introduction.bytes.data());
      receive(introduction, kIntroduction);
    } else if (done.operation >= receives.data() && done.operation < receives.data() + kWindow) {
      // A send whose answer is not awaited any more is left behind.
      const auto room = std::find_if(sends.begin(), sends.end(), [](const Operation& each) { return !each.open; });
      if (room != sends.end() && peer != FI_ADDR_UNSPEC) {
        room->bytes.assign(done.operation->bytes.begin(), done.operation->bytes.begin() + static_cast<long>(done.len));
        const size_t len = room->bytes.size();
        room->open = fi_tsend(end.ep, room->bytes.data(), len, nullptr, peer, kAnswer, &*room) == 0;
      }
      receive(*done.operation, kQuestion);
    }
  }
}

class Talker {
 public:
  Talker(const char* address, const char* port) : sends_(2 * kWindow), receives_(kWindow) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(std::atoi(port)));
    inet_pton(AF_INET, address, &to.sin_addr);
    if (fi_av_insert(end_.av, &to, 1, &peer_, 0, nullptr) != 1) fail("fi_av_insert", -FI_EINVAL);
    name_ = end_.name();
    for (Operation& each : receives_) each.bytes.resize(kLongest);
  }

  // Messages in both directions until a send fails, then until all have ended.
  void talk_until_it_fails(std::chrono::seconds pause) {
    introduce();
    unsigned answers = 0;
    auto silent_until = Clock::time_point::max();
    auto sign = Clock::now();
    while (failed_ == 0) {
      if (Clock::now() - sign > kBound) fail("no failure", -FI_ETIMEDOUT);
      if (answers >= kAnswers && pause.count() > 0 && silent_until == Clock::time_point::max() && answers == asked_) {
        say("talking");
        silent_until = Clock::now() + pause;
        sign = silent_until;
      }
      for (Operation& each : sends_)
        if (!each.open && open_sends() < kWindow &&
            (answers < kAnswers || pause.count() == 0 || Clock::now() >= silent_until))
          ask(each);
      for (Operation& each : receives_)
        if (!each.open) receive(each);
      if (const End done = next(end_); done.operation != nullptr && done.error == 0 && is_receive(*done.operation)) {
        check(done);
        sign = Clock::now();
        if (++answers == kAnswers && pause.count() == 0) say("talking");
      } else {
        note(done);
      }
    }
    while (open_sends() != 0) {
      if (Clock::now() - sign > kBound) fail("sends without an end", -FI_ETIMEDOUT);
      note(next(end_));
    }
    std::printf("sends %u %u %u, within %ld ms\n", posted_, done_, failed_, ms_since(sign));
    std::fflush(stdout);
    if (posted_ != done_ + failed_) fail("sends that do not add up", -FI_EOTHER);
    for (Operation& each : receives_)
      if (each.open) fi_cancel(&end_.ep->fid, &each);
    while (std::any_of(receives_.begin(), receives_.end(), [](const Operation& each) { return each.open; })) {
      if (Clock::now() - sign > kBound) fail("receives without an end", -FI_ETIMEDOUT);
      next(end_);
    }
  }

  // The peer, or its successor, answers.
  void talk_until_it_works() {
    const auto start = Clock::now();
    while (Clock::now() - start < kBound) {
      failed_ = 0;
      introduce();
      Operation& receiving = receives_[0];
      if (!receiving.open) receive(receiving);
      if (failed_ == 0) ask(sends_[0]);
      const auto pause = Clock::now() + std::chrono::seconds(2);
      while (failed_ == 0 && (receiving.open || open_sends() != 0) && Clock::now() < pause + kBound) {
        if (const End done = next(end_); done.operation == &receiving && done.error == 0) {
          check(done);
          while (open_sends() != 0) note(next(end_));
          std::printf("back after %ld ms\n", ms_since(start));
          return;
        } else {
          note(done);
        }
        if (!receiving.open || Clock::now() < pause || open_sends() != 0) continue;
        break;  // the message was lost with a connection
      }
      while (open_sends() != 0) note(next(end_));
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
    fail("nobody is reached again", -FI_ETIMEDOUT);
  }

 private:
  static void say(const char* line) {
    std::puts(line);
    std::fflush(stdout);
  }
  bool is_receive(const Operation& each) const {
    return &each >= receives_.data() && &each < receives_.data() + kWindow;
  }
  size_t open_sends() const {
    return static_cast<size_t>(std::count_if(sends_.begin(), sends_.end(), [](const Operation& s) { return s.open; })) +
           introduction_.open;
  }
  void post(Operation& operation, const void* bytes, size_t len, uint64_t tag) {
    ssize_t rc;
    operation.open = true;
    while ((rc = fi_tsend(end_.ep, bytes, len, nullptr, peer_, tag, &operation)) == -FI_EAGAIN) note(next(end_));
    if (rc != 0) fail("fi_tsend", rc);
    ++posted_;
  }
  void introduce() {
    post(introduction_, name_.c_str(), name_.size() + 1, kIntroduction);
    while (introduction_.open) note(next(end_));
  }
  // The first byte determines the others.
  void ask(Operation& operation) {
    operation.number = ++asked_;
    operation.bytes.resize(kSizes[operation.number % std::size(kSizes)]);
    for (size_t at = 0; at < operation.bytes.size(); ++at) operation.bytes[at] = byte_of(operation.number, at);
    post(operation, operation.bytes.data(), operation.bytes.size(), kQuestion);
  }
  void receive(Operation& operation) {
    operation.open = true;
    ok(fi_trecv(end_.ep, operation.bytes.data(), kLongest, nullptr, FI_ADDR_UNSPEC, kAnswer, 0, &operation),
       "fi_trecv");
  }
  void check(const End& done) const {
    const std::vector<char>& bytes = done.operation->bytes;
    for (size_t at = 0; at < done.len; ++at)
      if (bytes[at] != static_cast<char>(bytes[0] + byte_of(0, at))) fail("a wrong byte", -FI_EIO);
  }
  void note(const End& done) {
    if (done.operation == nullptr || is_receive(*done.operation)) return;
    if (done.error == 0) {
      ++done_;
      return;
    }
    if (failed_++ == 0) {
      std::printf("failed %d: %s\n", done.error, done.sentence);
      std::fflush(stdout);
    }
  }

  ReliableEnd end_{FI_TAGGED, 0};
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  std::string name_;
  Operation introduction_;
  std::vector<Operation> sends_, receives_;
  uint64_t asked_ = 0;
  unsigned posted_ = 0, done_ = 0, failed_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "serve") == 0) return serve();
  if (argc < 4 || std::strcmp(argv[1], "talk") != 0) {
    std::fprintf(stderr, "usage: reliable_peer serve | talk ADDRESS PORT [PAUSE]\n");
    return 2;
  }
  Talker talker(argv[2], argv[3]);
  talker.talk_until_it_fails(std::chrono::seconds(argc > 4 ? std::atoi(argv[4]) : 0));
  if (std::getenv("RELIABLE_LAST") == nullptr) talker.talk_until_it_works();
  return 0;
}
