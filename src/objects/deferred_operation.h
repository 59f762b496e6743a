// SPDX-License-Identifier: BSD-2-Clause
// A data transfer that is submitted now and called later: a copy of the arguments of one of the calls that end in
// `msg`; fi_trigger(3), struct fi_op_msg and its siblings. The buffers stay the application's.
#pragma once

#include <rdma/fi_trigger.h>
#include <sys/types.h>

#include <cstdint>
#include <type_traits>
#include <vector>

namespace weft {

class DeferredOperation {
 public:
  DeferredOperation() noexcept = default;
  // Descriptors of atomic operands and results are dropped: no provider with deferred work uses them.
  template <class Message>
  DeferredOperation(fid_ep* ep, fi_op_type type, const Message& message, uint64_t flags, const fi_msg_fetch& fetch = {},
                    const fi_msg_compare& compare = {})
      : ep_(ep), type_(type), flags_(flags), context_(message.context), peer_(message.addr), data_(message.data) {
    if constexpr (requires { message.datatype; }) {
      datatype_ = message.datatype;
      operation_ = message.op;
      copy(operands_, message.msg_iov, message.iov_count);
      copy(targets_, message.rma_iov, message.rma_iov_count);
      copy(results_, fetch.msg_iov, fetch.iov_count);
      copy(compares_, compare.msg_iov, compare.iov_count);
    } else {
      copy(buffers_, message.msg_iov, message.iov_count);
      copy(descriptors_, message.desc, message.iov_count);
    }
    if constexpr (requires { message.tag; }) {
      tag_ = message.tag;
      ignore_ = message.ignore;
    }
    if constexpr (std::is_same_v<Message, fi_msg_rma>) copy(ranges_, message.rma_iov, message.rma_iov_count);
  }

  fid_ep* ep() const noexcept { return ep_; }
  uint64_t flags() const noexcept { return flags_; }
  uint64_t tag() const noexcept { return tag_; }
  // The application's context.
  void* context() const noexcept { return context_; }

  bool receives() const noexcept { return type_ == FI_OP_RECV || type_ == FI_OP_TRECV; }
  // FI_SEND and so on, as in completions.
  uint64_t completion_flags() const noexcept;

  // Makes the call and returns its result.
  ssize_t start(void* context) noexcept;

 private:
  template <class T>
  static void copy(std::vector<T>& to, const T* from, size_t count) {
    if (from != nullptr && count != 0) to.assign(from, from + count);
  }
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
