// SPDX-License-Identifier: BSD-2-Clause
// A datagram endpoint in multicast groups; see group_link.h.
#include "group_link.h"

#include <arpa/inet.h>
#include <net/if.h>
#include <netdb.h>
#include <rdma/fi_ext.h>

#include <algorithm>

namespace weft::tools {
namespace {

constexpr int kJoinWaitMs = 100;  // between two checks of the watch

// Accepts only the numeric address of a group.
bool parse_group(const std::string& text, uint16_t port, sockaddr_storage& out) {
  out = {};
  auto* in = reinterpret_cast<sockaddr_in*>(&out);
  auto* in6 = reinterpret_cast<sockaddr_in6*>(&out);
  if (inet_pton(AF_INET, text.c_str(), &in->sin_addr) == 1) {
    in->sin_family = AF_INET;
    in->sin_port = htons(port);
    return IN_MULTICAST(ntohl(in->sin_addr.s_addr));
  }
  if (inet_pton(AF_INET6, text.c_str(), &in6->sin6_addr) != 1) return false;
  in6->sin6_family = AF_INET6;
  in6->sin6_port = htons(port);
  return IN6_IS_ADDR_MULTICAST(&in6->sin6_addr);
}

// The provider restores the membership after these errors.
bool is_temporary(int error) {
  return error == FI_ENETDOWN || error == FI_ENETUNREACH || error == FI_EADDRNOTAVAIL;
}

}  // namespace

Result<std::unique_ptr<GroupLink>> GroupLink::open(const GroupOptions& options, Watch& watch) {
  std::unique_ptr<GroupLink> link(new GroupLink(options, watch));
  WEFT_TRY(link->find());
  WEFT_TRY(link->prepare());
  WEFT_TRY(link->join());
  return link;
}

Status GroupLink::find() {
  sockaddr_storage group{};
  for (const std::string& name : options_.groups)
    if (!parse_group(name, options_.port, group))
      return fail(FI_EINVAL, "'{}' is not the numeric address of a multicast group", name);
  InfoPtr hints(fi_allocinfo());
  if (!hints) return fail(FI_ENOMEM, "fi_allocinfo");
  hints->ep_attr->type = FI_EP_DGRAM;
  hints->caps = FI_MSG | FI_MULTICAST | (options_.sends ? FI_SEND : FI_RECV);
  if (options_.loopback) hints->caps |= FI_SEND | FI_RECV;
  hints->mode = FI_CONTEXT | FI_CONTEXT2;
  hints->addr_format = group.ss_family == AF_INET ? FI_SOCKADDR_IN : FI_SOCKADDR_IN6;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_ALLOCATED | FI_MR_PROV_KEY | FI_MR_VIRT_ADDR;
  hints->ep_attr->max_msg_size = options_.message;
  if (options_.provider) set_string(hints->fabric_attr->prov_name, options_.provider);
  if (options_.domain) set_string(hints->domain_attr->name, options_.domain);
  const uint64_t flags = options_.source ? FI_SOURCE : 0;
  if (const int error = get_info(options_.source, nullptr, flags, hints.get(), info_); error < 0)
    return fail(-error, "no provider offers multicast datagrams of {} bytes{}{}", options_.message,
                options_.source ? " from " : "", options_.source ? options_.source : "");
  return {};
}

Status GroupLink::prepare() {
  WEFT_TRY(open_fabric());
  WEFT_TRY(open_endpoint(kReceives + kSends, FI_WAIT_UNSPEC));
  WEFT_TRY(bind_events());
  WEFT_TRY(bind_vector());
  WEFT_TRY(check(fi_enable(ep_.get()), "fi_enable"));
  if (options_.loopback) {
    const int on = 1;
    WEFT_TRY(check(fi_setopt(&ep_->fid, FI_OPT_ENDPOINT, FI_OPT_WEFT_MULTICAST_LOOPBACK, &on, sizeof on),
                   "fi_setopt(FI_OPT_WEFT_MULTICAST_LOOPBACK)"));
  }
  const std::size_t count = options_.sends ? kSends : std::min(kReceives, info_->rx_attr->size);
  stride_ = options_.sends ? options_.message : info_->ep_attr->max_msg_size;
  WEFT_TRY(allocate_buffers(count));
  if (options_.sends) return {};
  for (std::size_t slot = 0; slot < count; ++slot) WEFT_TRY(post_receive(slot));
  return {};
}

Status GroupLink::join() {
  memberships_.resize(options_.groups.size());
  for (std::size_t i = 0; i < memberships_.size(); ++i) {
    const std::string& name = options_.groups[i];
    watch_.step(fmt::format("joining the group {}", name), Watch::Peer::kMayIdle);
    sockaddr_storage group{};
    parse_group(name, options_.port, group);
    fid_mc* mc = nullptr;
    WEFT_TRY(check(fi_join(ep_.get(), &group, options_.sends ? FI_SEND : FI_RECV, &mc, &memberships_[i]), "fi_join({})",
                   name));
    memberships_[i].mc.reset(mc);
    WEFT_TRY(await_membership(memberships_[i]));
  }
  return {};
}

Status GroupLink::await_membership(const Membership& membership) {
  while (!membership.joined) {
    WEFT_TRY(read_event(kJoinWaitMs));
    WEFT_TRY(watch_.check());
  }
  return {};
}

Status GroupLink::read_event(int timeout_ms) {
  uint32_t event = 0;
  fi_eq_entry entry{};
  const ssize_t got = timeout_ms == 0 ? fi_eq_read(eq_.get(), &event, &entry, sizeof entry, 0)
                                      : fi_eq_sread(eq_.get(), &event, &entry, sizeof entry, timeout_ms, 0);
  if (got > 0 && event == FI_JOIN_COMPLETE) {
    auto& membership = *static_cast<Membership*>(entry.context);
    if (membership.was_joined)
      fmt::print(stderr, "fi_mcast: membership of {} restored\n", options_.groups[&membership - memberships_.data()]);
    membership.joined = membership.was_joined = true;
  } else if (got == -FI_EAVAIL) {
    fi_eq_err_entry error{};
    fi_eq_readerr(eq_.get(), &error, 0);
    char text[512] = "";
    const char* sentence = fi_eq_strerror(eq_.get(), error.prov_errno, error.err_data, text, sizeof text);
    auto* membership = error.fid->fclass == FI_CLASS_MC ? static_cast<Membership*>(error.context) : nullptr;
    const bool was_joined = membership == nullptr || membership->was_joined;
    if (!was_joined || !is_temporary(error.err)) return fail(error.err, "{}", sentence);
    fmt::print(stderr, "fi_mcast: {}\n", sentence);
    if (membership != nullptr) membership->joined = false;
  } else if (got < 0 && got != -FI_EAGAIN && got != -FI_ETIMEDOUT) {
    return check(got, "fi_eq_read");
  }
  return {};
}

Status GroupLink::check_membership() {
  const auto now = std::chrono::steady_clock::now();
  if (now < next_check_) return {};
  next_check_ = now + std::chrono::milliseconds(kJoinWaitMs);
  return read_event(0);
}

std::string GroupLink::own_name() const {
  sockaddr_storage name{};
  std::size_t size = sizeof name;
  char host[INET6_ADDRSTRLEN + IF_NAMESIZE] = "?", port[8] = "";
  if (fi_getname(&ep_->fid, &name, &size) != 0) return host;
  getnameinfo(reinterpret_cast<sockaddr*>(&name), static_cast<socklen_t>(size), host, sizeof host, port, sizeof port,
              NI_NUMERICHOST | NI_NUMERICSERV);
  return name.ss_family == AF_INET ? fmt::format("{}:{}", host, port) : fmt::format("[{}]:{}", host, port);
}

Status GroupLink::completion_failure() {
  fi_cq_err_entry error{};
  if (const ssize_t got = fi_cq_readerr(cq_.get(), &error, 0); got < 0) return check(got, "fi_cq_readerr");
  char text[256] = "";
  return fail(error.err, "transfer: {}",
              fi_cq_strerror(cq_.get(), error.prov_errno, error.err_data, text, sizeof text));
}

// Reads completions of sends.
Status GroupLink::take_completions(int timeout_ms) {
  fi_cq_msg_entry entries[kSends];
  const ssize_t got = timeout_ms == 0 ? fi_cq_read(cq_.get(), entries, kSends)
                                      : fi_cq_sread(cq_.get(), entries, kSends, nullptr, timeout_ms);
  if (got == -FI_EAVAIL) return completion_failure();
  if (got > 0) finished_ += static_cast<uint64_t>(got);
  if (got < 0 && got != -FI_EAGAIN && got != -FI_ETIMEDOUT) return check(got, "fi_cq_read");
  return {};
}

Result<std::span<std::byte>> GroupLink::outgoing() {
  while (posted_ - finished_ >= kSends) {
    WEFT_TRY(take_completions(0));
    WEFT_TRY(watch_.check());
  }
  return std::span(buffer(posted_ % kSends), options_.message);
}

Status GroupLink::send() {
  const std::size_t slot = posted_ % kSends;
  const iovec iov{buffer(slot), options_.message};
  const Membership& to = memberships_[posted_ % memberships_.size()];
  fi_msg message{&iov, &descriptor_, 1, fi_mc_addr(to.mc.get()), &contexts_[slot], 0};
  for (;;) {
    const ssize_t result = fi_sendmsg(ep_.get(), &message, FI_MULTICAST | FI_COMPLETION);
    if (result == 0) break;
    if (result != -FI_EAGAIN) {  // the membership may be interrupted
      WEFT_TRY(read_event(0));
      if (to.joined) return check(result, "fi_sendmsg");
      WEFT_TRY(await_membership(to));
      message.addr = fi_mc_addr(to.mc.get());
      continue;
    }
    WEFT_TRY(take_completions(0));
    WEFT_TRY(watch_.check());
  }
  ++posted_;
  return {};
}

Status GroupLink::finish() {
  while (posted_ != finished_) {
    WEFT_TRY(take_completions(kJoinWaitMs));
    WEFT_TRY(watch_.check());
  }
  return {};
}

Status GroupLink::receive(int timeout_ms, const std::function<void(std::span<const std::byte>)>& show) {
  constexpr std::size_t kBatch = 64;
  fi_cq_msg_entry entries[kBatch];
  const ssize_t got = fi_cq_sread(cq_.get(), entries, kBatch, nullptr, timeout_ms);
  if (got == -FI_EAVAIL) return completion_failure();
  if (got < 0 && got != -FI_EAGAIN && got != -FI_ETIMEDOUT) return check(got, "fi_cq_sread");
  for (ssize_t i = 0; i < got; ++i) {
    const auto slot = static_cast<std::size_t>(static_cast<fi_context2*>(entries[i].op_context) - contexts_.data());
    show({buffer(slot), entries[i].len});
    WEFT_TRY(post_receive(slot));
  }
  return {};
}

}  // namespace weft::tools
