// SPDX-License-Identifier: BSD-2-Clause
// Opening the children of fabrics and domains: fi_domain and fi_passive_ep of fi_fabric(3); queues, counters, address
// vectors, endpoints and memory regions of fi_domain(3). It is apart from the parents, so that the children may know
// them.
#include "objects/address_vector.h"
#include "objects/device_memory.h"
#include "objects/poll_set.h"
#include "verbs/connection/endpoint.h"
#include "verbs/connection/passive_endpoint.h"
#include "verbs/datagram/datagram_endpoint.h"
#include "verbs/datagram/peer_vector.h"
#include "verbs/domain.h"
#include "verbs/fabric.h"
#include "verbs/transfer/completion_status.h"
#include "verbs/transfer/memory_region.h"
#include "verbs/transfer/queues.h"
#include "verbs/transfer/shared_receive.h"

namespace weft::verbs {

int Fabric::domain(fi_info* info, fid_domain** domain, void* context) {
  return Domain::open(*this, info, domain, context);
}

int Fabric::passive_ep(fi_info* info, fid_pep** pep, void* context) {
  return PassiveEndpoint::open(*this, info, pep, context);
}

// Connected endpoints use no address vector, but programs open one nevertheless.
int Domain::av_open(fi_av_attr* attr, fid_av** av, void* context) {
  if (av == nullptr) return -FI_EINVAL;
  if (for_datagrams_) return PeerVector::open(*this, addr_format(), attr, av, context);
  return release_to(AddressVector<CmEngine>::open(Ref<RefCounted>(*this), attr, addr_format(), context), av);
}

int Domain::cq_open(fi_cq_attr* attr, fid_cq** cq, void* context) {
  if (cq == nullptr || attr == nullptr) return -FI_EINVAL;
  auto channel = CompletionChannel::open(*this, attr);
  if (!channel) return channel.error().code();
  auto queue = CompletionQueue::open(Ref<RefCounted>(*this), attr, **channel, api_version(), true,
                                     &completion_error_text, context);
  if (!queue) return queue.error().code();
  channel->release()->serve(*queue);  // the queue destroys it
  *cq = &(*queue)->abi;
  return 0;
}

int Domain::cntr_open(fi_cntr_attr* attr, fid_cntr** cntr, void* context) {
  if (cntr == nullptr) return -FI_EINVAL;
  if (attr != nullptr && attr->wait_obj != FI_WAIT_NONE)
    if (Status status = progress().open_descriptor(); !status.ok()) return status.code();
  return release_to(Counter::open(Ref<RefCounted>(*this), attr, progress(), true, context), cntr);
}

int Domain::poll_open(fi_poll_attr* attr, fid_poll** set) {
  if (set == nullptr) return -FI_EINVAL;
  return release_to(PollSet::open(Ref<RefCounted>(*this), attr), set);
}

int Domain::endpoint(fi_info* info, fid_ep** ep, void* context) {
  return wants_datagrams(info) ? DatagramEndpoint::open(*this, info, ep, context)
                               : Endpoint::open(*this, info, ep, context);
}

int Domain::srx_ctx(fi_rx_attr* attr, fid_ep** ep, void* context) {
  return ep == nullptr ? -FI_EINVAL : SharedReceive::open(*this, attr, ep, context);
}

int Domain::regv(const iovec* iov, size_t count, uint64_t access, uint64_t offset, uint64_t requested_key,
                 uint64_t flags, fid_mr** mr, void* context) {
  if ((flags & FI_MR_DMABUF) != 0) return -FI_EBADFLAGS;  // only fi_mr_regattr can describe one
  return DomainBase::regv(iov, count, access, offset, requested_key, flags, mr, context);
}

int Domain::regattr(const fi_mr_attr* attr, uint64_t flags, fid_mr** mr) {
  if (attr != nullptr && is_device_memory(*attr, flags, api_version())) return -FI_ENOSYS;
  if (int result = MemoryRegion::open(*this, caps(), attr, flags, mr); result != 0) return result;
  report_registration(&(*mr)->fid, attr->context);
  return 0;
}

}  // namespace weft::verbs
