// SPDX-License-Identifier: BSD-2-Clause
// Messages on an open link; see fabric_link.h.
#include <rdma/fi_endpoint.h>
#include <rdma/fi_tagged.h>
#include <sched.h>

#include <cstring>

#include "fabric_link.h"

namespace weft::tools {
namespace {

constexpr uint64_t kTag = 1234;  // common to all versions of fi_pingpong
constexpr char kFin[] = "fin";
// Empty reads of the completion queue before the processor is yielded (with fewer processors than busy programs the
// peer could not run otherwise), and between two checks of the watch.
constexpr unsigned kYieldEvery = 64;
constexpr unsigned kCheckEvery = 4096;

}  // namespace

Failure FabricLink::completion_failure() {
  fi_cq_err_entry entry{};
  const ssize_t size = fi_cq_readerr(cq_.get(), &entry, 0);
  if (size < 0) return check(size, "fi_cq_readerr").error();
  const char* details = fi_cq_strerror(cq_.get(), entry.prov_errno, entry.err_data, nullptr, 0);
  return {entry.err,
          fmt::format("{} a message: {} ({})", entry.op_context == &contexts_[kSendBuffer] ? "sending" : "receiving",
                      fi_strerror(entry.err), details ? details : "no details")};
}

Status FabricLink::progress() {
  std::array<fi_cq_msg_entry, kReceives + 2> entries{};
  const ssize_t count = fi_cq_read(cq_.get(), entries.data(), entries.size());
  if (count > 0) {
    for (ssize_t i = 0; i < count; ++i) {
      const fi_cq_msg_entry& entry = entries[static_cast<std::size_t>(i)];
      if (entry.op_context == &contexts_[kSendBuffer])
        --sending_;
      else
        received_sizes_[arrived_++ % kReceives] = entry.len - info_->ep_attr->msg_prefix_size;
    }
    idle_ = 0;
    return {};
  }
  if (count == -FI_EAVAIL) {
    // A peer that ended often shows here first; then the user needs that reason.
    Failure failure = completion_failure();
    if (Status watched = watch_.check(); !watched) return watched;
    // A peer that was killed with nothing unread: its end cancels the receives, and its control connection ends later.
    if (failure.error == FI_ECANCELED) return fail(FI_ECONNRESET, "the connection has ended");
    return tl::unexpected(std::move(failure));
  }
  if (count < 0 && count != -FI_EAGAIN) return check(count, "fi_cq_read");
  ++idle_;
  if (idle_ % kYieldEvery == 0) sched_yield();
  if (idle_ == kCheckEvery)
    watch_.peer_active();  // the time of silence starts here
  else if (idle_ % kCheckEvery == 0)
    return watch_.check();
  return {};
}

template <class Call>
Status FabricLink::post(const char* what, Call call) {
  while (true) {
    const ssize_t answer = call();
    if (answer >= 0) return {};
    if (answer == -FI_EAGAIN) {
      WEFT_TRY(progress());
      continue;
    }
    // A peer that ended shows here first if nothing was outstanding.
    if (Status watched = watch_.check(); !watched) return watched;
    if (answer == -FI_ENOTCONN) return fail(FI_ECONNRESET, "{}: the connection has ended", what);
    return check(answer, "{}", what);
  }
}

Status FabricLink::post_receive(std::size_t slot) {
  void* context = &contexts_[slot];
  return post("posting a receive", [&] {
    return options_.tagged ? fi_trecv(ep_.get(), buffer(slot), stride_, descriptor_, FI_ADDR_UNSPEC, kTag, 0, context)
                           : fi_recv(ep_.get(), buffer(slot), stride_, descriptor_, FI_ADDR_UNSPEC, context);
  });
}

Status FabricLink::send(std::size_t size) {
  const std::size_t whole = size + info_->ep_attr->msg_prefix_size;
  if (whole <= info_->tx_attr->inject_size)
    return post("sending", [&] {
      return options_.tagged ? fi_tinject(ep_.get(), buffer(kSendBuffer), whole, peer_, kTag)
                             : fi_inject(ep_.get(), buffer(kSendBuffer), whole, peer_);
    });
  ++sending_;
  return post("sending", [&] {
    return options_.tagged
               ? fi_tsend(ep_.get(), buffer(kSendBuffer), whole, descriptor_, peer_, kTag, &contexts_[kSendBuffer])
               : fi_send(ep_.get(), buffer(kSendBuffer), whole, descriptor_, peer_, &contexts_[kSendBuffer]);
  });
}

Result<std::span<const std::byte>> FabricLink::receive() {
  while (taken_ == arrived_) WEFT_TRY(progress());
  const std::size_t slot = taken_++ % kReceives;
  return std::span<const std::byte>(payload(slot), received_sizes_[slot]);
}

Status FabricLink::exchange_fin() {
  watch_.step("exchanging the final messages");
  WEFT_TRY(finish_send());
  std::memcpy(payload(kSendBuffer), kFin, sizeof kFin);
  const iovec part{buffer(kSendBuffer), sizeof kFin + info_->ep_attr->msg_prefix_size};
  ++sending_;
  WEFT_TRY(post("exchanging the final messages", [&] {
    if (options_.tagged) {
      const fi_msg_tagged message{&part, &descriptor_, 1, peer_, kTag, 0, &contexts_[kSendBuffer], 0};
      return fi_tsendmsg(ep_.get(), &message, FI_TRANSMIT_COMPLETE);
    }
    const fi_msg message{&part, &descriptor_, 1, peer_, &contexts_[kSendBuffer], 0};
    return fi_sendmsg(ep_.get(), &message, FI_TRANSMIT_COMPLETE);
  }));
  while (sending_ != 0 || taken_ == arrived_) WEFT_TRY(progress());
  if (options_.type == FI_EP_MSG) fi_shutdown(ep_.get(), 0);
  return {};
}

}  // namespace weft::tools
