// SPDX-License-Identifier: BSD-2-Clause
// Datagram endpoints: creation, bindings, the queue pair, names, answers to lookups; see datagram_endpoint.h.
#include "verbs/datagram/datagram_endpoint.h"

#include <rdma/fi_ext.h>
#include <rdma/providers/fi_log.h>

#include <algorithm>
#include <thread>

#include "abi/ops.h"
#include "objects/binding_check.h"
#include "objects/datagram_bindings.h"
#include "objects/endpoint_alias.h"
#include "objects/endpoint_options.h"
#include "objects/info.h"
#include "objects/sentence.h"
#include "verbs/datagram/multicast_group.h"
#include "verbs/device/event_targets.h"
#include "verbs/device/logging.h"

namespace weft::verbs {
namespace {

using namespace std::chrono_literals;

constexpr TransferTables kClosed = make_tables<NoCalls, FI_EOPBADSTATE>();
constexpr TransferTables kOpen{kOps<fi_ops_msg, DatagramEndpoint>, kOps<fi_ops_rma, NoCalls>,
                               kOps<fi_ops_atomic, NoCalls>};

constexpr Clock::duration kFlushPatience = 100ms;  // for the flush of a broken queue pair
constexpr std::chrono::microseconds kFlushPoll{50};

bool is_for_datagrams(const fi_info& info) noexcept {
  return info.ep_attr->tx_ctx_cnt <= 1 && info.ep_attr->rx_ctx_cnt <= 1 && info.handle == nullptr;
}

}  // namespace

int DatagramEndpoint::open(DomainServices& domain, const fi_info* info, fid_ep** ep, void* context) {
  if (info == nullptr || ep == nullptr || !is_for_datagrams(*info)) return -FI_EINVAL;
  Result<CmAddress> local = CmAddress();
  if (info->addr_format != FI_ADDR_IB_UD) {
    local = domain.local_address(info->addr_format == FI_SOCKADDR_IN6 ? AF_INET6 : AF_INET);
    if (info->src_addr != nullptr) local = CmAddress::from(info->addr_format, info->src_addr, info->src_addrlen);
    if (!local) return local.error().code();
    if (!*local) *local = CmAddress::any(info->addr_format);
  }
  *ep = &(new DatagramEndpoint(domain, *info, *local, context))->abi;
  return 0;
}

DatagramEndpoint::DatagramEndpoint(DomainServices& domain, const fi_info& info, const CmAddress& local, void* context)
    : domain_(domain),
      addr_format_(info.addr_format),
      qkey_(is_native() ? domain.fabric().parameters.dgram_qkey : uint32_t{RDMA_UDP_QKEY}),
      caps_(info.caps),
      sizes_(domain, info),
      port_(domain.datagram_port()),
      local_(local),
      sends_(routes_, sizes_, or_none(info.tx_attr).op_flags),
      receives_(routes_, sizes_.receives, (info.mode & FI_MSG_PREFIX) != 0 ? DatagramBuffers::kHeader : 0,
                or_none(info.rx_attr).op_flags) {
  identify<DatagramEndpoint>(abi, FI_CLASS_EP, context);
  install(abi, kClosed);
  size_t& minimum = receives_.posted().min_multi_receive;
  minimum = std::min<size_t>(minimum, sizes_.longest_message);
}

int DatagramEndpoint::close() {
  if (in_use()) return -FI_EBUSY;
  {
    Lock lock(engine().mutex());
    id_.reset();
    spare_group_id_.reset();
    install(abi, kClosed);
    sends_.stop();
    if (qp_handle_ != nullptr) {
      break_queue_pair(qp_handle_.get());
      routes_.transmit_channel->poll_all();
    }
    sends_.use(nullptr);
    receives_.detach();
    qp_handle_.reset();
    // Some devices keep the work completions of a destroyed queue pair: all must be polled before their records go.
    if (enabled_) routes_.poll_all();
    sends_.cancel_left();
    sends_.release();
    receives_.end();
    engine().forget(*this);
  }
  EventTargets::remove(static_cast<CmHandler*>(this));
  release_events(events_, engine(), abi.fid);
  delete this;
  return 0;
}

int DatagramEndpoint::bind(::fid* object, uint64_t flags) {
  if (auto* queue = EventQueue::from(object))
    return failures_.reserve() ? bind_events(*queue, flags, engine(), events_).code() : -FI_ENOMEM;
  Lock lock(engine().mutex());
  if (auto* queue = CompletionQueue::from(object)) return routes_.bind_queue(*domain_, *queue, flags, enabled_).code();
  if (auto* counter = Counter::from(object))
    return bind_counter(routes_, *domain_, *counter, flags, enabled_, sends_, receives_).code();
  auto* vector = PeerVector::from(object);
  if (vector == nullptr) return -FI_EINVAL;
  const Status status = check_binding(provider(), *vector, *domain_, ready_, flags, static_cast<bool>(vector_));
  if (status.ok()) vector_ = Ref<PeerVector>(*vector);
  return status.code();
}

int DatagramEndpoint::control(int command, void* argument) {
  if (command == FI_GETOPSFLAG || command == FI_SETOPSFLAG)
    return control_flags(command, static_cast<uint64_t*>(argument));
  if (command == FI_ALIAS) return open_alias(abi, *this, argument);
  if (command != FI_ENABLE) return -FI_ENOSYS;
  Lock lock(engine().mutex());
  return enable().code();
}

// ---- The queue pair ----

// Each step may be repeated after a failure.
Status DatagramEndpoint::enable() {
  if (ready_) return {};
  if (Status status = check_datagram_bindings(routes_, caps_, static_cast<bool>(vector_)); !status.ok()) return status;
  if (!is_native() && id_ == nullptr)
    if (Status status = bind_id(); !status.ok()) return status;
  if (Status status = enable_queues(); !status.ok()) return status;
  find_own_gids();
  if (Status status = create_queue_pair(); !status.ok()) {
    FI_WARN(&provider(), FI_LOG_EP_CTRL, "cannot create a datagram queue pair on %s: %s\n", domain_->device().name(),
            fi_strerror(status.error()));
    return status;
  }
  if (!is_native() && rdma_listen(id_.get(), domain_->fabric().parameters.backlog) != 0) return Status::last_errno();
  if (Status status = engine().watch_device(domain_->device(), *this); !status.ok()) return status;
  ready_ = true;
  install(abi, kOpen);
  return {};
}

Status DatagramEndpoint::enable_queues() noexcept {
  if (enabled_) return {};
  if (Status status = routes_.check(caps_); !status.ok()) return status;
  if (Status status = routes_.open_channels(*domain_); !status.ok()) return status;
  {
    LightGuard guard(sends_.lock());
    if (Status status = sends_.prepare(); !status.ok()) return status;
  }
  if (Status status = receives_.reserve(); !status.ok()) return status;
  sends_.enable();
  enabled_ = true;
  return {};
}

Status DatagramEndpoint::create_queue_pair() noexcept {
  if (qp_handle_ == nullptr) {
    const auto port = domain_->device().port(port_.number);
    if (!port) return port.error();
    const std::size_t longest = std::size_t{128} << port->attr.active_mtu;
    if (Status status = receives_.open(domain_->pd(), longest); !status.ok()) return status;
    ibv_qp_init_attr wanted = sizes_.queue_pair(routes_, IBV_QPT_UD);
    wanted.qp_context = static_cast<CmHandler*>(this);
    if (Status status = EventTargets::add(wanted.qp_context); !status.ok()) return status;
    errno = 0;
    qp_handle_.reset(ibv_create_qp(domain_->pd(), &wanted));
    if (qp_handle_ == nullptr) return Status::last_errno();
    if (Status status = ready_queue_pair(); !status.ok()) {
      qp_handle_.reset();
      return status;
    }
    sends_.use(qp_handle_.get());
  }
  return receives_.use(*qp_handle_, (caps_ & FI_SOURCE) != 0 && vector_ ? &vector_->peers() : nullptr);
}

// From RESET to ready-to-send.
Status DatagramEndpoint::ready_queue_pair() noexcept {
  const auto partition = pkey_index();
  if (!partition) return partition.error();
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_INIT;
  attr.port_num = port_.number;
  attr.pkey_index = *partition;
  attr.qkey = qkey_;
  constexpr int kInit = IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_QKEY;
  if (Status status = status_of(ibv_modify_qp(qp_handle_.get(), &attr, kInit)); !status.ok()) return status;
  attr.qp_state = IBV_QPS_RTR;
  if (Status status = status_of(ibv_modify_qp(qp_handle_.get(), &attr, IBV_QP_STATE)); !status.ok()) return status;
  attr.qp_state = IBV_QPS_RTS;
  attr.sq_psn = 0;
  return status_of(ibv_modify_qp(qp_handle_.get(), &attr, IBV_QP_STATE | IBV_QP_SQ_PSN));
}

// The index of the partition in the port's table: for an IP address that of its interface, which the connection manager
// knows; otherwise that of the parameters, or the first. The highest bit, full or limited membership, is ignored.
Result<std::uint16_t> DatagramEndpoint::pkey_index() const noexcept {
  constexpr std::uint16_t kPartition = 0x7fff;
  const int asked = domain_->fabric().parameters.dgram_pkey;
  const int wanted = id_ != nullptr ? be16toh(id_->route.addr.addr.ibaddr.pkey) : is_native() ? asked : 0;
  const auto port = domain_->device().port(port_.number);
  for (int i = 0; port && wanted != 0 && i < port->attr.pkey_tbl_len; ++i) {
    __be16 pkey = 0;
    if (ibv_query_pkey(domain_->device().context(), port_.number, i, &pkey) != 0) continue;
    if ((be16toh(pkey) & kPartition) == (wanted & kPartition)) return static_cast<std::uint16_t>(i);
  }
  if (id_ != nullptr || wanted == 0) return std::uint16_t{0};
  FI_WARN(&provider(), FI_LOG_EP_CTRL, "port %u of %s is in no partition 0x%x (FI_VERBS_DGRAM_PKEY)\n", port_.number,
          domain_->device().name(), wanted);
  return failure(FI_EINVAL);
}

// The source addresses of this endpoint's messages.
void DatagramEndpoint::find_own_gids() {
  const GidTable table = GidTable::of(domain_->device(), port_.number);
  std::vector<ibv_gid> gids;
  for (const ibv_gid_entry& entry : table.entries()) gids.push_back(entry.gid);
  receives_.set_own_gids(std::move(gids));
}

// Datagrams have no connection to lose: a broken queue pair, for example after a send from unregistered memory, is
// reset and used again.
void DatagramEndpoint::restart_queue_pair() noexcept {
  LightGuard guard(sends_.lock());
  receives_.detach();
  ibv_qp* const qp = qp_handle_.get();
  break_queue_pair(qp);
  const auto all_flushed = [&] {
    routes_.poll_all();
    return receives_.flushed();
  };
  const auto limit = Clock::now() + kFlushPatience;
  while (!all_flushed() && Clock::now() < limit) std::this_thread::sleep_for(kFlushPoll);
  ibv_qp_attr attr{};
  attr.qp_state = IBV_QPS_RESET;
  Status status = status_of(ibv_modify_qp(qp, &attr, IBV_QP_STATE));
  if (status.ok()) {
    // Some devices keep the work completions of a queue pair that is reset: all must be polled before their records go.
    routes_.poll_all();
    sends_.cancel_left();
    status = ready_queue_pair();
  }
  if (status.ok()) status = receives_.restart(*qp);
  if (status.ok()) return;
  FI_WARN(&provider(), FI_LOG_EP_CTRL, "a datagram queue pair of %s broke and cannot be restarted: %s\n",
          domain_->device().name(), fi_strerror(status.error()));
  report_failure(status.error(), sentence("the queue pair broke, and {} cannot restart it: {}",
                                          domain_->device().name(), fi_strerror(status.error())));
}

void DatagramEndpoint::on_qp_event(ibv_event_type type) noexcept {
  if (type == IBV_EVENT_COMM_EST) return;
  broken_ = true;
  engine().note(*this);
}

void DatagramEndpoint::on_device_event(ibv_event_type type, int port) noexcept {
  if (type == IBV_EVENT_DEVICE_FATAL)
    return report_failure(FI_EIO, sentence("{} reports a fatal error", domain_->device().name()));
  if (port != port_.number) return;
  if (type == IBV_EVENT_PORT_ACTIVE) find_own_gids();
  for (const GroupSlot& slot : groups_)
    if (slot.group != nullptr) slot.group->on_port(type == IBV_EVENT_PORT_ACTIVE);
}

// ---- Names and lookups ----

Status DatagramEndpoint::bind_id() noexcept {
  auto id = engine().create_id(*this, RDMA_PS_UDP);
  if (!id) return id.error();
  if (rdma_bind_addr(id->get(), local_.data()) != 0) return Status::last_errno();
  if ((*id)->verbs != domain_->device().context()) return Status(-FI_EADDRNOTAVAIL);
  id_ = std::move(*id);
  local_ = CmAddress::from(rdma_get_local_addr(id_.get()));
  port_.number = id_->port_num;
  port_.gid = gid_of(local_.ip());
  return {};
}

void DatagramEndpoint::on_cm_event(const RdmaEvent& event) noexcept {
  switch (event.type) {
    case RDMA_CM_EVENT_CONNECT_REQUEST: {
      const CmIdHandle request(event.id);
      lookup_data_.keep(*request, event.data());
      rdma_conn_param answer = lookup_data_.answer(ready_ ? qp_handle_->qp_num : 0);
      if (!ready_ || rdma_accept(request.get(), &answer) != 0)
        FI_INFO(&provider(), FI_LOG_EP_CTRL, "cannot answer datagram endpoint lookups: %s\n",
                fi_strerror(ready_ ? errno : FI_EOPBADSTATE));
      return;
    }
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return report_failure(FI_ENODEV, sentence("{} went away", domain_->device().name()));
    case RDMA_CM_EVENT_ADDR_CHANGE:
      return report_failure(FI_EADDRNOTAVAIL,
                            sentence("the hardware address of {}'s interface changed", local_.to_string()));
    default:
      return;
  }
}

IbUdAddress DatagramEndpoint::native_name() const noexcept {
  IbUdAddress name{};
  name.gid = port_.gid;
  name.qp_number = qp_handle_ != nullptr ? qp_handle_->qp_num : 0;
  if (const auto port = domain_->device().port(port_.number)) name.lid = port->attr.lid;
  ibv_query_pkey(domain_->device().context(), port_.number, pkey_index().value_or(std::uint16_t{0}), &name.pkey);
  return name;
}

int DatagramEndpoint::setname(void* name, size_t len) {
  if (is_native()) return -FI_EOPNOTSUPP;  // the device assigns numbers
  auto wanted = CmAddress::from(addr_format_, name, len);
  if (!wanted) return wanted.error().code();
  Lock lock(engine().mutex());
  if (ready_) return -FI_EOPBADSTATE;
  if (wanted->family() != local_.family()) return -FI_EINVAL;
  if (wanted->is_any()) {  // a queue pair sends from one address: the domain's
    const std::uint16_t port = wanted->port();
    *wanted = domain_->local_address(wanted->family());
    if (!*wanted) return -FI_EADDRNOTAVAIL;
    wanted->set_port(port);
  }
  id_.reset();
  const CmAddress before = std::exchange(local_, *wanted);
  const Status status = bind_id();
  if (!status.ok()) local_ = before;
  return status.code();
}

// An endpoint without a port gets one here.
int DatagramEndpoint::getname(void* name, size_t* len) {
  Lock lock(engine().mutex());
  if (!is_native()) {
    if (id_ == nullptr)
      if (Status status = bind_id(); !status.ok()) return status.code();
    return report_name(local_, name, len);
  }
  const IbUdAddress own = native_name();
  return weft::report_name(&own, sizeof own, name, len);
}

// ---- Options ----

int DatagramEndpoint::getopt(int level, int option, void* value, size_t* len) {
  if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
  if (option == FI_OPT_WEFT_MULTICAST_LOOPBACK) return report_option(int{receives_.loopback()}, value, len);
  if (option == FI_OPT_MIN_MULTI_RECV) {
    LightGuard guard(receives_.lock());
    return report_option(receives_.posted().min_multi_receive, value, len);
  }
  if (is_lookup_option(option) && !is_native()) {
    Lock lock(engine().mutex());
    return lookup_data_.get(option, value, len);
  }
  switch (option) {
    case FI_OPT_MAX_RMA_SIZE:
    case FI_OPT_INJECT_RMA_SIZE:
    case FI_OPT_MAX_ATOMIC_SIZE:
    case FI_OPT_INJECT_ATOMIC_SIZE:
      return -FI_ENOPROTOOPT;
    default:
      return sizes_.getopt(option, value, len);
  }
}

int DatagramEndpoint::setopt(int level, int option, const void* value, size_t len) {
  if (level != FI_OPT_ENDPOINT) return -FI_ENOPROTOOPT;
  if (option == FI_OPT_WEFT_MULTICAST_LOOPBACK) return read_switch(value, len, receives_.loopback());
  if (option == FI_OPT_MIN_MULTI_RECV) {
    LightGuard guard(receives_.lock());
    return read_option(value, len, receives_.posted().min_multi_receive);
  }
  if (is_lookup_option(option) && !is_native()) {
    Lock lock(engine().mutex());
    return lookup_data_.set(option, value, len);
  }
  const int result = sizes_.setopt(option, value, len, enabled_);
  LightGuard guard(receives_.lock());
  receives_.posted().set_size(sizes_.receives);
  return result;
}

}  // namespace weft::verbs
