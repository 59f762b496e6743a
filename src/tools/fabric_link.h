// SPDX-License-Identifier: BSD-2-Clause
// An endpoint with one peer, ready to exchange messages: connected (msg) or with the peer's address inserted (rdm,
// dgram), memory registered and receives posted. fi_endpoint(3), fi_cm(3), fi_av(3), fi_msg(3), fi_tagged(3).
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <array>
#include <cstddef>
#include <cstdlib>
#include <memory>
#include <span>
#include <vector>

#include "control_channel.h"
#include "fabric_query.h"
#include "failure.h"
#include "watch.h"

namespace weft::tools {

struct FidCloser {
  template <class Fid>
  void operator()(Fid* object) const {
    fi_close(&object->fid);
  }
};
template <class Fid>
using FidPtr = std::unique_ptr<Fid, FidCloser>;

// Makes `object` own the one that `open` stores; `what` names the call.
template <class Fid, class Open>
Status take(FidPtr<Fid>& object, std::string_view what, Open open) {
  Fid* opened = nullptr;
  WEFT_TRY(check(open(&opened), "{}", what));
  object.reset(opened);
  return {};
}

// An endpoint with the objects that it needs, and the buffers of its messages. Neither copied nor moved; not
// thread-safe. `watch` bounds every wait and must outlive the link.
class Link {
 public:
  // Describes the open endpoint.
  const fi_info& info() const { return *info_; }

 protected:
  explicit Link(Watch& watch) : watch_(watch) {}

  // The fabric of info_, and an event queue with a wait object.
  Status open_fabric();
  // The domain, a completion queue, and the endpoint, bound to it.
  Status open_endpoint(std::size_t completions, fi_wait_obj wait);
  Status bind_events() { return check(fi_ep_bind(ep_.get(), &eq_->fid, 0), "fi_ep_bind(eq)"); }
  Status bind_vector();
  // `count` buffers of stride_ bytes, registered for messages if the domain requires it.
  Status allocate_buffers(std::size_t count);
  std::byte* buffer(std::size_t slot) { return memory_.get() + slot * stride_; }

  Watch& watch_;
  std::unique_ptr<std::byte, decltype(&std::free)> memory_{nullptr, &std::free};
  std::size_t stride_ = 0;             // bytes from one buffer to the next
  std::vector<fi_context2> contexts_;  // one for each buffer
  // In order of creation; closed in reverse.
  InfoPtr info_;
  FidPtr<fid_fabric> fabric_;
  FidPtr<fid_eq> eq_;
  FidPtr<fid_domain> domain_;
  FidPtr<fid_cq> cq_;
  FidPtr<fid_av> av_;
  FidPtr<fid_mr> mr_;
  FidPtr<fid_ep> ep_;
  void* descriptor_ = nullptr;
};

struct LinkOptions {
  fi_ep_type type = FI_EP_UNSPEC;  // unspecified: dgram, msg or rdm, the first that the provider has
  bool tagged = false;
  const char* provider = nullptr;  // nullptr: the first match
  const char* domain = nullptr;
  const char* fabric = nullptr;
  const char* source = nullptr;     // local address; nullptr: any that suits
  std::size_t largest_message = 0;  // the link reduces it to the endpoint's limit
};

class FabricLink : public Link {
 public:
  // The two sides of one link; `control` is used during set-up.
  static Result<std::unique_ptr<FabricLink>> serve(const LinkOptions& options, ControlChannel& control, Watch& watch);
  static Result<std::unique_ptr<FabricLink>> join(const LinkOptions& options, ControlChannel& control, Watch& watch);

  std::size_t largest_message() const { return options_.largest_message; }

  // The buffer of the next message. Valid after finish_send() until the next send.
  std::span<std::byte> outgoing(std::size_t size) { return {payload(kSendBuffer), size}; }
  // Posts `size` bytes of the outgoing buffer; small ones are injected.
  Status send(std::size_t size);
  // Waits until the last send is complete, so that the outgoing buffer may be written again.
  Status finish_send() {
    while (sending_ != 0) WEFT_TRY(progress());
    return {};
  }

  // Waits for the next message, which stays readable until release().
  Result<std::span<const std::byte>> receive();
  // Posts the buffer of the message that receive() returned again.
  Status release() { return post_receive((taken_ - 1) % kReceives); }

  // Exchanges "fin", so that neither side closes while the other still reads.
  Status exchange_fin();

 private:
  FabricLink(const LinkOptions& options, Watch& watch) : Link(watch), options_(options) {}

  Result<InfoPtr> make_hints(const EndpointName* peer) const;
  Status find(const char* local_address, const EndpointName* peer);
  Status choose_type();
  Status prepare();
  Status listen_and_accept(ControlChannel& control);
  Status connect(const EndpointName& peer);
  Status insert_peer(const EndpointName& peer);
  Result<EndpointName> name_of(fid& object);
  // Waits for `wanted`. Returns the info of an FI_CONNREQ, null for other events.
  Result<InfoPtr> next_event(uint32_t wanted);
  Failure event_failure();
  Failure completion_failure();

  Status post_receive(std::size_t slot);
  // Reads completions once. Without any it yields the processor and checks the watch now and then.
  Status progress();
  // Repeats a posting call while the endpoint has no room.
  template <class Call>
  Status post(const char* what, Call call);

  static constexpr std::size_t kReceives = 2;  // one is examined while the other may be filled
  static constexpr std::size_t kSendBuffer = kReceives;

  std::byte* payload(std::size_t slot) { return buffer(slot) + info_->ep_attr->msg_prefix_size; }

  LinkOptions options_;
  FidPtr<fid_pep> pep_;
  fi_addr_t peer_ = FI_ADDR_UNSPEC;
  std::array<std::size_t, kReceives> received_sizes_{};
  uint64_t arrived_ = 0;  // messages received; message n is in slot n % kReceives
  uint64_t taken_ = 0;    // messages handed out by receive()
  unsigned sending_ = 0;  // sends without completion yet
  unsigned idle_ = 0;     // fruitless reads in a row
};

}  // namespace weft::tools
