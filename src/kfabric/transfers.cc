// SPDX-License-Identifier: BSD-2-Clause
// Messages, remote memory access, tagged messages and atomic operations: libfabric's calls, with a check for endpoints
// whose transmit side was shut down, and with buffers for lists of more pieces than the provider takes.
#include "kfabric/transfers.h"

#include <cstring>
#include <tuple>

namespace weft::kfabric {
namespace {

enum class Direction { kTransmit, kReceive, kRead };

bool is_shut(kfid_ep* ep) {
  return static_cast<Endpoint*>(ep)->connection->shut.load(std::memory_order_relaxed) & KFI_WRITE;
}

// Flags that no call takes: kfabric's triggers name its own counters, and the others are other flags in libfabric.
constexpr uint64_t kRefusedFlags = KFI_TRIGGER | KFI_TAGGED_RMA | KFI_TAGGED_MULTI_RECV;

// A slot of a transmission with one buffer, or of an atomic operation. Flags come last.
template <auto Call, bool kHasFlags = false>
struct Transmit {
  template <class R, class... A>
  constexpr operator Slot<R, kfid_ep, A...>() const {
    return [](kfid_ep* ep, A... arguments) -> R {
      if (is_shut(ep)) return -KFI_ESHUTDOWN;
      if constexpr (kHasFlags)
        if (std::get<sizeof...(A) - 1>(std::tie(arguments...)) & kRefusedFlags) return -KFI_EBADFLAGS;
      return Call(fi_of(ep), down(arguments)...);
    };
  }
};

// The arguments of a call with a list, in long form.
void fill(fi_msg& message, fi_rma_iov&, kfi_addr_t address, void* context) {
  message.addr = address;
  message.context = context;
}
void fill(fi_msg_rma& message, fi_rma_iov& remote, kfi_addr_t address, uint64_t at, uint64_t key, void* context) {
  remote.addr = at;
  remote.key = key;
  message.rma_iov = &remote;
  message.rma_iov_count = 1;
  message.addr = address;
  message.context = context;
}
void fill(fi_msg_tagged& message, fi_rma_iov&, kfi_addr_t address, uint64_t tag, void* context) {
  message.addr = address;
  message.tag = tag;
  message.context = context;
}
void fill(fi_msg_tagged& message, fi_rma_iov& none, kfi_addr_t address, uint64_t tag, uint64_t ignore, void* context) {
  fill(message, none, address, tag, context);
  message.ignore = ignore;
}

// The members that only one kind of message has, in either generation.
template <class Message>
void carry(const Message&, fi_msg&) {}
template <class Message>
void carry(const Message& from, fi_msg_rma& to) {
  to.rma_iov = down(from.rma_iov);
  to.rma_iov_count = from.rma_iov_count;
}
template <class Message>
void carry(const Message& from, fi_msg_tagged& to) {
  to.tag = from.tag;
  to.ignore = from.ignore;
}

// KFI_CLAIM and KFI_DISCARD have other bits in API 1.1.
uint64_t claims_of_1_1(uint64_t flags) {
  constexpr uint64_t kClaim = 1ull << 0, kDiscard = 1ull << 29;
  return (flags & ~(kClaim | kDiscard)) | (flags & kClaim ? FI_CLAIM : 0) | (flags & kDiscard ? FI_DISCARD : 0);
}

size_t limit(const Endpoint* endpoint, Direction direction) {
  return direction == Direction::kReceive ? endpoint->receive_limit : endpoint->transmit_limit;
}

// Gives the operation a buffer in place of its pieces.
int prepare(Endpoint* endpoint, Direction direction, Pieces& pieces, Bounce& bounce) {
  bounce.bytes = pieces.bytes();
  Domain* const domain = endpoint->domain;
  const int result =
      domain->buffers.take(bounce.bytes, domain->local_registration ? domain->fi : nullptr, bounce.buffer);
  if (result != 0) return result;
  bounce.scatters = direction != Direction::kTransmit;
  bounce.pieces.assign(pieces.iov(), pieces.iov() + pieces.count());
  char* to = bounce.buffer->memory.get();
  for (const iovec& piece : bounce.pieces) {
    if (piece.iov_len != 0) std::memcpy(to, piece.iov_base, piece.iov_len);
    to += piece.iov_len;
  }
  return 0;
}

// Posts through a buffer. The completion is always written beneath, and passed on if the client's flags request it.
template <auto Post, class Message>
ssize_t post_with_memory(Endpoint* endpoint, Direction direction, Pieces& pieces, Message message, uint64_t flags) {
  CompletionQueue* queue = direction == Direction::kReceive ? endpoint->receive_queue : endpoint->transmit_queue;
  if (queue == nullptr || flags & FI_MULTI_RECV) return -KFI_ENOSYS;
  auto bounce = std::make_unique<Bounce>(endpoint->domain->buffers);
  if (int result = prepare(endpoint, direction, pieces, *bounce)) return result;
  const uint64_t selective =
      direction == Direction::kReceive ? endpoint->selects_receives : endpoint->selects_transmits;
  bounce->context = message.context;
  bounce->silent = selective && !(flags & FI_COMPLETION);
  const iovec piece{bounce->buffer->memory.get(), bounce->bytes};
  void* desc = bounce->buffer->region != nullptr ? fi_mr_desc(bounce->buffer->region) : nullptr;
  message.msg_iov = &piece;
  message.desc = &desc;
  message.iov_count = 1;
  message.context = bounce.get();
  queue->bounces.add(std::move(bounce));
  const ssize_t result = Post(endpoint->fi, &message, (flags | FI_COMPLETION) & ~FI_INJECT);
  if (result != 0) queue->bounces.take(message.context);
  return result;
}

template <auto Post, class Message>
ssize_t post_bounced(Endpoint* endpoint, Direction direction, Pieces& pieces, Message message, uint64_t flags) {
  return guarded<ssize_t>([&] { return post_with_memory<Post>(endpoint, direction, pieces, message, flags); });
}

// A slot of a call with a list.
template <auto Post, auto PostMessage, class Message, Direction kDirection>
struct Listed {
  template <class R, class List, class... A>
  constexpr operator Slot<R, kfid_ep, const List*, void**, size_t, A...>() const {
    return [](kfid_ep* ep, const List* list, void** desc, size_t count, A... arguments) -> R {
      auto* endpoint = static_cast<Endpoint*>(ep);
      if (kDirection != Direction::kReceive && is_shut(ep)) return -KFI_ESHUTDOWN;
      if constexpr (std::is_same_v<List, kvec>) {
        if (count <= limit(endpoint, kDirection)) return Post(endpoint->fi, down(list), desc, count, arguments...);
      }
      Pieces pieces(list, desc, count);
      if (!pieces.valid()) return -KFI_EINVAL;
      if (pieces.count() <= limit(endpoint, kDirection)) {
        return Post(endpoint->fi, pieces.iov(), pieces.desc(), pieces.count(), arguments...);
      }
      Message message{};
      fi_rma_iov remote{};
      remote.len = pieces.bytes();
      fill(message, remote, arguments...);
      uint64_t flags = kDirection == Direction::kReceive ? FI_RECV : FI_TRANSMIT;
      if (fi_control(&endpoint->fi->fid, FI_GETOPSFLAG, &flags) != 0) flags = 0;
      flags &= ~(FI_RECV | FI_TRANSMIT);
      return post_bounced<PostMessage>(endpoint, kDirection, pieces, message, flags);
    };
  }
};

// A slot of a call with a message structure.
template <auto Post, class Lower, Direction kDirection>
struct Long {
  template <class R, class Message>
  constexpr operator Slot<R, kfid_ep, const Message*, uint64_t>() const {
    return [](kfid_ep* ep, const Message* message, uint64_t flags) -> R {
      auto* endpoint = static_cast<Endpoint*>(ep);
      if (kDirection != Direction::kReceive && is_shut(ep)) return -KFI_ESHUTDOWN;
      if (is_1_1(endpoint->fabric)) {
        const auto& older = as_1_1(*message);
        if constexpr (std::is_same_v<Message, kfi_msg_tagged>) flags = claims_of_1_1(flags);
        return post(endpoint, older, Pieces(older.msg_iov, older.desc, older.iov_count), flags);
      }
      return post(endpoint, *message, Pieces(message->type, message->msg_iov, message->desc, message->iov_count),
                  flags);
    };
  }

 private:
  template <class Message>
  static ssize_t post(Endpoint* endpoint, const Message& message, Pieces&& pieces, uint64_t flags) {
    if (flags & kRefusedFlags) return -KFI_EBADFLAGS;
    if (!pieces.valid()) return -KFI_EINVAL;
    Lower lower{};
    carry(message, lower);
    lower.addr = message.addr;
    lower.context = message.context;
    lower.data = message.data;
    if (pieces.count() > limit(endpoint, kDirection)) {
      return post_bounced<Post>(endpoint, kDirection, pieces, lower, flags);
    }
    lower.msg_iov = pieces.iov();
    lower.desc = pieces.desc();
    lower.iov_count = pieces.count();
    return Post(endpoint->fi, &lower, flags);
  }
};

constexpr Direction kOut = Direction::kTransmit;
constexpr Direction kIn = Direction::kReceive;

using Recvv = Listed<fi_recvv, fi_recvmsg, fi_msg, kIn>;
using Sendv = Listed<fi_sendv, fi_sendmsg, fi_msg, kOut>;
using Readv = Listed<fi_readv, fi_readmsg, fi_msg_rma, Direction::kRead>;
using Writev = Listed<fi_writev, fi_writemsg, fi_msg_rma, kOut>;
using Trecvv = Listed<fi_trecvv, fi_trecvmsg, fi_msg_tagged, kIn>;
using Tsendv = Listed<fi_tsendv, fi_tsendmsg, fi_msg_tagged, kOut>;

}  // namespace

constexpr kfi_ops_msg kMessageOps = {sizeof(kfi_ops_msg),
                                     Forward<fi_recv>{},
                                     Recvv{},
                                     Recvv{},
                                     Recvv{},
                                     Long<fi_recvmsg, fi_msg, kIn>{},
                                     Transmit<fi_send>{},
                                     Sendv{},
                                     Sendv{},
                                     Sendv{},
                                     Long<fi_sendmsg, fi_msg, kOut>{},
                                     Transmit<fi_inject>{},
                                     Transmit<fi_senddata>{},
                                     Transmit<fi_injectdata>{}};

constexpr kfi_ops_rma kAccessOps = {sizeof(kfi_ops_rma),
                                    Transmit<fi_read>{},
                                    Readv{},
                                    Readv{},
                                    Readv{},
                                    Long<fi_readmsg, fi_msg_rma, Direction::kRead>{},
                                    Transmit<fi_write>{},
                                    Writev{},
                                    Writev{},
                                    Writev{},
                                    Long<fi_writemsg, fi_msg_rma, kOut>{},
                                    Transmit<fi_inject_write>{},
                                    Transmit<fi_writedata>{},
                                    Transmit<fi_inject_writedata>{}};

constexpr kfi_ops_tagged kTaggedOps = {sizeof(kfi_ops_tagged),
                                       Forward<fi_trecv>{},
                                       Trecvv{},
                                       Trecvv{},
                                       Trecvv{},
                                       Long<fi_trecvmsg, fi_msg_tagged, kIn>{},
                                       Transmit<fi_tsend>{},
                                       Tsendv{},
                                       Tsendv{},
                                       Tsendv{},
                                       Long<fi_tsendmsg, fi_msg_tagged, kOut>{},
                                       Transmit<fi_tinject>{},
                                       Transmit<fi_tsenddata>{},
                                       Transmit<fi_tinjectdata>{}};

constexpr kfi_ops_atomic kAtomicOps = {sizeof(kfi_ops_atomic),
                                       Transmit<fi_atomic>{},
                                       Transmit<fi_atomicv>{},
                                       Transmit<fi_atomicmsg, true>{},
                                       Transmit<fi_inject_atomic>{},
                                       Transmit<fi_fetch_atomic>{},
                                       Transmit<fi_fetch_atomicv>{},
                                       Transmit<fi_fetch_atomicmsg, true>{},
                                       Transmit<fi_compare_atomic>{},
                                       Transmit<fi_compare_atomicv>{},
                                       Transmit<fi_compare_atomicmsg, true>{},
                                       Forward<fi_atomicvalid>{},
                                       Forward<fi_fetch_atomicvalid>{},
                                       Forward<fi_compare_atomicvalid>{}};

}  // namespace weft::kfabric
