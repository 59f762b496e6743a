// SPDX-License-Identifier: BSD-2-Clause
// The meaning of the status of a work completion: the error code of a completion's error entry, and a sentence for
// fi_cq_strerror. ibv_poll_cq(3), fi_errno(3), fi_cq(3).
#pragma once

#include <infiniband/verbs.h>

#include <cstddef>

namespace weft::verbs {

// A positive fi_errno; 0 for IBV_WC_SUCCESS. Flushed work requests are FI_ECANCELED. `received`: of a posted receive.
int from_wc_status(ibv_wc_status status, bool received) noexcept;

// The failure and the side that caused it; never null.
const char* wc_status_sentence(int status) noexcept;

// fi_cq_strerror: `prov_errno` is an ibv_wc_status. Meets StrerrorFn.
const char* completion_error_text(int prov_errno, const void* err_data, char* buf, std::size_t len);

}  // namespace weft::verbs
