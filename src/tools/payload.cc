// SPDX-License-Identifier: BSD-2-Clause
// The checked content of messages; see payload.h.
#include "payload.h"

#include <algorithm>
#include <cstring>

namespace weft::tools {
namespace {

constexpr char kCircle[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
constexpr std::size_t kLength = sizeof kCircle - 1;
constexpr uint64_t kStride = 7;

// Calls what(offset, text, length) for each run of the circle, until it answers false.
template <class What>
void for_each_run(std::size_t size, uint64_t number, What what) {
  std::size_t place = number * kStride % kLength;
  for (std::size_t done = 0; done < size;) {
    const std::size_t run = std::min(kLength - place, size - done);
    if (!what(done, kCircle + place, run)) return;
    done += run;
    place = 0;
  }
}

}  // namespace

void fill_payload(std::span<std::byte> message, uint64_t number) {
  for_each_run(message.size(), number, [&](std::size_t offset, const char* text, std::size_t length) {
    std::memcpy(message.data() + offset, text, length);
    return true;
  });
}

std::optional<std::size_t> payload_fault(std::span<const std::byte> message, uint64_t number) {
  std::optional<std::size_t> fault;
  for_each_run(message.size(), number, [&](std::size_t offset, const char* text, std::size_t length) {
    if (std::memcmp(message.data() + offset, text, length) == 0) return true;
    const char* bytes = reinterpret_cast<const char*>(message.data() + offset);
    fault = offset + static_cast<std::size_t>(std::mismatch(bytes, bytes + length, text).first - bytes);
    return false;
  });
  return fault;
}

}  // namespace weft::tools
