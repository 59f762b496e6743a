// SPDX-License-Identifier: BSD-2-Clause
// A data transfer that is submitted now and called later: a copy of the arguments of one of the calls that end in
// `msg`; fi_trigger(3), struct fi_op_msg and its siblings. The buffers stay the application's.
#pragma once

#include <rdma/fi_trigger.h>
#include <sys/types.h>

#include <cstdint>
#include <vector>

namespace weft {

class DeferredOperation {
 public:
  DeferredOperation() noexcept = default;
  DeferredOperation(fid_ep* ep, fi_op_type type, const fi_msg& message, uint64_t flags);
  DeferredOperation(fid_ep* ep, fi_op_type type, const fi_msg_tagged& message, uint64_t flags);
  DeferredOperation(fid_ep* ep, fi_op_type type, const fi_msg_rma& message, uint64_t flags);
  DeferredOperation(fid_ep* ep, fi_op_type type, const fi_msg_atomic& message, uint64_t flags,
                    const fi_msg_fetch& fetch = {}, const fi_msg_compare& compare = {});

  fid_ep* ep() const noexcept { return ep_; }
  uint64_t flags() const noexcept { return flags_; }
  uint64_t tag() const noexcept { return tag_; }
  // The application's context.
  void* context() const noexcept { return context_; }

  bool receives() const noexcept { return type_ == FI_OP_RECV || type_ == FI_OP_TRECV; }
  // Whether the endpoint has a table for this operation.
  bool possible() const noexcept;
  // FI_SEND and so on, as in completions.
  uint64_t completion_flags() const noexcept;

  // Makes the call and returns its result.
  ssize_t start(void* context) noexcept;

 private:
  void set_buffers(const iovec* iov, void** desc, size_t count);
  void* const* descriptors() const noexcept { return descriptors_.empty() ? nullptr : descriptors_.data(); }
  ssize_t start_atomic(void* context) noexcept;

  fid_ep* ep_ = nullptr;
  fi_op_type type_ = FI_OP_SEND;
  uint64_t flags_ = 0;
  void* context_ = nullptr;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  uint64_t tag_ = 0;
  uint64_t ignore_ = 0;
  uint64_t data_ = 0;
  fi_datatype datatype_ = FI_INT8;
  fi_op operation_ = FI_MIN;
  std::vector<iovec> buffers_;
  std::vector<void*> descriptors_;
  std::vector<fi_rma_iov> ranges_;
  std::vector<fi_ioc> operands_, compares_, results_;
  std::vector<fi_rma_ioc> targets_;
};

}  // namespace weft
