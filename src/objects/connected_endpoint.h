// SPDX-License-Identifier: BSD-2-Clause
// The parts that connected endpoints (FI_EP_MSG) of all providers have in common: bindings and options of
// fi_endpoint(3), the order of connection calls of fi_cm(3). cm_state.h decides on states and actions; a provider's
// endpoint derives from this class and carries the actions out.
#pragma once

#include <rdma/fi_endpoint.h>
#include <rdma/fi_ext.h>

#include <memory>

#include "abi/ops.h"
#include "base/mutex.h"
#include "base/ref.h"
#include "objects/binding_check.h"
#include "objects/cm_state.h"
#include "objects/endpoint_alias.h"
#include "objects/endpoint_options.h"
#include "objects/shared_transmit.h"

namespace weft {

constexpr bool is_connect_limit(int option) noexcept {
  return option == FI_OPT_WEFT_CONNECT_TIMEOUT || option == FI_OPT_WEFT_ANSWER_TIMEOUT;
}

// T: the provider's endpoint, whose engine() has the mutex that guards everything. Types names the provider's
// TransferEndpoint, which holds a Ref to its Domain, Address (with report_name), ConnectRequest, Engine,
// CompletionQueue, Counter and SharedReceive, kSharesTransmits and kCmDataSize. Owner: the C handle of T.
template <class T, class Types>
class ConnectedEndpoint : public Types::TransferEndpoint, public RefCounted {
 public:
  // Slots of fi_ops.
  int bind(::fid* object, uint64_t flags) {
    if (auto* queue = EventQueue<Engine>::from(object)) {
      if (last_event_ == nullptr) last_event_ = EventQueueCore::reserve(0);
      return last_event_ != nullptr ? bind_events(*queue, flags, driver(), events_).code() : -FI_ENOMEM;
    }
    Lock lock(driver().mutex());
    if (auto* queue = Types::CompletionQueue::from(object)) return this->bind_cq(*queue, flags).code();
    if (auto* counter = Types::Counter::from(object)) return this->bind_counter(*counter, flags).code();
    if (auto* shared = object_if<typename Types::SharedReceive>(object))
      return this->bind_shared_receive(*shared, flags).code();
    if constexpr (Types::kSharesTransmits)
      if (auto* shared = object_if<SharedTransmit>(object)) return this->bind_shared_transmit(*shared, flags).code();
    // Programs bind an address vector to endpoints of all types; a connected endpoint needs none.
    return object != nullptr && object->fclass == FI_CLASS_AV && flags == 0 ? 0 : -FI_EINVAL;
  }
  int control(int command, void* argument) {
    if (command == FI_GETOPSFLAG || command == FI_SETOPSFLAG)
      return this->control_flags(command, static_cast<uint64_t*>(argument));
    if (command == FI_ALIAS) return open_alias(this->abi, *this, argument);
    if (command != FI_ENABLE) return -FI_ENOSYS;
    Lock lock(driver().mutex());
    return admit(CmEvent::kEnable).code();
  }

  // Slots of fi_ops_ep, beside those of the TransferEndpoint.
  int getopt(int level, int option, void* value, size_t* len) {
    if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
    if (option == FI_OPT_CM_DATA_SIZE) return report_option(size_t{Types::kCmDataSize}, value, len);
    if (!is_connect_limit(option)) return this->getopt_transfer(option, value, len);
    Lock lock(driver().mutex());
    return report_option(option == FI_OPT_WEFT_CONNECT_TIMEOUT ? connect_timeout_ms_ : answer_timeout_ms_, value, len);
  }
  int setopt(int level, int option, const void* value, size_t len) {
    if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
    if (!is_connect_limit(option)) return this->setopt_transfer(option, value, len);
    Lock lock(driver().mutex());
    if (!unconnected()) return -FI_EOPBADSTATE;
    int timeout_ms = 0;
    if (int result = read_option(value, len, timeout_ms); result != 0) return result;
    if (timeout_ms < 0) return -FI_EINVAL;
    const bool answer = option == FI_OPT_WEFT_ANSWER_TIMEOUT;
    if (!answer) connect_timeout_ms_ = timeout_ms;
    answer_timeout_ms_ = answer ? timeout_ms : kNoClock;
    return 0;
  }

  // Slot of fi_ops_cm.
  int getpeer(void* name, size_t* len) {
    Lock lock(driver().mutex());
    return state_ == CmState::kConnected ? report_name(peer_, name, len) : -FI_ENOTCONN;
  }

 protected:
  using Domain = typename Types::Domain;
  using Address = typename Types::Address;
  using Engine = typename Types::Engine;

  ConnectedEndpoint(Domain& domain, const fi_info& info, const Address& local, void* context)
      : Types::TransferEndpoint(domain, info, context),
        addr_format_(info.addr_format),
        connect_timeout_ms_(domain.fabric().parameters.connect_timeout_ms),
        answer_timeout_ms_(domain.fabric().parameters.answer_timeout_ms),
        local_(local) {
    this->abi.fid.ops = ops_of<T>;
    this->abi.ops = ops_of<T>;
    this->abi.cm = ops_of<T>;
  }
  ~ConnectedEndpoint() override = default;

  struct Delete {
    void operator()(T* endpoint) const noexcept { delete endpoint; }
  };
  using Owner = std::unique_ptr<T, Delete>;

  static constexpr int kNoClock = -1;
  // The rest with the engine's mutex held.
  bool unconnected() const noexcept { return state_ == CmState::kIdle || state_ == CmState::kEnabled; }
  // Whether this endpoint may make the call: an endpoint opened with a connection request accepts, any other connects.
  Status check_role(CmEvent call) const noexcept {
    if (!events_) return Status(-FI_ENOEQ);
    if (call == CmEvent::kConnect) return Status(request_ != nullptr ? -FI_EOPBADSTATE : 0);
    return Status(unconnected() && request_ == nullptr ? -FI_EOPBADSTATE : 0);
  }
  // Checks whether the call is allowed in this state, and enables the endpoint if the call implies that.
  Status admit(CmEvent call) noexcept {
    const CmStep step = next(state_, call);
    if (step.refusal != 0) return Status(-step.refusal);
    if (!(step.actions & kCmEnable)) return Status();
    if (Status status = this->enable_transfers(); !status.ok()) return status;
    state_ = CmState::kEnabled;
    return Status();
  }

  const uint32_t addr_format_;
  CmState state_ = CmState::kIdle;
  int connect_timeout_ms_;
  int answer_timeout_ms_;  // for the peer's application; kNoClock: the application set one deadline for all
  Address local_;
  Address peer_;
  std::unique_ptr<typename Types::ConnectRequest> request_;  // the request that it was opened to accept
  Ref<EventQueue<Engine>> events_;
  EventQueueCore::Reserved last_event_;  // FI_SHUTDOWN or the failure

 private:
  Engine& driver() noexcept { return static_cast<T*>(this)->engine(); }
};

}  // namespace weft
