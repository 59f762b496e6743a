// SPDX-License-Identifier: BSD-2-Clause
// The calls of reliable-datagram endpoints beside transfers: options, default flags and cancellation of fi_endpoint(3),
// on top of objects/transfer_calls.h; receives from a source; atomic calls, fi_atomic(3); the tables of transfer calls
// before and after fi_enable.
#pragma once

#include <rdma/fi_atomic.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>

#include <concepts>
#include <cstdint>

#include "abi/ops.h"
#include "base/mutex.h"
#include "objects/address_vector.h"
#include "objects/atomic_calls.h"
#include "objects/endpoint_alias.h"
#include "objects/endpoint_options.h"
#include "objects/transfer_calls.h"
#include "objects/triggers.h"
#include "rdm/atomics.h"
#include "rdm/peer_table.h"
#include "rdm/receive_side.h"

namespace weft::rdm {

// The tables of scalable endpoints and of contexts: a transmit context has no receive calls, a receive context no
// others, a scalable endpoint itself none at all; fi_endpoint(3), SCALABLE ENDPOINTS and SHARED CONTEXTS.
struct ContextTables {
  fi_ops_msg msg;
  fi_ops_tagged tagged;
};

// Replaces the endpoint tables of `ep` by those of a context; `tables` stores two of them.
inline void restrict_to_context(fid_ep& ep, ContextTables& tables, bool transmits) noexcept {
  tables.msg =
      transmits ? with_receives(*ep.msg, kOps<fi_ops_msg, NoCalls>) : with_receives(kOps<fi_ops_msg, NoCalls>, *ep.msg);
  tables.tagged = transmits ? with_receives(*ep.tagged, kOps<fi_ops_tagged, NoCalls>)
                            : with_receives(kOps<fi_ops_tagged, NoCalls>, *ep.tagged);
  ep.msg = &tables.msg;
  ep.tagged = &tables.tagged;
  if (transmits) return;
  ep.rma = ops_of<NoCalls>;
  ep.atomic = ops_of<NoCalls>;
}

// Receive calls of `ep` return -FI_EOPBADSTATE from now on, because receives are posted to a shared context.
inline void leave_receives_to_context(fid_ep& ep, ContextTables& tables) noexcept {
  tables = {with_receives(*ep.msg, kOps<fi_ops_msg, NoCalls, FI_EOPBADSTATE>),
            with_receives(*ep.tagged, kOps<fi_ops_tagged, NoCalls, FI_EOPBADSTATE>)};
  ep.msg = &tables.msg;
  ep.tagged = &tables.tagged;
}

// Sets the receive context that the destination of a message names (fi_rx_addr); false: no such context can exist.
inline bool set_receive_context(TransmitRequest& request, const AddressVectorCore& vector) noexcept {
  if (request.operation > Operation::kTagged) return true;
  const unsigned context = vector.receive_context_of(request.destination);
  request.receive_context = static_cast<std::uint8_t>(context);
  return context < kMaxContexts;
}

inline constexpr ssize_t kNominalReceives = 2048;  // for the deprecated fi_rx_size_left; memory is the limit

// The requirements of the calls on an endpoint or a context, beside post_receive().
template <class T>
concept TransferTarget = TransmitTarget<T> && requires(T& target, fi_addr_t handle) {
  // Its mutex guards everything. transmit() takes it and calls set_receive_context(). What follows is called with it
  // held.
  target.engine().mutex();
  { target.engine().progress() }
  noexcept;
  // A pointer to a peer; null: unknown.
  { target.peer_of(handle)->id } -> std::convertible_to<std::uint64_t>;
  // Where handles of peers are found; may be null.
  *target.vector();
  { target.routes() } -> std::same_as<CompletionRoutes&>;
  // fi_enable: 0 or an error.
  { target.enable() } -> std::same_as<int>;
};

// T: the TransferTarget that derives from this.
template <class T>
class EndpointCalls : public TransferCalls<T>, public RefCounted {
 public:
  // For ReceiveCalls.
  [[gnu::always_inline]] ssize_t post_receive(ReceiveRequest&& request, fi_addr_t source) noexcept {
    if (!valid_vector(request.iov)) return -FI_EINVAL;
    Lock lock(self().engine().mutex());
    request.wanted.tag &= ~request.wanted.ignore;
    if (directs_ && source != FI_ADDR_UNSPEC) {
      const auto* peer = self().peer_of(source);
      if (peer == nullptr) return self().vector() ? no_peer(*self().vector(), source) : -FI_EINVAL;
      request.wanted.source = peer->id;
    }
    if ((request.flags & (FI_PEEK | FI_CLAIM | FI_DISCARD)) == 0) return receive_side_.post(request);
    // An application that polls with FI_PEEK may read the answer to its last peek each time. Reading the queue then
    // makes no progress, so this call must.
    if ((request.flags & FI_PEEK) != 0) self().engine().progress();
    return receive_side_.peek_or_claim(request);
  }

  // Slot of fi_ops.
  int control(int command, void* argument) {
    if (command == FI_ALIAS) return open_alias(this->abi, *this, argument);
    Lock lock(self().engine().mutex());
    if (command == FI_GETOPSFLAG || command == FI_SETOPSFLAG)
      return control_default_flags(command, static_cast<uint64_t*>(argument), this->transmit_flags_,
                                   this->receive_flags_, [](uint64_t) { return 0; });
    return command == FI_ENABLE ? self().enable() : -FI_ENOSYS;
  }

  // Slots of fi_ops_ep.
  ssize_t cancel(void* context) noexcept {
    if (self().routes().cancel_triggered(this->abi, context)) return 0;
    Lock lock(self().engine().mutex());
    return receive_side_.cancel(context);
  }
  int getopt(int level, int option, void* value, size_t* len) {
    if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
    Lock lock(self().engine().mutex());
    if (option == FI_OPT_MIN_MULTI_RECV) return report_option(receive_side_.min_multi_receive, value, len);
    if (option == FI_OPT_CM_DATA_SIZE) return report_option(size_t{0}, value, len);
    if (option == FI_OPT_TX_SIZE) return report_option(tx_size_, value, len);
    if (option == FI_OPT_SHARED_MEMORY_PERMITTED) return report_option(shares_memory_, value, len);
    if (device_memory_ && is_device_memory_option(option)) return get_device_memory_option(option, value, len);
    return -FI_ENOPROTOOPT;
  }
  int setopt(int level, int option, const void* value, size_t len) {
    if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
    Lock lock(self().engine().mutex());
    if (option == FI_OPT_MIN_MULTI_RECV) return read_option(value, len, receive_side_.min_multi_receive);
    if (option == FI_OPT_TX_SIZE)
      return set_queue_size(enabled_, value, len, [this](std::size_t size) { self().set_tx_size(size); });
    if (option == FI_OPT_SHARED_MEMORY_PERMITTED) return read_option(value, len, shares_memory_);
    if (device_memory_ && is_device_memory_option(option)) return set_device_memory_option(option, value, len);
    return -FI_ENOPROTOOPT;
  }

  // For contexts, with the engine's mutex held.
  ReceiveSide& receive_side() noexcept { return receive_side_; }
  bool directs() const noexcept { return directs_; }
  bool enabled() const noexcept { return enabled_; }
  // Operations that may be outstanding.
  std::size_t tx_size() const noexcept { return tx_size_; }
  void set_tx_size(std::size_t size) noexcept { tx_size_ = size; }
  // FI_OPT_SHARED_MEMORY_PERMITTED, for connections made from now on.
  const bool& shares_memory() const noexcept { return shares_memory_; }

 protected:
  // `receives` may still be under construction. `directs`: FI_DIRECTED_RECV.
  EndpointCalls(const fi_info& info, ReceiveSide& receives, bool directs, std::size_t tx_size) noexcept
      : TransferCalls<T>(info),
        receive_side_(receives),
        directs_(directs),
        device_memory_((info.caps & FI_HMEM) != 0),
        tx_size_(tx_size) {
    static_assert(TransferTarget<T>);
  }

  bool enabled_ = false;

  // Until the endpoint is enabled every transfer call returns -FI_EOPBADSTATE.
  void refuse_transfers() noexcept {
    this->abi.msg = ops_of<NoCalls, FI_EOPBADSTATE>;
    this->abi.tagged = ops_of<NoCalls, FI_EOPBADSTATE>;
    this->abi.rma = ops_of<NoCalls, FI_EOPBADSTATE>;
  }
  // The calls for remote memory need one of its capabilities, or no capabilities at all (the default).
  void take_transfers(uint64_t caps) noexcept {
    static constexpr fi_ops_msg kMsg = Triggers<T>::msg();
    static constexpr fi_ops_tagged kTagged = Triggers<T>::tagged();
    static constexpr fi_ops_rma kRma = Triggers<T>::rma();
    constexpr uint64_t kRmaCaps = FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    this->abi.msg = slots(kMsg);
    this->abi.tagged = slots(kTagged);
    this->abi.rma = slots((caps & kRmaCaps) != 0 || caps == 0 ? kRma : kOps<fi_ops_rma, NoCalls>);
  }

 private:
  T& self() noexcept { return static_cast<T&>(*this); }

  ReceiveSide& receive_side_;
  const bool directs_;
  const bool device_memory_;  // FI_HMEM
  std::size_t tx_size_;
  bool shares_memory_ = true;
};

template <class T>
concept AtomicTarget = TransferTarget<T> &&
    requires(T& target, const AtomicRequest& request, AtomicKind kind, fi_datatype datatype, fi_op operation) {
  { target.update(request) }
  noexcept->std::same_as<ssize_t>;
  // Elements per operation; 0: not supported.
  { target.atomic_count(kind, datatype, operation) }
  noexcept->std::same_as<std::size_t>;
};

// T: the AtomicTarget that derives from this.
template <class T>
class AtomicCalls : public weft::AtomicCalls<T, EndpointCalls<T>> {
 public:
  uint64_t default_flags() const noexcept { return this->transmit_flags_; }

 protected:
  AtomicCalls(const fi_info& info, ReceiveSide& receives, bool directs, std::size_t tx_size) noexcept
      : weft::AtomicCalls<T, EndpointCalls<T>>(info, receives, directs, tx_size) {
    static_assert(AtomicTarget<T>);
  }

  void refuse_transfers() noexcept {
    EndpointCalls<T>::refuse_transfers();
    this->abi.atomic = ops_of<NoCalls, FI_EOPBADSTATE>;
  }
  void take_transfers(uint64_t caps) noexcept {
    static constexpr fi_ops_atomic kAtomic = Triggers<T>::atomic();
    EndpointCalls<T>::take_transfers(caps);
    this->abi.atomic = slots((caps & FI_ATOMIC) != 0 || caps == 0 ? kAtomic : kOps<fi_ops_atomic, NoCalls>);
  }
};

}  // namespace weft::rdm
