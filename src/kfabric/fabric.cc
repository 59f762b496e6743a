// SPDX-License-Identifier: BSD-2-Clause
// Fabrics, domains, address vectors, memory regions, poll sets, and the calls without an object.
#include "kfabric/fabric.h"

namespace weft::kfabric {
namespace {

// ---- Address vector, poll set ---------------------------------------------------------------------------------------

constexpr kfi_ops_av kAddressOps = {sizeof(kfi_ops_av),         Forward<fi_av_insert>{}, Forward<fi_av_insertsvc>{},
                                    Forward<fi_av_insertsym>{}, Forward<fi_av_remove>{}, Forward<fi_av_lookup>{},
                                    Forward<fi_av_straddr>{}};

int open_address_vector(kfid_domain* domain, kfi_av_attr* attr, kfid_av** av, void* context) {
  if (attr == nullptr) return -KFI_EINVAL;
  return open<AddressVector>(static_cast<Domain*>(domain)->fabric, KFI_CLASS_AV, av, context,
                             [&](AddressVector& vector) {
                               vector.ops = mutable_table(kAddressOps);
                               return fi_av_open(fi_of(domain), down(attr), &vector.fi, context);
                             });
}

constexpr kfi_ops_poll kPollOps = {sizeof(kfi_ops_poll), Forward<fi_poll>{}, Forward<fi_poll_add>{},
                                   Forward<fi_poll_del>{}};

int open_poll_set(kfid_domain* domain, kfi_poll_attr* attr, kfid_poll** poll) {
  return open<PollSet>(static_cast<Domain*>(domain)->fabric, KFI_CLASS_POLL, poll, nullptr, [&](PollSet& set) {
    set.ops = mutable_table(kPollOps);
    return fi_poll_open(fi_of(domain), down(attr), &set.fi);
  });
}

// ---- Memory region --------------------------------------------------------------------------------------------------

// Flags of API 1.1 for memory that a program in user space does not have.
constexpr uint64_t kPhysicalMemory = 1ull << 51 | 1ull << 52;
// KFI_MR_OFFSET and KFI_MR_KEY of API 1.1: these arguments are valid, as they are without a flag in later releases.
constexpr uint64_t kUsesArguments = 1ull << 0 | 1ull << 1;

int register_pieces(kfid* handle, Pieces pieces, fi_mr_attr attr, uint64_t flags, kfid_mr** mr) {
  auto* domain = of<Domain>(handle);
  if (!pieces.valid()) return -KFI_EINVAL;
  if (is_1_1(domain->fabric)) {
    if (flags & kPhysicalMemory) return -KFI_EBADFLAGS;
    flags &= ~kUsesArguments;
  }
  attr.mr_iov = pieces.iov();
  attr.iov_count = pieces.count();
  std::unique_lock opening(domain->fabric->opening, std::defer_lock);
  if (domain->reports) opening.lock();
  return open<MemoryRegion>(domain->fabric, KFI_CLASS_MR, mr, attr.context, [&](MemoryRegion& region) {
    // Peers access the region directly, so no buffer can take the place of its pieces: more than the provider takes
    // fail.
    const int result = attr.iov_count == 1
                           ? fi_mr_reg(domain->fi, pieces.iov()->iov_base, pieces.iov()->iov_len, attr.access,
                                       attr.offset, attr.requested_key, flags, &region.fi, attr.context)
                           : fi_mr_regattr(domain->fi, &attr, flags, &region.fi);
    if (result != 0) return result == -FI_EINVAL && attr.iov_count > 1 ? -KFI_EOPNOTSUPP : result;
    region.mem_desc = fi_mr_desc(region.fi);
    region.key = fi_mr_key(region.fi);
    region.iova = domain->virtual_addresses ? reinterpret_cast<uintptr_t>(pieces.iov()->iov_base) : 0;
    return 0;
  });
}

template <class List>
int register_list(kfid* domain, const List* list, size_t count, uint64_t access, uint64_t offset, uint64_t key,
                  uint64_t flags, kfid_mr** mr, void* context) {
  fi_mr_attr attr{};
  attr.access = access;
  attr.offset = offset;
  attr.requested_key = key;
  attr.context = context;
  return register_pieces(domain, Pieces(list, nullptr, count), attr, flags, mr);
}

int register_buffer(kfid* domain, const void* buffer, size_t len, uint64_t access, uint64_t offset, uint64_t key,
                    uint64_t flags, kfid_mr** mr, void* context) {
  const kvec piece{const_cast<void*>(buffer), len};
  return register_list(domain, &piece, 1, access, offset, key, flags, mr, context);
}

template <class Attr>
fi_mr_attr lower_attributes(const Attr& wanted) {
  fi_mr_attr attr{};
  attr.access = wanted.access;
  attr.offset = wanted.offset;
  attr.requested_key = wanted.requested_key;
  attr.context = wanted.context;
  return attr;
}

int register_attributes(kfid* domain, const kfi_mr_attr* wanted, uint64_t flags, kfid_mr** mr) {
  fi_mr_attr attr = lower_attributes(*wanted);
  attr.auth_key_size = wanted->auth_key_size;
  attr.auth_key = wanted->auth_key;
  return register_pieces(domain, Pieces(wanted->type, wanted->mr_iov, nullptr, wanted->iov_count), attr, flags, mr);
}

constexpr kfi_ops_mr kMemoryOps = {sizeof(kfi_ops_mr),
                                   Guarded<register_buffer>{},
                                   Guarded<register_list<kvec>>{},
                                   Guarded<register_list<bio_vec>>{},
                                   Guarded<register_list<scatterlist>>{},
                                   Guarded<register_attributes>{}};

// API 1.1.
int register_with_address(kfid* domain, const void* buffer, size_t len, uint64_t access, uint64_t offset, uint64_t key,
                          uint64_t flags, kfid_mr** mr, void* context, uint64_t* dma_addr) {
  const int result = register_buffer(domain, buffer, len, access, offset, key, flags, mr, context);
  if (result == 0 && dma_addr != nullptr) *dma_addr = (*mr)->iova;
  return result;
}

int register_attributes_of_1_1(kfid* domain, const kfi_mr_attr_1_1* wanted, uint64_t flags, kfid_mr** mr) {
  return register_pieces(domain, Pieces(wanted->mr_iov, nullptr, wanted->iov_count), lower_attributes(*wanted), flags,
                         mr);
}

constexpr kfi_ops_mr_1_1 kMemoryOpsOf1_1 = {sizeof(kfi_ops_mr_1_1), Guarded<register_with_address>{},
                                            Guarded<register_list<kvec>>{}, Guarded<register_attributes_of_1_1>{}};

// ---- Domain ---------------------------------------------------------------------------------------------------------

int query_atomic(kfid_domain* domain, kfi_datatype datatype, kfi_op op, kfi_atomic_attr* attr, uint64_t flags) {
  return fi_query_atomic(fi_of(domain), down(datatype), down(op), down(attr), flags);
}

constexpr kfi_ops_domain kDomainOps = {sizeof(kfi_ops_domain),
                                       Guarded<open_address_vector>{},
                                       Guarded<open_completion_queue>{},
                                       Guarded<open_endpoint>{},
                                       Guarded<open_scalable_endpoint>{},
                                       Guarded<open_counter>{},
                                       Guarded<open_poll_set>{},
                                       Guarded<open_shared_transmit>{},
                                       Guarded<open_shared_receive>{},
                                       query_atomic};

int open_domain(kfid_fabric* handle, kfi_info* info, kfid_domain** domain, void* context) {
  auto* fabric = static_cast<Fabric*>(handle);
  if (info == nullptr || info->domain_attr == nullptr) return -KFI_EINVAL;
  LowerInfo lower(*info, is_1_1(fabric));
  return open<Domain>(fabric, KFI_CLASS_DOMAIN, domain, context, [&](Domain& object) {
    object.ops = mutable_table(kDomainOps);
    object.mr =
        is_1_1(fabric) ? reinterpret_cast<kfi_ops_mr*>(mutable_table(kMemoryOpsOf1_1)) : mutable_table(kMemoryOps);
    object.local_registration = lower.get()->domain_attr->mr_mode & FI_MR_LOCAL;
    object.virtual_addresses = lower.get()->domain_attr->mr_mode & FI_MR_VIRT_ADDR;
    return fi_domain(fabric->fi, lower.get(), &object.fi, context);
  });
}

constexpr kfi_ops_fabric kFabricOps = {sizeof(kfi_ops_fabric), Guarded<open_domain>{}, Guarded<open_passive_endpoint>{},
                                       Guarded<open_event_queue>{}, Guarded<open_wait_set>{}};

}  // namespace

int control_region(MemoryRegion* region, int command, void* argument) {
  fid* below = &region->fi->fid;
  if (command == FI_REFRESH) {
    const auto* wanted = static_cast<const kfi_mr_modify*>(argument);
    fi_mr_modify modify{};
    modify.flags = wanted->flags;
    modify.attr.mr_iov = down(wanted->attr.mr_iov);
    modify.attr.iov_count = wanted->attr.iov_count;
    return fi_control(below, command, &modify);
  }
  const int result = fi_control(below, command, argument);
  // Some providers choose the key only now.
  if (command == FI_ENABLE && result == 0) region->key = fi_mr_key(region->fi);
  return result;
}

}  // namespace weft::kfabric

using namespace weft::kfabric;

namespace {

template <class Attr>
int open_fabric(const Attr* attr, uint32_t version, bool is_1_1, kfid_fabric** fabric, void* context) {
  fi_fabric_attr lower{};
  lower.name = attr->name;
  lower.prov_name = lower_provider(attr->prov_name);
  lower.prov_version = attr->prov_version;
  lower.api_version = lower_version();
  return guarded<int>([&] {
    return open<Fabric>(nullptr, KFI_CLASS_FABRIC, fabric, context, [&](Fabric& object) {
      object.ops = mutable_table(kFabricOps);
      object.is_1_1 = is_1_1;
      object.api_version = version;
      return fi_fabric(&lower, &object.fi, context);
    });
  });
}

template <class Attr>
bool is_whole(const Attr* attr) {
  return attr != nullptr && attr->prov_name != nullptr && attr->name != nullptr;
}

}  // namespace

KFI_EXPORT int kfi_fabric(kfi_fabric_attr* attr, kfid_fabric** fabric, void* context) {
  if (!is_whole(attr)) return -KFI_EINVAL;
  return open_fabric(attr, attr->api_version != 0 ? attr->api_version : KFI_VERSION(1, 7), false, fabric, context);
}
KFI_EXPORT int kfi_fabric_1_1(kfi_fabric_attr_1_1* attr, kfid_fabric** fabric, void* context) {
  if (!is_whole(attr)) return -KFI_EINVAL;
  return open_fabric(attr, KFI_VERSION(1, 1), true, fabric, context);
}

KFI_EXPORT uint32_t kfi_version() {
  return KFI_VERSION(1, 7);
}

KFI_EXPORT const char* kfi_strerror(int errnum) {
  return fi_strerror(errnum);
}

KFI_EXPORT int kfi_getparams(kfi_param** params, int* count) {
  static_assert(sizeof(kfi_param) == sizeof(fi_param));
  return fi_getparams(reinterpret_cast<fi_param**>(params), count);
}

KFI_EXPORT void kfi_freeparams(kfi_param* params) {
  fi_freeparams(reinterpret_cast<fi_param*>(params));
}
