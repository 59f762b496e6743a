// SPDX-License-Identifier: BSD-2-Clause
// Acknowledgements of direct reads: datagrams between processes of one host, unix(7). They pass none of the network's
// layers, and do not make the connection's kernel acknowledge every message apart.
//
// Everybody on the host may write to a mailbox: a letter counts only with the proof that its connection's ends share.
// Owner: the endpoint. The engine's mutex guards it.
#pragma once

#include <array>
#include <cstdint>

#include "base/status.h"
#include "base/unique_fd.h"
#include "rxm/packet.h"

namespace weft::rxm {

struct Letter {
  Proof proof{};
  std::uint64_t message = 0;  // that its receiver has read
};

class Mailbox {
 public:
  Status open() noexcept;
  // -1 before open().
  int fd() const noexcept { return fd_.get(); }
  // Zeros before open().
  const MailboxName& name() const noexcept { return name_; }

  // False if the other one has no room, or is gone.
  bool post(const MailboxName& to, const Letter& letter) noexcept;
  // False if there is none.
  bool take(Letter& letter) noexcept;

 private:
  UniqueFd fd_;
  MailboxName name_{};
};

}  // namespace weft::rxm
