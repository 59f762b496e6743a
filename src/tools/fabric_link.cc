// SPDX-License-Identifier: BSD-2-Clause
// Opening a link; see fabric_link.h. The messages on it are in fabric_link_messages.cc.
#include "fabric_link.h"

#include <algorithm>
#include <cstring>

#include "library_log.h"

namespace weft::tools {
namespace {

constexpr std::size_t kPage = 4096;
constexpr std::size_t kSmallestBuffer = 64;  // room for "fin" with any tested size
constexpr std::size_t kQueueSize = 64;       // completions; at most a handful is outstanding
constexpr std::size_t kEventRoom = 512;      // a connection event with the peer's private data

// The modes and memory registration modes that FabricLink supports.
constexpr uint64_t kModes = FI_CONTEXT | FI_CONTEXT2 | FI_MSG_PREFIX;
constexpr int kMrModes = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ENDPOINT;

}  // namespace

Result<InfoPtr> FabricLink::make_hints(const EndpointName* peer) const {
  InfoPtr hints(fi_allocinfo());
  if (!hints) return fail(FI_ENOMEM, "fi_allocinfo");
  hints->caps = options_.tagged ? FI_TAGGED : FI_MSG;
  hints->mode = kModes;
  hints->domain_attr->mr_mode = kMrModes;
  hints->domain_attr->threading = FI_THREAD_DOMAIN;
  hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
  if (options_.provider) set_string(hints->fabric_attr->prov_name, options_.provider);
  if (options_.domain) set_string(hints->domain_attr->name, options_.domain);
  if (options_.fabric) set_string(hints->fabric_attr->name, options_.fabric);
  if (!peer) return hints;
  hints->addr_format = peer->format;
  hints->dest_addr = std::malloc(peer->bytes.size());
  if (!hints->dest_addr) return fail(FI_ENOMEM, "fi_getinfo hints");
  std::memcpy(hints->dest_addr, peer->bytes.data(), peer->bytes.size());
  hints->dest_addrlen = peer->bytes.size();
  // With a destination in the hints the source is a hint as well.
  if (options_.source && set_source_address(*hints, options_.source) != 0)
    return fail(FI_EADDRNOTAVAIL, "-s {}: not an address of this host", options_.source);
  return hints;
}

// An unspecified type becomes the first one that the provider has. Addresses have no influence, so that both sides
// choose the same.
Status FabricLink::choose_type() {
  if (options_.type != FI_EP_UNSPEC) return {};
  WEFT_TRY_FOR(hints, make_hints(nullptr));
  for (const fi_ep_type type : {FI_EP_DGRAM, FI_EP_MSG, FI_EP_RDM}) {
    hints->ep_attr->type = type;
    InfoPtr unused;
    if (get_info(nullptr, nullptr, 0, hints.get(), unused) != 0) continue;
    options_.type = type;
    return {};
  }
  options_.type = FI_EP_DGRAM;  // find() reports that there is none
  return {};
}

// Sets info_ to the first matching endpoint: one that reaches `peer`, or one at `local_address` if any exists.
Status FabricLink::find(const char* local_address, const EndpointName* peer) {
  WEFT_TRY(choose_type());
  WEFT_TRY_FOR(hints, make_hints(peer));
  hints->ep_attr->type = options_.type;
  int error = -FI_ENODATA;
  if (options_.source && !peer) {
    error = get_info(options_.source, nullptr, FI_SOURCE, hints.get(), info_);
  } else {
    // A device may not have the address to which the client connected; then any of its addresses is fine.
    if (local_address && !options_.domain && !options_.fabric)
      error = get_info(local_address, nullptr, FI_SOURCE, hints.get(), info_);
    if (error) error = get_info(nullptr, nullptr, 0, hints.get(), info_);
  }
  if (error) {
    print_getinfo_failure(error);
    return fail(-error, "no {} endpoint{}{}{}", fi_tostr(&options_.type, FI_TYPE_EP_TYPE),
                peer ? " that reaches the server" : "", options_.provider ? " of provider " : "",
                options_.provider ? options_.provider : "");
  }
  return {};
}

Status Link::open_fabric() {
  WEFT_TRY(take(fabric_, fmt::format("fi_fabric({})", info_->fabric_attr->prov_name),
                [&](auto** opened) { return fi_fabric(info_->fabric_attr, opened, nullptr); }));
  fi_eq_attr attr{};
  attr.wait_obj = FI_WAIT_UNSPEC;
  return take(eq_, "fi_eq_open", [&](auto** eq) { return fi_eq_open(fabric_.get(), &attr, eq, nullptr); });
}

Status Link::open_endpoint(std::size_t completions, fi_wait_obj wait) {
  WEFT_TRY(take(domain_, fmt::format("fi_domain({})", info_->domain_attr->name),
                [&](auto** opened) { return fi_domain(fabric_.get(), info_.get(), opened, nullptr); }));
  fi_cq_attr attr{};
  attr.size = completions;
  attr.format = FI_CQ_FORMAT_MSG;
  attr.wait_obj = wait;
  WEFT_TRY(take(cq_, "fi_cq_open", [&](auto** cq) { return fi_cq_open(domain_.get(), &attr, cq, nullptr); }));
  WEFT_TRY(take(ep_, "fi_endpoint", [&](auto** ep) { return fi_endpoint(domain_.get(), info_.get(), ep, nullptr); }));
  return check(fi_ep_bind(ep_.get(), &cq_->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind(cq)");
}

Status Link::bind_vector() {
  fi_av_attr attr{};
  attr.type = info_->domain_attr->av_type;
  attr.count = 1;
  WEFT_TRY(take(av_, "fi_av_open", [&](auto** av) { return fi_av_open(domain_.get(), &attr, av, nullptr); }));
  return check(fi_ep_bind(ep_.get(), &av_->fid, 0), "fi_ep_bind(av)");
}

Status Link::allocate_buffers(std::size_t count) {
  const std::size_t size = (count * stride_ + kPage - 1) / kPage * kPage;
  memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, size)));
  if (!memory_) return fail(FI_ENOMEM, "message buffers of {} bytes", size);
  std::memset(memory_.get(), 0, size);  // also takes the page faults before the measurement
  contexts_.resize(count);
  const int mr_mode = info_->domain_attr->mr_mode;
  if (!(mr_mode & FI_MR_LOCAL)) return {};
  WEFT_TRY(take(mr_, "fi_mr_reg", [&](auto** mr) {
    return fi_mr_reg(domain_.get(), memory_.get(), size, FI_SEND | FI_RECV, 0, 0, 0, mr, nullptr);
  }));
  if (mr_mode & FI_MR_ENDPOINT) {
    WEFT_TRY(check(fi_mr_bind(mr_.get(), &ep_->fid, 0), "fi_mr_bind"));
    WEFT_TRY(check(fi_mr_enable(mr_.get()), "fi_mr_enable"));
  }
  descriptor_ = fi_mr_desc(mr_.get());
  return {};
}

Status FabricLink::prepare() {
  WEFT_TRY(open_endpoint(kQueueSize, FI_WAIT_NONE));
  WEFT_TRY(options_.type == FI_EP_MSG ? bind_events() : bind_vector());
  WEFT_TRY(check(fi_enable(ep_.get()), "fi_enable"));
  options_.largest_message = std::min(options_.largest_message, info_->ep_attr->max_msg_size);
  stride_ = std::max(options_.largest_message, kSmallestBuffer) + info_->ep_attr->msg_prefix_size;
  stride_ = (stride_ + kPage - 1) / kPage * kPage;
  WEFT_TRY(allocate_buffers(kReceives + 1));
  for (std::size_t slot = 0; slot < kReceives; ++slot) WEFT_TRY(post_receive(slot));
  return {};
}

Result<EndpointName> FabricLink::name_of(fid& object) {
  EndpointName name{info_->addr_format, std::vector<std::byte>(64)};
  std::size_t size = name.bytes.size();
  int error = fi_getname(&object, name.bytes.data(), &size);
  if (error == -FI_ETOOSMALL) {
    name.bytes.resize(size);
    error = fi_getname(&object, name.bytes.data(), &size);
  }
  WEFT_TRY(check(error, "fi_getname"));
  name.bytes.resize(size);
  return name;
}

Failure FabricLink::event_failure() {
  fi_eq_err_entry entry{};
  const ssize_t size = fi_eq_readerr(eq_.get(), &entry, 0);
  if (size < 0) return check(size, "fi_eq_readerr").error();
  const char* details = fi_eq_strerror(eq_.get(), entry.prov_errno, entry.err_data, nullptr, 0);
  return {entry.err, fmt::format("{} ({})", fi_strerror(entry.err), details ? details : "no details")};
}

Result<InfoPtr> FabricLink::next_event(uint32_t wanted) {
  alignas(fi_eq_cm_entry) std::byte room[kEventRoom];
  while (true) {
    uint32_t event = 0;
    const ssize_t size = fi_eq_sread(eq_.get(), &event, room, sizeof room, Watch::kPollMs, 0);
    if (size == -FI_EAVAIL) return tl::unexpected(event_failure());
    if (size == -FI_EAGAIN || size == -FI_ETIMEDOUT || size == -FI_EINTR) {
      WEFT_TRY(watch_.check());
      continue;
    }
    WEFT_TRY(check(size, "fi_eq_sread"));
    if (static_cast<std::size_t>(size) < sizeof(fi_eq_cm_entry))
      return fail(FI_EIO, "fi_eq_sread: an event of only {} bytes", size);
    InfoPtr info(event == FI_CONNREQ ? reinterpret_cast<fi_eq_cm_entry*>(room)->info : nullptr);
    if (event != wanted)
      return fail(FI_ECONNABORTED, "expected {}, but got {}", fi_tostr(&wanted, FI_TYPE_EQ_EVENT),
                  std::string(fi_tostr(&event, FI_TYPE_EQ_EVENT)));
    return info;
  }
}

Status FabricLink::listen_and_accept(ControlChannel& control) {
  WEFT_TRY(
      take(pep_, "fi_passive_ep", [&](auto** pep) { return fi_passive_ep(fabric_.get(), info_.get(), pep, nullptr); }));
  fid_pep* const pep = pep_.get();
  WEFT_TRY(check(fi_pep_bind(pep, &eq_->fid, 0), "fi_pep_bind"));
  WEFT_TRY(check(fi_listen(pep), "fi_listen"));
  WEFT_TRY_FOR(name, name_of(pep->fid));
  WEFT_TRY(control.send_name(name));

  watch_.step("waiting for the client's connection request");
  WEFT_TRY_FOR(request, next_event(FI_CONNREQ));
  info_ = std::move(request);
  if (Status opened = prepare(); !opened) {
    fi_reject(pep, info_->handle, nullptr, 0);
    return opened;
  }
  WEFT_TRY(check(fi_accept(ep_.get(), nullptr, 0), "fi_accept"));
  watch_.step("accepting the client's connection");
  Result<InfoPtr> connected = next_event(FI_CONNECTED);
  if (!connected) return fail(connected.error().error, "accepting the client's connection: {}", connected.error().what);
  return {};
}

Status FabricLink::connect(const EndpointName& peer) {
  WEFT_TRY(check(fi_connect(ep_.get(), peer.bytes.data(), nullptr, 0), "fi_connect"));
  watch_.step("connecting to the server's endpoint");
  Result<InfoPtr> connected = next_event(FI_CONNECTED);
  if (!connected)
    return fail(connected.error().error, "connecting to the server's endpoint: {}", connected.error().what);
  return {};
}

Status FabricLink::insert_peer(const EndpointName& peer) {
  const int inserted = fi_av_insert(av_.get(), peer.bytes.data(), 1, &peer_, 0, nullptr);
  if (inserted == 1) return {};
  return check(inserted < 0 ? inserted : -FI_EINVAL, "fi_av_insert of the peer's name");
}

Result<std::unique_ptr<FabricLink>> FabricLink::serve(const LinkOptions& options, ControlChannel& control,
                                                      Watch& watch) {
  std::unique_ptr<FabricLink> link(new FabricLink(options, watch));
  Result<std::string> address = control.local_address();
  WEFT_TRY(link->find(address ? address->c_str() : nullptr, nullptr));
  WEFT_TRY(link->open_fabric());
  if (link->options_.type == FI_EP_MSG) {
    WEFT_TRY(link->listen_and_accept(control));
    return link;
  }
  WEFT_TRY(link->prepare());
  WEFT_TRY_FOR(name, link->name_of(link->ep_->fid));
  WEFT_TRY(control.send_name(name));
  WEFT_TRY_FOR(peer, control.receive_name());
  WEFT_TRY(link->insert_peer(peer));
  return link;
}

Result<std::unique_ptr<FabricLink>> FabricLink::join(const LinkOptions& options, ControlChannel& control,
                                                     Watch& watch) {
  std::unique_ptr<FabricLink> link(new FabricLink(options, watch));
  WEFT_TRY_FOR(peer, control.receive_name());
  WEFT_TRY(link->find(nullptr, &peer));
  WEFT_TRY(link->open_fabric());
  WEFT_TRY(link->prepare());
  if (link->options_.type == FI_EP_MSG) {
    WEFT_TRY(link->connect(peer));
    return link;
  }
  WEFT_TRY(link->insert_peer(peer));
  WEFT_TRY_FOR(name, link->name_of(link->ep_->fid));
  WEFT_TRY(control.send_name(name));
  return link;
}

}  // namespace weft::tools
