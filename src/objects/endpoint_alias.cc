// SPDX-License-Identifier: BSD-2-Clause
// Aliases of endpoints; see endpoint_alias.h.
#include "objects/endpoint_alias.h"

#include "abi/ops.h"
#include "objects/atomic_calls.h"
#include "objects/endpoint_options.h"
#include "objects/transfer_calls.h"

namespace weft {
namespace {

// Owner: its C handle. Thread-safe as the endpoint is, whose tables get every call: the endpoint's state decides.
class EndpointAlias final : public AtomicCalls<EndpointAlias, TransferCalls<EndpointAlias>> {
 public:
  EndpointAlias(fid_ep& target, RefCounted& users, uint64_t transmit, uint64_t receive) noexcept
      : AtomicCalls(transmit, receive), ep_(&target), users_(users) {
    identify<EndpointAlias>(abi, target.fid.fclass, target.fid.context);
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
      return control_default_flags(command, static_cast<uint64_t*>(argument), transmit_flags_, receive_flags_,
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

  // For the call templates: each call becomes one with flags.
  ssize_t post_receive(const ReceiveRequest& request, fi_addr_t source, void** desc) noexcept {
    const auto& [iov, context, flags, tagged, wanted] = request;
    const fi_msg untagged{iov.data(), desc, iov.size(), source, context, 0};
    const fi_msg_tagged message{iov.data(), desc, iov.size(), source, wanted.tag, wanted.ignore, context, 0};
    return tagged ? fi_trecvmsg(ep_, &message, flags) : fi_recvmsg(ep_, &untagged, flags);
  }
  ssize_t transmit(const TransmitRequest& request, void** desc) noexcept {
    const auto& [operation, iov, given, peer, context, data, tag, remote, silent, index, routes, arrays] = request;
    const uint64_t flags = given | (silent ? kSilent : 0);
    const fi_msg untagged{iov.data(), desc, iov.size(), peer, context, data};
    const fi_msg_tagged tagged{iov.data(), desc, iov.size(), peer, tag, 0, context, data};
    const fi_msg_rma access{iov.data(), desc, iov.size(), peer, remote.data(), remote.size(), context, data};
    if (operation == Operation::kMessage) return fi_sendmsg(ep_, &untagged, flags);
    if (operation == Operation::kTagged) return fi_tsendmsg(ep_, &tagged, flags);
    return operation == Operation::kRead ? fi_readmsg(ep_, &access, flags) : fi_writemsg(ep_, &access, flags);
  }
  // Descriptors of operands are dropped: no provider needs them.
  ssize_t update(const AtomicRequest& request) noexcept {
    const auto& [kind, type, op, operands, compares, results, result_desc, remote, peer, given, context, silent,
                 routes] = request;
    const fi_msg_atomic message{operands.data(), nullptr, operands.size(), peer, remote.data(), remote.size(), type, op,
                                context,         0};
    const uint64_t flags = given | (silent ? kSilent : 0);
    auto* const into = const_cast<fi_ioc*>(results.data());
    void** const desc = const_cast<void**>(result_desc);
    if (kind == AtomicKind::kUpdate) return fi_atomicmsg(ep_, &message, flags);
    if (kind == AtomicKind::kFetch) return fi_fetch_atomicmsg(ep_, &message, into, desc, results.size(), flags);
    return fi_compare_atomicmsg(ep_, &message, compares.data(), nullptr, compares.size(), into, desc, results.size(),
                                flags);
  }
  std::size_t atomic_count(AtomicKind kind, fi_datatype datatype, fi_op operation) noexcept {
    using Query = int(fid_ep*, fi_datatype, fi_op, size_t*);
    static constexpr Query* kQueries[] = {fi_atomicvalid, fi_fetch_atomicvalid, fi_compare_atomicvalid};
    size_t count = 0;
    return kQueries[static_cast<std::size_t>(kind)](ep_, datatype, operation, &count) == 0 ? count : 0;
  }
  // Defaults for outgoing data apply to no atomic operation.
  uint64_t default_flags() const noexcept { return transmit_flags_ & ~(FI_INJECT | FI_REMOTE_CQ_DATA); }

  // Completion data of a read: the endpoint decides.
  ssize_t readmsg(const fi_msg_rma* msg, uint64_t flags) noexcept { return fi_readmsg(ep_, msg, flags); }

 private:
  fid_ep* const ep_;
  const Ref<RefCounted> users_;
};

}  // namespace

int open_alias(fid_ep& endpoint, RefCounted& users, void* argument) {
  const auto* wanted = static_cast<const struct fi_alias*>(argument);
  if (wanted == nullptr || wanted->fid == nullptr) return -FI_EINVAL;
  std::uint64_t defaults[] = {FI_TRANSMIT, FI_RECV}, own = wanted->flags;
  for (std::uint64_t& flags : defaults)
    if (const int error = fi_control(&endpoint.fid, FI_GETOPSFLAG, &flags); error != 0) return error;
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
