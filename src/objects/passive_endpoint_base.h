// SPDX-License-Identifier: BSD-2-Clause
// The parts that passive endpoints of all providers have in common: creation and options; fi_passive_ep of
// fi_endpoint(3). A provider's passive endpoint derives from it and listens.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>

#include <memory>
#include <utility>

#include "abi/bridge.h"
#include "abi/cm_ops.h"
#include "abi/ep_ops.h"
#include "abi/fid_ops.h"
#include "base/ref.h"
#include "objects/attributes.h"
#include "objects/endpoint_options.h"
#include "objects/info.h"

namespace weft {

// T: the provider's passive endpoint, with `static Result<Address> source(const fi_info&)`, the address in an info, and
// kDataSize, the data that a request may carry (bytes). F: its fabric, which has a list of passive endpoints. Owner:
// the C handle of T.
template <class T, class F, class Address>
class PassiveEndpointBase : public Object<fid_pep> {
 public:
  static int open(F& fabric, const fi_info* info, fid_pep** pep, void* context) {
    if (info == nullptr || pep == nullptr) return -FI_EINVAL;
    if (info->ep_attr != nullptr && info->ep_attr->type != FI_EP_MSG && info->ep_attr->type != FI_EP_UNSPEC)
      return -FI_EINVAL;
    const Result<Address> local = T::source(*info);
    if (!local) return local.error().code();
    InfoPtr own(duplicate_info(info));
    if (own == nullptr) return -FI_ENOMEM;
    if (Status status = T::prepare(fabric, *info); !status.ok()) return status.code();
    std::unique_ptr<T, Delete> endpoint(new T(fabric, std::move(own), *local, context));
    fabric.passive_endpoints.insert(&endpoint->abi.fid);
    *pep = &endpoint.release()->abi;
    return 0;
  }
  static const fi_ops* fid_ops() noexcept {
    static constexpr fi_ops kOps = make_fid_ops<T>();
    return &kOps;
  }

  // Slots of fi_ops_ep.
  int getopt(int level, int option, void* value, size_t* len) {
    if (level != FI_OPT_ENDPOINT || option != FI_OPT_CM_DATA_SIZE) return -FI_ENOPROTOOPT;
    return report_option(size_t{T::kDataSize}, value, len);
  }
  int setopt(int, int, const void*, size_t) { return -FI_ENOPROTOOPT; }

 protected:
  // Runs before the first passive endpoint is created; T may define its own.
  static Status prepare(F&, const fi_info&) { return Status(); }

  PassiveEndpointBase(F& fabric, InfoPtr info, const Address& local, void* context)
      : fabric_(fabric), info_(std::move(info)), local_(local) {
    static constexpr fi_ops_ep kEpOps = make_ep_ops<T>();
    static constexpr fi_ops_cm kCmOps = make_cm_ops<T>();
    abi.fid = {FI_CLASS_PEP, context, slots(*fid_ops())};
    abi.ops = slots(kEpOps);
    abi.cm = slots(kCmOps);
  }
  ~PassiveEndpointBase() = default;

  const Ref<F> fabric_;
  InfoPtr info_;
  Address local_;

 private:
  struct Delete {
    void operator()(T* endpoint) const noexcept { delete endpoint; }
  };
};

}  // namespace weft
