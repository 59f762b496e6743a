// SPDX-License-Identifier: BSD-2-Clause
// The table of work completion statuses; see completion_status.h.
#include "verbs/transfer/completion_status.h"

#include <rdma/fi_errno.h>

#include <cerrno>

#include "objects/sentence.h"

namespace weft::verbs {
namespace {

struct Meaning {
  ibv_wc_status status;
  int error;
  const char* sentence;
};

constexpr Meaning kMeanings[] = {
    {IBV_WC_SUCCESS, 0, "success"},
    {IBV_WC_LOC_LEN_ERR, FI_EMSGSIZE, "the message is longer than the receive buffer, or than the device can send"},
    {IBV_WC_LOC_QP_OP_ERR, FI_EINVAL,
     "the device rejected the operation as malformed: a buffer that is no longer registered, or (on Soft-RoCE) a "
     "message that is much longer than its receive"},
    {IBV_WC_LOC_EEC_OP_ERR, FI_EIO, "the device found an inconsistent end-to-end context"},
    {IBV_WC_LOC_PROT_ERR, FI_EFAULT,
     "a local buffer is not registered for this access, or lies outside its registration"},
    {IBV_WC_WR_FLUSH_ERR, FI_ECANCELED, "canceled: the connection ended before the operation completed"},
    {IBV_WC_MW_BIND_ERR, FI_EINVAL, "a memory window could not be bound"},
    {IBV_WC_BAD_RESP_ERR, EPROTO, "the peer's device sent an invalid response"},
    {IBV_WC_LOC_ACCESS_ERR, FI_EACCES, "the peer wrote with immediate data to memory that it may not write"},
    {IBV_WC_REM_INV_REQ_ERR, FI_EREMOTEIO,
     "the peer's device refused the operation as invalid: longer than the receive posted there, misaligned, or not "
     "enabled"},
    {IBV_WC_REM_ACCESS_ERR, FI_EACCES,
     "the peer's memory does not allow this access: wrong key, missing access right, or out of range"},
    {IBV_WC_REM_OP_ERR, FI_EREMOTEIO, "the peer's device could not complete the operation"},
    {IBV_WC_RETRY_EXC_ERR, FI_ETIMEDOUT, "the peer did not answer any of the retries of the device"},
    {IBV_WC_RNR_RETRY_EXC_ERR, FI_ENORX, "the peer had no receive posted during all retries of the device"},
    {IBV_WC_LOC_RDD_VIOL_ERR, FI_EIO, "reliable datagram domains do not match"},
    {IBV_WC_REM_INV_RD_REQ_ERR, FI_EREMOTEIO, "the peer refused an invalid reliable datagram"},
    {IBV_WC_REM_ABORT_ERR, FI_ECONNABORTED, "the peer's device aborted the operation"},
    {IBV_WC_INV_EECN_ERR, FI_EIO, "invalid number of an end-to-end context"},
    {IBV_WC_INV_EEC_STATE_ERR, FI_EIO, "the end-to-end context is in the wrong state"},
    {IBV_WC_FATAL_ERR, FI_EIO, "the device failed permanently"},
    {IBV_WC_RESP_TIMEOUT_ERR, FI_ETIMEDOUT, "the peer's response did not arrive in time"},
    {IBV_WC_GENERAL_ERR, FI_EIO, "the device reports an unspecified error"},
};

const Meaning* find(int status) noexcept {
  for (const Meaning& meaning : kMeanings)
    if (meaning.status == status) return &meaning;
  return nullptr;
}

}  // namespace

int from_wc_status(ibv_wc_status status, bool received) noexcept {
  if (status == IBV_WC_LOC_LEN_ERR && received) return FI_ETRUNC;
  const Meaning* meaning = find(status);
  return meaning != nullptr ? meaning->error : FI_EIO;
}

const char* wc_status_sentence(int status) noexcept {
  const Meaning* meaning = find(status);
  return meaning != nullptr ? meaning->sentence : "the device reports an unknown status";
}

const char* completion_error_text(int prov_errno, const void*, char* buf, std::size_t len) {
  return copy_text(wc_status_sentence(prov_errno), buf, len);
}

}  // namespace weft::verbs
