// SPDX-License-Identifier: BSD-2-Clause
// The owner of a stream, as the stream sees it: the receiver of incoming messages, fi_msg(3), fi_tagged(3). A connected
// endpoint's receiver and a reliable-datagram channel implement it. The engine's mutex is held during every call.
#pragma once

#include <rdma/fabric.h>
#include <sys/uio.h>

#include <cstdint>
#include <optional>
#include <span>

#include "tcp/stream/data_header.h"

namespace weft::tcp {

class MessageSink {
 public:
  // Destination of a payload; bytes beyond it are discarded.
  struct Destination {
    std::span<const iovec> iov;  // read before the sink is called again
    bool acknowledge = false;    // when the payload is complete
  };

  // A complete message without optional words. false: nothing was done, and begin() follows.
  virtual bool take_whole(bool tagged, std::uint64_t tag, std::span<const std::byte> payload) noexcept = 0;
  // A message, or an announced one. Nothing: it cannot be handled before the stream's resume(), after which begin() is
  // called again; or the sink has ended the stream.
  virtual std::optional<Destination> begin(const DataHeader& header) noexcept = 0;
  // The payload of the last begin(), which had this header, is complete.
  virtual void finish(const DataHeader& header) noexcept = 0;
  // A header of the reliable-datagram protocol without payload: an announcement or an idle-close message. False: as
  // begin().
  virtual bool on_control(const DataHeader& header) noexcept = 0;
  // No more bytes will arrive: receives with a partly received message fail with `error`.
  virtual void abandon(int error, int native) noexcept = 0;
  // Whether the end of the stream may be reported at once; otherwise it is after kDrainGrace or the stream's
  // finish_end().
  virtual bool drained() noexcept { return true; }
  // Every operation of the stream has completed: the peer closed (0), or the connection broke (errno). Not called after
  // the stream's stop().
  virtual void on_stream_end(int error) noexcept = 0;
  // Error of sends that the end of the stream cuts off.
  virtual int interrupted_error() const noexcept = 0;
  // The peer's address in completions.
  virtual fi_addr_t source() noexcept { return FI_ADDR_NOTAVAIL; }

 protected:
  ~MessageSink() = default;
};

}  // namespace weft::tcp
