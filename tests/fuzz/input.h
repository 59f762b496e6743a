// SPDX-License-Identifier: BSD-2-Clause
// A fuzzer's input, consumed from the front. Reads beyond the end return zero or nothing, so every input is valid.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>

namespace weft::fuzz {

class Input {
 public:
  Input(const uint8_t* data, std::size_t size) : data_(data), size_(size) {}

  template <class T>
  T take() {
    T value{};
    take_bytes(&value, sizeof value);
    return value;
  }
  void take_bytes(void* to, std::size_t size) {
    const std::size_t count = std::min(size, size_);
    if (count > 0) std::memcpy(to, data_, count);
    data_ += count;
    size_ -= count;
  }
  bool take_flag() { return (take<uint8_t>() & 1) != 0; }
  // Up to the next zero byte.
  std::string take_string() {
    const void* end = size_ == 0 ? nullptr : std::memchr(data_, 0, size_);
    const std::size_t count =
        end == nullptr ? size_ : static_cast<std::size_t>(static_cast<const uint8_t*>(end) - data_);
    std::string text(reinterpret_cast<const char*>(data_), count);
    data_ += std::min(count + 1, size_);
    size_ -= std::min(count + 1, size_);
    return text;
  }
  bool empty() const { return size_ == 0; }

 private:
  const uint8_t* data_;
  std::size_t size_;
};

}  // namespace weft::fuzz

// An expectation that holds in every build.
#define WEFT_FUZZ_CHECK(condition)      \
  do {                                  \
    if (!(condition)) __builtin_trap(); \
  } while (0)
