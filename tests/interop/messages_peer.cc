// SPDX-License-Identifier: BSD-2-Clause
// One end of a conversation between reliable datagrams (fi_tagged(3)): messages of all protocols and lengths, several
// at once, taken in another order than they were sent in, expected or not. The program is linked with the
// distribution's libfabric; LD_LIBRARY_PATH decides which library each end really uses.
//   messages_peer server           prints its name, then plays its part
//   messages_peer client NAME      plays the other part
// MESSAGE_SIZES in the environment of both has the lengths ("1 100 16385"), MESSAGES_AT_ONCE how many go together. The
// first deviation ends the program with a sentence and code 1.
#include <algorithm>
#include <sstream>

#include "reliable_end.h"

namespace {

// Around the limits of injection, of a packet, and of segmented messages.
constexpr char kSizes[] = "0 1 64 65 128 129 16383 16384 16385 16448 16449 100000 131071 131072 131073 1048577";
constexpr uint64_t kGo = 1000, kIntroduction = 1001;

struct Slot {
  fi_context2 context{};
  std::vector<char> bytes;
};

const char* setting(const char* name, const char* otherwise) {
  const char* set = std::getenv(name);
  return set != nullptr ? set : otherwise;
}
const size_t kAtOnce = std::strtoul(setting("MESSAGES_AT_ONCE", "5"), nullptr, 10);

// The repeated contents of a message.
std::vector<char> block_of(uint64_t tag, size_t size) {
  std::vector<char> block(131'071);
  for (size_t at = 0; at < block.size(); ++at) block[at] = static_cast<char>(tag * 31 + size + at * 7 + (at >> 9));
  return block;
}
template <class Visit>
void for_each_block(size_t len, size_t block, Visit visit) {
  for (size_t at = 0; at < len; at += block) visit(at, std::min(block, len - at));
}

// Messages that are outstanding together differ in length.
size_t length_of(size_t size, uint64_t tag) {
  return size == 0 ? 0 : size - std::min<size_t>(size - 1, 7 * tag);
}

// The caller waits for the completion.
void send(ReliableEnd& end, fi_addr_t peer, uint64_t tag, const void* bytes, size_t len) {
  const ssize_t rc = end.post([&] { return fi_tsend(end.ep, bytes, len, nullptr, peer, tag, &end.context); });
  if (rc != 0) fail("fi_tsend", rc);
}
size_t receive(ReliableEnd& end, uint64_t tag, void* bytes, size_t len) {
  if (const ssize_t rc = fi_trecv(end.ep, bytes, len, nullptr, FI_ADDR_UNSPEC, tag, 0, &end.context); rc != 0)
    fail("fi_trecv", rc);
  fi_cq_tagged_entry entry{};
  if (const int error = end.next(entry); error != 0) fail("a receive", -error);
  return entry.len;
}

void wait_for_all(ReliableEnd& end, size_t count, const char* what) {
  fi_cq_tagged_entry entry{};
  for (; count > 0; --count)
    if (const int error = end.next(entry); error != 0) fail(what, -error);
}

void send_all(ReliableEnd& end, fi_addr_t peer, size_t size, bool expected) {
  std::vector<Slot> slots(kAtOnce);
  if (expected) receive(end, kGo, nullptr, 0);
  for (uint64_t tag = 0; tag < kAtOnce; ++tag) {
    Slot& slot = slots[tag];
    slot.bytes.resize(length_of(size, tag));
    const size_t len = slot.bytes.size(), part = len / 3;
    const std::vector<char> block = block_of(tag, size);
    for_each_block(len, block.size(),
                   [&](size_t at, size_t n) { std::memcpy(slot.bytes.data() + at, block.data(), n); });
    const iovec iov[] = {{slot.bytes.data(), part}, {slot.bytes.data() + part, len - part}};
    const fi_msg_tagged message{iov, nullptr, 2, peer, tag, 0, &slot.context, 0};
    const bool injected = tag % 2 == 1 && len <= end.inject_size;
    const uint64_t flags = FI_COMPLETION | (injected ? FI_INJECT : 0);
    const ssize_t rc = end.post([&] { return fi_tsendmsg(end.ep, &message, flags); });
    if (rc != 0) fail("fi_tsendmsg", rc);
    if (injected) std::fill(slot.bytes.begin(), slot.bytes.end(), '#');
  }
  if (!expected) send(end, peer, kGo, nullptr, 0);
  wait_for_all(end, kAtOnce + (expected ? 0 : 1), "a send");
}

// `expected`: the receives are posted first.
void receive_all(ReliableEnd& end, fi_addr_t peer, size_t size, bool expected) {
  std::vector<Slot> slots(kAtOnce);
  if (!expected) receive(end, kGo, nullptr, 0);
  for (uint64_t tag = kAtOnce; tag-- > 0;) {
    Slot& slot = slots[tag];
    slot.bytes.assign(length_of(size, tag) + 100, 'x');
    const iovec iov[] = {{slot.bytes.data(), slot.bytes.size() / 2},
                         {slot.bytes.data() + slot.bytes.size() / 2, slot.bytes.size() - slot.bytes.size() / 2}};
    const fi_msg_tagged message{iov, nullptr, 2, FI_ADDR_UNSPEC, tag, 0, &slot.context, 0};
    if (const ssize_t rc = fi_trecvmsg(end.ep, &message, FI_COMPLETION); rc != 0) fail("fi_trecvmsg", rc);
  }
  if (expected) send(end, peer, kGo, nullptr, 0);
  wait_for_all(end, kAtOnce + (expected ? 1 : 0), "a receive");
  for (uint64_t tag = 0; tag < kAtOnce; ++tag) {
    const size_t len = length_of(size, tag);
    const std::vector<char> block = block_of(tag, size), behind(100, 'x');
    const char* const bytes = slots[tag].bytes.data();
    const auto check = [&](size_t at, const std::vector<char>& right, size_t n) {
      if (std::memcmp(bytes + at, right.data(), n) == 0) return;
      std::fprintf(stderr, "%s, %zu bytes, tag %u: wrong bytes from %zu on\n", expected ? "expected" : "unexpected",
                   len, static_cast<unsigned>(tag), at);
      std::exit(1);
    };
    for_each_block(len, block.size(), [&](size_t at, size_t n) { check(at, block, n); });
    check(len, behind, behind.size());
  }
}

// Only these roles receive unexpected messages: release 1.17's net does not handle several correctly.
bool takes_unexpected(const char* role) {
  const char* roles = std::getenv("TAKE_UNEXPECTED");
  return roles == nullptr || std::strstr(roles, role) != nullptr;
}

void play(ReliableEnd& end, fi_addr_t peer, bool leads) {
  std::vector<size_t> sizes;
  for (std::istringstream words(setting("MESSAGE_SIZES", kSizes)); words >> sizes.emplace_back();) continue;
  sizes.pop_back();
  for (const bool expected : {true, false})
    for (const size_t size : sizes)
      for (const bool sends : {leads, !leads})
        if (expected || takes_unexpected(sends == leads ? "server" : "client"))
          (sends ? send_all : receive_all)(end, peer, size, expected);
}

int serve() {
  ReliableEnd end(FI_TAGGED, 0);
  std::printf("%s\n", end.name().c_str());
  std::fflush(stdout);
  char name[200]{};
  receive(end, kIntroduction, name, sizeof name - 1);
  const fi_addr_t peer = end.insert(name);
  play(end, peer, false);
  send(end, peer, kGo, nullptr, 0);  // the last one to send: this end needs the other no more
  wait_for_all(end, 1, "the end");
  return 0;
}

int ask(const char* name) {
  ReliableEnd end(FI_TAGGED, 0);
  const fi_addr_t peer = end.insert(name);
  const std::string own = end.name();
  send(end, peer, kIntroduction, own.c_str(), own.size() + 1);
  wait_for_all(end, 1, "the introduction");
  play(end, peer, true);
  receive(end, kGo, nullptr, 0);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "server") == 0) return serve();
  if (argc == 3 && std::strcmp(argv[1], "client") == 0) return ask(argv[2]);
  std::fprintf(stderr, "usage: messages_peer server | client NAME\n");
  return 2;
}
