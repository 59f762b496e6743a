// SPDX-License-Identifier: BSD-2-Clause
// Reading the memory of a process of the same host, process_vm_readv(2): what the two ends of a connection have to know
// of each other for it, and the proof that it is the other end's memory; docs/decisions/0012-direct-reads.md.
//
// Each end chooses sixteen bytes that the other one keeps at a place of its own. A read is one system call that ends
// with these bytes: what came with them was the memory of an end whose connection was alive, whoever may have that
// process number by now. Before the first read the system says that the process holds the other end of our connection:
// nobody can send us to read somebody else's memory.
#pragma once

#include <sys/uio.h>

#include <cstddef>
#include <optional>
#include <span>

#include "base/status.h"
#include "objects/address.h"
#include "rxm/notice_board.h"
#include "rxm/packet.h"

namespace weft::rxm {

// The offer that follows `behind` bytes of what the other end said when connecting, if one does.
std::optional<DirectOffer> direct_offer(const void* data, std::size_t len, std::size_t behind) noexcept;

// One end of a connection; belongs to the channel and must not move. The engine's mutex guards it.
class DirectLink {
 public:
  static constexpr std::size_t kMaxPieces = 8;  // of one read, on either side

  DirectLink() noexcept = default;
  DirectLink(const DirectLink&) = delete;
  DirectLink& operator=(const DirectLink&) = delete;
  ~DirectLink() { end(); }

  // What to tell the other end. Nothing if the system has no random bytes.
  std::optional<DirectOffer> offer() noexcept;
  // What the other end told us.
  void accept(const DirectOffer& offer) noexcept;
  // Both ends made their offers: the other one hears of places in our memory, and we may try what we hear.
  bool mutual() const noexcept { return offered_ && process_ != 0; }

  // Shows that the process that made the offer is the other end; `ours` and `theirs` are the connection's addresses.
  Status prove(const Address& ours, const Address& theirs) noexcept;
  enum class State { kUnproven, kProven, kRefused };
  State state() const noexcept { return state_; }

  // Copies `from`, places in the other end's memory, to `to`, which is as long. After a failure what `to` holds means
  // nothing, and nothing is read any more.
  Status read(std::span<const iovec> to, std::span<const iovec> from) noexcept;

  // The other end's board, if it is proven and has one that we can get at; else null, as from the moment on, any
  // moment, that it closes the connection: ask once.
  PeerBoard* board() noexcept { return board_.is_ours(expected_) ? &board_ : nullptr; }
  // What the other end knows its lane on our board by.
  const Proof& kept() const noexcept { return kept_; }

  // What goes with an acknowledgement to the other end, and what it has to bring along.
  const MailboxName& mailbox() const noexcept { return mailbox_; }
  const Proof& expected() const noexcept { return expected_; }
  bool keeps(const Proof& proof) const noexcept { return mutual() && kept_ == proof && proof != Proof{}; }

  // From here on the other end's reads fail, also those that are under way.
  void end() noexcept;

 private:
  Proof kept_{};      // the other end looks for it
  Proof expected_{};  // we look for it at the other end
  std::uint32_t process_ = 0;
  std::uint64_t place_ = 0;
  MailboxName mailbox_{};
  int board_descriptor_ = 0;
  std::uint8_t lane_ = kNoLane;
  PeerBoard board_;
  bool offered_ = false;
  State state_ = State::kUnproven;
};

}  // namespace weft::rxm
