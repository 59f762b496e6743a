// SPDX-License-Identifier: BSD-2-Clause
// Memberships in multicast groups; see multicast_group.h.
#include "verbs/datagram/multicast_group.h"

#include <net/if.h>
#include <netinet/in.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "abi/ops.h"
#include "base/standard_descriptors.h"
#include "objects/sentence.h"
#include "verbs/datagram/datagram_endpoint.h"
#include "verbs/device/device.h"
#include "verbs/device/logging.h"
#include "verbs/transfer/domain_services.h"
#include "verbs/transfer/send_work.h"

namespace weft::verbs {
namespace {

using namespace std::chrono_literals;

// Pauses between tries: a port that is up again has its addresses only some time later.
constexpr Clock::duration kFirstRejoinPause = 50ms;
constexpr Clock::duration kLongestRejoinPause = 2s;

constexpr std::uint32_t kMulticastQp = 0xffffff;  // IBA 10.5.1
constexpr std::uint8_t kHopLimit = 64;
constexpr int kKernelsNotSupported = 524;  // ENOTSUPP, which has no name outside of the kernel

bool means_unsupported(int error) noexcept {
  return error == EOPNOTSUPP || error == ENOTSUP || error == kKernelsNotSupported;
}

}  // namespace

MulticastGroup::MulticastGroup(DatagramEndpoint& endpoint, const CmAddress& group, JoinRole role, fi_addr_t name,
                               void* context) noexcept
    : endpoint_(endpoint), address_(group), role_(role), name_(name), full_member_(role.receives) {
  abi.fid = {FI_CLASS_MC, context, ops_of<MulticastGroup>};
  abi.fi_addr = FI_ADDR_NOTAVAIL;
}

MulticastGroup::~MulticastGroup() = default;

int MulticastGroup::close() {
  {
    // The endpoint must outlive the lock of its engine.
    const Ref<DatagramEndpoint> endpoint = endpoint_;
    Lock lock(endpoint->engine().mutex());
    leave(state_ == State::kMember);
    endpoint->forget(*this);
    endpoint->engine().forget(*this);
  }
  endpoint_->events().remove(&abi.fid);
  delete this;
  return 0;
}

// ---- Joining ----

bool MulticastGroup::reserve() noexcept {
  for (EventQueueCore::Reserved* event : {&result_, &end_})
    if (*event == nullptr) *event = EventQueueCore::reserve_result();
  return result_ != nullptr && end_ != nullptr;
}

void MulticastGroup::start() noexcept {
  state_ = State::kJoining;
  if (Status status = join(); !status.ok()) fail(explain_errno(CmPhase::kAddress, status.error()));
}

Status MulticastGroup::take_id() noexcept {
  id_ = endpoint_->take_group_id();
  used_id_ = id_ != nullptr;
  if (used_id_) {
    id_->context = static_cast<CmHandler*>(this);
    return {};
  }
  step_ = "opening an id";
  auto id = endpoint_->engine().create_id(*this, RDMA_PS_UDP);
  if (!id) return id.error();
  id_ = std::move(*id);
  CmAddress local = endpoint_->local();
  local.set_port(0);
  step_ = "binding to the endpoint's address";
  return rdma_bind_addr(id_.get(), local.data()) == 0 ? Status() : Status::last_errno();
}

Status MulticastGroup::join() noexcept {
  if (Status status = take_id(); !status.ok()) return status;
  step_ = "requesting to join";
  CmAddress group = address_;
  const uint32_t flags = full_member_ ? RDMA_MC_JOIN_FLAG_FULLMEMBER : RDMA_MC_JOIN_FLAG_SENDONLY_FULLMEMBER;
  rdma_cm_join_mc_attr_ex attr{RDMA_CM_JOIN_MC_ATTR_ADDRESS | RDMA_CM_JOIN_MC_ATTR_JOIN_FLAGS, flags, group.data()};
  if (rdma_join_multicast_ex(id_.get(), &attr, nullptr) == 0) {
    step_ = "waiting for the group";
    cm_join_ = true;
    const int patience = endpoint_->domain().fabric().parameters.connect_timeout_ms;
    if (patience != 0) endpoint_->engine().set_deadline(*this, Clock::now() + std::chrono::milliseconds(patience));
    return {};
  }
  const int error = errno;
  if (used_id_) return join();  // the id may be stale: once more with a new one
  if (!means_unsupported(error)) return Status::from_errno(error);
  if (address_.family() == AF_INET6) return join_by_socket();
  if (full_member_) return Status(-FI_EOPNOTSUPP);
  // Send-only members are not supported: a full member that does not attach its queue pair comes close.
  full_member_ = true;
  return join();
}

Status MulticastGroup::join_by_socket() noexcept {
  step_ = "joining by a socket";
  const CmAddress& local = endpoint_->local();
  const Address group = address_.ip();
  const auto interfaces = local_interfaces();
  if (!interfaces) return interfaces.error();
  const auto own = std::ranges::find_if(
      *interfaces, [&](const Interface& interface) { return interface.address.same_host(local.ip()); });
  if (own == interfaces->end()) return Status(-FI_EADDRNOTAVAIL);
  if (role_.receives) {
    socket_.reset(above_standard(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC, 0)));
    if (!socket_) return Status::last_errno();
    ipv6_mreq request{};
    request.ipv6mr_multiaddr = reinterpret_cast<const sockaddr_in6*>(group.data())->sin6_addr;
    request.ipv6mr_interface = ::if_nametoindex(own->name.c_str());
    if (::setsockopt(socket_.get(), IPPROTO_IPV6, IPV6_JOIN_GROUP, &request, sizeof request) != 0)
      return Status::last_errno();
  }
  const std::uint8_t port = id_->port_num;
  const auto index = GidTable::of(endpoint_->domain().device(), port).index_of(gid_of(local.ip()));
  if (!index) return Status(-FI_EADDRNOTAVAIL);
  rdma_ud_param found{};
  found.ah_attr.is_global = 1;
  found.ah_attr.port_num = port;
  found.ah_attr.grh.dgid = gid_of(group);
  found.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(*index);
  found.ah_attr.grh.hop_limit = kHopLimit;
  found.qp_num = kMulticastQp;
  found.qkey = RDMA_UDP_QKEY;
  on_joined(found);
  return {};
}

void MulticastGroup::on_cm_event(const RdmaEvent& event) noexcept {
  switch (event.type) {
    case RDMA_CM_EVENT_MULTICAST_JOIN:
      if (event.status == 0) {
        if (state_ == State::kJoining) on_joined(event.ud);
        return;
      }
      [[fallthrough]];
    case RDMA_CM_EVENT_MULTICAST_ERROR: {
      if (state_ == State::kMember) return interrupt(FI_ENETUNREACH, "the network ended the membership");
      if (state_ != State::kJoining) return;
      if (restoring_) return retry_later();
      if (!full_member_ && means_unsupported(-event.status)) {
        full_member_ = true;
        leave();
        return start();
      }
      CmFailure why = explain_errno(CmPhase::kAddress, event.status < 0 ? -event.status : EIO);
      if (why.error == FI_EPERM || why.error == FI_EIO) why.reason = "the network refused the group";
      return fail(why);
    }
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      leave();
      state_ = State::kFailed;
      return report_error(FI_ENODEV, FI_ENODEV, "the RDMA device was removed");
    case RDMA_CM_EVENT_ADDR_CHANGE:
      if (state_ == State::kMember) return interrupt(FI_EADDRNOTAVAIL, "the interface's hardware address changed");
      return;
    default:
      return;
  }
}

void MulticastGroup::on_joined(const rdma_ud_param& group) noexcept {
  endpoint_->engine().clear_deadline(*this);
  ibv_ah_attr path = group.ah_attr;
  gid_ = path.grh.dgid;
  lid_ = path.dlid;
  if (role_.receives) {
    step_ = "attaching the queue pair";
    const Status status = status_of(ibv_attach_mcast(endpoint_->queue_pair(), &gid_, lid_));
    if (!status.ok()) return fail(explain_attach(status.error()));
    attached_ = true;
  }
  if (role_.sends) {
    step_ = "creating an address handle";
    errno = 0;
    handle_.reset(ibv_create_ah(endpoint_->domain().pd(), &path));
    if (handle_ == nullptr) return fail(explain_errno(CmPhase::kAddress, errno != 0 ? errno : EIO));
    const Destination to{handle_.get(), group.qp_num, group.qkey};
    endpoint_->set_group_destination(*this, &to);
  }
  state_ = State::kMember;
  pause_ = {};
  restoring_ = true;
  abi.fi_addr = name_;
  endpoint_->events().post(take_event(), FI_JOIN_COMPLETE, {&abi.fid, abi.fid.context, 0});
}

// The join was not answered, or the pause before the next try is over.
void MulticastGroup::on_deadline() noexcept {
  if (state_ == State::kInterrupted) return reserve() ? start() : retry_later();
  if (state_ == State::kJoining) fail({FI_ETIMEDOUT, ETIMEDOUT, "no answer in time"});
}

// ---- Leaving and interruptions ----

// Does not wait: events are acknowledged when they are read, and destroying the id cancels a pending join.
void MulticastGroup::leave(bool keep_id) noexcept {
  endpoint_->engine().clear_deadline(*this);
  endpoint_->set_group_destination(*this, nullptr);
  if (attached_) ibv_detach_mcast(endpoint_->queue_pair(), &gid_, lid_);
  attached_ = false;
  socket_.reset();
  // Without it librdmacm leaks the memory of the membership, even when the id is destroyed.
  CmAddress group = address_;
  const bool left = std::exchange(cm_join_, false) && rdma_leave_multicast(id_.get(), group.data()) == 0;
  if (left && keep_id) endpoint_->keep_group_id(std::move(id_));
  id_.reset();
  endpoint_->retire(std::move(handle_));
  handle_.reset();
}

void MulticastGroup::on_port(bool active) noexcept {
  if (state_ == State::kFailed) return;
  if (!active && state_ == State::kMember) {
    interrupt(FI_ENETDOWN, "the port went down");
    endpoint_->engine().clear_deadline(*this);  // no try can succeed before the port is active
  } else if (active && state_ == State::kInterrupted) {
    pause_ = {};
    retry_later();
  }
}

// Reports the interruption to the application and rejoins; the success will be reported by FI_JOIN_COMPLETE.
void MulticastGroup::interrupt(int error, const char* why) noexcept {
  leave();
  report_error(error, error, why);
  retry_later();
}

void MulticastGroup::retry_later() noexcept {
  leave();
  state_ = State::kInterrupted;
  pause_ = std::clamp(pause_ * 2, kFirstRejoinPause, kLongestRejoinPause);
  endpoint_->engine().set_deadline(*this, Clock::now() + pause_);
}

void MulticastGroup::fail(const CmFailure& why) noexcept {
  if (restoring_) return retry_later();
  leave();
  state_ = State::kFailed;
  report_error(why.error, why.native, sentence("while {}: {}", step_, why.reason));
}

void MulticastGroup::report_error(int error, int native, std::string_view reason) noexcept {
  EqError entry(abi.fid, error, native);
  const bool was_member = restoring_;
  entry.sentence =
      sentence("{} the group {} from {} {}: {}", was_member ? "membership in" : "joining", address_.to_string(),
               endpoint_->local().to_string(), was_member ? "is interrupted" : "failed", reason);
  FI_INFO(&provider(), FI_LOG_EP_CTRL, "%s\n", entry.sentence.c_str());
  endpoint_->events().post_error(std::move(entry), take_event());
}

// Devices report two limits by one error. If an unused group can be attached, this group has too many members.
CmFailure MulticastGroup::explain_attach(int error) const noexcept {
  if (error != ENOMEM && error != ENOSPC) return explain_errno(CmPhase::kAddress, error);
  ibv_gid other = gid_;
  const auto any = static_cast<std::uint64_t>(Clock::now().time_since_epoch().count()) * 0x9e3779b97f4a7c15;
  std::memcpy(other.raw + 13, &any, 3);
  if (ibv_attach_mcast(endpoint_->queue_pair(), &other, lid_) != 0)
    return {FI_ENOSPC, error, "the device has no room for another group"};
  ibv_detach_mcast(endpoint_->queue_pair(), &other, lid_);
  return {EUSERS, error, "the device takes no more members into this group"};
}

}  // namespace weft::verbs
