// SPDX-License-Identifier: BSD-2-Clause
// Reliable-datagram endpoints: creation, bindings, options, names, progress; see endpoint.h.
#include "rxm/endpoint.h"

#include <algorithm>
#include <utility>

#include "objects/attributes.h"
#include "objects/endpoint_names.h"
#include "rdm/host_addresses.h"

namespace weft::rxm {

int Endpoint::open(Domain& domain, const fi_info* info, fid_ep** ep, void* context) {
  if (info == nullptr || ep == nullptr || info->handle != nullptr ||
      !describes_endpoint(*info, FI_EP_RDM, {.transmit = true, .receive = true}))
    return -FI_EINVAL;
  if (Status status = domain.check(*info); !status.ok()) return status.code();
  InfoPtr lower(duplicate_info(&domain.lower_info()));
  if (lower == nullptr) return -FI_ENOMEM;
  if (info->src_addr != nullptr) {
    const auto own = read_name(info->addr_format, info->src_addr, info->src_addrlen);
    if (!own) return own.error().code();
    if (!set_address(lower->src_addr, lower->src_addrlen, own->data(), own->size())) return -FI_ENOMEM;
  }
  std::unique_ptr<Endpoint, void (*)(Endpoint*)> endpoint(new Endpoint(domain, *info, std::move(lower), context),
                                                          [](Endpoint* unfinished) { delete unfinished; });
  if (Status status = endpoint->open_lower(); !status.ok()) return status.code();
  *ep = &endpoint.release()->abi;
  return 0;
}

Endpoint::Endpoint(Domain& domain, const fi_info& info, InfoPtr lower, void* context)
    : EndpointBase(domain, info, receives_, domain.fabric().parameters.tx_size, context),
      Driven(domain.lower().fabric, domain.lower().shared()),
      lower_info_(std::move(lower)),
      services_(domain, routes_, vector_, tx_size(), (info.caps & FI_SOURCE) != 0, shares_memory()),
      receiver_(services_, packets_, posted_, sender_, rendezvous_, receives_),
      receives_(receiver_, routes_),
      packets_(services_),
      posted_(services_),
      sender_(services_, packets_),
      rendezvous_(services_, packets_, sender_, receives_),
      completions_(services_, posted_, sender_, rendezvous_, receiver_),
      links_(services_, *lower_info_, packets_, posted_, sender_, rendezvous_, receiver_, completions_) {
  services_.links = &links_;
  services_.driven = this;
}

Status Endpoint::open_lower() noexcept {
  auto queue = services_.domain.lower().open_queue(std::nullopt, static_cast<Driven*>(this));
  if (!queue) return queue.error();
  completions_.use(std::move(*queue));
  posted_.open_shared(*lower_info_);
  return links_.open();
}

int Endpoint::close() {
  return close_after([this] {
    engine().remove(*this);
    links_.close();
    receives_.cancel_all();
    links_.read_completions();
    links_.reap();
    posted_.close();
    // A lower provider that has not returned its operations can no longer do so once its queue is closed.
    completions_.use(nullptr);
    links_.close_unreturned();
    services_.remote_reads.reset();  // the engine lists them
    services_.remote_writes.reset();
  });
}

Status Endpoint::bind_queue(CompletionQueue& queue, uint64_t flags) noexcept {
  Lower<fid_cq> with_vector;
  if (queue.signaling_vector()) {
    auto lower = services_.domain.lower().open_queue(queue.signaling_vector(), static_cast<Driven*>(this));
    if (!lower) return lower.error();
    with_vector = std::move(*lower);
  }
  const Status status = EndpointBase::bind_queue(queue, flags);
  // Nothing is bound to the lower queue before the endpoint is enabled, so it can be replaced.
  if (status.ok() && with_vector != nullptr) completions_.use(std::move(with_vector));
  return status;
}

// The lower provider serves accesses by peers; not every one can count them.
Status Endpoint::bind_counter(Counter& counter, uint64_t flags) noexcept {
  const uint64_t remote = flags & (FI_REMOTE_READ | FI_REMOTE_WRITE);
  if (remote != 0 && !services_.domain.counts_accesses()) return Status(-FI_ENOSYS);
  struct Count {
    uint64_t flag;
    std::unique_ptr<RemoteCount>& place;
    std::unique_ptr<RemoteCount> made;
  } counts[] = {{FI_REMOTE_READ, services_.remote_reads, nullptr}, {FI_REMOTE_WRITE, services_.remote_writes, nullptr}};
  // Opened before anything is bound: a failure must leave the counter free.
  for (Count& each : counts) {
    if ((remote & each.flag) == 0) continue;
    auto opened = RemoteCount::open(services_.domain.lower(), counter);
    if (!opened) return opened.error();
    each.made = std::move(*opened);
  }
  if (Status status = EndpointBase::bind_counter(counter, flags); !status.ok()) return status;
  for (Count& each : counts) {
    if (each.made == nullptr) continue;
    for (Channel& channel : services_.channels)
      if (const int error = fi_ep_bind(channel.ep, each.made->all(), each.flag); error != 0) return Status(error);
    each.place = std::move(each.made);
    engine().add(*each.place);
  }
  return {};
}

int Endpoint::enable_contexts() {
  if (enabled_) return 0;
  if (!vector_) return -FI_ENOAV;
  if (Status status = engine().open_timer(); !status.ok()) return status.code();
  if (Status status = links_.listen(); !status.ok()) return status.code();
  enabled_ = true;
  engine().add(*this);
  take_transfers(caps_);
  return 0;
}

ssize_t Endpoint::tx_size_left() noexcept {
  Lock lock(engine().mutex());
  return enabled_ ? static_cast<ssize_t>(tx_size() - std::min(sender_.outstanding(), tx_size())) : -FI_EOPBADSTATE;
}

int Endpoint::setname(void* name, size_t len) {
  Lock lock(engine().mutex());
  if (enabled_) return -FI_EOPBADSTATE;
  return fi_setname(&links_.listener()->fid, name, len);
}

int Endpoint::getname(void* name, size_t* len) {
  Address own;
  {
    Lock lock(engine().mutex());
    if (!enabled_)
      if (Status status = links_.read_own_name(); !status.ok()) return status.code();
    own = links_.own();
  }
  return report_name(rdm::reachable_name(own), name, len);
}

bool Endpoint::progress(bool in_turn) noexcept {
  while (!services_.retries.empty()) {
    Channel& channel = services_.retries.front();
    retry(channel);
    if (services_.retries.linked(channel)) break;  // still no room
  }
  links_.progress(in_turn);
  if (posted_.has_left_over()) posted_.retry();
  links_.reap();
  return !services_.retries.empty() || posted_.has_left_over() || links_.has_work();
}

// Repeats the operations that the lower provider had no room for.
void Endpoint::retry(Channel& channel) noexcept {
  services_.retries.unlink(channel);
  receiver_.retry(channel);
  const bool open = channel.state == Channel::State::kOpen;
  if (open) packets_.retry(channel);
  posted_.retry(channel);
  if (!open) return;
  packets_.report_receives(channel);
  receiver_.report_scarcity(channel);
  if (channel.state != Channel::State::kOpen) return;
  if (!channel.packets.empty()) return services_.retry_packets_later(channel);
  rendezvous_.retry(channel);
  if (channel.peer->channel == &channel) sender_.flush(*channel.peer);
}

// True also while the lower provider holds injected messages.
bool Endpoint::holds_injected(const CompletionRoutes* routes) noexcept {
  for (Channel& channel : services_.channels)
    for (const Transmit& each : channel.flight)
      if (channel.state == Channel::State::kOpen && each.request.silent && each.has_flag(FI_INJECT) &&
          (routes == nullptr || each.request.routes == routes))
        return true;
  return rdm::holds_injected(services_.peers, routes);
}

}  // namespace weft::rxm
