// SPDX-License-Identifier: BSD-2-Clause
// Packets in buffers of our own: control packets and copies of messages. A packet that the lower provider has no room
// for waits on its connection.
#pragma once

#include "rxm/endpoint_services.h"

namespace weft::rxm {

// Owner: the endpoint. The engine's mutex guards it.
class Packets {
 public:
  explicit Packets(EndpointServices& services) noexcept : services_(services) {}

  // nullptr when memory runs out. `buffer`: to be used for it.
  Packet* make(Channel& channel) noexcept;
  Packet* make(Channel& channel, Buffer& buffer) noexcept;
  // -FI_EAGAIN: no room.
  ssize_t send(Packet& packet) noexcept;
  // Sends the packet now or later.
  void post(Packet& packet) noexcept;
  void post_control(Channel& channel, PacketType type, std::uint64_t message) noexcept;
  // Reports the receives that were posted again, if they are enough for a report and the peer has a receive for it.
  void report_receives(Channel& channel) noexcept;
  // The header of a packet that belongs to no new message; `message`: the number of its message.
  static PacketHeader header(const Channel& channel, PacketType type, std::uint64_t message) noexcept {
    PacketHeader header;
    header.control.type = type;
    header.control.connection = channel.remote_id;
    header.control.message = message;
    return header;
  }
  void release(Packet& packet) noexcept;
  // Without its buffer.
  void drop(Packet& packet) noexcept { packets_.give_back(&packet); }

  // Sends the packets that wait, until there is no room.
  void retry(Channel& channel) noexcept;
  void on_closed(Channel& channel) noexcept;

 private:
  ssize_t send_now(Packet& packet) noexcept;

  EndpointServices& services_;
  Pool<Packet> packets_;
};

}  // namespace weft::rxm
