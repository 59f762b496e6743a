// SPDX-License-Identifier: BSD-2-Clause
// Fabrics and domains of udp: fi_fabric(3), fi_domain(3).
#pragma once

#include <rdma/fi_domain.h>

#include "messages/receive_queue.h"
#include "objects/fabric_base.h"
#include "objects/software_domain.h"
#include "udp/engine.h"
#include "udp/parameters.h"

namespace weft::udp {

// A udp fabric: one IP network. Owner: its C handle; close answers -FI_EBUSY while domains, event queues or wait sets
// exist. Thread-safe.
class Fabric final : public FabricBase<Fabric, Engine> {
 public:
  const Parameters parameters = Parameters::read();

  // An endpoint's info, compared with the offer (info.cc) for addresses of this family; -FI_ENODATA: it requests more.
  Status check(int family, const fi_info& info) const;

  // Slots of fi_ops_fabric, beside those of FabricBase.
  int domain(fi_info* info, fid_domain** domain, void* context);

 private:
  friend FabricBase;
  using FabricBase::FabricBase;
  ~Fabric() = default;
};

struct DomainParts : SoftwareParts<Engine> {
  using SoftwareParts::SoftwareParts;
  messages::DatagramPool receive_pool;  // the engine's mutex guards it
};

// A udp domain: one network interface, its progress engine and registered memory. Owner: its C handle; close answers
// -FI_EBUSY while anything opened in it exists. Thread-safe.
class Domain final : public SoftwareDomain<Domain, Fabric, DomainParts> {
 public:
  // Slots of fi_ops_domain, beside those of SoftwareDomain. Neither atomic operations nor shared contexts are
  // supported.
  int endpoint(fi_info* info, fid_ep** ep, void* context);

 private:
  friend DomainBase;
  friend SoftwareDomain;
  using SoftwareDomain::SoftwareDomain;
  ~Domain() = default;
  std::unique_ptr<DomainParts> make_parts() { return std::make_unique<DomainParts>(region_options(), turns()); }
};

}  // namespace weft::udp
