// SPDX-License-Identifier: BSD-2-Clause
// Datagrams that wait for receives; see kept_datagrams.h.
#include "udp/kept_datagrams.h"

#include <cstring>
#include <new>

namespace weft::udp {

KeptDatagrams::Header KeptDatagrams::header_at(std::size_t position) const noexcept {
  Header header;
  std::memcpy(static_cast<void*>(&header), bytes_.data() + position, sizeof header);
  return header;
}

void KeptDatagrams::push(std::span<const std::byte> datagram, const Address& source, const void* origin) noexcept {
  const Header header{source, origin, datagram.size()};
  const auto* start = reinterpret_cast<const std::byte*>(&header);
  const std::size_t size = bytes_.size();
  try {
    bytes_.reserve(size + sizeof header + datagram.size());
  } catch (const std::bad_alloc&) {
    return;
  }
  bytes_.insert(bytes_.end(), start, start + sizeof header);
  bytes_.insert(bytes_.end(), datagram.begin(), datagram.end());
}

KeptDatagrams::Kept KeptDatagrams::first() const noexcept {
  const Header header = header_at(next_);
  return {{bytes_.data() + next_ + sizeof header, header.len}, header.source};
}

void KeptDatagrams::drop_first() noexcept {
  next_ += sizeof(Header) + header_at(next_).len;
  if (!empty()) return;
  bytes_.clear();  // the memory stays for the next time
  next_ = 0;
}

void KeptDatagrams::drop_from(const void* origin) noexcept {
  std::size_t kept = 0;
  for (std::size_t at = next_; at != bytes_.size();) {
    const Header header = header_at(at);
    const std::size_t size = sizeof header + header.len;
    if (header.origin != origin) {
      std::memmove(bytes_.data() + kept, bytes_.data() + at, size);
      kept += size;
    }
    at += size;
  }
  bytes_.resize(kept);
  next_ = 0;
}

}  // namespace weft::udp
