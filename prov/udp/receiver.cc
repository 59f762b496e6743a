// SPDX-License-Identifier: BSD-2-Clause
// The receiving side of an endpoint; see receiver.h.
#include "udp/receiver.h"

namespace weft::udp {

ssize_t Receiver::post(std::span<const iovec> iov, void* context, uint64_t flags) noexcept {
  if (const ssize_t result = queue.post({.iov = iov, .context = context, .flags = flags}); result != 0) return result;
  while (!kept_.empty() && !queue.empty()) {
    const KeptDatagrams::Kept kept = kept_.first();
    queue.deliver(kept.datagram, {.len = kept.datagram.size(), .name = name_of(kept.source)}, routes_);
    kept_.drop_first();
  }
  return 0;
}

void Receiver::received(std::span<const std::byte> datagram, const Address& source, fi_addr_t name,
                        const void* from) noexcept {
  if (!queue.deliver(datagram, {.len = datagram.size(), .name = name}, routes_)) kept_.push(datagram, source, from);
}

}  // namespace weft::udp
