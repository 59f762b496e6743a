// SPDX-License-Identifier: BSD-2-Clause
// Transfers that are called later; see deferred_operation.h.
#include "objects/deferred_operation.h"

#include <rdma/fi_errno.h>

#include <iterator>

namespace weft {

uint64_t DeferredOperation::completion_flags() const noexcept {
  static constexpr uint64_t kFlags[] = {FI_RECV | FI_MSG,     FI_SEND | FI_MSG,    FI_RECV | FI_TAGGED,
                                        FI_SEND | FI_TAGGED,  FI_READ | FI_RMA,    FI_WRITE | FI_RMA,
                                        FI_WRITE | FI_ATOMIC, FI_READ | FI_ATOMIC, FI_READ | FI_ATOMIC};
  static_assert(std::size(kFlags) == FI_OP_COMPARE_ATOMIC + 1 && FI_OP_RECV == 0 && FI_OP_TSEND == 3 &&
                FI_OP_ATOMIC == 6);
  return kFlags[type_];
}

ssize_t DeferredOperation::start(void* context) noexcept {
  void** const desc = descriptors_.empty() ? nullptr : descriptors_.data();
  const fi_msg message{buffers_.data(), desc, buffers_.size(), peer_, context, data_};
  const fi_msg_tagged tagged{buffers_.data(), desc, buffers_.size(), peer_, tag_, ignore_, context, data_};
  const fi_msg_rma access{buffers_.data(), desc,           buffers_.size(), peer_,
                          ranges_.data(),  ranges_.size(), context,         data_};
  switch (type_) {
    case FI_OP_RECV:
      return fi_recvmsg(ep_, &message, flags_);
    case FI_OP_SEND:
      return fi_sendmsg(ep_, &message, flags_);
    case FI_OP_TRECV:
      return fi_trecvmsg(ep_, &tagged, flags_);
    case FI_OP_TSEND:
      return fi_tsendmsg(ep_, &tagged, flags_);
    case FI_OP_READ:
      return fi_readmsg(ep_, &access, flags_);
    case FI_OP_WRITE:
      return fi_writemsg(ep_, &access, flags_);
    default:
      return start_atomic(context);
  }
}

ssize_t DeferredOperation::start_atomic(void* context) noexcept {
  const fi_msg_atomic message{operands_.data(), nullptr,   operands_.size(), peer_,   targets_.data(),
                              targets_.size(),  datatype_, operation_,       context, data_};
  switch (type_) {
    case FI_OP_ATOMIC:
      return fi_atomicmsg(ep_, &message, flags_);
    case FI_OP_FETCH_ATOMIC:
      return fi_fetch_atomicmsg(ep_, &message, results_.data(), nullptr, results_.size(), flags_);
    case FI_OP_COMPARE_ATOMIC:
      return fi_compare_atomicmsg(ep_, &message, compares_.data(), nullptr, compares_.size(), results_.data(), nullptr,
                                  results_.size(), flags_);
    default:
      return -FI_ENOSYS;
  }
}

}  // namespace weft
