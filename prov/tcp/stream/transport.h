// SPDX-License-Identifier: BSD-2-Clause
// The bytes of a connection: through its socket, or, once the ends have agreed on that, through memory that both share
// (local_wire.h). The socket then carries wake-ups only, and shows when the peer closes or dies.
//
// The ends agree within the stream (data_header.h): one sends Op::kMailbox, the other answers with a datagram, which
// proves that it is a process of the same user, and the first hands the memory over. Each end sends Op::kSwitch as the
// last bytes of its direction that go through the socket.
//
// Owner: the stream, as its base. The engine's mutex guards it.
#pragma once

#include <sys/uio.h>

#include <cerrno>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>

#include "base/unique_fd.h"
#include "objects/address.h"
#include "tcp/engine.h"
#include "tcp/local/local_host.h"
#include "tcp/local/local_wire.h"
#include "tcp/socket.h"

namespace weft::tcp {

class Transport : public Watch {
 public:
  // Memory may be shared: the peer supports it. `active`: this end requested the connection.
  void allow_wire(bool active) noexcept {
    allowed_ = true;
    active_ = active;
  }
  Engine& engine() const noexcept { return engine_; }
  // PeerMemoryOps.
  bool is_readable() const noexcept { return writes_wire_ && wire_->wire->is_readable(); }
  Status read_peer(std::span<const iovec> to, std::uint64_t from, std::size_t len) noexcept {
    return reads_wire_ ? wire_->wire->read_peer(to, from, len) : Status(-FI_EOPNOTSUPP);
  }

 protected:
  Transport(Watch::Handler ready, Watch::Handler deadline_passed, Engine& engine) noexcept
      : Watch(ready, deadline_passed), engine_(engine) {}
  ~Transport() = default;

  void open_socket(UniqueFd socket) noexcept { socket_ = std::move(socket); }
  // Before close(): nothing that was sent is lost.
  void close_gently() noexcept;
  void close() noexcept;

  // Bytes sent, or -errno; -EAGAIN: await_output(), then the same bytes again.
  ssize_t send(const void* data, std::size_t len) noexcept {
    const iovec piece{const_cast<void*>(data), len};
    return writes_wire_ ? write_wire({&piece, 1}, true) : net::send(socket_.get(), data, len);
  }
  // `may_offer`: see LocalWire.
  ssize_t send(std::span<const iovec> pieces, bool may_offer = true) noexcept {
    return writes_wire_ ? write_wire(pieces, may_offer)
                        : net::sendv(socket_.get(), pieces.data(), static_cast<int>(pieces.size()));
  }
  // Bytes received, 0 at the end of the stream, or -errno.
  ssize_t receive(void* data, std::size_t len) noexcept {
    const iovec piece{data, len};
    return reads_wire_ ? read_wire({&piece, 1}) : net::recv(socket_.get(), data, len);
  }
  ssize_t receive(std::span<const iovec> pieces) noexcept {
    return reads_wire_ ? read_wire(pieces) : net::recvv(socket_.get(), pieces.data(), static_cast<int>(pieces.size()));
  }
  // The watch becomes writable when there is room again.
  void await_output() noexcept;
  // The stream's handler runs: the memory is polled in every round again.
  void attend() noexcept {
    if (wire_ == nullptr) return;
    if (!wire_->linked()) [[unlikely]]
      engine_.poll_wire(*wire_);
    if (wire_->wakes_again) [[unlikely]]
      wake_peer();
  }
  // While paused, arriving bytes do not make the watch ready, since they cannot be handled.
  void pause_input(bool paused) noexcept;

  // Bytes go through memory, in this direction.
  bool reads_wire() const noexcept { return reads_wire_; }
  bool writes_wire() const noexcept { return writes_wire_; }
  bool has_input() const noexcept { return reads_wire_ && wire_->wire->has_input(); }
  bool has_offers() const noexcept { return writes_wire_ && wire_->wire->has_offers(); }
  void revoke_offers() noexcept { wire_->wire->revoke_offers(); }  // if it has_offers()
  // More pieces may be offered although the watch is not writable; see LocalWire.
  bool may_offer() const noexcept { return writes_wire_ && wire_->wire->may_offer(); }
  // Looks for room in the memory at once, in the overflow as well.
  void use_overflow() noexcept;
  // The other end of the memory has closed or died.
  bool is_abandoned() noexcept { return wire_->wire->peer_closed() || read_signals() != -EAGAIN; }
  // The peer has fetched offered bytes, which need not be sent again; see LocalWire::settle().
  bool has_fetched() const noexcept { return writes_wire_ && wire_->wire->is_settled(); }
  ssize_t take_fetched() noexcept { return wire_->wire->settle(); }

  // Bytes have arrived: whether to propose() now. Only when all of them were read: the peer may have closed after
  // them, and a proposal would make its system drop what it has not sent yet. If it closes now, its socket lingers.
  bool may_propose() noexcept {
    if (!allowed_ || proposed_) return false;
    if (runs_ != kRunsBeforeProposal) ++runs_;
    return runs_ == kRunsBeforeProposal && !readable && net::is_read_empty(socket_.get());
  }
  // Returns what to send in Op::kMailbox; nullopt: nothing.
  std::optional<Invitation> propose(LocalHost& host) noexcept;
  // Op::kMailbox arrived. The next step of this end:
  enum class Step : std::uint8_t { kNothing, kAnnounceDatagram, kProposeAgain, kSwitch, kFail };
  Step on_mailbox(LocalHost& host, const Invitation& at) noexcept;
  // Op::kSwitch arrived.
  Step on_switch() noexcept;
  // Op::kSwitch was sent.
  void switch_output() noexcept;

  Engine& engine_;

 private:
  static constexpr std::uint8_t kRunsBeforeProposal = 4;  // connections that exchange less share no memory
  static constexpr std::uint8_t kMostTries = 64;
  struct Handover final : Recipient {
    void on_datagram(UniqueFd with, pid_t sender, std::uint64_t mailbox) noexcept override {
      memory = std::move(with);
      process = sender;
      from = mailbox;
    }
    UniqueFd memory;
    pid_t process = 0;
    std::uint64_t from = 0;  // 0: no datagram came
  };

  Step on_announced_datagram(LocalHost& host) noexcept;
  Step give_memory(LocalHost& host) noexcept;
  Step attach() noexcept;
  Step give_up(Status why) noexcept;
  bool is_within_host() const noexcept;
  bool adopt(std::unique_ptr<LocalWire> made) noexcept;
  ssize_t write_wire(std::span<const iovec> pieces, bool may_offer) noexcept;
  ssize_t read_wire(std::span<const iovec> pieces) noexcept;
  ssize_t read_signals() noexcept;
  void wake_peer() noexcept;
  void test_peer_access() noexcept;

  UniqueFd socket_;
  std::uint8_t tries_ = 0;     // to share memory
  std::uint8_t runs_ : 3 = 0;  // with input, before a proposal
  bool allowed_ : 1 = false;
  bool active_ : 1 = false;
  bool proposed_ : 1 = false;
  bool invited_ : 1 = false;  // handover_ is for the other end's proposal
  bool created_ : 1 = false;  // this end created the memory
  bool reads_wire_ = false;
  bool writes_wire_ = false;
  std::unique_ptr<Handover> handover_;  // null: none is expected
  std::unique_ptr<WireWatch> wire_;
};

}  // namespace weft::tcp
