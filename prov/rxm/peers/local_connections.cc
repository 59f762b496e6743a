// SPDX-License-Identifier: BSD-2-Clause
// The change of a connection to tcp's shared memory, for a peer of this host (decision 0012). The request to the peer's
// device has local_mark(); a peer with the same mark rejects it with the location of its listener, without effect on
// any link, and the request is sent there instead. All else is decided as for a request through the device. If tcp
// cannot connect, the next request goes to the device without the mark.
#include <utility>

#include "objects/sentence.h"
#include "rxm/logging.h"
#include "rxm/peers/peer_links.h"

namespace weft::rxm {

// nullptr: it cannot be opened.
LocalEnd* PeerLinks::local_end() noexcept {
  if (local_ != nullptr || lacks_local_) return local_.get();
  LowerSide& side = *services_.domain.local();
  std::unique_ptr<LocalEnd> opened(new (std::nothrow)
                                       LocalEnd(side, {services_, posted_, sender_, rendezvous_, receiver_}));
  const Status status = opened != nullptr ? opened->open() : Status(-FI_ENOMEM);
  lacks_local_ = !status.ok();
  if (lacks_local_) {
    FI_INFO(&provider(), FI_LOG_EP_CTRL, "peers of this host are reached through the device: %s\n",
            fi_strerror(status.error()));
    return nullptr;
  }
  local_ = std::move(opened);
  services_.engine.add(*local_);
  return local_.get();
}

// Answers a request through the device with the place of our listener. False: there is none.
bool PeerLinks::invite(const fi_info& info) noexcept {
  if (local_end() == nullptr) return false;
  fi_reject(listener_.get(), info.handle, &local_->place(), sizeof(LocalPlace));
  return true;
}

// The channel's request has ended. It is repeated at `place`; null: to the device.
void PeerLinks::redirect(Channel& channel, const LocalPlace* place) noexcept {
  Peer& peer = *channel.peer;
  FI_INFO(&provider(), FI_LOG_EP_CTRL, "%s is on this host: connecting through %s\n", peer.address.to_string().c_str(),
          place != nullptr ? "shared memory" : "the device, because tcp failed");
  close_channel(channel, FI_EALREADY);
  if (place != nullptr && local_end() == nullptr) place = nullptr;
  Status status = request(peer, place, false);
  if (!status.ok() && place != nullptr) status = request(peer, nullptr, false);
  if (status.ok())
    peer.link = rdm::LinkState::kRequesting;
  else
    step(peer, rdm::LinkEvent::kFailed, status.error(),
         connect_failure(status.error(), nullptr, "opening a connection", own_, peer.address, {}));
}

}  // namespace weft::rxm
