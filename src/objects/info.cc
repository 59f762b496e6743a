// SPDX-License-Identifier: BSD-2-Clause
// Allocation, deep copy and release of struct fi_info; fi_getinfo(3).
#include "objects/info.h"

#include <cstdlib>
#include <cstring>

namespace weft {
namespace {

// Every copy_... leaves `to` null or owned, so that free_info may follow a failure. False: out of memory.
template <class T>
bool copy(T*& to, const T* from, std::size_t size) noexcept {
  to = from != nullptr && size != 0 ? static_cast<T*>(std::malloc(size)) : nullptr;
  if (to != nullptr) std::memcpy(to, from, size);
  return to != nullptr || from == nullptr || size == 0;
}
template <class T>
bool copy_struct(T*& to, const T* from) noexcept {
  return copy(to, from, sizeof(T));
}

bool copy_string(char*& to, const char* from) noexcept {
  to = from == nullptr ? nullptr : ::strdup(from);
  return from == nullptr || to != nullptr;
}

bool copy_auth_key(uint8_t*& to, const uint8_t* from, std::size_t size) noexcept {
  if (size == FI_AV_AUTH_KEY) size = 0;  // a mark, not a size: the keys live in the address vector
  return copy(to, from, size);
}

bool copy_ep_attr(fi_ep_attr*& to, const fi_ep_attr* from) noexcept {
  if (!copy_struct(to, from)) return false;
  return to == nullptr || copy_auth_key(to->auth_key, from->auth_key, from->auth_key_size);
}

bool copy_domain_attr(fi_domain_attr*& to, const fi_domain_attr* from) noexcept {
  if (!copy_struct(to, from)) return false;
  if (to == nullptr) return true;
  const bool named = copy_string(to->name, from->name);
  return copy_auth_key(to->auth_key, from->auth_key, from->auth_key_size) && named;
}

bool copy_fabric_attr(fi_fabric_attr*& to, const fi_fabric_attr* from) noexcept {
  if (!copy_struct(to, from)) return false;
  if (to == nullptr) return true;
  const bool named = copy_string(to->name, from->name);
  return copy_string(to->prov_name, from->prov_name) && named;
}

// A nic that cannot be copied is left out: shared by two infos, it would be released twice.
fid_nic* copy_nic(fid_nic* from) noexcept {
  fid_nic* copy = nullptr;
  if (from == nullptr || !FI_CHECK_OP(from->fid.ops, fi_ops, control)) return nullptr;
  return fi_control(&from->fid, FI_DUP, &copy) == 0 ? copy : nullptr;
}

// Equal apart from `pointers`; padding is that of copies.
template <class T, class... Pointers>
bool same(const T* a, const T* b, Pointers T::*... pointers) noexcept {
  if (a == nullptr || b == nullptr) return a == b;
  T left, right;
  std::memcpy(&left, a, sizeof left);
  std::memcpy(&right, b, sizeof right);
  ((left.*pointers = right.*pointers = nullptr), ...);
  return std::memcmp(&left, &right, sizeof left) == 0;
}
bool same_text(const char* a, const char* b) noexcept {
  return a == nullptr || b == nullptr ? a == b : std::strcmp(a, b) == 0;
}

bool same_bytes(const void* a, const void* b, std::size_t len) noexcept {
  return a == nullptr || b == nullptr ? a == b : std::memcmp(a, b, len) == 0;
}

bool same_domain_attr(const fi_domain_attr* a, const fi_domain_attr* b) noexcept {
  if (!same(a, b, &fi_domain_attr::name)) return false;
  return a == nullptr || (same_text(a->name, b->name) && a->auth_key == nullptr);
}
bool same_fabric_attr(const fi_fabric_attr* a, const fi_fabric_attr* b) noexcept {
  if (!same(a, b, &fi_fabric_attr::name, &fi_fabric_attr::prov_name)) return false;
  return a == nullptr || (same_text(a->name, b->name) && same_text(a->prov_name, b->prov_name));
}

template <class T>
bool allocate(T*& to) noexcept {
  to = static_cast<T*>(std::calloc(1, sizeof(T)));
  return to != nullptr;
}

}  // namespace

fi_info* allocate_info() noexcept {
  fi_info* raw = nullptr;
  if (!allocate(raw)) return nullptr;
  InfoPtr info(raw);
  const bool ok = allocate(info->tx_attr) && allocate(info->rx_attr) && allocate(info->ep_attr) &&
                  allocate(info->domain_attr) && allocate(info->fabric_attr);
  return ok ? info.release() : nullptr;
}

fi_info* duplicate_info(const fi_info* from) noexcept {
  fi_info* raw = nullptr;
  if (!allocate(raw)) return nullptr;
  InfoPtr to(raw);
  to->caps = from->caps;
  to->mode = from->mode;
  to->addr_format = from->addr_format;
  to->src_addrlen = from->src_addrlen;
  to->dest_addrlen = from->dest_addrlen;
  to->handle = from->handle;
  to->nic = copy_nic(from->nic);
  const bool ok = copy(to->src_addr, static_cast<const void*>(from->src_addr), from->src_addrlen) &&
                  copy(to->dest_addr, static_cast<const void*>(from->dest_addr), from->dest_addrlen) &&
                  copy_struct(to->tx_attr, from->tx_attr) && copy_struct(to->rx_attr, from->rx_attr) &&
                  copy_ep_attr(to->ep_attr, from->ep_attr) && copy_domain_attr(to->domain_attr, from->domain_attr) &&
                  copy_fabric_attr(to->fabric_attr, from->fabric_attr);
  return ok ? to.release() : nullptr;
}

bool set_name(char*& name, const char* value) noexcept {
  char* copy = ::strdup(value);
  if (copy == nullptr) return false;
  std::free(name);
  name = copy;
  return true;
}

bool set_address(void*& address, size_t& len, const void* value, size_t value_len) noexcept {
  if (address != nullptr && len == value_len) {
    std::memcpy(address, value, value_len);
    return true;
  }
  void* copy = std::malloc(value_len);
  if (copy == nullptr) return false;
  std::memcpy(copy, value, value_len);
  std::free(address);
  address = copy;
  len = value_len;
  return true;
}

bool same_attributes(const fi_info& a, const fi_info& b) noexcept {
  using I = fi_info;
  return same(&a, &b, &I::next, &I::src_addr, &I::dest_addr, &I::tx_attr, &I::rx_attr, &I::ep_attr, &I::domain_attr,
              &I::fabric_attr) &&
         a.nic == nullptr && same(a.tx_attr, b.tx_attr) && same(a.rx_attr, b.rx_attr) && same(a.ep_attr, b.ep_attr) &&
         (a.ep_attr == nullptr || a.ep_attr->auth_key == nullptr) && same_domain_attr(a.domain_attr, b.domain_attr) &&
         same_fabric_attr(a.fabric_attr, b.fabric_attr);
}

bool same_addresses(const fi_info& a, const fi_info& b) noexcept {
  return same_bytes(a.src_addr, b.src_addr, a.src_addrlen) && same_bytes(a.dest_addr, b.dest_addr, a.dest_addrlen);
}

void free_info(fi_info* info) noexcept {
  while (info != nullptr) {
    fi_info* next = info->next;
    std::free(info->src_addr);
    std::free(info->dest_addr);
    std::free(info->tx_attr);
    std::free(info->rx_attr);
    if (info->ep_attr != nullptr) {
      std::free(info->ep_attr->auth_key);
      std::free(info->ep_attr);
    }
    if (info->domain_attr != nullptr) {
      std::free(info->domain_attr->auth_key);
      std::free(info->domain_attr->name);
      std::free(info->domain_attr);
    }
    if (info->fabric_attr != nullptr) {
      std::free(info->fabric_attr->name);
      std::free(info->fabric_attr->prov_name);
      std::free(info->fabric_attr);
    }
    if (info->nic != nullptr) fi_close(&info->nic->fid);
    std::free(info);
    info = next;
  }
}

}  // namespace weft
