// SPDX-License-Identifier: BSD-2-Clause
// Private data of lookups at the endpoint that answers them; see lookup_data.h.
#include "verbs/datagram/lookup_data.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "objects/endpoint_options.h"
#include "verbs/cm/cm_address.h"

namespace weft::verbs {

int LookupData::get(int option, void* value, std::size_t* len) noexcept {
  if (option == FI_OPT_WEFT_LOOKUP_ANSWER) return report_option(answer_, value, len);
  if (kept_.empty()) return -FI_EAGAIN;
  const int result = report_option(kept_.front(), value, len);
  if (result == 0) kept_.pop_front();
  return result;
}

int LookupData::set(int option, const void* value, std::size_t len) noexcept {
  if (option != FI_OPT_WEFT_LOOKUP_ANSWER) return -FI_ENOPROTOOPT;
  if (len > sizeof answer_ || (value == nullptr && len != 0)) return -FI_EINVAL;
  answer_ = {};
  if (len != 0) std::memcpy(&answer_, value, len);
  answer_size_ = static_cast<std::uint8_t>(len);
  return 0;
}

void LookupData::keep(rdma_cm_id& request, std::span<const std::byte> data) noexcept {
  if (std::all_of(data.begin(), data.end(), [](std::byte each) { return each == std::byte{0}; })) return;
  if (kept_.size() == kMostLookups) kept_.pop_front();
  try {
    fi_weft_lookup_data& lookup = kept_.emplace_back();
    CmAddress source = CmAddress::from(rdma_get_peer_addr(&request));
    std::memcpy(&lookup.source, source.data(), source.size());
    std::memcpy(lookup.data, data.data(), std::min(data.size(), sizeof lookup.data));
  } catch (const std::bad_alloc&) {
    return;  // as if the queue were full
  }
}

rdma_conn_param LookupData::answer(std::uint32_t qp_number) const noexcept {
  rdma_conn_param answer{};
  answer.private_data = answer_.data;
  answer.private_data_len = answer_size_;
  answer.qp_num = qp_number;
  return answer;
}

}  // namespace weft::verbs
