// SPDX-License-Identifier: BSD-2-Clause
// The lower provider: the hints for its connected endpoints, and the capabilities that are passed on; fi_getinfo(3),
// fi_rxm(7) REQUIREMENTS.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_eq.h>

#include <memory>
#include <string>
#include <string_view>

#include "base/status.h"
#include "objects/info.h"

namespace weft::rxm {

// fi_close, for objects of the lower provider.
struct CloseLower {
  template <class Fid>
  void operator()(Fid* object) const noexcept {
    if (object != nullptr) fi_close(&object->fid);
  }
};
template <class Fid>
using Lower = std::unique_ptr<Fid, CloseLower>;

// Opens a lower queue or counter on which our engine sleeps; `open` gets its wait object. Its descriptors go into our
// epoll set one by one, because the kernel nests five epoll sets at most, and applications have sets around ours. Some
// providers do not list their descriptors.
template <class Open>
int open_waitable(Open open) noexcept {
  const int error = open(FI_WAIT_POLLFD);
  return error == 0 ? 0 : open(FI_WAIT_FD);
}

inline int open_events(fid_fabric* fabric, Lower<fid_eq>& opened) noexcept {
  fid_eq* events = nullptr;
  const int error = open_waitable([&](fi_wait_obj wait) {
    fi_eq_attr attr{};
    attr.wait_obj = wait;
    return fi_eq_open(fabric, &attr, &events, nullptr);
  });
  if (error == 0) opened.reset(events);
  return error;
}

// "tcp" of "tcp;ofi_rxm".
std::string lower_name(std::string_view prov_name);

// Completion levels that the lower provider implements.
inline constexpr uint64_t kLowerLevels = FI_TRANSMIT_COMPLETE | FI_DELIVERY_COMPLETE;

// The interface level at which lower providers are used: from 1.5 on registration modes are bits. Programs of an older
// level see FI_MR_BASIC or FI_MR_SCALABLE.
inline uint32_t lower_version(uint32_t version) noexcept {
  return FI_VERSION_LT(version, FI_VERSION(1, 5)) ? FI_VERSION(1, 5) : version;
}

// An endpoint that accesses memory of peers, but exposes none of its own, needs no registration mode for that;
// nevertheless FI_MR_SCALABLE excludes providers that choose keys.
inline bool only_initiates(uint64_t caps, int mr_mode) noexcept {
  return (caps & (FI_READ | FI_WRITE)) != 0 && (caps & (FI_REMOTE_READ | FI_REMOTE_WRITE)) == 0 &&
         mr_mode != FI_MR_SCALABLE;
}

// The hints for lower providers that follow from the caller's (may be null). Null when memory runs out.
InfoPtr lower_hints(uint32_t version, const fi_info* hints);

// A list of lower infos. `hints` are lower_hints(). -FI_ENODATA and other errors of fi_getinfo.
Result<InfoPtr> find_lower(uint32_t version, const char* node, const char* service, uint64_t flags,
                           const fi_info* hints);

// The lower info from which one of ours was made: same provider, fabric, domain, source address. Its op_flags are the
// supported completion levels, not defaults for its endpoints.
Result<InfoPtr> lower_of(const fi_info& info, uint32_t version);

// Whether the lower provider requires registration of local memory. ofi_rxm registers it, so the application need not.
inline bool needs_local_registration(const fi_info& lower) noexcept {
  return (lower.domain_attr->mr_mode & (FI_MR_LOCAL | static_cast<int>(FI_MR_BASIC))) != 0 ||
         (lower.mode & FI_LOCAL_MR) != 0;
}

// Whether a packet that finds no receive ends the connection: iWARP has no retries. The ends count receives; decision
// 0020. Such a provider requires registration, so every packet is injected or sent from a buffer of Packets.
inline bool needs_credits(const fi_info& lower) noexcept {
  return lower.ep_attr->protocol == FI_PROTO_IWARP && needs_local_registration(lower);
}

// Peers name memory by its addresses, not by offsets.
inline bool uses_virtual_addresses(const fi_info& lower) noexcept {
  return (lower.domain_attr->mr_mode & (FI_MR_VIRT_ADDR | static_cast<int>(FI_MR_BASIC))) != 0;
}

// Over a byte stream messages are not cut into segments: libfabric 1.17 does not expect segments there.
inline bool is_stream(const fi_info& lower) noexcept {
  return lower.ep_attr->protocol == FI_PROTO_SOCK_TCP || lower.ep_attr->protocol == FI_PROTO_XNET;
}

}  // namespace weft::rxm
