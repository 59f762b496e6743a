// SPDX-License-Identifier: BSD-2-Clause
// The parts that domains of all providers have in common: attributes, and calls that are forms of other calls;
// fi_domain(3).
//
// Owner: its C handle; close answers -FI_EBUSY while anything opened in it lives.
#pragma once

#include <rdma/fi_domain.h>

#include <cstring>
#include <string>
#include <utility>

#include "abi/ops.h"
#include "base/ref.h"

namespace weft {

// Whether `attr` names memory of an accelerator other than by a dmabuf. The manual page ignores `iface` without
// FI_HMEM; copying from such an address would crash the process, so the registration is refused, for interfaces of
// later releases too. Values of 64 and above are uninitialised members, which libfabric accepts. Programs of API < 1.10
// have no such member.
inline bool is_device_memory(const fi_mr_attr& attr, uint64_t flags, uint32_t api_version) noexcept {
  if (FI_VERSION_LT(api_version, FI_VERSION(1, 10)) || (flags & FI_MR_DMABUF) != 0) return false;
  constexpr unsigned kMostInterfaces = 64;
  const auto iface = static_cast<unsigned>(attr.iface);
  return iface > FI_HMEM_SYSTEM && iface < kMostInterfaces;
}

// FI_MAP_RAW_MR and FI_UNMAP_KEY of fi_control for domains whose raw keys are the keys themselves, of type Key.
template <class Key>
int control_raw_keys(int command, void* argument) noexcept {
  if (argument == nullptr) return -FI_EINVAL;
  if (command != FI_MAP_RAW_MR) return command == FI_UNMAP_KEY ? 0 : -FI_ENOSYS;
  const auto& map = *static_cast<const struct fi_mr_map_raw*>(argument);
  Key key = 0;
  if (map.raw_key == nullptr || map.key == nullptr || map.key_size != sizeof key) return -FI_EINVAL;
  std::memcpy(&key, map.raw_key, sizeof key);
  *map.key = key;
  return 0;
}
// FI_GET_RAW_MR of one of their regions; peers add their offset to `base`.
template <class Key>
int report_raw_key(const void* argument, Key key, uint64_t base) noexcept {
  const auto* raw = static_cast<const struct fi_mr_raw_attr*>(argument);
  if (raw == nullptr || raw->key_size == nullptr) return -FI_EINVAL;
  const size_t room = std::exchange(*raw->key_size, sizeof key);
  if (room < sizeof key) return -FI_ETOOSMALL;
  if (raw->raw_key == nullptr || raw->base_addr == nullptr) return -FI_EINVAL;
  std::memcpy(raw->raw_key, &key, sizeof key);
  *raw->base_addr = base;
  return 0;
}

// T: the provider's domain, F: its fabric. Services: a RefCounted with the parts that the domain's children need, so
// that they do not depend on T; built from the arguments after `context`.
template <class T, class F, class Services = RefCounted>
class DomainBase : public Object<fid_domain>, public Services {
 public:
  F& fabric() const noexcept { return *fabric_; }
  const std::string& name() const noexcept { return name_; }
  uint32_t addr_format() const noexcept { return addr_format_; }
  uint64_t caps() const noexcept { return caps_; }
  uint32_t api_version() const noexcept { return fabric_->abi.api_version; }

  // Slots of fi_ops.
  int close() {
    if (this->in_use()) return -FI_EBUSY;
    delete static_cast<T*>(this);
    return 0;
  }

  // Slots of fi_ops_domain.
  int endpoint2(fi_info* info, fid_ep** ep, uint64_t flags, void* context) {
    return flags == 0 ? static_cast<T*>(this)->endpoint(info, ep, context) : -FI_EBADFLAGS;
  }

  // Slots of fi_ops_mr: each ends in `regattr`.
  int reg(const void* buf, size_t len, uint64_t access, uint64_t offset, uint64_t requested_key, uint64_t flags,
          fid_mr** mr, void* context) {
    const iovec memory{const_cast<void*>(buf), len};
    return static_cast<T*>(this)->regv(&memory, 1, access, offset, requested_key, flags, mr, context);
  }
  int regv(const iovec* iov, size_t count, uint64_t access, uint64_t offset, uint64_t requested_key, uint64_t flags,
           fid_mr** mr, void* context) {
    const fi_mr_attr attr = describe_region(iov, count, access, offset, requested_key, context);
    return static_cast<T*>(this)->regattr(&attr, flags, mr);
  }

 protected:
  // `info` has domain attributes.
  template <class... Args>
  DomainBase(F& fabric, const fi_info& info, void* context, Args&&... services)
      : Services(std::forward<Args>(services)...),
        fabric_(fabric),
        name_(info.domain_attr->name != nullptr ? info.domain_attr->name : ""),
        addr_format_(info.addr_format),
        caps_(info.caps) {
    identify<T>(abi, FI_CLASS_DOMAIN, context);
    abi.mr = ops_of<T>;
  }
  ~DomainBase() = default;

 private:
  const Ref<F> fabric_;
  const std::string name_;
  const uint32_t addr_format_;
  const uint64_t caps_;
};

}  // namespace weft
