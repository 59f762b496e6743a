// SPDX-License-Identifier: BSD-2-Clause
// Datagram peers; see peer_vector.h.
#include "verbs/datagram/peer_vector.h"

#include <rdma/fi_errno.h>

#include <deque>
#include <memory>

#include "verbs/datagram/peer_lookup.h"
#include "verbs/transfer/domain_services.h"

namespace weft::verbs {
namespace {

constexpr size_t kLookupsAtOnce = 64;
constexpr std::uint8_t kPeerHopLimit = 64;

}  // namespace

int PeerVector::open(DomainServices& domain, uint32_t addr_format, fi_av_attr* attr, fid_av** av, void* context) {
  if (Status status = check_vector(attr); !status.ok()) return status.code();
  if (attr->type == FI_AV_UNSPEC) attr->type = FI_AV_TABLE;
  *av = &(new PeerVector(domain, addr_format, *attr, context))->abi;
  return 0;
}

PeerVector::PeerVector(DomainServices& domain, uint32_t addr_format, const fi_av_attr& attr, void* context) noexcept
    : AddressVectorBase(addr_format, attr), domain_(domain) {
  abi.fid = {FI_CLASS_AV, context, ops_of<PeerVector>};
  abi.ops = ops_of<PeerVector>;
}

int PeerVector::close() {
  if (in_use()) return -FI_EBUSY;
  closing_ = true;
  background_.wait();
  delete this;
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
  AddressHandle handle(ibv_create_ah(domain_->pd(), &path));
  if (handle == nullptr) {
    table_.release(index);
    return report.failed(Status::last_errno(), "the device has no room for an address handle");
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

int PeerVector::insert_native(InsertionReport& report, const std::byte* next, size_t count) {
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
    insert_one(report, peer, path, source ? Status() : Status(-FI_EADDRNOTAVAIL), {});
  }
  return report.finish();
}

// Several at a time, so that many peers do not take many round trips. Results are reported in order.
void PeerVector::look_up(InsertionReport& report, const Addresses& addresses) {
  CmEngine& engine = domain_->engine();
  const auto start = [&](const Result<Address>& address) {
    auto lookup = std::make_unique<PeerLookup>(engine, domain_->fabric().parameters, domain_->device());
    if (address && !closing_) {
      Lock lock(engine.mutex());
      lookup->start(domain_->local_address(address->family()), *address);
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

int PeerVector::insert_listed(InsertionReport&& report, const std::byte* next, size_t count) {
  if (is_native()) return insert_native(report, next, count);
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
  if (removed) handles_.erase(index);
  return removed;
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
