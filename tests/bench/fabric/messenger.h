// SPDX-License-Identifier: BSD-2-Clause
// Messages over one endpoint, as a careful application would write it: buffers registered and receives posted ahead of
// time, completions read in batches, small messages injected when the caller waits for an answer anyway. Governed by
// fi_msg(3), fi_cq(3). The first eight bytes of each message are its word: a sequence number or a flag.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "fabric/fabric_node.h"
#include "fabric/registered_buffer.h"

namespace bench {

class Messenger {
 public:
  // `depth` receives stay posted; as many sends may be outstanding, each from a slot of its own. `peer`: the
  // destination of datagrams.
  Messenger(const FabricNode& node, fid_ep* endpoint, std::size_t size, std::size_t depth,
            fi_addr_t peer = FI_ADDR_UNSPEC);

  // Sends with a completion from the next slot; waits while `depth` sends are outstanding.
  void send(std::uint64_t word);
  // Sends without a completion where the provider can inject that many bytes.
  void send_alone(std::uint64_t word);
  // Waits for the next message and returns its word. Its slot is posted again by release().
  std::uint64_t receive();
  // receive() if a message has arrived: completions are read at most once.
  std::optional<std::uint64_t> try_receive();
  void release() { post_receive(released_++ % depth_); }
  // Waits until every send that has a completion has completed.
  void drain();

 private:
  static constexpr std::size_t kBatch = 64;

  void post_receive(std::size_t slot);
  ssize_t post_send(std::size_t slot);
  void reap();
  void retry(ssize_t result, const char* what);

  const FabricNode& node_;
  fid_ep* endpoint_;
  fi_addr_t peer_;
  std::size_t out_prefix_;  // bytes in front of the message
  std::size_t in_prefix_;
  std::size_t out_size_;  // with them
  std::size_t in_size_;
  std::size_t depth_;
  unsigned completion_every_;
  bool tagged_;
  bool inject_;
  RegisteredBuffer outgoing_;
  RegisteredBuffer incoming_;
  std::uint64_t sent_ = 0;       // sends posted that have a completion, or are followed by one that has
  std::uint64_t completed_ = 0;  // sends known to have completed
  std::uint64_t arrived_ = 0;    // receives completed
  std::uint64_t taken_ = 0;      // receives handed to the caller
  std::uint64_t released_ = 0;   // receives posted again
};

}  // namespace bench
