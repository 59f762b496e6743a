// SPDX-License-Identifier: BSD-2-Clause
// Responses to the peer's requests, and its accesses to registered memory, which end with the registration while the
// connection goes on; see responses.h, transmit_side.h and fi_mr(3).
#include "tcp/stream/responses.h"

#include <rdma/providers/fi_log.h>

#include <algorithm>
#include <cstring>

#include "tcp/logging.h"
#include "tcp/stream/gather.h"
#include "tcp/stream/transmit_side.h"

namespace weft::tcp {
namespace {

// In place of memory that is no longer registered.
alignas(64) constexpr std::byte kZeros[16 * 1024]{};

}  // namespace

void TransmitSide::on_refused(std::uint64_t number) noexcept {
  for (List<Transmit>* list : {&sending_, &awaiting(Then::kAwaitAck)})
    for (Transmit& record : *list) record.refused |= op_in(record) == Op::kWrite && record.write == number;
}

void TransmitSide::acknowledge(Acknowledgement& place) noexcept {
  acks_due_ += acks_.deliver(place);
  if (acks_due_ != 0 && state_ == State::kOpen) resume();
}

bool TransmitSide::try_respond(const DataHeader& header, std::span<const iovec> payload,
                               std::span<const fi_rma_iov> granted, std::uint64_t generation) noexcept {
  if (state_ != State::kOpen) return true;
  Transmit* record = records_.take();
  if (record == nullptr) return false;
  record->then = header.op == Op::kSwitch ? Then::kSwitch : Then::kRespond;
  record->inline_len = static_cast<std::uint16_t>(encode(header, record->inlined));
  record->len = record->inline_len + header.payload;
  record->status = header.has_status();
  record->region_generation = generation;
  if (record->status) record->len += kBaseHeaderSize;
  std::copy(payload.begin(), payload.end(), record->iov);
  record->iov_count = static_cast<std::uint8_t>(payload.size());
  // The granted ranges of a read are kept behind the header, to be checked again if a registration is closed meanwhile.
  static_assert(kBaseHeaderSize + sizeof header.rma <= kInlineSize);
  if (!granted.empty()) std::memcpy(record->inlined + kBaseHeaderSize, granted.data(), granted.size_bytes());
  record->reported = header.op == Op::kHalfShutdown;
  respond_with(*record);
  return true;
}

// A half shutdown counts as reported, so it queues after the application's messages. All other responses overtake them;
// a refusal comes before the acknowledgement of its write.
void TransmitSide::respond_with(Transmit& record) noexcept {
  count_response(record);
  if (record.reported) {
    queue_.push_back(record);
  } else if (op_in(record) == Op::kRefused) {
    responses_.push_front(record);
  } else {
    responses_.push_back(record);
  }
  resume();
}

// The response to a read fails once its memory is deregistered. If the peer may have received its length already, zeros
// replace the rest, and the status behind them reports the failure. Otherwise a response without data reports it.
bool TransmitSide::response_still_valid(Transmit& record) noexcept {
  if (record.iov_count == 0 || record.refused) return true;
  if (engine_.exits()) return true;  // see add_to()
  if (writes_wire()) engine_.note_offered();
  fi_rma_iov ranges[kMaxRmaIov];
  std::memcpy(ranges, record.inlined + kBaseHeaderSize, sizeof ranges);
  if (still_granted(std::span(ranges, record.iov_count), FI_REMOTE_READ, record.region_generation)) return true;
  const bool offered = has_offers(), begun = offered || record.sent != 0;
  if (!(begun ? record.status : refuses_)) {
    protocol_error("memory region closed while the peer was reading it");
    return false;
  }
  FI_WARN(&provider(), FI_LOG_EP_DATA, "memory region closed while the peer was reading it; its read fails\n");
  if (offered) revoke_offers();
  record.refused = true;
  if (begun) return true;
  const std::byte id = record.inlined[kIdOffset];
  encode({.op = Op::kReadResponse, .flags = kFlagRefused, .rma = {}}, record.inlined);
  record.inlined[kIdOffset] = id;
  record.len = record.inline_len;
  record.iov_count = 0;
  record.status = false;
  return true;
}

bool add_zeros(Gather& batch, std::size_t skip, std::size_t len) noexcept {
  for (std::size_t left = len - std::min(skip, len); left != 0;) {
    if (batch.full()) return false;
    const std::size_t piece = std::min(left, sizeof kZeros);
    batch.refer({const_cast<std::byte*>(kZeros), piece}, 0);
    left -= piece;
  }
  return true;
}

void add_status(Gather& batch, Transmit& record) noexcept {
  constexpr std::size_t kPlace = kBaseHeaderSize + kMaxRmaIov * sizeof(fi_rma_iov);
  static_assert(kPlace + kBaseHeaderSize <= kInlineSize);
  std::byte* const status = record.inlined + kPlace;
  encode({.op = Op::kReadStatus, .op_data = record.refused ? std::uint8_t{1} : std::uint8_t{0}, .rma = {}}, status);
  status[kIdOffset] = record.inlined[kIdOffset];
  const std::size_t begin = record.len - kBaseHeaderSize;
  const std::size_t skip = record.sent > begin ? record.sent - begin : 0;
  batch.copy(status + skip, kBaseHeaderSize - skip);
}

Result<std::size_t> translate(MemoryRegions& regions, std::span<const fi_rma_iov> ranges, std::uint64_t access,
                              iovec* out, std::uint64_t& generation) noexcept {
  const std::uint64_t since = std::exchange(generation, regions.generation());
  std::size_t total = 0;
  for (const fi_rma_iov& range : ranges) {
    Result<void*> address = regions.check(range.key, range.addr, range.len, access, since);
    if (!address) return failure(address.error());
    *out++ = {*address, range.len};
    if (__builtin_add_overflow(total, range.len, &total)) return failure(EPROTO);
  }
  return total;
}

bool TransmitSide::still_granted(std::span<const fi_rma_iov> ranges, std::uint64_t access,
                                 std::uint64_t& generation) noexcept {
  iovec iov[kMaxRmaIov];
  return generation == regions_.generation() || translate(regions_, ranges, access, iov, generation);
}

}  // namespace weft::tcp
