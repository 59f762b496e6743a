// SPDX-License-Identifier: BSD-2-Clause
// Messages over one queue pair, as an expert would write them for speed: work requests prebuilt, small payloads inline,
// completions polled in batches and, where the measurement allows it, requested only as often as the queue needs. See
// ibv_post_send(3), ibv_poll_cq(3).
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>
#include <cstdint>

#include "verbs/device_node.h"
#include "verbs/registered_memory.h"

namespace bench {

// How a side sends: at most `window` work requests outstanding, every `signal_every`th of them with a completion.
struct SendPolicy {
  unsigned window;
  unsigned signal_every;
};

// For a side that waits for an answer each time: inline data needs no completion to free its slot.
SendPolicy lone_messages(const Measurement& m);
// For a side that keeps its window full.
SendPolicy many_messages(const Measurement& m);

// Work requests of one kind on one queue pair, and the count of those that have completed. They complete in order, so a
// completion stands for all before it.
class SendQueue {
 public:
  SendQueue(const DeviceNode& node, ibv_wr_opcode opcode, std::size_t size, SendPolicy policy);

  bool full() const { return posted_ - completed_ == policy_.window; }
  bool idle() const { return completed_ == signalled_; }  // all work requests with a completion have completed
  std::uint64_t posted() const { return posted_; }

  // For RDMA: the place in the peer's memory.
  void aim(std::uint64_t address, std::uint32_t key) {
    request_.wr.rdma.remote_addr = address;
    request_.wr.rdma.rkey = key;
  }
  void post(std::uint64_t address, std::uint32_t lkey);
  void on_completion(const ibv_wc& completion) { completed_ = completion.wr_id; }

 private:
  ibv_qp* qp_;
  SendPolicy policy_;
  ibv_sge piece_{};
  ibv_send_wr request_{};
  std::uint64_t posted_ = 0;
  std::uint64_t signalled_ = 0;  // number of the last one with a completion
  std::uint64_t completed_ = 0;  // number of the last one known to have completed
};

[[noreturn]] void fail_with_completion(const ibv_wc& completion);

class VerbsLink {
 public:
  // `depth` receives stay posted, and as many slots are sent from.
  VerbsLink(const DeviceNode& node, std::size_t size, unsigned depth, SendPolicy policy);

  // The interface that message_workloads.h requires.
  void send(std::uint64_t word);
  void send_alone(std::uint64_t word) { send(word); }
  std::uint64_t receive();
  void release() { post_receive(released_++ % depth_); }
  void drain();

 private:
  static constexpr int kBatch = 16;

  void post_receive(std::size_t slot);
  void reap();

  const DeviceNode& node_;
  unsigned depth_;
  RegisteredMemory outgoing_;
  RegisteredMemory incoming_;
  SendQueue sends_;
  ibv_sge piece_{};
  ibv_recv_wr request_{};
  std::uint64_t arrived_ = 0;   // receives completed
  std::uint64_t taken_ = 0;     // receives handed to the caller
  std::uint64_t released_ = 0;  // receives posted again
};

}  // namespace bench
