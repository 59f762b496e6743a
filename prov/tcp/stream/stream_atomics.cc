// SPDX-License-Identifier: BSD-2-Clause
// Atomic operations on a stream of reliable datagrams: the arrays of a peer's request are collected, then the operation
// is carried out as a whole; responses are in the order of the requests; fi_atomic(3).
#include <cstring>

#include "tcp/stream/stream.h"

namespace weft::tcp {

// ---- The target ----

// False: too many responses are queued for the peer.
bool Stream::begin_atomic() noexcept {
  if (!has_atomics_) {
    protocol_error("atomic operation, although the handshake excluded them");
    return true;
  }
  if (!has_room_for_response()) return false;
  if (atomic_ == nullptr) atomic_.reset(new (std::nothrow) ArrivingAtomic);
  if (atomic_ == nullptr) {
    end(ENOMEM);
    return true;
  }
  rdm::AtomicRange ranges[kMaxRmaIov];
  for (std::size_t i = 0; i < header_.rma_count; ++i)
    ranges[i] = {header_.rma[i].addr, header_.rma[i].len, header_.rma[i].key};
  const AtomicWords words = AtomicWords::of(header_.tag);
  if (words.packed() != header_.tag ||
      !atomic_->demand.read({words.kind, words.datatype, words.operation}, {ranges, header_.rma_count}, header_.payload,
                            kMaxAtomicBytes)) {
    protocol_error("malformed atomic operation");
    return true;
  }
  const iovec iov{atomic_->arrays, static_cast<std::size_t>(header_.payload)};
  set_sink(Sink::kAtomic, {&iov, 1});
  sink_generation_ = regions_.generation();
  return true;
}

void Stream::finish_atomic() noexcept {
  DataHeader answer;
  answer.op = Op::kAtomicAnswer;
  Transmit* record = records_.take();
  if (record == nullptr) return end(ENOMEM);
  record->then = Then::kRespond;
  const std::size_t len = atomic_->demand.result_len(), head = answer.size();
  if (len > kInjectSize && !record->make_copy(len)) {
    records_.give_back(record);
    return end(ENOMEM);
  }
  std::byte* const results = len > kInjectSize ? record->copy.get() : record->inlined + head;
  const int status = atomic_->demand.execute(regions_, routes_, atomic_->arrays, results, sink_generation_);
  answer.tag = static_cast<std::uint64_t>(-status);
  answer.payload = status == 0 ? len : 0;
  if (status != 0) record->copy.reset();
  encode(answer, record->inlined);
  record->len = head + answer.payload;
  record->inline_len = static_cast<std::uint16_t>(record->copy != nullptr ? head : record->len);
  respond_with(*record);
}

// ---- The origin ----

void Stream::begin_atomic_answer() noexcept {
  Transmit* request = oldest_awaiting(Then::kAwaitAtomic);
  if (request == nullptr) return protocol_error("atomic response without a request");
  const std::span<const iovec> results(request->iov, request->iov_count);
  constexpr std::uint64_t kGreatestStatus = 4095;
  if (header_.tag > kGreatestStatus || header_.payload != (header_.tag == 0 ? total_length(results) : 0))
    return protocol_error("atomic response that does not fit its request");
  begin_answer(*request);
  set_sink(Sink::kAtomicAnswer, results);
}

void Stream::finish_atomic_answer() noexcept {
  Transmit& request = take_answered();
  if (header_.tag == 0) return complete(request);
  const int error = static_cast<int>(header_.tag);
  fail_record(request, error, error);
}

}  // namespace weft::tcp
