// SPDX-License-Identifier: BSD-2-Clause
// Reads of the memory of a process of the same host, process_vm_readv(2): the data that both ends exchange for it, and
// the proof that the memory is the peer's; docs/decisions/0012-direct-reads.md.
//
// Each end chooses sixteen bytes, the proof, that the peer keeps in its memory. A read is one system call that reads
// the proof last: if it is right, the bytes before it are those of a process whose connection was open, even if another
// process has that number by now. Before the first read the process has to consent: it names both ends of the
// connection in a datagram, to which the system adds its number. So a peer cannot direct us to the memory of a third
// process, even if it hands that process the socket or relays its consent to another connection.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <optional>
#include <span>

#include "base/status.h"
#include "objects/address.h"
#include "rxm/local/mailbox.h"
#include "rxm/local/notice_board.h"
#include "rxm/messages/packet.h"

namespace weft::rxm {

// The offer that follows `behind` bytes of the peer's private data, if there is one.
std::optional<DirectOffer> direct_offer(const void* data, std::size_t len, std::size_t behind) noexcept;

// One end of a connection. Owner: the channel. Must not move. The engine's mutex guards it.
class DirectLink {
 public:
  static constexpr std::size_t kMaxPieces = 8;  // most pieces of one read, on either side

  DirectLink() noexcept = default;
  DirectLink(const DirectLink&) = delete;
  DirectLink& operator=(const DirectLink&) = delete;
  ~DirectLink() { end(); }

  // The offer for the peer; nullopt if the system has no random bytes.
  std::optional<DirectOffer> offer() noexcept;
  // Takes the peer's offer.
  void accept(const DirectOffer& offer) noexcept { theirs_ = offer; }
  // Both ends made offers: each sends addresses of its memory, and may read at those that it receives.
  bool mutual() const noexcept { return offered_ && theirs_.process != 0; }

  // A process consents to be read over some connection.
  void on_consent(const Wakeup& consent, pid_t sender) noexcept;
  // Checks that the process that made the offer has consented for the connection between `ours` and `theirs`. Without
  // any consent the state stays kUnproven.
  void prove(const Address& ours, const Address& theirs) noexcept;
  bool consented = false;  // the peer has our consent
  enum class State { kUnproven, kProven, kRefused };
  State state() const noexcept { return state_; }

  // Copies `from`, ranges of the peer's memory, to `to`, which is as long. After a failure the contents of `to` are
  // undefined, and further reads fail.
  Status read(std::span<const iovec> to, std::span<const iovec> from) noexcept;

  // The peer's board, if it is proven and accessible; else null. The peer may close the connection at any moment, after
  // which this is null too, so an operation calls it once.
  PeerBoard* board() noexcept { return board_.is_ours(expected_) ? &board_ : nullptr; }
  // The peer recognises its slot on our board by this.
  const Proof& kept() const noexcept { return theirs_.proof; }

  // The destination of an acknowledgement to the peer, and the proof that it contains.
  const MailboxName& mailbox() const noexcept { return theirs_.mailbox; }
  const Proof& expected() const noexcept { return expected_; }
  bool keeps(const Proof& proof) const noexcept { return mutual() && kept() == proof && proof != Proof{}; }

  // From now on the peer's reads fail, including those under way.
  void end() noexcept;

 private:
  DirectOffer theirs_;  // the peer reads the proof in it
  Proof expected_{};    // we read it in the peer's memory
  pid_t consenting_ = 0;
  Address consents_from_, consents_to_;
  PeerBoard board_;
  bool offered_ = false;
  State state_ = State::kUnproven;
};

}  // namespace weft::rxm
