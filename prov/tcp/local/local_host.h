// SPDX-License-Identifier: BSD-2-Clause
// How two ends of a connection on one host begin to share memory (local_wire.h):
//
// 1. One end sends the name of its mailbox, a datagram socket of unix(7), and a token over the connection.
// 2. The other end sends a datagram with the token to that mailbox.
// 3. The first end creates the memory, and sends a datagram with its descriptor (SCM_RIGHTS) to the other end's
// mailbox.
//
// So the owner of the memory hands it over, and neither process needs the right to trace the other. After each datagram
// a message over the connection makes the receiver read its mailbox.
//
// Every process of the host may write to a mailbox. A datagram counts only with the token, which no third
// process has, and only from a process of our user: the system adds the sender's process and user to a datagram. So
// memory is neither given to another user's process nor taken from it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>

#include "base/list.h"
#include "base/unique_fd.h"

namespace weft::tcp {

// A mailbox's name in its network namespace, and the token of one connection; both are never 0.
struct Invitation {
  std::uint64_t mailbox = 0;
  std::uint64_t token = 0;
};

// A connection that expects a datagram. Owner: the transport.
class Recipient : public ListHook<Recipient> {
 public:
  // `memory`: none in the first datagram. `process`: the sender's; 0: it has no number here. `from`: the sender's
  // mailbox.
  virtual void on_datagram(UniqueFd memory, pid_t process, std::uint64_t from) noexcept = 0;
  std::uint64_t token = 0;

 protected:
  ~Recipient() = default;
};

// The mailbox of a domain, open from the first need on. Owner: the domain. The engine's mutex guards it.
class LocalHost {
 public:
  LocalHost() noexcept = default;
  ~LocalHost();
  LocalHost(const LocalHost&) = delete;
  LocalHost& operator=(const LocalHost&) = delete;

  // Expects a datagram with the token in the result; nullopt: this system has no mailboxes, or no random bytes.
  std::optional<Invitation> invite(Recipient& recipient) noexcept;
  // Sends a datagram; `memory` -1: without memory. 0 or -errno.
  int send(const Invitation& to, int memory) noexcept;
  void expect(Recipient& recipient, std::uint64_t token) noexcept;
  void read_mailbox() noexcept;

 private:
  bool open() noexcept;
  void deliver(std::uint64_t token, UniqueFd memory, pid_t process, std::uint64_t from) noexcept;

  UniqueFd fd_;
  std::uint64_t name_ = 0;
  bool failed_ = false;
  List<Recipient> expected_;
};

}  // namespace weft::tcp
