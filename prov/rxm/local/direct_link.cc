// SPDX-License-Identifier: BSD-2-Clause
// Reads of the peer's memory; see direct_link.h.
#include "rxm/local/direct_link.h"

#include <rdma/fi_errno.h>
#include <sys/random.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>

namespace weft::rxm {

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
  offer.place = reinterpret_cast<std::uintptr_t>(theirs_.proof.data());
  offer.proof = expected_;
  return offer;
}

void DirectLink::on_consent(const Wakeup& consent, pid_t sender) noexcept {
  if (!offered_ || consent.proof != expected_) return;
  consenting_ = sender;
  consents_from_ = consent.from;
  consents_to_ = consent.to;
}

void DirectLink::prove(const Address& ours, const Address& theirs) noexcept {
  if (state_ != State::kUnproven || consenting_ == 0) return;
  const bool proven = static_cast<std::uint32_t>(consenting_) == theirs_.process && ours && theirs &&
                      consents_from_ == theirs && consents_to_ == ours;
  state_ = proven ? State::kProven : State::kRefused;
  if (proven && theirs_.board != 0)
    (void)board_.open(static_cast<pid_t>(theirs_.process), theirs_.board, theirs_.slot);  // else the connection is used
}

Status DirectLink::read(std::span<const iovec> to, std::span<const iovec> from) noexcept {
  if (state_ != State::kProven || to.size() > kMaxPieces || from.size() > kMaxPieces) return Status(-FI_EINVAL);
  iovec local[kMaxPieces + 1], remote[kMaxPieces + 1];
  Proof found{};
  *std::copy(to.begin(), to.end(), local) = {found.data(), found.size()};
  // The proof is read last, so it covers all before it.
  *std::copy(from.begin(), from.end(), remote) = {reinterpret_cast<void*>(static_cast<std::uintptr_t>(theirs_.place)),
                                                  found.size()};
  std::size_t len = found.size();
  for (const iovec& piece : to) len += piece.iov_len;
  const ssize_t got =
      ::process_vm_readv(static_cast<pid_t>(theirs_.process), local, to.size() + 1, remote, from.size() + 1, 0);
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
  ::explicit_bzero(theirs_.proof.data(), theirs_.proof.size());
  std::atomic_thread_fence(std::memory_order_seq_cst);  // before memory is reused that the peer may be reading
  state_ = State::kRefused;
}

}  // namespace weft::rxm
