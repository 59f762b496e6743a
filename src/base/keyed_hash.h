// SPDX-License-Identifier: BSD-2-Clause
// A pseudo-random function of numbers, for keys that peers must not compute from other keys: SipHash-2-4 of one word
// (Aumasson and Bernstein, 2012) with a random secret; getrandom(2).
#pragma once

#include <sys/random.h>

#include <bit>
#include <chrono>
#include <cstdint>

namespace weft {

// Immutable, so any thread may call it.
class KeyedHash {
 public:
  KeyedHash() noexcept {
    if (::getrandom(secret_, sizeof secret_, GRND_NONBLOCK) != sizeof secret_)
      secret_[0] = static_cast<std::uint64_t>(std::chrono::steady_clock::now().time_since_epoch().count());
  }
  KeyedHash(std::uint64_t first, std::uint64_t second) noexcept : secret_{first, second} {}

  std::uint64_t operator()(std::uint64_t number) const noexcept {
    constexpr std::uint64_t kLength = std::uint64_t{sizeof number} << 56;
    State state{secret_[0] ^ 0x736f6d6570736575, secret_[1] ^ 0x646f72616e646f6d, secret_[0] ^ 0x6c7967656e657261,
                secret_[1] ^ 0x7465646279746573};
    state.take(number);
    state.take(kLength);
    state.c ^= 0xff;
    for (int i = 0; i < 4; ++i) state.round();
    return state.a ^ state.b ^ state.c ^ state.d;
  }

 private:
  struct State {
    std::uint64_t a, b, c, d;

    void round() noexcept {
      a += b;
      c += d;
      b = std::rotl(b, 13) ^ a;
      d = std::rotl(d, 16) ^ c;
      a = std::rotl(a, 32);
      c += b;
      a += d;
      b = std::rotl(b, 17) ^ c;
      d = std::rotl(d, 21) ^ a;
      c = std::rotl(c, 32);
    }
    void take(std::uint64_t word) noexcept {
      d ^= word;
      round();
      round();
      a ^= word;
    }
  };

  std::uint64_t secret_[2]{};
};

}  // namespace weft
