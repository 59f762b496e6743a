// SPDX-License-Identifier: BSD-2-Clause
// Statistics of numbered messages; see sequence_log.h.
#include "sequence_log.h"

#include <endian.h>

#include <algorithm>
#include <cstring>

namespace weft::tools {
namespace {

constexpr std::size_t kWords = Stamp::kSize / sizeof(uint64_t);

}  // namespace

void Stamp::store(std::byte* out) const noexcept {
  const uint64_t words[kWords] = {htole64(kMagic), htole64(run), htole64(sequence), htole64(sent_ns), htole64(total)};
  std::memcpy(out, words, sizeof words);
}

bool Stamp::load(const std::byte* in, std::size_t len) noexcept {
  if (len < kSize) return false;
  uint64_t words[kWords];
  std::memcpy(words, in, sizeof words);
  for (uint64_t& word : words) word = le64toh(word);
  if (words[0] != kMagic) return false;
  run = words[1];
  sequence = words[2];
  sent_ns = words[3];
  total = words[4];
  return true;
}

void SequenceLog::record(const Stamp& stamp, std::size_t len, uint64_t now_ns) {
  const uint64_t sequence = stamp.sequence;
  if (received_ == 0) {
    first_ = next_ = sequence;
    first_ns_ = now_ns;
  }
  if (sequence >= next_) {
    if (sequence - next_ >= kWindow) seen_.reset();
    for (uint64_t missing = std::max(next_, sequence - std::min(sequence, kWindow - 1)); missing < sequence; ++missing)
      seen_.reset(missing % kWindow);
    next_ = sequence + 1;
  } else if (sequence < first_) {
    first_ = sequence;  // the receiver joined in the middle of a reordered burst
    ++reordered_;
  } else if (next_ - sequence <= kWindow && seen_[sequence % kWindow]) {
    ++repeated_;
    return;
  } else {
    ++reordered_;
  }
  seen_.set(sequence % kWindow);
  total_ = stamp.total;
  ++received_;
  bytes_ += len;
  last_ns_ = now_ns;
  latencies_.record(now_ns > stamp.sent_ns ? now_ns - stamp.sent_ns : 0);
}

uint64_t SequenceLog::lost(bool finished) const noexcept {
  if (received_ == 0) return 0;
  const uint64_t end = finished ? std::max(next_, total_) : next_;
  const uint64_t expected = end - first_;
  return expected > received_ ? expected - received_ : 0;
}

}  // namespace weft::tools
