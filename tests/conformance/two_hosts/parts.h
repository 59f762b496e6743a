// SPDX-License-Identifier: BSD-2-Clause
// Both processes of a sentence about two hosts meet, and the server plays its part.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "fixture/member.h"
#include "fixture/node.h"
#include "two_hosts/control.h"

namespace two_hosts {

inline constexpr size_t kRegion = 100'000;
inline constexpr int kMessages = 200;
inline constexpr int kAtOnce = 50;  // receives that every provider queues
inline constexpr uint64_t kFirstTag = 1, kSecondTag = 2, kData = 42;
inline constexpr size_t kSize = 512;

extern const HintsEditor kRma, kTagged, kPlain;

// Throws for an unknown part, and where the part fails.
void play(const std::string& part, const Target& target, Control& control);

// The length of message `index`: from 1 byte to some times the eager limit of usual providers.
size_t message_length(int index);

// An end that can reach the other one: by a connection, which the client requests, or through its address vector.
class End {
 public:
  enum class Side { kClient, kServer };
  End(const Target& target, Control& control, Side side, const HintsEditor& edit);
  ~End() { node_.reset(); }

  const Fabric& fabric() const { return fabric_; }
  Node& node() { return datagrams_ ? **datagrams_ : *node_; }
  void expect_sent();
  void send_pattern(Buffer& buffer, size_t length, unsigned seed);
  void expect_pattern(Buffer& buffer, size_t length, unsigned seed);

 private:
  Fabric fabric_;
  std::optional<Listener> listener_;
  std::unique_ptr<Node> node_;
  std::optional<DatagramEnd> datagrams_;
};

// An address as a line, and back.
std::string to_line(const Address& address);
Address from_line(const std::string& line);

}  // namespace two_hosts
