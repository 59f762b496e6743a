// SPDX-License-Identifier: BSD-2-Clause
// Datagram endpoints: creation, bindings, options, names, groups; see endpoint.h.
#include "udp/endpoint.h"

#include <net/if.h>
#include <rdma/fi_ext.h>

#include <algorithm>
#include <utility>

#include "objects/attributes.h"
#include "objects/binding_check.h"
#include "objects/datagram_bindings.h"
#include "objects/endpoint_alias.h"
#include "objects/endpoint_names.h"
#include "objects/endpoint_options.h"
#include "udp/logging.h"
#include "udp/multicast_group.h"
#include "udp/socket.h"

namespace weft::udp {
namespace {

// The address of an endpoint opened without one: an address of the domain's interface.
Address default_address(const Domain& domain, uint32_t addr_format) {
  const Address any = unnamed(addr_format);
  if (auto interfaces = local_interfaces())
    for (const Interface& interface : *interfaces)
      if (interface.name == domain.name() && interface.address.family() == any.family()) return interface.address;
  return any;
}

// Binds an endpoint's own socket. The wildcard address may be bound although members of groups use the port, but not if
// an endpoint does. Such an endpoint has the port of the loopback address as well, so binding a probe there
// distinguishes the two cases. The probe stays open until the address is ours.
int bind_own(int fd, const Address& local) noexcept {
  const int result = net::bind(fd, local.data(), local.size());
  if (result != -FI_EADDRINUSE || !local.is_any()) return result;
  const Address loopback = Address::loopback(local.family(), local.port());
  const UniqueFd probe(net::open_datagram(local.family()));
  if (!probe || net::bind(probe.get(), loopback.data(), loopback.size()) < 0) return result;
  net::share_address(probe.get(), true);
  net::share_address(fd, true);
  const int shared = net::bind(fd, local.data(), local.size());
  net::share_address(fd, false);
  return shared;
}

}  // namespace

int Endpoint::open(Domain& domain, const fi_info* info, fid_ep** ep, void* context) {
  if (info == nullptr || ep == nullptr || !describes_endpoint(*info, FI_EP_DGRAM, {}) || info->handle != nullptr)
    return -FI_EINVAL;
  Result<Address> local = info->src_addr != nullptr ? read_name(info->addr_format, info->src_addr, info->src_addrlen)
                                                    : default_address(domain, info->addr_format);
  if (!local) return local.error().code();
  if (Status status = domain.fabric().check(local->family(), *info); !status.ok()) return status.code();
  *ep = &(new Endpoint(domain, *info, *local, context))->abi;
  return 0;
}

Endpoint::Endpoint(Domain& domain, const fi_info& info, const Address& local, void* context)
    : TransferCalls(info),
      Sender([](Sender& sender) noexcept { static_cast<Endpoint&>(sender).flush(); }),
      domain_(domain),
      addr_format_(info.addr_format),
      caps_(info.caps),
      max_message_(or_none(info.ep_attr).max_msg_size),
      tx_size_(queue_size(info.tx_attr, kDefaultQueueSize)),
      local_(local),
      receiver_(domain.engine(), domain.parts().receive_pool, queue_size(info.rx_attr, kDefaultQueueSize), routes_),
      socket_(receiver_, false) {
  identify<Endpoint>(abi, FI_CLASS_EP, context);
  abi.msg = ops_of<NoCalls, FI_EOPBADSTATE>;
  const std::size_t usual = kEthernetMtu - header_size(local_.family());
  max_message_ = std::min(max_message_ != 0 ? max_message_ : usual, longest_datagram(local_.family()));
  receiver_.queue.min_multi_receive = std::min(receiver_.queue.min_multi_receive, max_message_);
}

int Endpoint::close() {
  if (in_use()) return -FI_EBUSY;
  {
    Lock lock(engine().mutex());
    flush();
    batch_.cancel(routes_);
    Sender::unlink();
    receiver_.queue.cancel_all(routes_);
    if (socket_.fd >= 0) engine().remove(socket_);
  }
  release_events(events_, engine(), abi.fid);
  delete this;
  return 0;
}

int Endpoint::bind(::fid* object, uint64_t flags) {
  if (auto* queue = EventQueue::from(object)) return bind_events(*queue, flags, engine(), events_).code();
  Lock lock(engine().mutex());
  if (auto* queue = CompletionQueue::from(object))
    return bind_route(provider(), routes_, *queue, flags, engine(), enabled_).code();
  if (auto* counter = Counter::from(object))
    return bind_route(provider(), routes_, *counter, flags, engine(), enabled_).code();
  auto* vector = AddressVector::from(object);
  if (vector == nullptr) return -FI_EINVAL;
  const Status status = check_binding(provider(), *vector, *domain_, enabled_, flags, static_cast<bool>(vector_));
  if (status.ok()) vector_ = Ref<AddressVector>(*vector);
  return status.code();
}

int Endpoint::control(int command, void* argument) {
  if (command == FI_GETOPSFLAG || command == FI_SETOPSFLAG)
    return control_default_flags(command, static_cast<uint64_t*>(argument), transmit_flags_, receive_flags_,
                                 [this](uint64_t) { return Lock(engine().mutex()); });
  if (command == FI_ALIAS) return open_alias(abi, *this, argument);
  if (command != FI_ENABLE) return -FI_ENOSYS;
  Lock lock(engine().mutex());
  return enable();
}

int Endpoint::enable() {
  if (enabled_) return 0;
  if (Status status = check_datagram_bindings(routes_, caps_, static_cast<bool>(vector_)); !status.ok())
    return status.code();
  if (!bound_)
    if (Status status = open_socket(); !status.ok()) return status.code();
  if (Status status = engine().open_slots(); !status.ok()) return status.code();
  const std::size_t header = header_size(local_.family());
  const std::size_t carried = std::max(mtu_ != 0 ? mtu_ : kEthernetMtu, header) - header;
  const bool segments = coalesces_datagrams();
  if (Status status = batch_.allocate(segments ? carried : 0); !status.ok()) return status.code();
  if (caps_ & FI_SOURCE) receiver_.set_vector(vector_.get());
  if (Status status = socket_.open(std::move(bound_), segments); !status.ok()) return status.code();
  enabled_ = true;
  abi.msg = ops_of<Endpoint>;
  return 0;
}

// Sets the options of all sockets of the endpoint. The kernel may limit the buffer.
void Endpoint::tune(int fd) const noexcept {
  const Parameters& parameters = domain_->fabric().parameters;
  if (parameters.receive_buffer != 0) net::set_option(fd, SOL_SOCKET, SO_RCVBUF, parameters.receive_buffer);
}

Status Endpoint::open_socket() {
  const int fd = net::open_datagram(local_.family());
  if (fd < 0) return Status(fd);
  UniqueFd socket(fd);
  if (int code = bind_own(fd, local_); code < 0) return Status(code);
  sockaddr_storage name;
  socklen_t len = sizeof name;
  if (int code = net::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &len); code < 0) return Status(code);
  local_ = Address::from(&name, len).value_or(local_);
  tune(fd);
  choose_interface();
  if (interface_ != 0) net::set_multicast_interface(fd, local_.family(), interface_);
  net::set_multicast_hops(fd, local_.family(), domain_->fabric().parameters.multicast_hops);
  net::refuse_groups_of_others(fd, local_.family());
  bound_ = std::move(socket);
  return Status();
}

// Finds the interface that has the endpoint's address; for the wildcard address, the domain's.
void Endpoint::choose_interface() {
  const auto interfaces = local_interfaces();
  if (!interfaces) return;
  for (const Interface& interface : *interfaces) {
    const bool ours = local_.is_any() ? interface.name == domain_->name() : interface.address.same_host(local_);
    // All of 127.0.0.0/8 is local, not only the interface's address.
    const bool loopback = local_.is_loopback() && interface.loopback && interface.address.family() == local_.family();
    if (!ours && !loopback) continue;
    interface_ = ::if_nametoindex(interface.name.c_str());
    mtu_ = interface.mtu;
    return;
  }
}

ssize_t Endpoint::cancel(void* context) noexcept {
  Lock lock(engine().mutex());
  return receiver_.queue.cancel(context, routes_) ? 0 : -FI_ENOENT;
}

// The value of an option that only states a limit.
std::optional<std::size_t> Endpoint::limit_of(int option) const noexcept {
  const bool limit = option == FI_OPT_MAX_MSG_SIZE || option == FI_OPT_INJECT_MSG_SIZE;
  return limit ? std::optional(max_message_) : std::nullopt;
}

int Endpoint::getopt(int level, int option, void* value, size_t* len) {
  if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
  Lock lock(engine().mutex());
  if (option == FI_OPT_MIN_MULTI_RECV) return report_option(receiver_.queue.min_multi_receive, value, len);
  if (option == FI_OPT_TX_SIZE) return report_option(tx_size_, value, len);
  if (option == FI_OPT_RX_SIZE) return report_option(receiver_.queue.size(), value, len);
  if (option == FI_OPT_WEFT_MULTICAST_LOOPBACK) return report_option(int{receiver_.loopback}, value, len);
  return report_limit(limit_of(option), value, len);
}

int Endpoint::setopt(int level, int option, const void* value, size_t len) {
  if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
  Lock lock(engine().mutex());
  if (option == FI_OPT_MIN_MULTI_RECV) return read_option(value, len, receiver_.queue.min_multi_receive);
  if (option == FI_OPT_TX_SIZE) return set_queue_size(enabled_, value, len, [&](std::size_t size) { tx_size_ = size; });
  if (option == FI_OPT_RX_SIZE)
    return set_queue_size(enabled_, value, len, [&](std::size_t size) { receiver_.queue.set_size(size); });
  if (option == FI_OPT_WEFT_MULTICAST_LOOPBACK) return read_switch(value, len, receiver_.loopback);
  return accept_limit(limit_of(option), value, len);
}

ssize_t Endpoint::rx_size_left() noexcept {
  Lock lock(engine().mutex());
  return enabled_ ? static_cast<ssize_t>(receiver_.queue.room()) : -FI_EOPBADSTATE;
}

ssize_t Endpoint::tx_size_left() noexcept {
  Lock lock(engine().mutex());
  return enabled_ ? static_cast<ssize_t>(tx_size_ - std::min(tx_size_, batch_.size())) : -FI_EOPBADSTATE;
}

int Endpoint::setname(void* name, size_t len) {
  auto wanted = read_name(addr_format_, name, len);
  if (!wanted) return wanted.error().code();
  Lock lock(engine().mutex());
  if (enabled_) return -FI_EOPBADSTATE;
  if (wanted->family() != local_.family()) return -FI_EINVAL;
  bound_.reset();
  const Address before = std::exchange(local_, *wanted);
  const Status status = open_socket();
  if (!status.ok()) local_ = before;
  return status.code();
}

// An endpoint without a port gets one when the application reads its name.
int Endpoint::getname(void* name, size_t* len) {
  Lock lock(engine().mutex());
  if (!enabled_ && !bound_)
    if (Status status = open_socket(); !status.ok()) return status.code();
  return report_name(local_, name, len);
}

// ---- Groups ----

Status Endpoint::check_join(const void* addr, uint64_t flags, const Result<Address>& group) const noexcept {
  if (addr == nullptr) return Status(-FI_EINVAL);
  if ((flags & ~uint64_t{FI_SEND | FI_RECV}) != 0) return Status(-FI_EBADFLAGS);
  if ((caps_ & FI_MULTICAST) == 0) return Status(-FI_EOPNOTSUPP);
  if (!events_) return Status(-FI_ENOEQ);
  if (!enabled_) return Status(-FI_EOPBADSTATE);
  if (!group || group->family() != local_.family() || !group->is_multicast()) return Status(-FI_EINVAL);
  return JoinRole::check(caps_, flags);
}

bool Endpoint::is_member(const Address& group) const noexcept {
  return std::any_of(groups_.begin(), groups_.end(), [&](const GroupSlot& slot) {
    return slot.group != nullptr && slot.group->receives() && slot.group->address() == group;
  });
}

int Endpoint::join(const void* addr, uint64_t flags, fid_mc** mc, void* context) {
  if (mc == nullptr) return -FI_EINVAL;
  Result<Address> group = addr != nullptr ? read_name(addr_format_, addr) : failure(FI_EINVAL);
  if (const int error = bind_default_events(*this, *domain_, events_); error != 0) return error;
  Lock lock(engine().mutex());
  if (Status status = check_join(addr, flags, group); !status.ok()) return status.code();
  if (group->port() == 0) group->set_port(local_.port());
  const JoinRole role(caps_, flags);
  if (role.receives && is_member(*group)) return -FI_EALREADY;  // every message would arrive twice
  find_own_addresses();
  auto slot = std::find_if(groups_.begin(), groups_.end(), [](const GroupSlot& s) { return s.group == nullptr; });
  if (slot == groups_.end()) slot = groups_.emplace(slot);
  ++slot->uses;
  const auto index = static_cast<uint64_t>(slot - groups_.begin());
  const fi_addr_t name = group_name(slot->uses, index);
  fid_mc* const joined = MulticastGroup::join(*this, *group, role, name, context);
  if (joined == nullptr) return -FI_ENOMEM;
  *mc = joined;
  slot->group = &object<MulticastGroup>(joined);
  return 0;
}

void Endpoint::share_port(const MulticastGroup* joining) noexcept {
  if (!local_.is_any()) return;
  const auto has_port = [this](const MulticastGroup& group) { return group.address().port() == local_.port(); };
  net::share_address(socket_.socket(), (joining != nullptr && has_port(*joining)) ||
                                           std::any_of(groups_.begin(), groups_.end(), [&](const GroupSlot& slot) {
                                             return slot.group != nullptr && has_port(*slot.group);
                                           }));
}

void Endpoint::remove_group(const MulticastGroup& group) noexcept {
  for (GroupSlot& slot : groups_)
    if (slot.group == &group) slot.group = nullptr;
  share_port(nullptr);
}

// A socket bound to the wildcard address may send from any address of the host.
void Endpoint::find_own_addresses() {
  receiver_.own_addresses.assign(1, local_);
  if (!local_.is_any()) return;
  const auto interfaces = local_interfaces();
  if (!interfaces) return;
  for (const Interface& interface : *interfaces) {
    if (interface.address.family() != local_.family()) continue;
    receiver_.own_addresses.push_back(interface.address);
    receiver_.own_addresses.back().set_port(local_.port());
  }
}

const Address* Endpoint::destination_of(const TransmitRequest& message) const noexcept {
  if (!(message.flags & FI_MULTICAST)) return vector_ ? vector_->find(message.destination) : nullptr;
  const fi_addr_t index = message.destination & kGroupIndexMask;
  if (index >= groups_.size()) return nullptr;
  const GroupSlot& slot = groups_[index];
  const bool current = message.destination == group_name(slot.uses, index);
  return current && slot.group != nullptr && slot.group->may_send() ? &slot.group->address() : nullptr;
}

}  // namespace weft::udp
