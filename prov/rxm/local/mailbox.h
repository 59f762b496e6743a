// SPDX-License-Identifier: BSD-2-Clause
// Consents to direct reads and acknowledgements of them: datagrams between processes of one host, unix(7). They bypass
// the layers of the network, and save a TCP acknowledgement per message.
//
// Every process of the host may write to a mailbox: a wakeup is valid only with the proof of its connection. The system
// adds the number of the sending process.
// Owner: the endpoint. The engine's mutex guards it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <type_traits>

#include "base/status.h"
#include "base/unique_fd.h"
#include "objects/address.h"
#include "rxm/messages/packet.h"

namespace weft::rxm {

struct Wakeup {
  Proof proof{};
  std::uint64_t message = 0;  // the number of a message that was read; 0: news on the board; or kConsent
  Address from{}, to{};       // kConsent: the ends of the connection, the sender's first
};
inline constexpr std::uint64_t kConsent = ~std::uint64_t{0};
static_assert(sizeof(Wakeup) == 80 && std::is_trivially_copyable_v<Wakeup>);

class Mailbox {
 public:
  Status open() noexcept;
  // -1 before open().
  int fd() const noexcept { return fd_.get(); }
  // Zeros before open().
  const MailboxName& name() const noexcept { return name_; }

  // False if the destination has no room, or does not exist.
  bool post(const MailboxName& to, const Wakeup& wakeup) noexcept;
  // False if the mailbox is empty. `sender`: the process; 0: not one of our process namespace.
  bool take(Wakeup& wakeup, pid_t& sender) noexcept;

 private:
  UniqueFd fd_;
  MailboxName name_{};
};

}  // namespace weft::rxm
