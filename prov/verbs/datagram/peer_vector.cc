// SPDX-License-Identifier: BSD-2-Clause
// Datagram peers; see peer_vector.h.
#include "verbs/datagram/peer_vector.h"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

#include "abi/ops.h"
#include "verbs/datagram/peer_lookup.h"
#include "verbs/transfer/domain_services.h"

namespace weft::verbs {
namespace {

constexpr size_t kLookupsAtOnce = 64;
constexpr std::uint8_t kPeerHopLimit = 64;

Status check_attr(const fi_av_attr* attr) noexcept {
  if (attr == nullptr || attr->type > FI_AV_TABLE) return Status(-FI_EINVAL);
  if (attr->rx_ctx_bits < 0 || attr->rx_ctx_bits > 24) return Status(-FI_EINVAL);
  if (attr->name != nullptr || (attr->flags & FI_READ) != 0) return Status(-FI_ENOSYS);  // FI_SHARED_AV
  if ((attr->flags & ~uint64_t{FI_EVENT | FI_SYMMETRIC | FI_AV_USER_ID}) != 0) return Status(-FI_EBADFLAGS);
  return {};
}

}  // namespace

int PeerVector::open(DomainServices& domain, uint32_t addr_format, fi_av_attr* attr, fid_av** av, void* context) {
  if (Status status = check_attr(attr); !status.ok()) return status.code();
  if (attr->type == FI_AV_UNSPEC) attr->type = FI_AV_TABLE;
  *av = &(new PeerVector(domain, addr_format, *attr, context))->abi;
  return 0;
}

PeerVector::PeerVector(DomainServices& domain, uint32_t addr_format, const fi_av_attr& attr, void* context) noexcept
    : domain_(domain),
      domain_ref_(domain),
      addr_format_(addr_format),
      index_mask_(attr.rx_ctx_bits == 0 ? ~uint64_t{0} : (uint64_t{1} << (64 - attr.rx_ctx_bits)) - 1),
      asynchronous_((attr.flags & FI_EVENT) != 0) {
  abi.fid = {FI_CLASS_AV, context, ops_of<PeerVector>};
  abi.ops = ops_of<PeerVector>;
}

bool PeerVector::is_native() const noexcept {
  return addr_format_ == FI_ADDR_IB_UD;
}

int PeerVector::close() {
  if (in_use()) return -FI_EBUSY;
  closing_ = true;
  lookups_.wait();
  delete this;
  return 0;
}

int PeerVector::bind(::fid* object, uint64_t flags) {
  auto* queue = EventQueue::from(object);
  if (queue == nullptr) return -FI_EINVAL;
  if (flags != 0) return -FI_EBADFLAGS;
  events_ = Ref<EventQueueCore>(*queue);
  return 0;
}

// ---- Insertion ----

void PeerVector::insert_one(InsertionReport& report, Peer& peer, ibv_ah_attr& path, const Status& found,
                            const std::string& sentence) {
  const uint64_t index = report.index();
  if (!found.ok()) {
    table_.release(index);
    return report.failed(found, sentence);
  }
  errno = 0;
  AddressHandle handle(ibv_create_ah(domain_.pd(), &path));
  if (handle == nullptr) {
    table_.release(index);
    return report.failed(Status::from_errno(errno != 0 ? errno : EIO), "the device has no room for an address handle");
  }
  peer.gid = path.grh.dgid;
  peer.to.handle = handle.get();
  {
    std::lock_guard lock(mutex_);
    handles_[index] = std::move(handle);
  }
  table_.fill(index, peer, report.user_id());
  report.inserted();
}

int PeerVector::insert_native(InsertionReport& report, const IbUdAddress* addresses, size_t count) {
  const DatagramPort& port = domain_.datagram_port();
  const GidTable gids = GidTable::of(domain_.device(), port.number);
  for (size_t i = 0; i < count; ++i) {
    Peer peer;
    std::memcpy(&peer.raw, reinterpret_cast<const std::byte*>(addresses) + i * sizeof peer.raw, sizeof peer.raw);
    peer.to.qp_number = peer.raw.qp_number;
    peer.to.qkey = domain_.fabric().parameters.dgram_qkey;
    ibv_ah_attr path{};
    path.port_num = port.number;
    path.dlid = peer.raw.lid;
    path.sl = peer.raw.service_level;
    path.is_global = peer.raw.gid.global.interface_id != 0;
    path.grh.dgid = peer.raw.gid;
    path.grh.hop_limit = kPeerHopLimit;
    const auto source = gids.index_for(peer.raw.gid, port.gid);
    path.grh.sgid_index = static_cast<std::uint8_t>(source.value_or(0));
    insert_one(report, peer, path, source ? Status() : Status(-FI_EADDRNOTAVAIL), {});
  }
  return report.finish();
}

// Several at a time, so that many peers do not take many round trips. Results are reported in order.
void PeerVector::look_up(InsertionReport& report, const Addresses& addresses) {
  CmEngine& engine = domain_.engine();
  const auto start = [&](const Result<Address>& address) {
    auto lookup = std::make_unique<PeerLookup>(engine, domain_.fabric().parameters, domain_.device());
    if (address && !closing_) {
      Lock lock(engine.mutex());
      lookup->start(domain_.local_address(address->family()), *address);
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
    ibv_ah_attr path = lookup.path();
    peer.to.qp_number = lookup.qp_number();
    peer.to.qkey = lookup.qkey();
    if (address) peer.name = *address;
    insert_one(report, peer, path, status, lookup.sentence());
    under_way.pop_front();
  }
}

// `work` reports each insertion; with FI_EVENT in a background thread, which no exception may leave.
template <class Work>
int PeerVector::run(InsertionReport&& report, Work work) {
  if (!asynchronous_) {
    work(report);
    return report.finish();
  }
  return lookups_
      .add([report = std::move(report), work = std::move(work)]() mutable {
        try {
          work(report);
        } catch (const std::bad_alloc&) {
          while (!report.done()) report.failed(Status(-FI_ENOMEM));
        }
        report.finish();
      })
      .code();
}

int PeerVector::insert(const void* addr, size_t count, fi_addr_t* handles, uint64_t flags, void* context) {
  const Insertion call{&abi.fid, handles, flags, context};
  if (Status status = InsertionReport::check(call, asynchronous_, static_cast<bool>(events_)); !status.ok())
    return status.code();
  if (addr == nullptr && count != 0) return -FI_EINVAL;
  InsertionReport report(call, asynchronous_ ? events_.get() : nullptr, table_.reserve(count));
  if (is_native()) return insert_native(report, static_cast<const IbUdAddress*>(addr), count);
  Addresses addresses;
  const auto* next = static_cast<const std::byte*>(addr);
  for (size_t i = 0; i < count; ++i) addresses.push_back(read_address(addr_format_, next));
  return run(std::move(report),
             [this, addresses = std::move(addresses)](InsertionReport& to) { look_up(to, addresses); });
}

int PeerVector::insertsvc(const char* node, const char* service, fi_addr_t* handles, uint64_t flags, void* context) {
  return insertsym(node, 1, service, 1, handles, flags, context);
}

int PeerVector::insertsym(const char* node, size_t nodes, const char* service, size_t services, fi_addr_t* handles,
                          uint64_t flags, void* context) {
  if (is_native()) return -FI_ENOSYS;  // FI_ADDR_IB_UD addresses have no names
  const Insertion call{&abi.fid, handles, flags, context};
  const PeerNames names{node != nullptr ? node : "", service != nullptr ? service : "", nodes, services};
  if (Status status = InsertionReport::check(call, asynchronous_, static_cast<bool>(events_)); !status.ok())
    return status.code();
  if (names.empty()) return -FI_EINVAL;
  InsertionReport report(call, asynchronous_ ? events_.get() : nullptr, table_.reserve(names.count()));
  return run(std::move(report), [this, names](InsertionReport& to) {
    Addresses addresses;
    resolve_names(names, addr_format_, [&](const Result<Address>& a) { addresses.push_back(a); });
    look_up(to, addresses);
  });
}

// ---- The rest ----

int PeerVector::remove(fi_addr_t* handles, size_t count, uint64_t flags) {
  if (flags != 0) return -FI_EBADFLAGS;
  if (handles == nullptr && count != 0) return -FI_EINVAL;
  int result = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint64_t index = handles[i] & index_mask_;
    std::lock_guard lock(mutex_);
    if (table_.remove(index))
      handles_.erase(index);
    else
      result = -FI_EINVAL;
  }
  return result;
}

int PeerVector::lookup(fi_addr_t handle, void* addr, size_t* length) noexcept {
  if (length == nullptr || (addr == nullptr && *length != 0)) return -FI_EINVAL;
  const Peer* peer = table_.find(handle & index_mask_);
  if (peer == nullptr) return -FI_EINVAL;
  const void* name = is_native() ? static_cast<const void*>(&peer->raw) : peer->name.data();
  const size_t size = is_native() ? sizeof peer->raw : peer->name.size();
  const size_t room = std::exchange(*length, size);
  if (room != 0) std::memcpy(addr, name, std::min(room, size));
  return 0;
}

const char* PeerVector::straddr(const void* addr, char* buf, size_t* length) noexcept {
  return report_text([&] { return is_native() ? to_uri(*static_cast<const IbUdAddress*>(addr)) : uri_of(addr); }, buf,
                     length);
}

int PeerVector::set_user_id(fi_addr_t handle, fi_addr_t user_id, uint64_t flags) noexcept {
  if (flags != 0) return -FI_EBADFLAGS;
  return table_.set_user_id(handle & index_mask_, user_id) ? 0 : -FI_EINVAL;
}

}  // namespace weft::verbs
