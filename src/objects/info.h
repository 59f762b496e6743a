// SPDX-License-Identifier: BSD-2-Clause
// Allocation, deep copy and release of struct fi_info with everything it owns; fi_getinfo(3).
// Applications free and replace single members, so all memory is of the malloc family. The nic member is an object of
// its provider and is copied and released only through its own ops (fi_nic(3)).
#pragma once

#include <rdma/fabric.h>

#include <memory>

namespace weft {

// An info with all attribute structures, everything zero. nullptr when memory runs out.
fi_info* allocate_info() noexcept;

// A copy of one info, without the rest of its list (next is null); nullptr when memory runs out. Absent attribute
// structures stay absent. `handle` and the open fabric and domain are not owned and are copied as they are.
fi_info* duplicate_info(const fi_info* info) noexcept;

// Whether two infos without NICs and authorization keys are equal, apart from the addresses themselves.
bool same_attributes(const fi_info& a, const fi_info& b) noexcept;
// Whether two infos with the same lengths of addresses have the same addresses.
bool same_addresses(const fi_info& a, const fi_info& b) noexcept;

// Releases a whole list; nullptr is allowed.
void free_info(fi_info* info) noexcept;

// Replace a member of an info by a copy of `value`; false, with nothing changed, when memory runs out.
bool set_name(char*& name, const char* value) noexcept;
bool set_address(void*& address, size_t& len, const void* value, size_t value_len) noexcept;

// The attributes in an fi_info, or others that are all zero for null.
template <class Attributes>
const Attributes& or_none(const Attributes* attributes) noexcept {
  static constexpr Attributes kNone{};
  return attributes != nullptr ? *attributes : kNone;
}
// The size of a queue, `usual` if the application requested none.
template <class Attributes>
std::size_t queue_size(const Attributes* attributes, std::size_t usual) noexcept {
  const std::size_t asked = or_none(attributes).size;
  return asked != 0 ? asked : usual;
}

struct FreeInfo {
  void operator()(fi_info* info) const noexcept { free_info(info); }
};
using InfoPtr = std::unique_ptr<fi_info, FreeInfo>;

}  // namespace weft
