// SPDX-License-Identifier: BSD-2-Clause
// What reliable-datagram endpoints answer alike beside transfers: options, default flags and cancellation of
// fi_endpoint(3), on top of the calls in transfer_calls.h; and when those calls are there at all.
#pragma once

#include "abi/msg_ops.h"
#include "abi/rma_ops.h"
#include "abi/tagged_ops.h"
#include "objects/endpoint_options.h"
#include "objects/triggers.h"
#include "rdm/transfer_calls.h"

namespace weft::rdm {

struct NoCalls {};

// T: as for TransferCalls, and a friend of this as well, with
//   int enable()             with the mutex held
//   std::size_t tx_size_     operations that may be outstanding
//   CompletionRoutes& routes()
template <class T>
class EndpointCalls : public TransferCalls<T> {
 public:
  // Slot of fi_ops.
  int control(int command, void* argument) {
    Lock lock(self().engine().mutex());
    if (command == FI_GETOPSFLAG || command == FI_SETOPSFLAG)
      return control_default_flags(command, static_cast<uint64_t*>(argument), this->transmit_flags_,
                                   this->receive_flags_, [](uint64_t) { return 0; });
    return command == FI_ENABLE ? self().enable() : -FI_ENOSYS;
  }

  // Slots of fi_ops_ep.
  ssize_t cancel(void* context) noexcept {
    if (DeferredWork* waiting = self().routes().deferred; waiting != nullptr && waiting->cancel(this->abi, context))
      return 0;
    Lock lock(self().engine().mutex());
    return self().receives_.cancel(context);
  }
  int getopt(int level, int option, void* value, size_t* len) {
    if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
    Lock lock(self().engine().mutex());
    switch (option) {
      case FI_OPT_MIN_MULTI_RECV:
        return report_option(self().receives_.min_multi_receive, value, len);
      case FI_OPT_CM_DATA_SIZE:
        return report_option(size_t{0}, value, len);
      case FI_OPT_TX_SIZE:
        return report_option(self().tx_size_, value, len);
      default:
        return -FI_ENOPROTOOPT;
    }
  }
  int setopt(int level, int option, const void* value, size_t len) {
    if (level != FI_OPT_ENDPOINT || option != FI_OPT_MIN_MULTI_RECV) return -FI_ENOPROTOOPT;
    size_t least = 0;
    if (int result = read_option(value, len, least); result != 0) return result;
    Lock lock(self().engine().mutex());
    self().receives_.min_multi_receive = least;
    return 0;
  }

 protected:
  using TransferCalls<T>::TransferCalls;

  // FI_TRIGGER. What waits then is dropped when the endpoint closes, before it takes the mutex.
  void take_triggers(uint64_t caps) noexcept {
    if ((caps & FI_TRIGGER) != 0) self().routes().deferred = &self().engine().deferred();
  }
  void drop_triggered() noexcept {
    if (DeferredWork* waiting = self().routes().deferred; waiting != nullptr) waiting->drop(this->abi);
  }

  // Until the endpoint is enabled every transfer call answers -FI_EOPBADSTATE.
  void refuse_transfers() noexcept {
    static constexpr fi_ops_msg kMsg = make_msg_ops<NoCalls, FI_EOPBADSTATE>();
    static constexpr fi_ops_tagged kTagged = make_tagged_ops<NoCalls, FI_EOPBADSTATE>();
    static constexpr fi_ops_rma kRma = make_rma_ops<NoCalls, FI_EOPBADSTATE>();
    install(kMsg, kTagged, kRma);
  }
  // Remote memory is for those who asked for it, or for nothing in particular.
  void take_transfers(uint64_t caps) noexcept {
    static constexpr fi_ops_msg kMsg = Triggers<T>::msg();
    static constexpr fi_ops_tagged kTagged = Triggers<T>::tagged();
    static constexpr fi_ops_rma kRma = Triggers<T>::rma();
    static constexpr fi_ops_rma kNoRma = make_rma_ops<NoCalls>();
    constexpr uint64_t kRmaCaps = FI_RMA | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
    install(kMsg, kTagged, (caps & kRmaCaps) != 0 || caps == 0 ? kRma : kNoRma);
  }

 private:
  void install(const fi_ops_msg& msg, const fi_ops_tagged& tagged, const fi_ops_rma& rma) noexcept {
    this->abi.msg = const_cast<fi_ops_msg*>(&msg);
    this->abi.tagged = const_cast<fi_ops_tagged*>(&tagged);
    this->abi.rma = const_cast<fi_ops_rma*>(&rma);
  }
  T& self() noexcept { return static_cast<T&>(*this); }
};

}  // namespace weft::rdm
