// SPDX-License-Identifier: BSD-2-Clause
// Datagram peers, and the lookups that turn IP addresses into peers; see peer_vector.h.
#include "verbs/datagram/peer_vector.h"

#include <poll.h>
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>

#include <algorithm>
#include <cstring>
#include <deque>
#include <memory>
#include <string_view>

#include "objects/sentence.h"
#include "verbs/cm/cm_errors.h"
#include "verbs/device/logging.h"
#include "verbs/transfer/domain_services.h"

namespace weft::verbs {
namespace {

constexpr size_t kLookupsAtOnce = 64;
constexpr std::uint8_t kPeerHopLimit = 64;
constexpr int kPollMs = 20;  // limited, because another thread that drives the engine may take the event

// Statuses in the answer to a service lookup (IBA 16.7.2), which arrive with RDMA_CM_EVENT_UNREACHABLE.
CmFailure explain_answer(int status) noexcept {
  static constexpr struct {
    int error;
    const char* reason;
  } kAnswers[] = {{FI_ECONNREFUSED, "no datagram endpoint has that address"},
                  {FI_ECONNREFUSED, "the peer rejects the lookup"},
                  {FI_EREMOTEIO, "the peer has no queue pair"},
                  {FI_EHOSTUNREACH, "the peer redirects the lookup"},
                  {FI_ENOPROTOOPT, "the peer uses another version of the lookup protocol"}};
  if (static_cast<std::size_t>(status) > std::size(kAnswers))
    return explain(CmPhase::kRequest, RDMA_CM_EVENT_UNREACHABLE, status);
  const auto& [error, reason] = kAnswers[status - 1];
  return {error, status, reason};
}

// Lookup of the datagram endpoint at an IP address and port by rdma_cm's service lookup (RDMA_PS_UDP): resolves the
// address and the route, then sends a request that the peer answers with its queue pair and key. rdma_connect(3).
//
// Owner: the caller that waits for the answer. Calls need the engine's mutex, except wait(), done() and destruction.
class PeerLookup final : private CmHandler {
 public:
  PeerLookup(CmEngine& engine, const Parameters& parameters, const Device& device) noexcept
      : engine_(engine), parameters_(parameters), device_(device) {}
  // Cancels a lookup that is under way; takes the engine's mutex.
  ~PeerLookup() {
    Lock lock(engine_.mutex());
    id_.reset();
    engine_.forget(*this);
  }

  // `local`: the source address; empty: the system's choice. `data`: for the request; stays. A failure is an answer
  // too.
  void start(const CmAddress& local, const Address& peer, const std::string& data) noexcept {
    peer_ = peer;
    data_ = &data;
    started_at_ = Clock::now();
    auto id = engine_.create_id(*this, RDMA_PS_UDP);
    if (!id) return fail(explain_errno(phase_, id.error().error()));
    id_ = std::move(*id);
    const int patience = parameters_.connect_timeout_ms;
    if (patience != 0) engine_.set_deadline(*this, started_at_ + std::chrono::milliseconds(patience));
    CmAddress from = local, to = peer;
    from.set_port(0);
    if (rdma_resolve_addr(id_.get(), local ? from.data() : nullptr, to.data(), parameters_.resolve_timeout_ms) != 0)
      fail(explain_errno(phase_, errno));
  }

  bool done() const noexcept { return done_.load(std::memory_order_acquire); }
  // Drives the engine until the answer or the deadline, or until `abandon` is set.
  void wait(const std::atomic<bool>& abandon) noexcept {
    while (!done() && !abandon) {
      engine_.drive();
      if (done()) return;
      pollfd readiness{engine_.wait_fd(), POLLIN, 0};
      ::poll(&readiness, 1, kPollMs);
    }
  }

  // The answer.
  Status status() const noexcept { return status_; }
  const std::string& sentence() const noexcept { return sentence_; }
  const rdma_ud_param& peer() const noexcept { return answer_; }
  // The private data, without the zeros that fill it up.
  std::string data() const {
    const std::string_view all(answer_data_, sizeof answer_data_);
    return std::string(all.substr(0, all.find_last_not_of('\0') + 1));
  }

 private:
  void on_cm_event(const RdmaEvent& event) noexcept override {
    if (event.type == RDMA_CM_EVENT_ADDR_RESOLVED && phase_ == CmPhase::kAddress) {
      if (id_->verbs != device_.context())
        return fail({FI_EHOSTUNREACH, ENODEV, "the route to the peer uses a device other than the domain's"});
      phase_ = CmPhase::kRoute;
      if (rdma_resolve_route(id_.get(), parameters_.resolve_timeout_ms) != 0) fail(explain_errno(phase_, errno));
    } else if (event.type == RDMA_CM_EVENT_ROUTE_RESOLVED && phase_ == CmPhase::kRoute) {
      phase_ = CmPhase::kRequest;
      rdma_conn_param request{};
      request.retry_count = 7;
      request.private_data = data_->data();
      request.private_data_len = static_cast<std::uint8_t>(data_->size());
      if (rdma_connect(id_.get(), &request) != 0) fail(explain_errno(CmPhase::kRoute, errno));
    } else if (event.type == RDMA_CM_EVENT_ESTABLISHED && phase_ == CmPhase::kRequest) {
      answer_ = event.ud;
      std::memcpy(answer_data_, event.data().data(), std::min(event.data().size(), sizeof answer_data_));
      finish();
    } else if (event.type == RDMA_CM_EVENT_UNREACHABLE && event.status > 0) {
      fail(explain_answer(event.status));
    } else {
      fail(explain(phase_, event.type, event.status));
    }
  }
  void on_deadline() noexcept override { fail({FI_ETIMEDOUT, ETIMEDOUT, "no answer in time"}); }

  void fail(const CmFailure& why) noexcept {
    status_ = Status(-why.error);
    const auto took = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - started_at_).count();
    sentence_ = weft::sentence("looking up the datagram endpoint {} on {} failed while {}: {} (after {} ms)",
                               peer_.to_string(), device_.name(), phase_name(phase_), why.reason, took);
    FI_INFO(&provider(), FI_LOG_AV, "%s\n", sentence_.c_str());
    finish();
  }
  // The id is not needed after the answer.
  void finish() noexcept {
    id_.reset();
    engine_.clear_deadline(*this);
    done_.store(true, std::memory_order_release);
  }

  CmEngine& engine_;
  const Parameters& parameters_;
  const Device& device_;
  CmIdHandle id_;
  Address peer_;
  const std::string* data_ = nullptr;
  CmPhase phase_ = CmPhase::kAddress;
  Clock::time_point started_at_;
  rdma_ud_param answer_{};
  char answer_data_[FI_WEFT_LOOKUP_ANSWER_SIZE]{};
  Status status_;
  std::string sentence_;
  std::atomic<bool> done_{false};
};

}  // namespace

int PeerVector::open(DomainServices& domain, uint32_t addr_format, fi_av_attr* attr, fid_av** av, void* context) {
  if (Status status = check_vector(attr); !status.ok()) return status.code();
  if (attr->type == FI_AV_UNSPEC) attr->type = FI_AV_TABLE;
  *av = &(new PeerVector(domain, addr_format, *attr, context))->abi;
  return 0;
}

PeerVector::PeerVector(DomainServices& domain, uint32_t addr_format, const fi_av_attr& attr, void* context)
    : AddressVectorBase(addr_format, attr), domain_(domain) {
  identify<PeerVector>(abi, FI_CLASS_AV, context);
}

int PeerVector::close() {
  if (in_use()) return -FI_EBUSY;
  closing_ = true;
  background_.reset();
  delete this;
  return 0;
}

// ---- Insertion ----

void PeerVector::insert_one(InsertionReport& report, Peer& peer, ibv_ah_attr& path, const Status& found,
                            const std::string& sentence, std::string answer) {
  const uint64_t index = report.index();
  if (!found.ok()) return report.failed(found, sentence);
  errno = 0;
  AddressHandle handle(ibv_create_ah(domain_->pd(), &path));
  if (handle == nullptr) return report.failed(Status::last_errno(), "the device has no room for an address handle");
  peer.gid = path.grh.dgid;
  peer.to.handle = handle.get();
  {
    std::lock_guard lock(mutex_);
    known_[index] = {std::move(handle), std::move(answer)};
  }
  table_.fill(index, peer, report.user_id());
  report.inserted();
}

void PeerVector::insert_native(InsertionReport& report, const std::byte* next, size_t count) {
  const DatagramPort& port = domain_->datagram_port();
  const GidTable gids = GidTable::of(domain_->device(), port.number);
  for (size_t i = 0; i < count; ++i, next += sizeof(IbUdAddress)) {
    Peer peer;
    std::memcpy(&peer.raw, next, sizeof peer.raw);
    peer.to.qp_number = peer.raw.qp_number;
    peer.to.qkey = domain_->fabric().parameters.dgram_qkey;
    ibv_ah_attr path{};
    path.port_num = port.number;
    path.dlid = peer.raw.lid;
    path.sl = peer.raw.service_level;
    path.is_global = peer.raw.gid.global.interface_id != 0;
    path.grh.dgid = peer.raw.gid;
    path.grh.hop_limit = kPeerHopLimit;
    const auto source = gids.index_for(peer.raw.gid, port.gid);
    path.grh.sgid_index = static_cast<std::uint8_t>(source.value_or(0));
    insert_one(report, peer, path, source ? Status() : Status(-FI_EADDRNOTAVAIL), {}, {});
  }
}

// Several at a time, so that many peers do not take many round trips. Results are reported in order.
void PeerVector::look_up(InsertionReport& report, const Addresses& addresses) {
  CmEngine& engine = domain_->engine();
  const std::string data = [this] {
    std::lock_guard lock(mutex_);
    return lookup_data_;
  }();
  const auto start = [&](const Result<Address>& address) {
    auto lookup = std::make_unique<PeerLookup>(engine, domain_->fabric().parameters, domain_->device());
    if (address && !closing_) {
      Lock lock(engine.mutex());
      lookup->start(domain_->local_address(address->family()), *address, data);
    }
    return lookup;
  };
  std::deque<std::unique_ptr<PeerLookup>> under_way;
  size_t next = 0;
  for (const Result<Address>& address : addresses) {
    while (next < addresses.size() && under_way.size() < kLookupsAtOnce) under_way.push_back(start(addresses[next++]));
    PeerLookup& lookup = *under_way.front();
    if (address) lookup.wait(closing_);
    const Status status = !address ? address.error() : lookup.done() ? lookup.status() : Status(-FI_ECANCELED);
    Peer peer;
    ibv_ah_attr path = lookup.peer().ah_attr;
    peer.to.qp_number = lookup.peer().qp_num;
    peer.to.qkey = lookup.peer().qkey;
    if (address) peer.name = *address;
    insert_one(report, peer, path, status, lookup.sentence(), lookup.data());
    under_way.pop_front();
  }
}

int PeerVector::insert_listed(InsertionReport&& report, const std::byte* next, size_t count) {
  if (is_native()) return perform(report, [&](InsertionReport& to) { insert_native(to, next, count); });
  Addresses addresses;
  for (size_t i = 0; i < count; ++i) addresses.push_back(read_address(addr_format_, next));
  return run(std::move(report),
             [this, addresses = std::move(addresses)](InsertionReport& to) { look_up(to, addresses); });
}

void PeerVector::insert_named(InsertionReport& report, const PeerNames& names) {
  Addresses addresses;
  resolve_names(names, addr_format_, [&](const Result<Address>& a) { addresses.push_back(a); });
  look_up(report, addresses);
}

int PeerVector::insertsym(const char* node, size_t nodes, const char* service, size_t services, fi_addr_t* handles,
                          uint64_t flags, void* context) {
  if (is_native()) return -FI_ENOSYS;  // FI_ADDR_IB_UD addresses have no names
  return AddressVectorBase::insertsym(node, nodes, service, services, handles, flags, context);
}

// ---- The rest ----

bool PeerVector::erase(uint64_t index) {
  std::lock_guard lock(mutex_);
  const bool removed = table_.remove(index);
  if (removed) known_.erase(index);
  return removed;
}

// FI_VAL_WEFT_LOOKUP_DATA and FI_VAL_WEFT_LOOKUP_ANSWER.
int PeerVector::control(int command, void* argument) {
  if (is_native() || (command != FI_SET_VAL && command != FI_GET_VAL)) return -FI_ENOSYS;
  const auto* variable = static_cast<const fi_fid_var*>(argument);
  if (variable == nullptr || variable->val == nullptr) return -FI_EINVAL;
  if (command == FI_SET_VAL && variable->name == FI_VAL_WEFT_LOOKUP_DATA)
    return set_lookup_data(*static_cast<const iovec*>(variable->val));
  if (command == FI_GET_VAL && variable->name == FI_VAL_WEFT_LOOKUP_ANSWER)
    return get_lookup_answer(*static_cast<fi_weft_lookup_answer*>(variable->val));
  return -FI_ENOSYS;
}

// With FI_EVENT the data applies after the insertions that were requested earlier.
int PeerVector::set_lookup_data(const iovec& wanted) {
  if (wanted.iov_len > FI_WEFT_LOOKUP_DATA_SIZE || (wanted.iov_base == nullptr && wanted.iov_len != 0))
    return -FI_EINVAL;
  auto set = [this, data = std::string(static_cast<const char*>(wanted.iov_base), wanted.iov_len)]() mutable {
    std::lock_guard lock(mutex_);
    lookup_data_.swap(data);
  };
  if (background_ != nullptr) return background_->add(std::move(set)).code();
  set();
  return 0;
}

int PeerVector::get_lookup_answer(fi_weft_lookup_answer& answer) {
  std::lock_guard lock(mutex_);
  const auto found = known_.find(answer.peer & index_mask_);
  if (found == known_.end()) return -FI_EINVAL;
  const std::string& data = found->second.answer;
  std::memset(answer.data, 0, sizeof answer.data);
  std::memcpy(answer.data, data.data(), data.size());
  return 0;
}

std::span<const std::byte> PeerVector::bytes_of(const Peer& peer) const noexcept {
  if (is_native()) return std::as_bytes(std::span(&peer.raw, 1));
  return {reinterpret_cast<const std::byte*>(peer.name.data()), peer.name.size()};
}

const char* PeerVector::straddr(const void* addr, char* buf, size_t* length) noexcept {
  return report_text([&] { return is_native() ? to_uri(*static_cast<const IbUdAddress*>(addr)) : uri_of(addr); }, buf,
                     length);
}

}  // namespace weft::verbs
