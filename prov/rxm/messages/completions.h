// SPDX-License-Identifier: BSD-2-Clause
// The lower provider's completion queue of an endpoint: each entry goes to the part whose operation it was; fi_cq(3).
#pragma once

#include "rxm/messages/receiver.h"

namespace weft::rxm {

// Owner: the endpoint. The engine's mutex guards it.
class Completions {
 public:
  Completions(EndpointServices& services, PostedBuffers& posted, Sender& sender, Rendezvous& rendezvous,
              Receiver& receiver) noexcept
      : services_(services), posted_(posted), sender_(sender), rendezvous_(rendezvous), receiver_(receiver) {}

  // Replaces the queue; nothing may be bound to it.
  void use(Lower<fid_cq> queue) noexcept { queue_ = std::move(queue); }
  fid_cq* queue() const noexcept { return queue_.get(); }

  // Returns the number of entries found.
  [[gnu::always_inline]] std::size_t read() noexcept {
    fi_cq_tagged_entry entries[kBatch];
    const ssize_t count = fi_cq_read(queue_.get(), entries, kBatch);
    return count == -FI_EAGAIN ? 0 : handle(entries, count);
  }
  // Reads all that is in the queue now.
  void drain() noexcept;

 private:
  static constexpr ssize_t kBatch = 32;  // completions per lower read

  std::size_t handle(fi_cq_tagged_entry* entries, ssize_t count) noexcept;
  void on_completion(const fi_cq_tagged_entry& entry) noexcept;
  void read_failure() noexcept;
  void on_unreadable(int error) noexcept;
  void on_end(Work& work, int error) noexcept;
  void on_failed_receive(PostedBuffer& posted, int error) noexcept;

  EndpointServices& services_;
  PostedBuffers& posted_;
  Sender& sender_;
  Rendezvous& rendezvous_;
  Receiver& receiver_;
  Lower<fid_cq> queue_;
  bool unreadable_ = false;
};

}  // namespace weft::rxm
