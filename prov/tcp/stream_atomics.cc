// SPDX-License-Identifier: BSD-2-Clause
// Atomic operations on a stream of reliable datagrams: the arrays of a peer's request are collected, then all of it is
// carried out at once and answered; answers come in the order of the requests; fi_atomic(3).
#include <cstring>

#include "tcp/reliable_channel.h"
#include "tcp/stream.h"

namespace weft::tcp {

// ---- The target ----

// False: too many answers wait for the peer to take them.
bool Stream::begin_atomic() noexcept {
  if (channel_ == nullptr || !channel_->has_atomics()) {
    protocol_error("an atomic operation from a peer that did not say that it has them");
    return true;
  }
  if (response_count_ >= kMaxResponses) return false;
  ArrivingAtomic* arriving = channel_->arriving_atomic();
  if (arriving == nullptr) {
    end(ENOMEM);
    return true;
  }
  rdm::AtomicRange ranges[kMaxRmaIov];
  for (std::size_t i = 0; i < header_.rma_count; ++i)
    ranges[i] = {header_.rma[i].addr, header_.rma[i].len, header_.rma[i].key};
  const AtomicWords words = AtomicWords::of(header_.tag);
  if (words.packed() != header_.tag ||
      !arriving->demand.read({words.kind, words.datatype, words.operation}, {ranges, header_.rma_count},
                             header_.payload, kMaxAtomicBytes)) {
    protocol_error("an atomic operation that makes no sense");
    return true;
  }
  const iovec iov{arriving->arrays, static_cast<std::size_t>(header_.payload)};
  set_sink(Sink::kAtomic, {&iov, 1});
  return true;
}

void Stream::finish_atomic() noexcept {
  const ArrivingAtomic& arriving = *channel_->arriving_atomic();
  DataHeader answer;
  answer.op = Op::kAtomicAnswer;
  Transmit* record = pools_.transmits.take();
  if (record == nullptr) return end(ENOMEM);
  record->then = Then::kRespond;
  const std::size_t len = arriving.demand.result_len(), head = answer.size();
  if (len > kInjectSize && !record->make_copy(len)) {
    pools_.transmits.give_back(record);
    return end(ENOMEM);
  }
  std::byte* const results = len > kInjectSize ? record->copy.get() : record->inlined + head;
  const int status = arriving.demand.carry_out(regions_, routes_, arriving.arrays, results);
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
  if (awaiting_atomics_.empty()) return protocol_error("an answer to no atomic operation");
  Transmit& request = awaiting_atomics_.front();
  const std::span<const iovec> results(request.iov, request.iov_count);
  constexpr std::uint64_t kGreatestStatus = 4095;
  if (header_.tag > kGreatestStatus || header_.payload != (header_.tag == 0 ? total_length(results) : 0))
    return protocol_error("an answer that does not fit its atomic operation");
  request.unlink();
  reading_ = &request;
  set_sink(Sink::kAtomicAnswer, results);
}

void Stream::finish_atomic_answer() noexcept {
  Transmit& request = *std::exchange(reading_, nullptr);
  if (header_.tag == 0) return complete(request);
  const int error = static_cast<int>(header_.tag);
  fail_record(request, error, error);
}

}  // namespace weft::tcp
