// SPDX-License-Identifier: BSD-2-Clause
// Reads of the peer's memory; see direct_link.h.
#include "rxm/local/direct_link.h"

#include <rdma/fi_errno.h>
#include <sys/random.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace weft::rxm {
namespace {

std::uint64_t place_of(const void* memory) noexcept {
  return reinterpret_cast<std::uintptr_t>(memory);
}
iovec memory_at(std::uint64_t place, std::size_t len) noexcept {
  return {reinterpret_cast<void*>(static_cast<std::uintptr_t>(place)), len};
}

}  // namespace

std::optional<DirectOffer> direct_offer(const void* data, std::size_t len, std::size_t behind) noexcept {
  DirectOffer offer;
  if (len < behind + sizeof offer) return std::nullopt;
  std::memcpy(&offer, static_cast<const std::byte*>(data) + behind, sizeof offer);
  if (offer.magic != kDirectMagic) return std::nullopt;
  return offer;
}

std::optional<DirectOffer> DirectLink::offer() noexcept {
  if (::getrandom(expected_.data(), expected_.size(), GRND_NONBLOCK) != static_cast<ssize_t>(expected_.size()))
    return std::nullopt;
  offered_ = true;
  DirectOffer offer;
  offer.process = static_cast<std::uint32_t>(::getpid());
  offer.place = place_of(kept_.data());
  offer.proof = expected_;
  return offer;
}

void DirectLink::accept(const DirectOffer& offer) noexcept {
  process_ = offer.process;
  place_ = offer.place;
  kept_ = offer.proof;
  mailbox_ = offer.mailbox;
  board_descriptor_ = offer.board;
  slot_ = offer.slot;
}

void DirectLink::on_consent(const Wakeup& consent, pid_t sender) noexcept {
  if (!offered_ || consent.proof != expected_) return;
  consenting_ = sender;
  consents_from_ = consent.from;
  consents_to_ = consent.to;
}

void DirectLink::prove(const Address& ours, const Address& theirs) noexcept {
  if (state_ != State::kUnproven || consenting_ == 0) return;
  const bool proven = static_cast<std::uint32_t>(consenting_) == process_ && ours && theirs &&
                      consents_from_ == theirs && consents_to_ == ours;
  state_ = proven ? State::kProven : State::kRefused;
  if (proven && board_descriptor_ != 0)
    (void)board_.open(static_cast<pid_t>(process_), board_descriptor_, slot_);  // else the connection is used
}

Status DirectLink::read(std::span<const iovec> to, std::span<const iovec> from) noexcept {
  if (state_ != State::kProven || to.size() > kMaxPieces || from.size() > kMaxPieces) return Status(-FI_EINVAL);
  iovec local[kMaxPieces + 1], remote[kMaxPieces + 1];
  Proof found{};
  *std::copy(to.begin(), to.end(), local) = {found.data(), found.size()};
  *std::copy(from.begin(), from.end(), remote) = memory_at(place_, found.size());  // last, so it covers all before it
  std::size_t len = found.size();
  for (const iovec& piece : to) len += piece.iov_len;
  const ssize_t got =
      ::process_vm_readv(static_cast<pid_t>(process_), local, to.size() + 1, remote, from.size() + 1, 0);
  Status status;
  if (got < 0)
    status = Status::last_errno();
  else if (static_cast<std::size_t>(got) != len)
    status = Status(-FI_EFAULT);
  else if (found != expected_)
    status = Status(-FI_ECONNRESET);
  if (!status.ok()) state_ = State::kRefused;
  return status;
}

void DirectLink::end() noexcept {
  ::explicit_bzero(kept_.data(), kept_.size());
  std::atomic_thread_fence(std::memory_order_seq_cst);  // before memory is reused that the peer may be reading
  state_ = State::kRefused;
}

}  // namespace weft::rxm
