// SPDX-License-Identifier: BSD-2-Clause
// Reliable-datagram endpoints: creation, bindings, options, names, progress; see endpoint.h.
#include "rxm/endpoint.h"

#include <rdma/fi_ext.h>

#include <algorithm>
#include <utility>

#include "abi/cm_ops.h"
#include "abi/ep_ops.h"
#include "abi/fid_ops.h"
#include "objects/attributes.h"
#include "objects/endpoint_names.h"
#include "objects/event_binding.h"
#include "rxm/domain.h"

namespace weft::rxm {
namespace {

constexpr char kTooLong[] = "a packet is longer than packets may be";

constexpr std::size_t kBatch = 32;  // completions per lower read
constexpr int kMaxRounds = 8;       // of such reads per progress call

constexpr uint64_t low_bytes(std::size_t count) noexcept {
  return count < sizeof(uint64_t) ? (uint64_t{1} << (8 * count)) - 1 : ~uint64_t{0};
}

std::size_t queue_size(std::size_t asked, std::size_t usual) noexcept {
  return asked != 0 ? asked : usual;
}

}  // namespace

int Endpoint::open(Domain& domain, const fi_info* info, fid_ep** ep, void* context) {
  if (info == nullptr || ep == nullptr || info->handle != nullptr ||
      !describes_endpoint(*info, FI_EP_RDM, {.transmit = true, .receive = true}))
    return -FI_EINVAL;
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
    : AtomicCalls(info),
      domain_(domain),
      domain_ref_(domain),
      engine_(domain.engine()),
      addr_format_(info.addr_format),
      caps_(info.caps),
      tx_size_(queue_size(info.tx_attr != nullptr ? info.tx_attr->size : 0, domain.fabric().parameters.tx_size)),
      eager_limit_(domain.fabric().parameters.eager_limit),
      segment_limit_(domain.fabric().parameters.segment_limit),
      unexpected_limit_(domain.fabric().parameters.unexpected_bytes),
      connect_timeout_ms_(domain.fabric().parameters.connect_timeout_ms),
      idle_timeout_(std::chrono::milliseconds(domain.fabric().parameters.idle_timeout_ms)),
      data_mask_(low_bytes(domain.attr().cq_data_size)),
      segments_(!is_stream(*lower)),
      invites_writes_(domain.fabric().parameters.rendezvous_write),
      direct_reads_(domain.fabric().parameters.direct_read && is_stream(*lower)),
      // Over a byte stream there may be messages without a header, and an idle buffer costs no memory.
      shares_receives_(domain.fabric().parameters.shared_receives && !is_stream(*lower) &&
                       lower->domain_attr->max_ep_srx_ctx != 0),
      max_message_(lower->ep_attr->max_msg_size),
      lower_inject_(lower->tx_attr->inject_size),
      lower_iov_limit_(std::max<std::size_t>(lower->tx_attr->iov_limit, 1)),
      names_sources_((info.caps & FI_SOURCE) != 0),
      directs_((info.caps & FI_DIRECTED_RECV) != 0),
      lower_info_(std::move(lower)),
      buffers_(domain, sizeof(RendezvousPacket) + eager_limit_),
      receives_(*this, routes_),
      shared_(info) {
  static constexpr fi_ops_ep kEpOps = make_ep_ops<Endpoint>();
  static constexpr fi_ops_cm kCmOps = make_cm_ops<Endpoint>();
  abi.fid = {FI_CLASS_EP, context, const_cast<fi_ops*>(fid_ops())};
  abi.ops = const_cast<fi_ops_ep*>(&kEpOps);
  abi.cm = const_cast<fi_ops_cm*>(&kCmOps);
  refuse_transfers();
  take_triggers(caps_);
  engine().on_endpoint_opened();
}

Endpoint::~Endpoint() {
  engine().on_endpoint_closed();
}

int Endpoint::open_scalable(Domain& domain, const fi_info* info, fid_ep** sep, void* context) {
  return rdm::ScalableEndpoint<Endpoint>::open(
      info, sep, context, [&](const fi_info* plain, fid_ep** behind) { return open(domain, plain, behind, nullptr); });
}

const fi_ops* Endpoint::fid_ops() noexcept {
  static constexpr fi_ops kOps = make_fid_ops<Endpoint>();
  return &kOps;
}

// A listener with a name is there from the beginning, because applications exchange names before they enable.
Status Endpoint::open_lower() noexcept {
  fi_eq_attr eq_attr{};
  eq_attr.wait_obj = FI_WAIT_FD;
  fid_eq* eq = nullptr;
  if (const int error = fi_eq_open(domain_.fabric().lower(), &eq_attr, &eq, nullptr); error != 0) return Status(error);
  lower_eq_.reset(eq);
  auto queue = domain_.open_lower_queue(std::nullopt);
  if (!queue) return queue.error();
  lower_cq_ = std::move(*queue);
  open_shared_receives();
  if (direct_reads_) (void)mailbox_.open();  // without it they are acknowledged over the connection
  fid_pep* pep = nullptr;
  if (const int error = fi_passive_ep(domain_.fabric().lower(), lower_info_.get(), &pep, nullptr); error != 0)
    return Status(error);
  listener_.reset(pep);
  if (const int error = fi_pep_bind(pep, &eq->fid, 0); error != 0) return Status(error);
  std::size_t private_data = 0, size = sizeof private_data;
  const int error = fi_getopt(&pep->fid, FI_OPT_ENDPOINT, FI_OPT_CM_DATA_SIZE, &private_data, &size);
  return error == 0 && private_data < sizeof(ConnectData) ? Status(-FI_ENOSYS) : Status();
}

Status Endpoint::read_own_name() noexcept {
  sockaddr_storage name{};
  std::size_t len = sizeof name;
  if (const int error = fi_getname(&listener_->fid, &name, &len); error != 0) return Status(error);
  const auto own = Address::from(&name, len);
  if (!own) return own.error();
  own_ = *own;
  return {};
}

int Endpoint::close() {
  drop_triggered();
  {
    Lock lock(engine().mutex());
    engine().remove(*this);
    listener_.reset();
    peers_.for_each([this](Peer& peer) { fail_waiting(peer, FI_ECANCELED); });
    while (!channels_.empty()) close_channel(channels_.front(), FI_ECANCELED);
    receives_.cancel_all();
    read_completions();
    reap();
    shared_receives_.reset();
    while (!left_over_.empty()) left_over_.pop_front();
    // A lower provider that does not return what it had: with its queue it loses sight of it.
    lower_cq_.reset();
    while (!dying_.empty()) {
      Channel& channel = dying_.pop_front();
      while (!channel.flight.empty()) {
        Transmit& transmit = channel.flight.front();
        transmit.error = FI_ECANCELED;
        transmit.outstanding = 0;
        finish(transmit);
      }
      while (!channel.copies.empty()) {
        RemoteCopy& left = channel.copies.front();
        if (left.transmit == nullptr) receives_.fail(left.delivery, left.envelope, FI_ECANCELED, FI_ECANCELED);
        left.outstanding = 0;
        release(left);
      }
      delete &channel;
    }
    lower_eq_.reset();
    shared_.leave(*this);
  }
  release_events(events_, engine(), abi.fid);
  delete this;
  return 0;
}

int Endpoint::bind(::fid* object, uint64_t flags) {
  if (auto* queue = EventQueue::from(object)) return bind_events(*queue, flags, engine(), events_).code();
  Lock lock(engine().mutex());
  if (auto* queue = CompletionQueue::from(object))
    return &queue->engine() == &engine() ? bind_cq(*queue, flags).code() : -FI_EDOMAIN;
  if (auto* counter = Counter::from(object))
    return &counter->engine() == &engine() ? bind_counter(*counter, flags).code() : -FI_EDOMAIN;
  if (auto* vector = AddressVector::from(object)) return flags == 0 ? bind_vector(*vector).code() : -FI_EBADFLAGS;
  if (enabled_) return -FI_EOPBADSTATE;
  return shared_.bind(*this, domain_, object, flags).value_or(Status(-FI_EINVAL)).code();
}

Status Endpoint::bind_cq(CompletionQueue& queue, uint64_t flags) noexcept {
  if (enabled_) return Status(-FI_EOPBADSTATE);
  if (!queue.signaling_vector()) return routes_.bind(queue, flags);
  // Nobody is bound to the lower queue before the endpoint is enabled, so another one can take its place.
  auto lower = domain_.open_lower_queue(queue.signaling_vector());
  if (!lower) return lower.error();
  if (Status status = routes_.bind(queue, flags); !status.ok()) return status;
  lower_cq_ = std::move(*lower);
  return {};
}

// Accesses of peers happen below; not every lower provider tells of them.
Status Endpoint::bind_counter(Counter& counter, uint64_t flags) noexcept {
  if (enabled_) return Status(-FI_EOPBADSTATE);
  const uint64_t remote = flags & (FI_REMOTE_READ | FI_REMOTE_WRITE);
  if (remote != 0 && !domain_.counts_accesses()) return Status(-FI_ENOSYS);
  if (Status status = routes_.bind(counter, flags); !status.ok()) return status;
  for (const auto& [flag, place] :
       {std::pair(FI_REMOTE_READ, &remote_reads_), std::pair(FI_REMOTE_WRITE, &remote_writes_)}) {
    if ((remote & flag) == 0) continue;
    auto count = RemoteCount::open(domain_.lower(), counter);
    if (!count) return count.error();
    *place = std::move(*count);
    engine().add(**place);
  }
  return {};
}

// Memory that the other end of a connection accesses to move a message, which is no access of the application's.
Result<Lower<fid_mr>> Endpoint::register_message(const void* buf, std::size_t len, uint64_t access) noexcept {
  auto region = domain_.register_memory(buf, len, access);
  RemoteCount* const count = ((access & FI_REMOTE_READ) != 0 ? remote_reads_ : remote_writes_).get();
  if (!region || count == nullptr) return region;
  const uint64_t remote = access & (FI_REMOTE_READ | FI_REMOTE_WRITE);
  if (const int error = fi_mr_bind(region->get(), count->hidden(), remote); error != 0) return failure(Status(error));
  return region;
}

Status Endpoint::bind_vector(AddressVector& vector) noexcept {
  if (enabled_) return Status(-FI_EOPBADSTATE);
  if (vector_) return Status(-FI_EINVAL);
  if (Status status = shared_.admit(vector); !status.ok()) return status;
  vector_ = Ref<AddressVector>(vector);
  return Status();
}

int Endpoint::enable() {
  if (enabled_) return 0;
  if (Status status = routes_.check(caps_); !status.ok()) return status.code();
  if (Status status = shared_.check(); !status.ok()) return status.code();
  if (const int error = enable_contexts(); error != 0) return error;
  shared_.on_enabled(*this);
  engine().on_enabled(routes_.bound());
  return 0;
}

int Endpoint::enable_contexts() {
  if (enabled_) return 0;
  if (!vector_) return -FI_ENOAV;
  if (const int error = fi_listen(listener_.get()); error != 0) return error;
  if (Status status = read_own_name(); !status.ok()) return status.code();
  enabled_ = true;
  engine().add(*this);
  take_transfers(caps_);
  return 0;
}

// Deprecated questions; receives are bounded by memory only.
ssize_t Endpoint::rx_size_left() noexcept {
  return enabled_ ? static_cast<ssize_t>(kDefaultQueueSize) : -FI_EOPBADSTATE;
}

ssize_t Endpoint::tx_size_left() noexcept {
  Lock lock(engine().mutex());
  return enabled_ ? static_cast<ssize_t>(tx_size_ - std::min(outstanding_, tx_size_)) : -FI_EOPBADSTATE;
}

int Endpoint::setname(void* name, size_t len) {
  Lock lock(engine().mutex());
  if (enabled_) return -FI_EOPBADSTATE;
  return fi_setname(&listener_->fid, name, len);
}

int Endpoint::getname(void* name, size_t* len) {
  Lock lock(engine().mutex());
  if (!enabled_)
    if (Status status = read_own_name(); !status.ok()) return status.code();
  return report_name(own_, name, len);
}

void Endpoint::read_failed_completion() noexcept {
  fi_cq_err_entry error{};
  if (fi_cq_readerr(lower_cq_.get(), &error, 0) == 1) on_failure(error);
}

// The lower provider is done with it.
inline void Endpoint::returned(const Work& work) noexcept {
  if (work.channel != nullptr)
    --work.channel->works;
  else
    --shared_posted_;
}

inline void Endpoint::on_completion(const fi_cq_tagged_entry& entry) noexcept {
  auto* work = static_cast<Work*>(entry.op_context);
  if (work == nullptr || (entry.flags & FI_REMOTE_WRITE) != 0) {
    // A peer wrote to memory of ours, with data. Some providers use up one of our buffers for it.
    if ((entry.flags & FI_REMOTE_CQ_DATA) != 0)
      routes_.received({.context = nullptr, .flags = entry.flags, .len = entry.len, .data = entry.data}, true);
    if (work == nullptr || work->kind != Work::Kind::kReceive) return;
    returned(*work);
    return post_buffer(static_cast<PostedBuffer&>(*work));
  }
  returned(*work);
  switch (work->kind) {
    case Work::Kind::kReceive:
      return on_packet(static_cast<PostedBuffer&>(*work), entry);
    case Work::Kind::kTransmit:
      return lower_finished(static_cast<Transmit&>(*work), 0);
    case Work::Kind::kPacket:
      return packet_finished(static_cast<Packet&>(*work), 0);
    case Work::Kind::kCopy:
      return piece_finished(static_cast<RemoteCopy::Piece&>(*work), 0);
  }
}

[[gnu::always_inline]] inline std::size_t Endpoint::read_completions_here() noexcept {
  fi_cq_tagged_entry entries[kBatch];
  std::size_t found = 0;
  for (int round = 0; round < kMaxRounds; ++round) {
    const ssize_t count = fi_cq_read(lower_cq_.get(), entries, kBatch);
    if (count == -FI_EAVAIL) {
      read_failed_completion();
      ++found;
      continue;
    }
    if (count <= 0) break;
    found += static_cast<std::size_t>(count);
    for (ssize_t i = 0; i < count; ++i) on_completion(entries[i]);
    if (count < static_cast<ssize_t>(kBatch)) break;
  }
  return found;
}

std::size_t Endpoint::read_completions() noexcept {
  return read_completions_here();
}

void Endpoint::progress() noexcept {
  std::size_t found = unread_lanes_ != 0 || board_.has_news() ? read_board() : 0;
  found += read_completions_here();
  if (awaited_letters_ != 0) found += read_mailbox();
  while (!stalled_.empty()) {
    Channel& channel = stalled_.front();
    resume(channel);
    if (static_cast<ListHook<StalledTag>&>(channel).linked()) break;  // no better than before
  }
  bool look = !connecting_.empty() || ++polls_ >= kCmPolls;
  if (!look && found == 0) look = Clock::now() - looked_at_connections_ >= kCmInterval;
  if (look) {
    progress_connections();
    read_mailbox();  // what nobody awaits must not keep anybody awake
  }
  if (!left_over_.empty()) post_left_over();
  if (!dying_.empty()) reap();
}

bool Endpoint::restless() noexcept {
  if (!stalled_.empty() || board_.has_news()) return true;
  return (!left_over_.empty() || unread_lanes_ != 0) && !pushes_back();
}

int Endpoint::on_watched() noexcept {
  board_.expect_sleepers();
  return mailbox_.fd();
}

void Endpoint::on_failure(const fi_cq_err_entry& error) noexcept {
  auto* work = static_cast<Work*>(error.op_context);
  if (work == nullptr) return;
  returned(*work);
  // Nobody here canceled it: the connection ended. What we end ourselves has its reason already.
  const int reason = error.err == FI_ECANCELED ? FI_ECONNRESET : error.err;
  switch (work->kind) {
    case Work::Kind::kReceive: {
      auto& posted = static_cast<PostedBuffer&>(*work);
      if (shared_receives_ != nullptr) {
        Channel* const sender = error.err == FI_ETRUNC ? sender_of(posted, buffers_.size()) : nullptr;
        if (sender != nullptr) protocol_error(*sender, kTooLong);
        return post_buffer(posted);
      }
      buffers_.give_back(*posted.buffer);
      posted_pool_.give_back(&posted);
      if (error.err == FI_ETRUNC) protocol_error(*work->channel, kTooLong);
      return;
    }
    case Work::Kind::kTransmit:
      return lower_finished(static_cast<Transmit&>(*work), reason);
    case Work::Kind::kPacket:
      return packet_finished(static_cast<Packet&>(*work), reason);
    case Work::Kind::kCopy:
      return piece_finished(static_cast<RemoteCopy::Piece&>(*work), reason);
  }
}

}  // namespace weft::rxm
