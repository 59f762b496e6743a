// SPDX-License-Identifier: BSD-2-Clause
// The groups of a datagram endpoint, fi_cm(3) fi_join; and messages to them and to peers that do not go straight,
// fi_msg(3).
#include <rdma/fi_errno.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "objects/datagram_bindings.h"
#include "verbs/datagram/datagram_endpoint.h"
#include "verbs/datagram/multicast_group.h"
#include "verbs/device/device.h"
#include "verbs/transfer/send_queue.h"

namespace weft::verbs {

// ---- Messages ----

const Destination* DatagramEndpoint::destination_of(fi_addr_t name, uint64_t flags) const noexcept {
  if ((flags & FI_MULTICAST) == 0) [[likely]]
    return vector_ ? vector_->destination_of(name) : nullptr;
  const fi_addr_t index = name & kGroupIndexMask;
  if (index >= groups_.size()) return nullptr;
  const GroupSlot& slot = groups_[index];
  return slot.may_send && name == group_name(slot.uses, index) ? &slot.to : nullptr;
}

ssize_t DatagramEndpoint::transmit(const SendWork& work, fi_addr_t destination) noexcept {
  constexpr uint64_t kUnsupported = kUnsupportedFlags | FI_DELIVERY_COMPLETE;  // datagrams are not acknowledged
  if (const ssize_t refusal = sends_.check(work, kUnsupported); refusal != 0) [[unlikely]]
    return refusal;
  LightGuard guard(sends_.lock());
  const Destination* to = destination_of(destination, work.flags);
  if (to == nullptr) [[unlikely]]
    return -FI_EINVAL;
  SendWork addressed = work;
  addressed.flags &= ~FI_FENCE;  // a fence has no effect on datagrams
  addressed.kind |= static_cast<uint32_t>(work.flags & FI_MULTICAST);
  addressed.to = *to;
  return sends_.post_locked(addressed);
}

// ---- Groups ----

Status DatagramEndpoint::check_join(const void* addr, uint64_t flags, const Result<CmAddress>& group) const noexcept {
  if (addr == nullptr) return Status(-FI_EINVAL);
  if ((flags & ~uint64_t{FI_SEND | FI_RECV}) != 0) return Status(-FI_EBADFLAGS);
  if ((caps_ & FI_MULTICAST) == 0) return Status(-FI_EOPNOTSUPP);
  if (!events_) return Status(-FI_ENOEQ);
  if (!ready_) return Status(-FI_EOPBADSTATE);
  if (!group || !group->is_multicast()) return Status(-FI_EINVAL);
  if (group->is_ib() && !is_on_infiniband()) return Status(-FI_EADDRNOTAVAIL);
  if (!group->is_ib() && group->family() != local_.family()) return Status(-FI_EINVAL);
  return JoinRole::check(caps_, flags);
}

bool DatagramEndpoint::is_on_infiniband() const noexcept {
  const auto port = domain_->device().port(port_.number);
  return port && port->attr.link_layer == IBV_LINK_LAYER_INFINIBAND;
}

bool DatagramEndpoint::is_member(const CmAddress& group) const noexcept {
  return std::any_of(groups_.begin(), groups_.end(), [&](const GroupSlot& slot) {
    return slot.group != nullptr && slot.group->receives() && slot.group->address().same_host(group);
  });
}

int DatagramEndpoint::join(const void* addr, uint64_t flags, fid_mc** mc, void* context) {
  if (mc == nullptr) return -FI_EINVAL;
  // A GID (AF_IB) names a group, for endpoints of every address format.
  Result<CmAddress> group = addr != nullptr ? CmAddress::from(FI_FORMAT_UNSPEC, addr) : failure(FI_EINVAL);
  if (const int error = bind_default_events(*this, *domain_, events_); error != 0) return error;
  Lock lock(engine().mutex());
  if (Status status = check_join(addr, flags, group); !status.ok()) return status.code();
  if (!group->is_ib() && group->port() == 0) group->set_port(local_.port());
  const JoinRole role(caps_, flags);
  if (role.receives && is_member(*group)) return -FI_EALREADY;  // the device attaches a queue pair to a group once
  auto slot = std::find_if(groups_.begin(), groups_.end(), [](const GroupSlot& s) { return s.group == nullptr; });
  if (slot == groups_.end()) {
    if (groups_.size() > kGroupIndexMask) return -FI_ENOSPC;
    LightGuard guard(sends_.lock());
    slot = groups_.emplace(slot);
  }
  {
    LightGuard guard(sends_.lock());
    ++slot->uses;
  }
  const fi_addr_t name = group_name(slot->uses, static_cast<uint64_t>(slot - groups_.begin()));
  auto member = std::make_unique<MulticastGroup>(*this, *group, role, name, context);
  if (!member->reserve()) return -FI_ENOMEM;
  slot->group = member.get();
  member->start();
  *mc = &member.release()->abi;
  return 0;
}

void DatagramEndpoint::set_group_destination(const MulticastGroup& group, const Destination* to) noexcept {
  LightGuard guard(sends_.lock());
  for (GroupSlot& slot : groups_) {
    if (slot.group != &group) continue;
    slot.may_send = to != nullptr;
    slot.to = to != nullptr ? *to : Destination();
  }
}

void DatagramEndpoint::forget(const MulticastGroup& group) noexcept {
  for (GroupSlot& slot : groups_)
    if (slot.group == &group) slot.group = nullptr;
}

void DatagramEndpoint::retire(AddressHandle handle) noexcept {
  if (handle == nullptr) return;
  LightGuard guard(sends_.lock());
  std::erase_if(retired_, [&](const Retired& each) { return sends_.passed(each.moment); });
  const std::uint32_t moment = sends_.position();
  if (sends_.passed(moment)) return;
  try {
    retired_.push_back({std::move(handle), moment});
  } catch (const std::bad_alloc&) {
    // Datagrams that are still outstanding to that group are lost.
  }
}

}  // namespace weft::verbs
