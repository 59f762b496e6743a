// SPDX-License-Identifier: BSD-2-Clause
// Private data of lookups at the endpoint that answers them, and its options FI_OPT_WEFT_LOOKUP_ANSWER and
// FI_OPT_WEFT_LOOKUP_DATA; fi_endpoint(3), rdma_accept(3). The wire has no lengths: data ends with zeros.
#pragma once

#include <rdma/fi_ext.h>
#include <rdma/rdma_cma.h>

#include <cstddef>
#include <cstdint>
#include <list>
#include <span>

namespace weft::verbs {

inline bool is_lookup_option(int option) noexcept {
  return option == FI_OPT_WEFT_LOOKUP_ANSWER || option == FI_OPT_WEFT_LOOKUP_DATA;
}

// Owner: a datagram endpoint; the engine's mutex guards it.
class LookupData {
 public:
  // The result of fi_getopt and fi_setopt, for those two options.
  int get(int option, void* value, std::size_t* len) noexcept;
  int set(int option, const void* value, std::size_t len) noexcept;

  // Keeps the data of a request for FI_OPT_WEFT_LOOKUP_DATA, unless there is none. The last kMostLookups stay.
  void keep(rdma_cm_id& request, std::span<const std::byte> data) noexcept;
  // Valid until set().
  rdma_conn_param answer(std::uint32_t qp_number) const noexcept;

 private:
  static constexpr std::size_t kMostLookups = 64;

  struct Answer {
    std::byte data[FI_WEFT_LOOKUP_ANSWER_SIZE];
  };
  Answer answer_{};
  std::uint8_t answer_size_ = 0;
  std::list<fi_weft_lookup_data> kept_;  // oldest first; a deque occupies half a kilobyte while it is empty
};

}  // namespace weft::verbs
