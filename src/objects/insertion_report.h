// SPDX-License-Identifier: BSD-2-Clause
// Reports the results of one insertion into an address vector, in order: handles, FI_SYNC_ERR's array or the event
// queue; fi_av(3).
#pragma once

#include <rdma/fi_domain.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "base/status.h"
#include "objects/event_queue.h"

namespace weft {

// One insertion call: the places for its results.
struct Insertion {
  fid_t fid;
  fi_addr_t* handles;  // may be null; user ids on input with FI_AV_USER_ID
  uint64_t flags;
  void* context;
};

class InsertionReport {
 public:
  // `events`: null for a synchronous call. `indices`: the handles of the addresses, in their order.
  InsertionReport(const Insertion& call, EventQueueCore* events, std::vector<uint64_t> indices) noexcept
      : call_(call),
        events_(events),
        errors_((call.flags & FI_SYNC_ERR) != 0 ? static_cast<int*>(call.context) : nullptr),
        indices_(std::move(indices)) {}

  static constexpr uint64_t kFlags = FI_MORE | FI_SYNC_ERR | FI_AV_USER_ID;
  // Checks the arguments of a call. `asynchronous`: the vector was opened with FI_EVENT; `bound`: it has an event
  // queue.
  static Status check(const Insertion& call, bool asynchronous, bool bound) noexcept {
    if ((call.flags & ~kFlags) != 0) return Status(-FI_EBADFLAGS);
    if ((call.flags & FI_SYNC_ERR) != 0 && (asynchronous || call.context == nullptr)) return Status(-FI_EINVAL);
    if (asynchronous && !bound) return Status(-FI_ENOEQ);
    return {};
  }

  // About the address that is inserted next.
  bool done() const noexcept { return done_ == indices_.size(); }
  uint64_t index() const noexcept { return indices_[done_]; }
  uint64_t user_id() const noexcept {
    const bool given = (call_.flags & FI_AV_USER_ID) != 0 && call_.handles != nullptr;
    return given ? call_.handles[done_] : ~uint64_t{0};
  }
  void inserted() noexcept {
    if (call_.handles != nullptr) call_.handles[done_] = indices_[done_];
    if (errors_ != nullptr) errors_[done_] = 0;
    ++done_;
    ++inserted_;
  }
  // `sentence`: for fi_eq_strerror; may be empty.
  void failed(Status status, std::string sentence = {}) noexcept {
    if (call_.handles != nullptr) call_.handles[done_] = FI_ADDR_NOTAVAIL;
    if (errors_ != nullptr) errors_[done_] = status.error();
    if (events_ != nullptr) {
      EqError error;
      error.fid = call_.fid;
      error.context = call_.context;
      error.data = done_;
      error.err = error.prov_errno = status.error();
      error.sentence = std::move(sentence);
      events_->post_error(std::move(error));
    }
    ++done_;
  }
  // Returns the result of the insertion call.
  int finish() noexcept {
    if (events_ == nullptr) return inserted_;
    const fi_eq_entry entry{call_.fid, call_.context, static_cast<uint64_t>(inserted_)};
    events_->post(FI_AV_COMPLETE, &entry, sizeof entry);
    return 0;
  }

 private:
  const Insertion call_;
  EventQueueCore* const events_;
  int* const errors_;
  const std::vector<uint64_t> indices_;
  size_t done_ = 0;
  int inserted_ = 0;
};

}  // namespace weft
