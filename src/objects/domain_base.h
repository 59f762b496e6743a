// SPDX-License-Identifier: BSD-2-Clause
// The parts that domains of all providers have in common: attributes, and calls that are forms of other calls;
// fi_domain(3).
//
// Owner: its C handle; close answers -FI_EBUSY while anything opened in it lives.
#pragma once

#include <rdma/fi_domain.h>

#include <string>
#include <utility>

#include "abi/ops.h"
#include "base/ref.h"

namespace weft {

// T: the provider's domain, F: its fabric. Services: a RefCounted with what the domain's children need of it, so that
// they need not know T; built from the arguments behind `context`.
template <class T, class F, class Services = RefCounted>
class DomainBase : public Object<fid_domain>, public Services {
 public:
  F& fabric() const noexcept { return *fabric_; }
  // The attributes that it was opened with; the name is never null, keys are left out.
  const fi_domain_attr& attr() const noexcept { return attr_; }
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
        attr_([&] {
          fi_domain_attr attr = *info.domain_attr;
          attr.domain = &abi;
          attr.name = const_cast<char*>(name_.c_str());
          attr.auth_key = nullptr;
          attr.auth_key_size = 0;
          return attr;
        }()),
        addr_format_(info.addr_format),
        caps_(info.caps) {
    abi.fid = {FI_CLASS_DOMAIN, context, ops_of<T>};
    abi.ops = ops_of<T>;
    abi.mr = ops_of<T>;
  }
  ~DomainBase() = default;

 private:
  const Ref<F> fabric_;
  const std::string name_;
  const fi_domain_attr attr_;  // its name is name_
  const uint32_t addr_format_;
  const uint64_t caps_;
};

}  // namespace weft
