// SPDX-License-Identifier: BSD-2-Clause
// One end of a conversation between reliable datagrams (fi_tagged(3)): messages of all protocols and lengths, several
// at once, taken in another order than they were sent in, expected or not. The program is linked with the
// distribution's libfabric; LD_LIBRARY_PATH decides which library each end really uses.
//   messages_peer server           prints its name, then plays its part
//   messages_peer client NAME      plays the other part
// The first deviation ends the program with a sentence and code 1.
#include "reliable_end.h"

namespace {

constexpr size_t kSizes[] = {0, 1, 16384, 16385, 100'000, 131072, 131073, (1 << 20) + 1};
constexpr size_t kAtOnce = 5;
constexpr uint64_t kGo = 1000, kIntroduction = 1001;

struct Slot {
  fi_context2 context{};
  std::vector<char> bytes;
};

char byte_of(uint64_t tag, size_t size, size_t at) {
  return static_cast<char>(tag * 31 + size + at * 7 + (at >> 9));
}

// Messages that are under way together differ in length.
size_t length_of(size_t size, uint64_t tag) {
  return size == 0 ? 0 : size - std::min<size_t>(size - 1, 7 * tag);
}

// Its completion is one more to wait for.
void tell(ReliableEnd& end, fi_addr_t peer, uint64_t tag, const void* bytes, size_t len) {
  const ssize_t rc = end.post([&] { return fi_tsend(end.ep, bytes, len, nullptr, peer, tag, &end.context); });
  if (rc != 0) fail("fi_tsend", rc);
}
size_t hear(ReliableEnd& end, uint64_t tag, void* bytes, size_t len) {
  if (const ssize_t rc = fi_trecv(end.ep, bytes, len, nullptr, FI_ADDR_UNSPEC, tag, 0, &end.context); rc != 0)
    fail("fi_trecv", rc);
  fi_cq_tagged_entry entry{};
  if (const int error = end.next(entry); error != 0) fail("hearing", -error);
  return entry.len;
}

void wait_for_all(ReliableEnd& end, size_t count, const char* what) {
  fi_cq_tagged_entry entry{};
  for (; count > 0; --count)
    if (const int error = end.next(entry); error != 0) fail(what, -error);
}

void send_all(ReliableEnd& end, fi_addr_t peer, size_t size, bool expected) {
  std::vector<Slot> slots(kAtOnce);
  if (expected) hear(end, kGo, nullptr, 0);
  for (uint64_t tag = 0; tag < kAtOnce; ++tag) {
    Slot& slot = slots[tag];
    slot.bytes.resize(length_of(size, tag));
    const size_t len = slot.bytes.size(), part = len / 3;
    for (size_t at = 0; at < len; ++at) slot.bytes[at] = byte_of(tag, size, at);
    const iovec iov[] = {{slot.bytes.data(), part}, {slot.bytes.data() + part, len - part}};
    const fi_msg_tagged message{iov, nullptr, 2, peer, tag, 0, &slot.context, 0};
    const ssize_t rc = end.post([&] { return fi_tsendmsg(end.ep, &message, FI_COMPLETION); });
    if (rc != 0) fail("fi_tsendmsg", rc);
  }
  if (!expected) tell(end, peer, kGo, nullptr, 0);
  wait_for_all(end, kAtOnce + (expected ? 0 : 1), "a send");
}

// `expected`: the receives are there first.
void receive_all(ReliableEnd& end, fi_addr_t peer, size_t size, bool expected) {
  std::vector<Slot> slots(kAtOnce);
  if (!expected) hear(end, kGo, nullptr, 0);
  for (uint64_t tag = kAtOnce; tag-- > 0;) {
    Slot& slot = slots[tag];
    slot.bytes.assign(length_of(size, tag) + 100, 'x');
    const iovec iov[] = {{slot.bytes.data(), slot.bytes.size() / 2},
                         {slot.bytes.data() + slot.bytes.size() / 2, slot.bytes.size() - slot.bytes.size() / 2}};
    const fi_msg_tagged message{iov, nullptr, 2, FI_ADDR_UNSPEC, tag, 0, &slot.context, 0};
    if (const ssize_t rc = fi_trecvmsg(end.ep, &message, FI_COMPLETION); rc != 0) fail("fi_trecvmsg", rc);
  }
  if (expected) tell(end, peer, kGo, nullptr, 0);
  wait_for_all(end, kAtOnce + (expected ? 1 : 0), "a receive");
  for (uint64_t tag = 0; tag < kAtOnce; ++tag) {
    const size_t len = length_of(size, tag);
    for (size_t at = 0; at < len + 100; ++at)
      if (slots[tag].bytes[at] != (at < len ? byte_of(tag, size, at) : 'x')) {
        std::fprintf(stderr, "%s, %zu bytes, tag %u: byte %zu is wrong\n", expected ? "expected" : "unexpected", len,
                     static_cast<unsigned>(tag), at);
        std::exit(1);
      }
  }
}

// Only these roles take messages that they did not expect: release 1.17's net does not get several right.
bool takes_unexpected(const char* role) {
  const char* roles = std::getenv("TAKE_UNEXPECTED");
  return roles == nullptr || std::strstr(roles, role) != nullptr;
}

void play(ReliableEnd& end, fi_addr_t peer, bool leads) {
  for (const bool expected : {true, false})
    for (const size_t size : kSizes)
      for (const bool sends : {leads, !leads})
        if (expected || takes_unexpected(sends == leads ? "server" : "client"))
          (sends ? send_all : receive_all)(end, peer, size, expected);
}

int serve() {
  ReliableEnd end(FI_TAGGED, 0);
  std::printf("%s\n", end.name().c_str());
  std::fflush(stdout);
  char name[200]{};
  hear(end, kIntroduction, name, sizeof name - 1);
  const fi_addr_t peer = end.insert(name);
  play(end, peer, false);
  tell(end, peer, kGo, nullptr, 0);  // the last to send: nothing of ours needs the other end any more
  wait_for_all(end, 1, "the end");
  return 0;
}

int ask(const char* name) {
  ReliableEnd end(FI_TAGGED, 0);
  const fi_addr_t peer = end.insert(name);
  const std::string own = end.name();
  tell(end, peer, kIntroduction, own.c_str(), own.size() + 1);
  wait_for_all(end, 1, "the introduction");
  play(end, peer, true);
  hear(end, kGo, nullptr, 0);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "server") == 0) return serve();
  if (argc == 3 && std::strcmp(argv[1], "client") == 0) return ask(argv[2]);
  std::fprintf(stderr, "usage: messages_peer server | client NAME\n");
  return 2;
}
