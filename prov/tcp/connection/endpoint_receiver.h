// SPDX-License-Identifier: BSD-2-Clause
// The receiving half of a connected endpoint: gives the messages of its stream to posted receives, its own or a shared
// context's, and stores unexpected ones; fi_msg(3), fi_tagged(3). The engine's mutex guards everything.
#pragma once

#include <cstddef>
#include <memory>

#include "messages/receive_side.h"
#include "tcp/domain.h"
#include "tcp/grace_round.h"
#include "tcp/stream/stream.h"

namespace weft::tcp {

class EndpointReceiver;
struct BlockedTag;
struct SharingTag;  // the endpoints of a shared receive context

// A message without a receive. Its payload may still be arriving.
struct Unexpected : messages::UnexpectedMessage {
  bool complete = false;
  bool taken = false;  // before it was complete: by `taker`, or discarded if that is empty
  bool wants_ack = false;
  Acknowledgement ack;  // if wants_ack
  std::unique_ptr<std::byte[]> payload;
  iovec place{};  // `payload`, while it arrives
  messages::Delivery taker;
};

// Posted receives and unexpected messages of a connected endpoint or of a shared receive context.
class ReceiveQueue : public messages::ReceiveSide<messages::TagList> {
 public:
  using ReceiveSide::ReceiveSide;

  // Posts a receive, or with FI_PEEK or FI_CLAIM searches the unexpected messages, and resumes blocked streams.
  // 0; -FI_EAGAIN when the queue is full; -FI_EINVAL. `routes`: for FI_ENOMSG.
  ssize_t post(const ReceiveRequest& request, CompletionRoutes& routes) noexcept;

  // From now on nothing can be posted: -FI_ESHUTDOWN.
  void shut_down() noexcept { shut_down_ = true; }
  bool is_shut_down() const noexcept { return shut_down_; }
  // Whether receives for tagged messages were ever posted: one may wait for a message behind untagged ones.
  bool receives_tagged() const noexcept { return receives_tagged_; }
  // The receiver's stream cannot continue before something is posted or leaves the queue.
  void block(EndpointReceiver& receiver) noexcept;
  void resume_blocked() noexcept;

 private:
  bool receives_tagged_ = false;
  bool shut_down_ = false;
  List<EndpointReceiver, BlockedTag> blocked_;
};

class EndpointReceiver : public MessageSink,
                         public messages::Protocol,
                         public messages::PeerMemory,
                         public ListHook<BlockedTag>,
                         public ListHook<SharingTag> {
 public:
  void resume() noexcept { stream_.resume(); }

  CompletionRoutes routes;

 protected:
  EndpointReceiver(std::uint64_t caps, std::size_t queue_size, Engine& engine, MemoryRegions& regions,
                   TransferPools& pools) noexcept
      : PeerMemory([](PeerMemory& peer) noexcept { static_cast<EndpointReceiver&>(peer).resume(); }),
        caps_(caps),
        own_receives_(pools.receives, queue_size),
        stream_(*this, routes, engine, regions, pools.transmits) {
    enter(pools.unexpected);
  }
  ~EndpointReceiver() = default;

  // Half shutdown: cancels the posted receives; messages of the stream are acknowledged and dropped from now on.
  void stop_receiving() noexcept;
  // Drops the stream's messages and, unless they are a shared context's, cancels the posted receives.
  void end_receives(int native) noexcept;

  const std::uint64_t caps_;
  ReceiveQueue own_receives_;
  ReceiveQueue* queue_ = &own_receives_;
  Stream stream_;

 private:
  // MessageSink.
  bool take_whole(bool tagged, std::uint64_t tag, std::span<const std::byte> payload) noexcept override;
  std::optional<Destination> begin(const DataHeader& header) noexcept override;
  void finish(const DataHeader& header) noexcept override;
  bool on_control(const DataHeader& header) noexcept override;
  void abandon(int error, int native) noexcept override;
  bool drained() noexcept override { return used() == 0; }
  int interrupted_error() const noexcept override { return FI_ECANCELED; }

  // messages::Protocol.
  void take(messages::UnexpectedMessage& message, const messages::Delivery& delivery) noexcept override;
  void discard(messages::UnexpectedMessage& message) noexcept override { take(message, {}); }

  // An endpoint without FI_TAGGED matches tagged messages like untagged ones, in order with them: other implementations
  // do the same, and layers above rely on it.
  bool ignores_tags() const noexcept { return caps_ != 0 && (caps_ & FI_TAGGED) == 0; }
  bool may_keep(const messages::Envelope& envelope) noexcept;
  messages::Envelope envelope_of(const DataHeader& header) const noexcept;
  std::optional<Destination> begin_unexpected(const DataHeader& header) noexcept;
  void fail(const messages::Delivery& delivery, int error, int native) noexcept;
  void end_message(Unexpected& message) noexcept;

  // The arriving message: for a receive, or unexpected.
  messages::Delivery delivery_;
  Unexpected* unexpected_ = nullptr;
  GraceRound grace_;
};

}  // namespace weft::tcp
