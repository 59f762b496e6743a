// SPDX-License-Identifier: BSD-2-Clause
// Sockets that were closed while bytes to their peers were on their way. The system answers what a peer sends to a
// closed socket with a reset, and a reset discards such bytes, so these sockets stay open for a while: until the peer
// has closed too, its system has everything, or kLongest has passed. What they receive is discarded.
//
// Owner: the engine, whose mutex guards them.
#pragma once

#include "tcp/engine.h"

namespace weft::tcp {

class LingeringSockets {
 public:
  explicit LingeringSockets(Engine& engine) noexcept : engine_(engine) {}
  // Gives the peers kLast to acknowledge what is left.
  ~LingeringSockets();

  // The socket's sending side is shut down.
  void add(UniqueFd socket) noexcept;

 private:
  static constexpr std::size_t kMost = 64;  // an engine has no more: the oldest one closes
  static constexpr std::chrono::milliseconds kFirstLook{50}, kLongest{1000}, kLast{10};

  struct Socket final : Watch, ListHook<Socket> {
    Socket(LingeringSockets& of, UniqueFd opened) noexcept;
    // Discards input. True: the peer has closed, or has everything.
    bool is_done() noexcept;
    void on_readable() noexcept;
    void wait_longer() noexcept;
    void close() noexcept;

    LingeringSockets& owner;
    const UniqueFd socket;
    Clock::duration waited{kFirstLook};  // when the next look is due
  };

  void close_done() noexcept;

  Engine& engine_;
  List<Socket> sockets_;
  std::size_t count_ = 0;
};

}  // namespace weft::tcp
