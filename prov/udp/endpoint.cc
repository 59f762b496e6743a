// SPDX-License-Identifier: BSD-2-Clause
// Datagram endpoints: creation, bindings, options, names, groups; see endpoint.h.
#include "udp/endpoint.h"

#include <net/if.h>
#include <netinet/in.h>
#include <rdma/fi_ext.h>

#include <algorithm>
#include <memory>
#include <utility>

#include "abi/atomic_ops.h"
#include "abi/cm_ops.h"
#include "abi/ep_ops.h"
#include "abi/fid_ops.h"
#include "abi/msg_ops.h"
#include "abi/rma_ops.h"
#include "abi/tagged_ops.h"
#include "objects/attributes.h"
#include "objects/datagram_bindings.h"
#include "objects/endpoint_names.h"
#include "objects/endpoint_options.h"
#include "objects/event_binding.h"
#include "udp/domain.h"
#include "udp/multicast_group.h"
#include "udp/socket.h"

namespace weft::udp {
namespace {

struct Nothing {};
constexpr fi_ops_msg kClosed = make_msg_ops<Nothing, FI_EOPBADSTATE>();
constexpr fi_ops_msg kOpen = make_msg_ops<Endpoint>();
constexpr fi_ops_tagged kNoTagged = make_tagged_ops<Nothing>();
constexpr fi_ops_rma kNoRma = make_rma_ops<Nothing>();
constexpr fi_ops_atomic kNoAtomic = make_atomic_ops<Nothing>();

// Names of groups lie beyond what an address vector gives out, so neither passes for the other.
constexpr fi_addr_t kGroupName = fi_addr_t{1} << 62;
constexpr unsigned kGroupIndexBits = 24;

std::size_t queue_size(std::size_t asked) noexcept {
  return asked != 0 ? asked : kDefaultQueueSize;
}

// Where an endpoint without source address starts from: the domain's interface.
Address start_of(const Domain& domain, uint32_t addr_format) {
  const Address any = unnamed(addr_format);
  if (auto interfaces = local_interfaces())
    for (const Interface& interface : *interfaces)
      if (interface.name == domain.attr().name && interface.address.family() == any.family()) return interface.address;
  return any;
}

}  // namespace

int Endpoint::open(Domain& domain, const fi_info* info, fid_ep** ep, void* context) {
  if (info == nullptr || ep == nullptr || !describes_endpoint(*info, FI_EP_DGRAM, {}) || info->handle != nullptr)
    return -FI_EINVAL;
  Result<Address> local = info->src_addr != nullptr ? read_name(info->addr_format, info->src_addr, info->src_addrlen)
                                                    : start_of(domain, info->addr_format);
  if (!local) return local.error().code();
  *ep = &(new Endpoint(domain, *info, *local, context))->abi;
  return 0;
}

Endpoint::Endpoint(Domain& domain, const fi_info& info, const Address& local, void* context)
    : Sender([](Sender& sender) noexcept { static_cast<Endpoint&>(sender).flush(); }),
      domain_(domain),
      addr_format_(info.addr_format),
      caps_(info.caps),
      max_message_(info.ep_attr != nullptr ? info.ep_attr->max_msg_size : 0),
      tx_size_(queue_size(info.tx_attr != nullptr ? info.tx_attr->size : 0)),
      transmit_flags_(info.tx_attr != nullptr ? info.tx_attr->op_flags : 0),
      receive_flags_(info.rx_attr != nullptr ? info.rx_attr->op_flags : 0),
      local_(local),
      receives_(domain.receive_pool(), queue_size(info.rx_attr != nullptr ? info.rx_attr->size : 0),
                kDefaultMinMultiReceive),
      socket_(*this, false) {
  static constexpr fi_ops_ep kEpOps = make_ep_ops<Endpoint>();
  static constexpr fi_ops_cm kCmOps = make_cm_ops<Endpoint>();
  abi.fid = {FI_CLASS_EP, context, const_cast<fi_ops*>(fid_ops())};
  abi.ops = const_cast<fi_ops_ep*>(&kEpOps);
  abi.cm = const_cast<fi_ops_cm*>(&kCmOps);
  abi.msg = const_cast<fi_ops_msg*>(&kClosed);
  abi.tagged = const_cast<fi_ops_tagged*>(&kNoTagged);
  abi.rma = const_cast<fi_ops_rma*>(&kNoRma);
  abi.atomic = const_cast<fi_ops_atomic*>(&kNoAtomic);
  const std::size_t usual = kEthernetMtu - header_size(local_.family());
  max_message_ = std::min(max_message_ != 0 ? max_message_ : usual, longest_datagram(local_.family()));
}

const fi_ops* Endpoint::fid_ops() noexcept {
  static constexpr fi_ops kOps = make_fid_ops<Endpoint>();
  return &kOps;
}

Engine& Endpoint::engine() noexcept {
  return domain_->engine();
}

int Endpoint::close() {
  if (in_use()) return -FI_EBUSY;
  {
    Lock lock(engine().mutex());
    flush();
    batch_.cancel(routes_);
    Sender::unlink();
    receives_.cancel_all(routes_);
    if (socket_.fd >= 0) engine().remove(socket_);
  }
  release_events(events_, engine(), abi.fid);
  delete this;
  return 0;
}

int Endpoint::bind(::fid* object, uint64_t flags) {
  if (auto* queue = EventQueue::from(object)) return bind_events(*queue, flags, engine(), events_).code();
  Lock lock(engine().mutex());
  if (auto* queue = CompletionQueue::from(object)) return bind_cq(*queue, flags).code();
  if (auto* counter = Counter::from(object)) return bind_counter(*counter, flags).code();
  if (auto* vector = AddressVector::from(object)) return flags == 0 ? bind_vector(*vector).code() : -FI_EBADFLAGS;
  return -FI_EINVAL;
}

Status Endpoint::bind_cq(CompletionQueue& queue, uint64_t flags) noexcept {
  if (&queue.engine() != &engine()) return Status(-FI_EDOMAIN);
  return enabled_ ? Status(-FI_EOPBADSTATE) : routes_.bind(queue, flags);
}

Status Endpoint::bind_counter(Counter& counter, uint64_t flags) noexcept {
  if (&counter.engine() != &engine()) return Status(-FI_EDOMAIN);
  return enabled_ ? Status(-FI_EOPBADSTATE) : routes_.bind(counter, flags, FI_SEND | FI_RECV);
}

Status Endpoint::bind_vector(AddressVector& vector) noexcept {
  if (enabled_) return Status(-FI_EOPBADSTATE);
  if (vector_) return Status(-FI_EINVAL);
  vector_ = Ref<AddressVector>(vector);
  return Status();
}

int Endpoint::control(int command, void* argument) {
  if (command == FI_GETOPSFLAG || command == FI_SETOPSFLAG)
    return control_flags(command, static_cast<uint64_t*>(argument));
  if (command != FI_ENABLE) return -FI_ENOSYS;
  Lock lock(engine().mutex());
  return enable();
}

int Endpoint::control_flags(int command, uint64_t* flags) noexcept {
  return control_default_flags(command, flags, transmit_flags_, receive_flags_,
                               [this](uint64_t) { return Lock(engine().mutex()); });
}

int Endpoint::enable() {
  if (enabled_) return 0;
  if (Status status = check_datagram_bindings(routes_, caps_, static_cast<bool>(vector_)); !status.ok())
    return status.code();
  if (!bound_)
    if (Status status = open_socket(); !status.ok()) return status.code();
  const std::size_t header = header_size(local_.family());
  const std::size_t carried = std::max(mtu_ != 0 ? mtu_ : kEthernetMtu, header) - header;
  const bool segments = joins_datagrams();
  if (Status status = batch_.allocate(segments ? carried : 0); !status.ok()) return status.code();
  names_sources_ = vector_ && (caps_ & FI_SOURCE) != 0;
  if (Status status = socket_.open(std::move(bound_), segments); !status.ok()) return status.code();
  enabled_ = true;
  abi.msg = const_cast<fi_ops_msg*>(&kOpen);
  return 0;
}

// What all sockets of the endpoint have in common. The kernel may allow less room.
void Endpoint::tune(int fd) const noexcept {
  const Parameters& parameters = domain_->fabric().parameters;
  if (parameters.receive_buffer != 0) net::set_option(fd, SOL_SOCKET, SO_RCVBUF, parameters.receive_buffer);
}

bool Endpoint::joins_datagrams() const noexcept {
  return domain_->fabric().parameters.segmentation;
}

Status Endpoint::open_socket() {
  const int fd = net::open_datagram(local_.family());
  if (fd < 0) return Status(fd);
  UniqueFd socket(fd);
  if (int code = net::bind(fd, local_.data(), local_.size()); code < 0) return Status(code);
  sockaddr_storage name;
  socklen_t len = sizeof name;
  if (int code = net::getsockname(fd, reinterpret_cast<sockaddr*>(&name), &len); code < 0) return Status(code);
  local_ = Address::from(&name, len).value_or(local_);
  tune(fd);
  choose_interface();
  if (interface_ != 0) net::set_multicast_interface(fd, local_.family(), interface_);
  net::set_multicast_hops(fd, local_.family(), domain_->fabric().parameters.multicast_hops);
  bound_ = std::move(socket);
  return Status();
}

// The one that has the endpoint's address; for the wildcard address, the domain's.
void Endpoint::choose_interface() {
  const auto interfaces = local_interfaces();
  if (!interfaces) return;
  for (const Interface& interface : *interfaces) {
    const bool ours = local_.is_any() ? interface.name == domain_->attr().name : interface.address.same_host(local_);
    // All of 127.0.0.0/8 is ours, not only what the interface shows.
    const bool loopback = local_.is_loopback() && interface.loopback && interface.address.family() == local_.family();
    if (!ours && !loopback) continue;
    interface_ = ::if_nametoindex(interface.name.c_str());
    mtu_ = interface.mtu;
    return;
  }
}

ssize_t Endpoint::cancel(void* context) noexcept {
  Lock lock(engine().mutex());
  return receives_.cancel(context, routes_) ? 0 : -FI_ENOENT;
}

int Endpoint::getopt(int level, int option, void* value, size_t* len) {
  if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
  Lock lock(engine().mutex());
  switch (option) {
    case FI_OPT_MIN_MULTI_RECV:
      return report_option(receives_.min_multi_receive, value, len);
    case FI_OPT_TX_SIZE:
      return report_option(tx_size_, value, len);
    case FI_OPT_RX_SIZE:
      return report_option(receives_.size(), value, len);
    case FI_OPT_MAX_MSG_SIZE:
    case FI_OPT_INJECT_MSG_SIZE:
      return report_option(max_message_, value, len);
    case FI_OPT_WEFT_MULTICAST_LOOPBACK:
      return report_option(int{loopback_}, value, len);
    default:
      return -FI_ENOPROTOOPT;
  }
}

int Endpoint::setopt(int level, int option, const void* value, size_t len) {
  if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
  Lock lock(engine().mutex());
  if (option == FI_OPT_WEFT_MULTICAST_LOOPBACK) {
    int wanted = 0;
    if (int result = read_option(value, len, wanted); result != 0) return result;
    if (wanted != 0 && wanted != 1) return -FI_EINVAL;
    loopback_ = wanted == 1;
    return 0;
  }
  if (option != FI_OPT_MIN_MULTI_RECV && option != FI_OPT_TX_SIZE && option != FI_OPT_RX_SIZE &&
      option != FI_OPT_MAX_MSG_SIZE && option != FI_OPT_INJECT_MSG_SIZE)
    return -FI_ENOPROTOOPT;
  std::size_t wanted = 0;
  if (int result = read_option(value, len, wanted); result != 0) return result;
  if (option == FI_OPT_MIN_MULTI_RECV) {
    receives_.min_multi_receive = wanted;
    return 0;
  }
  // The application tells how much it will send at most.
  if (option == FI_OPT_MAX_MSG_SIZE || option == FI_OPT_INJECT_MSG_SIZE) return wanted <= max_message_ ? 0 : -FI_EINVAL;
  if (enabled_) return -FI_EOPBADSTATE;
  if (wanted == 0) return -FI_EINVAL;
  if (option == FI_OPT_TX_SIZE)
    tx_size_ = wanted;
  else
    receives_.set_size(wanted);
  return 0;
}

ssize_t Endpoint::rx_size_left() noexcept {
  Lock lock(engine().mutex());
  return enabled_ ? static_cast<ssize_t>(receives_.room()) : -FI_EOPBADSTATE;
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

// An endpoint that has no port yet gets one when somebody asks for it.
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
  Lock lock(engine().mutex());
  if (Status status = check_join(addr, flags, group); !status.ok()) return status.code();
  if (group->port() == 0) group->set_port(local_.port());
  const JoinRole role(caps_, flags);
  if (role.receives && is_member(*group)) return -FI_EALREADY;  // every message would come twice
  find_own_names();
  auto slot = std::find_if(groups_.begin(), groups_.end(), [](const GroupSlot& s) { return s.group == nullptr; });
  if (slot == groups_.end()) slot = groups_.emplace(slot);
  ++slot->uses;
  const auto index = static_cast<uint64_t>(slot - groups_.begin());
  const fi_addr_t name = kGroupName | slot->uses << kGroupIndexBits | index;
  *mc = MulticastGroup::join(*this, *group, role, name, context);
  slot->group = &object<MulticastGroup>(*mc);
  return 0;
}

void Endpoint::forget(const MulticastGroup& group) noexcept {
  for (GroupSlot& slot : groups_)
    if (slot.group == &group) slot.group = nullptr;
}

// A socket bound to the wildcard address sends with whichever address of the host the kernel finds fit, and nobody else
// has its port.
void Endpoint::find_own_names() {
  own_names_.assign(1, local_);
  if (!local_.is_any()) return;
  const auto interfaces = local_interfaces();
  if (!interfaces) return;
  for (const Interface& interface : *interfaces) {
    if (interface.address.family() != local_.family()) continue;
    own_names_.push_back(interface.address);
    own_names_.back().set_port(local_.port());
  }
}

const Address* Endpoint::destination_of(const Message& message) const noexcept {
  if (!(message.flags & FI_MULTICAST)) return vector_ ? vector_->find(message.destination) : nullptr;
  const fi_addr_t index = message.destination & ((fi_addr_t{1} << kGroupIndexBits) - 1);
  if (index >= groups_.size()) return nullptr;
  const GroupSlot& slot = groups_[index];
  const bool current = message.destination == (kGroupName | slot.uses << kGroupIndexBits | index);
  return current && slot.group != nullptr && slot.group->may_send() ? &slot.group->address() : nullptr;
}

}  // namespace weft::udp
