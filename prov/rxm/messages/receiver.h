// SPDX-License-Identifier: BSD-2-Clause
// Packets of peers, delivery of their messages, and their atomic operations. Every field of a packet is checked before
// it is used.
#pragma once

#include <algorithm>

#include "rxm/messages/posted_buffers.h"
#include "rxm/messages/rendezvous.h"

namespace weft::rxm {

// Owner: the endpoint. The engine's mutex guards it.
class Receiver final : public rdm::Protocol {
 public:
  Receiver(EndpointServices& services, Packets& packets, PostedBuffers& posted, Sender& sender, Rendezvous& rendezvous,
           rdm::ReceiveSide& receives) noexcept;

  // Handles a packet and posts its buffer again.
  void on_packet(PostedBuffer& posted, const fi_cq_tagged_entry& entry) noexcept;
  // Handles packets that waited for memory.
  void retry(Channel& channel) noexcept;
  // Reports to the peer whether memory for its unexpected messages is scarce, if that has changed.
  void report_scarcity(Channel& channel) noexcept;
  // Messages that arrive in receives of the context are discarded. True: some are read or written there at once, which
  // only the end of the connection stops.
  bool discard_for(Channel& channel, const rdm::ReceiveSide& context) noexcept;
  void on_closed(Channel& channel, int error) noexcept;

  // rdm::Protocol, for the receive side.
  void take(rdm::Message& taken, const rdm::Delivery& delivery) noexcept override;
  void discard(rdm::Message& discarded) noexcept override;
  fi_addr_t source_of(const rdm::Message& message) noexcept override {
    return services_.name_of(*static_cast<const Unexpected&>(message).peer);
  }

 private:
  bool try_packet(PostedBuffer& posted, const fi_cq_tagged_entry& entry) noexcept;
  void handle_packet(PostedBuffer& posted, const fi_cq_tagged_entry& entry) noexcept;
  void handle_other_packet(PostedBuffer& posted, const fi_cq_tagged_entry& entry) noexcept;
  void on_message_packet(PostedBuffer& posted, const PacketHeader& header, std::size_t len) noexcept;
  void on_eager(PostedBuffer& posted, const PacketHeader& header, std::size_t len) noexcept;
  // Bytes of a message in segments, and bytes that unexpected ones among the arriving ones may lack: such a message is
  // kept whole, and its memory is counted when the first segment arrives. Peers on libfabric have the same parameter,
  // and no other limit.
  std::size_t max_assembled() const noexcept {
    return std::max(kMaxAssembled, services_.domain.fabric().parameters.segment_limit);
  }
  bool may_be_message(Channel& channel, const OpHeader& op) noexcept;
  rdm::Envelope envelope_of(Peer& peer, const OpHeader& op) noexcept {
    const bool tagged = op.op == PacketOp::kTagged;
    return {.source = peer.id,
            .tag = tagged ? op.tag : 0,
            .data = op.data & services_.domain.data_mask(),
            .len = op.size,
            .name = services_.name_of(peer),
            .tagged = tagged,
            .has_data = (op.flags & FI_REMOTE_CQ_DATA) != 0,
            .context = receives_.has_contexts() ? op.receive_index : std::uint8_t{0}};
  }
  bool may_copy(const rdm::Delivery& delivery, const rdm::Envelope& envelope) noexcept;
  void deliver(Channel& channel, const rdm::Envelope& envelope, const std::byte* payload) noexcept;
  void deliver_slowly(Channel& channel, const rdm::Envelope& envelope, const std::byte* payload) noexcept;
  void keep_whole(Channel& channel, const rdm::Envelope& envelope, const std::byte* payload) noexcept;
  Unexpected* keep(Channel& channel, const rdm::Envelope& envelope, std::size_t payload) noexcept;
  void on_rendezvous(Channel& channel, const PacketHeader& header, const std::byte* bytes, std::size_t len) noexcept;
  void on_credits(Channel& channel, std::uint64_t count) noexcept;
  void on_read_done(Channel& channel, const ControlHeader& header) noexcept;
  void on_atomic(PostedBuffer& posted, const PacketHeader& header, std::size_t len) noexcept;
  void on_segment(PostedBuffer& posted, const PacketHeader& header, std::size_t len) noexcept;
  Assembly* begin_assembly(Channel& channel, const PacketHeader& header) noexcept;
  void finish_assembly(Assembly& assembly) noexcept;
  void fail_assembly(Assembly& assembly, int error) noexcept;
  void protocol_error(Channel& channel, const char* what) noexcept { services_.links->protocol_error(channel, what); }

  EndpointServices& services_;
  Packets& packets_;
  PostedBuffers& posted_;
  Sender& sender_;
  Rendezvous& rendezvous_;
  rdm::ReceiveSide& receives_;
  bool starved_ = false;  // the packet that is being handled needs memory, and there is none
};

}  // namespace weft::rxm
