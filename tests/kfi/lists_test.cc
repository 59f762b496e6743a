// SPDX-License-Identifier: BSD-2-Clause
// Random lists of memory in every form against plain copies: neighbours that merge, empty pieces, pieces that cross
// pages, more of them than the provider takes.
#include <algorithm>
#include <cstring>
#include <random>
#include <vector>

#include "connected.h"

namespace {

// Pieces of one block of memory: each begins behind the one before, at once or with a gap.
struct RandomList {
  std::vector<char> memory;
  std::vector<kvec> pieces;
  size_t bytes = 0;

  RandomList(size_t count, std::mt19937& random) : memory((count + 1) * 6000) {
    size_t at = random() % 5000;
    for (size_t i = 0; i < count; i++) {
      const size_t len = random() % 4 == 0 ? 0 : random() % (random() % 8 == 0 ? 5000 : 100);
      pieces.push_back({&memory[at], len});
      at += len + (random() % 2 == 0 ? 0 : 1 + random() % 500);
      bytes += len;
      if (at + 6000 > memory.size()) break;
    }
  }
  void set(const std::vector<char>& from) {
    const char* at = from.data();
    for (const kvec& piece : pieces) {
      std::copy(at, at + piece.iov_len, static_cast<char*>(piece.iov_base));
      at += piece.iov_len;
    }
  }
  kfi_msg in_form(kfi_iov_type type) {
    kfi_msg message{};
    message.type = type;
    message.iov_count = pieces.size();
    for (const kvec& piece : pieces) {
      const auto address = reinterpret_cast<uintptr_t>(piece.iov_base);
      const auto len = static_cast<unsigned>(piece.iov_len);
      biov.push_back({reinterpret_cast<page*>(address & ~4095ul), len, static_cast<unsigned>(address & 4095)});
      sgl.push_back({0, 0, len, address, len});
    }
    sgl.back().page_link = 2;
    if (type == KFI_KVEC) message.msg_iov = pieces.data();
    if (type == KFI_BVEC) message.msg_biov = biov.data();
    if (type == KFI_SGL) message.msg_sgl = sgl.data();
    return message;
  }

 private:
  std::vector<bio_vec> biov;
  std::vector<scatterlist> sgl;
};

TEST(RandomLists, ArriveAsCopiesWould) {
  Connected pair;
  std::mt19937 random(20);
  const auto form = [&] { return static_cast<kfi_iov_type>(KFI_KVEC + random() % 3); };
  for (int round = 0; round < 300; round++) {
    RandomList from(1 + random() % 256, random), to(1 + random() % 256, random);
    std::vector<char> data(std::min(from.bytes, to.bytes));
    for (char& byte : data) byte = static_cast<char>(random());
    // As many bytes as both have: what the sender has beyond them is cut off from its last pieces.
    size_t left = data.size();
    for (kvec& piece : from.pieces) left -= piece.iov_len = std::min(piece.iov_len, left);
    from.set(data);
    std::vector<char> wanted = to.memory;
    size_t done = 0;
    for (const kvec& piece : to.pieces) {
      const size_t len = std::min(piece.iov_len, data.size() - done);
      if (len != 0) memcpy(&wanted[static_cast<char*>(piece.iov_base) - to.memory.data()], &data[done], len);
      done += len;
    }
    kfi_msg receive = to.in_form(form()), message = from.in_form(form());
    ASSERT_EQ(kfi_recvmsg(pair.ep(1), &receive, KFI_COMPLETION), 0);
    ASSERT_EQ(kfi_sendmsg(pair.ep(0), &message, KFI_COMPLETION), 0);
    next(pair.cq(0));
    EXPECT_EQ(next(pair.cq(1)).len, data.size()) << round;
    ASSERT_TRUE(to.memory == wanted) << "round " << round;
  }
}

}  // namespace
