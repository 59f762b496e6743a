// SPDX-License-Identifier: BSD-2-Clause
// The parts that passive endpoints of all providers have in common: creation, binding and options of fi_endpoint(3)
// (fi_passive_ep), names and rejections of fi_cm(3). A provider's passive endpoint derives from it and listens.
#pragma once

#include <rdma/fi_endpoint.h>
#include <rdma/providers/fi_log.h>

#include <memory>
#include <utility>

#include "abi/ops.h"
#include "base/ref.h"
#include "objects/endpoint_options.h"
#include "objects/event_queue.h"
#include "objects/info.h"

namespace weft {

// T: the provider's passive endpoint. Types names the provider's Fabric, which has PassiveHandles as passive() and
// SharedInfo as passive_infos(), its Address (with report_name), Engine and ConnectRequest, Bound, a socket or the like
// that has a name, and kCmDataSize, the data that a request may carry (bytes). T has the functions that the
// calls below use; guard() locks the mutex of the members. Owner: the C handle of T. Thread-safe.
template <class T, class Types>
class PassiveEndpointBase : public Object<fid_pep> {
 public:
  using Fabric = typename Types::Fabric;
  using Address = typename Types::Address;
  using Bound = typename Types::Bound;
  using Events = EventQueue<typename Types::Engine>;

  static int open(Fabric& fabric, const fi_info* info, fid_pep** pep, void* context) {
    if (info == nullptr || pep == nullptr) return -FI_EINVAL;
    const fi_ep_type type = or_none(info->ep_attr).type;
    if (type != FI_EP_MSG && type != FI_EP_UNSPEC) return -FI_EINVAL;
    const Result<Address> local = T::source(*info);
    if (!local) return local.error().code();
    std::shared_ptr<const fi_info> own = fabric.passive_infos().copy_of(*info);
    if (own == nullptr) return -FI_ENOMEM;
    if (Status status = T::prepare(fabric, *info); !status.ok()) return status.code();
    std::unique_ptr<T, Delete> endpoint(new T(fabric, std::move(own), *local, context));
    fabric.passive().endpoints.insert(&endpoint->abi.fid, &fabric);
    *pep = &endpoint.release()->abi;
    return 0;
  }

  // The bound socket or id and its name, for an active endpoint that inherits them (fi_info.handle). Then only close()
  // remains. -FI_EOPBADSTATE when listening.
  Result<Bound> give_away(Address& local) {
    const auto guard = self().guard();
    if (listening_) return failure(FI_EOPBADSTATE);
    if (Status status = bind_locked(); !status.ok()) return failure(status);
    given_away_ = true;
    local = local_;
    return std::move(bound_);
  }

  // Slots of fi_ops. `control`: FI_BACKLOG.
  int bind(::fid* object, uint64_t flags) {
    auto* queue = Events::from(object);
    if (queue == nullptr) return -FI_EINVAL;
    if (flags != 0) return -FI_EBADFLAGS;
    if (Status status = self().attach(*queue); !status.ok()) return status.code();  // locks the engine
    const int refusal = [&] {
      const auto guard = self().guard();
      if (given_away_ || listening_) return -FI_EOPBADSTATE;
      if (events_) return -FI_EINVAL;
      events_ = Ref<Events>(*queue);
      return 0;
    }();
    if (refusal == 0) return 0;
    FI_WARN(&Types::provider(), FI_LOG_EP_CTRL, "fi_pep_bind refused: the endpoint %s\n",
            refusal == -FI_EINVAL ? "has an event queue already" : "is listening, or its address was given away");
    self().detach(*queue);
    return refusal;
  }
  int control(int command, void* argument) {
    if (command != FI_BACKLOG) return -FI_ENOSYS;
    if (argument == nullptr || *static_cast<const int*>(argument) <= 0) return -FI_EINVAL;
    const auto guard = self().guard();
    backlog_ = static_cast<std::size_t>(*static_cast<const int*>(argument));
    self().on_backlog();
    return 0;
  }

  // Slots of fi_ops_ep.
  int getopt(int level, int option, void* value, size_t* len) {
    if (level != FI_OPT_ENDPOINT || option != FI_OPT_CM_DATA_SIZE) return -FI_ENOPROTOOPT;
    return report_option(size_t{Types::kCmDataSize}, value, len);
  }
  int setopt(int, int, const void*, size_t) { return -FI_ENOPROTOOPT; }

  // Slots of fi_ops_cm; T has `listen`.
  int setname(void* name, size_t len) {
    Result<Address> wanted = Types::read_name(info_->addr_format, name, len);
    if (!wanted) return wanted.error().code();
    const auto guard = self().guard();
    if (given_away_ || listening_) return -FI_EOPBADSTATE;
    // A port that was assigned before stays unless the name has another.
    if (wanted->port() == 0) wanted->set_port(local_.port());
    const Address before = std::exchange(local_, *wanted);
    bound_ = {};
    const Status status = bind_locked();
    if (!status.ok()) local_ = before;
    return status.code();
  }
  int getname(void* name, size_t* len) {
    const auto guard = self().guard();
    if (Status status = bind_locked(); !status.ok()) return status.code();
    return report_name(local_, name, len);
  }
  int reject(::fid* handle, const void* data, size_t len) {
    if (data == nullptr && len != 0) return -FI_EINVAL;
    const auto guard = self().guard();
    if (!fabric_->passive().requests.contains(handle)) return -FI_EINVAL;
    auto& request = object<typename Types::ConnectRequest>(handle);
    if (!self().announced(request) || !fabric_->passive().requests.remove(handle)) return -FI_EINVAL;
    T::release(request);
    request.reject(data, len);
    delete &request;
    return 0;
  }

 protected:
  // Runs before the first passive endpoint is created; T may define its own.
  static Status prepare(Fabric&, const fi_info&) { return Status(); }

  PassiveEndpointBase(Fabric& fabric, std::shared_ptr<const fi_info> info, const Address& local, void* context)
      : fabric_(fabric),
        info_(std::move(info)),
        local_(local),
        backlog_(static_cast<std::size_t>(fabric.parameters.backlog)) {
    identify<T>(abi, FI_CLASS_PEP, context);
  }
  ~PassiveEndpointBase() = default;

  // Whether `listen` may follow; binds what listens.
  Status prepare_to_listen() {
    if (!events_) return Status(-FI_ENOEQ);
    if (given_away_ || listening_) return Status(-FI_EOPBADSTATE);
    return bind_locked();
  }

  const Ref<Fabric> fabric_;
  const std::shared_ptr<const fi_info> info_;  // its addresses are not used
  Address local_;
  std::size_t backlog_;
  Bound bound_;  // until it listens or is given away
  bool given_away_ = false;
  bool listening_ = false;
  Ref<Events> events_;

 private:
  struct Delete {
    void operator()(T* endpoint) const noexcept { delete endpoint; }
  };
  T& self() noexcept { return static_cast<T&>(*this); }

  Status bind_locked() {
    if (bound_ || listening_) return Status();
    if (given_away_) return Status(-FI_EOPBADSTATE);
    auto bound = self().open_bound();
    if (!bound) return bound.error();
    bound_ = std::move(*bound);
    return Status();
  }
};

}  // namespace weft
