// SPDX-License-Identifier: BSD-2-Clause
// The calls of fi_msg(3) of connected endpoints, datagram endpoints and shared receive contexts, and those of
// fi_endpoint(3) that concern only the queues. Calls for one buffer go straight to the device if they can. Included by
// the sources that make the tables of calls.
#pragma once

#include <concepts>

#include "abi/ops.h"
#include "objects/endpoint_options.h"
#include "verbs/transfer/posted_receives.h"
#include "verbs/transfer/send_queue.h"
#include "verbs/transfer/send_work.h"

namespace weft::verbs {

// An endpoint or a context with a queue of receives, which has the straight calls of PostedReceives, too.
template <class T>
concept ReceiveTarget = requires(T& target, const iovec* iov, void** desc, void* context) {
  { target.receives().post_list(iov, desc, 1, context, target.receives().flags()) }
  noexcept->std::same_as<ssize_t>;
};

// T: a ReceiveTarget.
template <class T>
class ReceiveCalls : public Object<fid_ep> {
 public:
  ssize_t recv(void* buf, size_t len, void* desc, fi_addr_t, void* context) noexcept {
    const bool locked = receives().may_go(buf, len, desc) && receives().lock().try_lock();
    if (!locked || !receives().is_clear()) [[unlikely]]
      return recv_slowly(buf, len, desc, context, locked);
    const int error = receives().post_straight(buf, len, desc, context);
    return reload(self()).receives().end_straight(error);
  }
  ssize_t recvv(const iovec* iov, void** desc, size_t count, fi_addr_t, void* context) noexcept {
    return receives().post_list(iov, desc, count, context, receives().flags());
  }
  ssize_t recvmsg(const fi_msg* msg, uint64_t flags) noexcept {
    if (msg == nullptr) return -FI_EINVAL;
    if ((flags & (FI_PEEK | FI_CLAIM | FI_DISCARD | FI_TRIGGER)) != 0) return -FI_EBADFLAGS;
    return receives().post_list(msg->msg_iov, msg->desc, msg->iov_count, msg->context, flags);
  }

 private:
  [[gnu::noinline]] ssize_t recv_slowly(void* buf, size_t len, void* desc, void* context, bool locked) noexcept {
    if (locked) receives().lock().unlock();
    const iovec one{buf, len};
    return receives().post_list(&one, &desc, 1, context, receives().flags());
  }

  T& self() noexcept {
    static_assert(ReceiveTarget<T>);
    return static_cast<T&>(*this);
  }
  auto& receives() noexcept { return self().receives(); }
};

template <class T>
concept SendTarget = ReceiveTarget<T> && requires(T& target, const SendWork& work, fi_addr_t dest) {
  // Whether the queues are enabled.
  { target.is_enabled() } -> std::same_as<bool>;
  { target.sends() } -> std::same_as<SendQueue&>;
  // Whether a message may go straight; sets its destination. The caller holds the lock of sends().
  { target.aim(dest) } -> std::same_as<bool>;
  // Posts any message.
  { target.transmit(work, dest) }
  noexcept->std::same_as<ssize_t>;
};

// T: a SendTarget.
template <class T>
class SendCalls : public ReceiveCalls<T> {
 public:
  ssize_t send(const void* buf, size_t len, void* desc, fi_addr_t dest, void* context) noexcept {
    const bool locked = sends().may_be_inline(buf, len) && sends().lock().try_lock();
    if (!locked || !self().aim(dest)) [[unlikely]]
      return send_slowly(buf, len, desc, dest, context, locked);
    const int error = sends().post_straight(buf, len, desc, IBV_WR_SEND, kMessage, context, false, true);
    return reload(self()).sends().end_straight(error);
  }
  ssize_t sendv(const iovec* iov, void** desc, size_t count, fi_addr_t dest, void* context) noexcept {
    const fi_msg message{iov, desc, count, dest, context, 0};
    return sendmsg(&message, sends().flags() & ~FI_REMOTE_CQ_DATA);
  }
  ssize_t sendmsg(const fi_msg* msg, uint64_t flags) noexcept {
    if (msg == nullptr) return -FI_EINVAL;
    ManySges many(msg->msg_iov, msg->desc, msg->iov_count, sends().iov_limit());
    if (many.count < 0) return -FI_EINVAL;
    const ibv_wr_opcode opcode = (flags & FI_REMOTE_CQ_DATA) != 0 ? IBV_WR_SEND_WITH_IMM : IBV_WR_SEND;
    SendWork work = work_with(many, opcode, kMessage, flags, msg->context);
    work.data = msg->data;
    return self().transmit(work, msg->addr);
  }
  ssize_t inject(const void* buf, size_t len, fi_addr_t dest) noexcept {
    const bool locked = sends().may_be_inline(buf, len) && sends().lock().try_lock();
    if (!locked || !self().aim(dest)) [[unlikely]]
      return inject_slowly(buf, len, dest, locked);
    const int error = sends().post_straight(buf, len, nullptr, IBV_WR_SEND, kMessage, nullptr, true, true);
    return reload(self()).sends().end_straight(error);
  }
  ssize_t senddata(const void* buf, size_t len, void* desc, uint64_t data, fi_addr_t dest, void* context) noexcept {
    return send_one(OneSge(buf, len, desc), IBV_WR_SEND_WITH_IMM, sends().flags(), context, dest, data);
  }
  ssize_t injectdata(const void* buf, size_t len, uint64_t data, fi_addr_t dest) noexcept {
    return send_one(OneSge(buf, len, nullptr), IBV_WR_SEND_WITH_IMM, sends().flags() | kInjected, nullptr, dest, data);
  }

  // Slots of fi_ops_ep. cancel: -FI_ENOENT without such a receive, -FI_EBUSY when the device has it already.
  ssize_t cancel(void* context) noexcept { return self().receives().cancel(context); }
  ssize_t rx_size_left() noexcept { return self().is_enabled() ? self().receives().rx_size_left() : -FI_EOPBADSTATE; }
  ssize_t tx_size_left() noexcept { return self().is_enabled() ? sends().room() : -FI_EOPBADSTATE; }

 protected:
  // FI_GETOPSFLAG and FI_SETOPSFLAG of fi_control: `flags` names FI_TRANSMIT or FI_RECV, not both.
  int control_flags(int command, uint64_t* flags) noexcept {
    auto& receives = self().receives();
    LightGuard transmitting(sends().lock());
    LightGuard receiving(receives.lock());
    const int result =
        control_default_flags(command, flags, sends().flags(), receives.flags(), [](uint64_t) { return 0; });
    sends().choose_way();
    if constexpr (requires { receives.choose_way(); }) receives.choose_way();
    return result;
  }

 private:
  static constexpr uint32_t kMessage = FI_SEND | FI_MSG;
  static constexpr uint64_t kInjected = FI_INJECT | kSilent;

  // `locked`: the caller holds the lock.
  [[gnu::noinline]] ssize_t send_slowly(const void* buf, size_t len, void* desc, fi_addr_t dest, void* context,
                                        bool locked) noexcept {
    const bool inlined = locked;
    if (!locked) locked = sends().may_be_long(buf, len, desc) && sends().lock().try_lock();
    if (locked && sends().make_clear()) {
      if (self().aim(dest))
        return sends().end_straight(
            sends().post_straight(buf, len, desc, IBV_WR_SEND, kMessage, context, false, inlined));
      sends().give_up();
    }
    if (locked) sends().lock().unlock();
    return send_one(OneSge(buf, len, desc), IBV_WR_SEND, sends().flags(), context, dest);
  }
  [[gnu::noinline]] ssize_t inject_slowly(const void* buf, size_t len, fi_addr_t dest, bool locked) noexcept {
    if (locked) sends().lock().unlock();
    return send_one(OneSge(buf, len, nullptr), IBV_WR_SEND, sends().flags() | kInjected, nullptr, dest);
  }
  [[gnu::always_inline]] ssize_t send_one(OneSge one, ibv_wr_opcode opcode, uint64_t flags, void* context,
                                          fi_addr_t dest, uint64_t data = 0) noexcept {
    SendWork work = work_with(one, opcode, kMessage, flags, context);
    work.data = data;
    return self().transmit(work, dest);
  }

  T& self() noexcept {
    static_assert(SendTarget<T>);
    return static_cast<T&>(*this);
  }
  SendQueue& sends() noexcept { return self().sends(); }
};

// The tables of transfer calls that an endpoint carries in each of its states, so that no call checks the state.
struct TransferTables {
  fi_ops_msg msg;
  fi_ops_rma rma;
  fi_ops_atomic atomic;
};
template <class T, int Missing>
constexpr TransferTables make_tables() noexcept {
  return {kOps<fi_ops_msg, T, Missing>, kOps<fi_ops_rma, T, Missing>, kOps<fi_ops_atomic, T, Missing>};
}

inline void install(fid_ep& ep, const TransferTables& tables) noexcept {
  ep.msg = slots(tables.msg);
  ep.rma = slots(tables.rma);
  ep.atomic = slots(tables.atomic);
}

}  // namespace weft::verbs
