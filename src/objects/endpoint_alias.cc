// SPDX-License-Identifier: BSD-2-Clause
// Aliases of endpoints; see endpoint_alias.h.
#include "objects/endpoint_alias.h"

#include "abi/ops.h"
#include "objects/endpoint_options.h"

namespace weft {
namespace {

// The arguments of calls without flags in the form of calls that end in `msg`. They live as long as the call.
struct Message {
  iovec one;
  fi_msg msg;
  Message(const void* buf, size_t len, void*& desc, fi_addr_t peer, void* context, uint64_t data = 0) noexcept
      : one{const_cast<void*>(buf), len}, msg{&one, &desc, 1, peer, context, data} {}
  operator const fi_msg*() const noexcept { return &msg; }
};
struct Tagged {
  iovec one;
  fi_msg_tagged msg;
  Tagged(const void* buf, size_t len, void*& desc, fi_addr_t peer, uint64_t tag, uint64_t ignore, void* context,
         uint64_t data = 0) noexcept
      : one{const_cast<void*>(buf), len}, msg{&one, &desc, 1, peer, tag, ignore, context, data} {}
  operator const fi_msg_tagged*() const noexcept { return &msg; }
};
struct Access {
  iovec one;
  fi_rma_iov remote;
  fi_msg_rma msg;
  Access(const void* buf, size_t len, void*& desc, fi_addr_t peer, uint64_t addr, uint64_t key, void* context,
         uint64_t data = 0) noexcept
      : Access(nullptr, &desc, 1, peer, addr, key, context, data) {
    one = {const_cast<void*>(buf), len};
    remote.len = len;
    msg.msg_iov = &one;
  }
  Access(const iovec* iov, void** desc, size_t count, fi_addr_t peer, uint64_t addr, uint64_t key, void* context,
         uint64_t data = 0) noexcept
      : remote{addr, 0, key}, msg{iov, desc, count, peer, &remote, 1, context, data} {
    for (size_t i = 0; iov != nullptr && i < count; ++i) remote.len += iov[i].iov_len;
  }
  operator const fi_msg_rma*() const noexcept { return &msg; }
};
struct Atomic {
  fi_rma_ioc remote;
  fi_msg_atomic msg;
  Atomic(const fi_ioc* iov, void** desc, size_t count, const fi_ioc* sized, size_t sized_count, fi_addr_t peer,
         uint64_t addr, uint64_t key, fi_datatype datatype, fi_op op, void* context) noexcept
      : remote{addr, 0, key}, msg{iov, desc, count, peer, &remote, 1, datatype, op, context, 0} {
    for (size_t i = 0; sized != nullptr && i < sized_count; ++i) remote.count += sized[i].count;
  }
  operator const fi_msg_atomic*() const noexcept { return &msg; }
};

// Owner: its C handle. Thread-safe as the endpoint is, whose tables get every call: the endpoint's state decides.
class EndpointAlias final : public Object<fid_ep> {
 public:
  EndpointAlias(fid_ep& target, RefCounted& users, uint64_t transmit, uint64_t receive) noexcept
      : ep_(&target), users_(users), transmit_(transmit), receive_(receive) {
    abi.fid = {target.fid.fclass, target.fid.context, ops_of<EndpointAlias>};
    abi.ops = ops_of<EndpointAlias>;
    abi.cm = ops_of<EndpointAlias>;
    abi.msg = ops_of<EndpointAlias>;
    abi.rma = ops_of<EndpointAlias>;
    abi.tagged = ops_of<EndpointAlias>;
    abi.atomic = ops_of<EndpointAlias>;
  }

  fid_ep* target() const noexcept { return ep_; }

  // fi_ops
  int close() noexcept {
    delete this;
    return 0;
  }
  int bind(::fid* object, uint64_t flags) noexcept { return fi_ep_bind(ep_, object, flags); }
  int control(int command, void* argument) {
    if (command == FI_GETOPSFLAG || command == FI_SETOPSFLAG)
      return control_default_flags(command, static_cast<uint64_t*>(argument), transmit_, receive_,
                                   [](uint64_t) { return 0; });
    return command == FI_ALIAS ? open_alias(abi, *users_, argument) : fi_control(&ep_->fid, command, argument);
  }

  // fi_ops_ep, fi_ops_cm
  ssize_t cancel(void* context) noexcept { return fi_cancel(&ep_->fid, context); }
  int getopt(int level, int name, void* value, size_t* len) noexcept {
    return fi_getopt(&ep_->fid, level, name, value, len);
  }
  int setopt(int level, int name, const void* value, size_t len) noexcept {
    return fi_setopt(&ep_->fid, level, name, value, len);
  }
  ssize_t rx_size_left() noexcept { return fi_rx_size_left(ep_); }
  ssize_t tx_size_left() noexcept { return fi_tx_size_left(ep_); }
  int setname(void* name, size_t len) noexcept { return fi_setname(&ep_->fid, name, len); }
  int getname(void* name, size_t* len) noexcept { return fi_getname(&ep_->fid, name, len); }
  int getpeer(void* name, size_t* len) noexcept { return fi_getpeer(ep_, name, len); }
  int connect(const void* name, const void* data, size_t len) noexcept { return fi_connect(ep_, name, data, len); }
  int accept(const void* data, size_t len) noexcept { return fi_accept(ep_, data, len); }
  int shutdown(uint64_t flags) noexcept { return fi_shutdown(ep_, flags); }
  int join(const void* name, uint64_t flags, fid_mc** mc, void* context) noexcept {
    return fi_join(ep_, name, flags, mc, context);
  }

  // fi_ops_msg
  ssize_t recv(void* buf, size_t len, void* desc, fi_addr_t peer, void* context) noexcept {
    return recvmsg(Message(buf, len, desc, peer, context), receive_);
  }
  ssize_t recvv(const iovec* iov, void** desc, size_t count, fi_addr_t peer, void* context) noexcept {
    const fi_msg msg{iov, desc, count, peer, context, 0};
    return recvmsg(&msg, receive_);
  }
  ssize_t recvmsg(const fi_msg* msg, uint64_t flags) noexcept { return fi_recvmsg(ep_, msg, flags); }
  ssize_t send(const void* buf, size_t len, void* desc, fi_addr_t peer, void* context) noexcept {
    return sendmsg(Message(buf, len, desc, peer, context), transmit_);
  }
  ssize_t sendv(const iovec* iov, void** desc, size_t count, fi_addr_t peer, void* context) noexcept {
    const fi_msg msg{iov, desc, count, peer, context, 0};
    return sendmsg(&msg, transmit_);
  }
  ssize_t sendmsg(const fi_msg* msg, uint64_t flags) noexcept { return fi_sendmsg(ep_, msg, flags); }
  ssize_t inject(const void* buf, size_t len, fi_addr_t peer) noexcept {
    return sendmsg(Message(buf, len, none_, peer, nullptr), injected());
  }
  ssize_t senddata(const void* buf, size_t len, void* desc, uint64_t data, fi_addr_t peer, void* context) noexcept {
    return sendmsg(Message(buf, len, desc, peer, context, data), transmit_ | FI_REMOTE_CQ_DATA);
  }
  ssize_t injectdata(const void* buf, size_t len, uint64_t data, fi_addr_t peer) noexcept {
    return sendmsg(Message(buf, len, none_, peer, nullptr, data), injected() | FI_REMOTE_CQ_DATA);
  }

  // fi_ops_tagged
  ssize_t trecv(void* buf, size_t len, void* desc, fi_addr_t peer, uint64_t tag, uint64_t ignore,
                void* context) noexcept {
    return trecvmsg(Tagged(buf, len, desc, peer, tag, ignore, context), receive_ & ~FI_MULTI_RECV);
  }
  ssize_t trecvv(const iovec* iov, void** desc, size_t count, fi_addr_t peer, uint64_t tag, uint64_t ignore,
                 void* context) noexcept {
    const fi_msg_tagged msg{iov, desc, count, peer, tag, ignore, context, 0};
    return trecvmsg(&msg, receive_ & ~FI_MULTI_RECV);
  }
  ssize_t trecvmsg(const fi_msg_tagged* msg, uint64_t flags) noexcept { return fi_trecvmsg(ep_, msg, flags); }
  ssize_t tsend(const void* buf, size_t len, void* desc, fi_addr_t peer, uint64_t tag, void* context) noexcept {
    return tsendmsg(Tagged(buf, len, desc, peer, tag, 0, context), transmit_);
  }
  ssize_t tsendv(const iovec* iov, void** desc, size_t count, fi_addr_t peer, uint64_t tag, void* context) noexcept {
    const fi_msg_tagged msg{iov, desc, count, peer, tag, 0, context, 0};
    return tsendmsg(&msg, transmit_);
  }
  ssize_t tsendmsg(const fi_msg_tagged* msg, uint64_t flags) noexcept { return fi_tsendmsg(ep_, msg, flags); }
  ssize_t tinject(const void* buf, size_t len, fi_addr_t peer, uint64_t tag) noexcept {
    return tsendmsg(Tagged(buf, len, none_, peer, tag, 0, nullptr), injected());
  }
  ssize_t tsenddata(const void* buf, size_t len, void* desc, uint64_t data, fi_addr_t peer, uint64_t tag,
                    void* context) noexcept {
    return tsendmsg(Tagged(buf, len, desc, peer, tag, 0, context, data), transmit_ | FI_REMOTE_CQ_DATA);
  }
  ssize_t tinjectdata(const void* buf, size_t len, uint64_t data, fi_addr_t peer, uint64_t tag) noexcept {
    return tsendmsg(Tagged(buf, len, none_, peer, tag, 0, nullptr, data), injected() | FI_REMOTE_CQ_DATA);
  }

  // fi_ops_rma
  ssize_t read(void* buf, size_t len, void* desc, fi_addr_t peer, uint64_t addr, uint64_t key, void* context) noexcept {
    return readmsg(Access(buf, len, desc, peer, addr, key, context), for_reads());
  }
  ssize_t readv(const iovec* iov, void** desc, size_t count, fi_addr_t peer, uint64_t addr, uint64_t key,
                void* context) noexcept {
    return readmsg(Access(iov, desc, count, peer, addr, key, context), for_reads());
  }
  ssize_t readmsg(const fi_msg_rma* msg, uint64_t flags) noexcept { return fi_readmsg(ep_, msg, flags); }
  ssize_t write(const void* buf, size_t len, void* desc, fi_addr_t peer, uint64_t addr, uint64_t key,
                void* context) noexcept {
    return writemsg(Access(buf, len, desc, peer, addr, key, context), transmit_);
  }
  ssize_t writev(const iovec* iov, void** desc, size_t count, fi_addr_t peer, uint64_t addr, uint64_t key,
                 void* context) noexcept {
    return writemsg(Access(iov, desc, count, peer, addr, key, context), transmit_);
  }
  ssize_t writemsg(const fi_msg_rma* msg, uint64_t flags) noexcept { return fi_writemsg(ep_, msg, flags); }
  ssize_t rma_inject(const void* buf, size_t len, fi_addr_t peer, uint64_t addr, uint64_t key) noexcept {
    return writemsg(Access(buf, len, none_, peer, addr, key, nullptr), injected());
  }
  ssize_t writedata(const void* buf, size_t len, void* desc, uint64_t data, fi_addr_t peer, uint64_t addr, uint64_t key,
                    void* context) noexcept {
    return writemsg(Access(buf, len, desc, peer, addr, key, context, data), transmit_ | FI_REMOTE_CQ_DATA);
  }
  ssize_t rma_injectdata(const void* buf, size_t len, uint64_t data, fi_addr_t peer, uint64_t addr,
                         uint64_t key) noexcept {
    return writemsg(Access(buf, len, none_, peer, addr, key, nullptr, data), injected() | FI_REMOTE_CQ_DATA);
  }

  // fi_ops_atomic
  ssize_t atomic(const void* buf, size_t count, void* desc, fi_addr_t peer, uint64_t addr, uint64_t key,
                 fi_datatype datatype, fi_op op, void* context) noexcept {
    const fi_ioc one{const_cast<void*>(buf), count};
    return atomicv(&one, &desc, 1, peer, addr, key, datatype, op, context);
  }
  ssize_t atomicv(const fi_ioc* iov, void** desc, size_t count, fi_addr_t peer, uint64_t addr, uint64_t key,
                  fi_datatype datatype, fi_op op, void* context) noexcept {
    return atomicmsg(Atomic(iov, desc, count, iov, count, peer, addr, key, datatype, op, context), transmit_);
  }
  ssize_t atomicmsg(const fi_msg_atomic* msg, uint64_t flags) noexcept { return fi_atomicmsg(ep_, msg, flags); }
  ssize_t inject_atomic(const void* buf, size_t count, fi_addr_t peer, uint64_t addr, uint64_t key,
                        fi_datatype datatype, fi_op op) noexcept {
    const fi_ioc one{const_cast<void*>(buf), count};
    return atomicmsg(Atomic(&one, &none_, 1, &one, 1, peer, addr, key, datatype, op, nullptr), injected());
  }
  ssize_t fetch_atomic(const void* buf, size_t count, void* desc, void* result, void* result_desc, fi_addr_t peer,
                       uint64_t addr, uint64_t key, fi_datatype datatype, fi_op op, void* context) noexcept {
    const fi_ioc one{const_cast<void*>(buf), count};
    fi_ioc results{result, count};
    return fetch_atomicv(&one, &desc, 1, &results, &result_desc, 1, peer, addr, key, datatype, op, context);
  }
  ssize_t fetch_atomicv(const fi_ioc* iov, void** desc, size_t count, fi_ioc* results, void** result_desc,
                        size_t result_count, fi_addr_t peer, uint64_t addr, uint64_t key, fi_datatype datatype,
                        fi_op op, void* context) noexcept {
    const Atomic call(iov, desc, count, results, result_count, peer, addr, key, datatype, op, context);
    return fetch_atomicmsg(call, results, result_desc, result_count, for_reads());
  }
  ssize_t fetch_atomicmsg(const fi_msg_atomic* msg, fi_ioc* results, void** result_desc, size_t result_count,
                          uint64_t flags) noexcept {
    return fi_fetch_atomicmsg(ep_, msg, results, result_desc, result_count, flags);
  }
  ssize_t compare_atomic(const void* buf, size_t count, void* desc, const void* compare, void* compare_desc,
                         void* result, void* result_desc, fi_addr_t peer, uint64_t addr, uint64_t key,
                         fi_datatype datatype, fi_op op, void* context) noexcept {
    const fi_ioc one{const_cast<void*>(buf), count}, compares{const_cast<void*>(compare), count};
    fi_ioc results{result, count};
    return compare_atomicv(&one, &desc, 1, &compares, &compare_desc, 1, &results, &result_desc, 1, peer, addr, key,
                           datatype, op, context);
  }
  ssize_t compare_atomicv(const fi_ioc* iov, void** desc, size_t count, const fi_ioc* compares, void** compare_desc,
                          size_t compare_count, fi_ioc* results, void** result_desc, size_t result_count,
                          fi_addr_t peer, uint64_t addr, uint64_t key, fi_datatype datatype, fi_op op,
                          void* context) noexcept {
    const Atomic call(iov, desc, count, results, result_count, peer, addr, key, datatype, op, context);
    return compare_atomicmsg(call, compares, compare_desc, compare_count, results, result_desc, result_count,
                             for_reads());
  }
  ssize_t compare_atomicmsg(const fi_msg_atomic* msg, const fi_ioc* compares, void** compare_desc, size_t compare_count,
                            fi_ioc* results, void** result_desc, size_t result_count, uint64_t flags) noexcept {
    return fi_compare_atomicmsg(ep_, msg, compares, compare_desc, compare_count, results, result_desc, result_count,
                                flags);
  }
  int atomicvalid(fi_datatype type, fi_op op, size_t* count) noexcept { return fi_atomicvalid(ep_, type, op, count); }
  int fetch_atomicvalid(fi_datatype type, fi_op op, size_t* count) noexcept {
    return fi_fetch_atomicvalid(ep_, type, op, count);
  }
  int compare_atomicvalid(fi_datatype type, fi_op op, size_t* count) noexcept {
    return fi_compare_atomicvalid(ep_, type, op, count);
  }

 private:
  // Defaults for outgoing data apply to calls that fetch data as well.
  uint64_t for_reads() const noexcept { return transmit_ & ~(FI_INJECT | FI_REMOTE_CQ_DATA); }
  // The completion level holds: counters count by it.
  uint64_t injected() const noexcept { return (transmit_ & ~FI_COMPLETION) | FI_INJECT | kSilent; }

  fid_ep* const ep_;
  const Ref<RefCounted> users_;
  uint64_t transmit_;  // default flags
  uint64_t receive_;
  void* none_ = nullptr;  // the descriptor of an injected buffer
};

}  // namespace

int open_alias(fid_ep& endpoint, RefCounted& users, void* argument) {
  const auto* wanted = static_cast<const struct fi_alias*>(argument);
  if (wanted == nullptr || wanted->fid == nullptr) return -FI_EINVAL;
  std::uint64_t defaults[] = {FI_TRANSMIT, FI_RECV}, own = wanted->flags;
  for (std::uint64_t& flags : defaults) {
    const std::uint64_t direction = flags;
    if (const int error = fi_control(&endpoint.fid, FI_GETOPSFLAG, &flags); error != 0) return error;
    flags &= ~direction;
  }
  if (const int error =
          control_default_flags(FI_SETOPSFLAG, &own, defaults[0], defaults[1], [](uint64_t) { return 0; });
      error != 0)
    return error;
  *wanted->fid = &(new EndpointAlias(endpoint, users, defaults[0], defaults[1]))->abi.fid;
  return 0;
}

fid_ep* without_alias(fid_ep* ep) noexcept {
  if (ep == nullptr) return nullptr;
  const auto* alias = object_if<EndpointAlias>(&ep->fid);
  return alias != nullptr ? without_alias(alias->target()) : ep;
}

}  // namespace weft
