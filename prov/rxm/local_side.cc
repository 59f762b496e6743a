// SPDX-License-Identifier: BSD-2-Clause
// The second lower provider of a domain over a device; see local_side.h.
#include "rxm/local_side.h"

#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>
#include <sys/stat.h>
#include <unistd.h>

#include <utility>

#include "objects/address.h"
#include "rxm/logging.h"

namespace weft::rxm {
namespace {

// FI_TCP_SHARED_MEMORY.
bool tcp_shares_memory() noexcept {
  int shares = 1;
  const int error = fi_param_get_bool(nullptr, "tcp_shared_memory", &shares);
  return error == -FI_ENODATA || (error == 0 && shares != 0);
}

// Registrations have the keys of the device's.
Result<InfoPtr> find_local(const fi_info& device, uint32_t version) {
  InfoPtr hints = lower_hints(version, nullptr);
  const Address here = Address::loopback(AF_INET, 0);
  if (hints == nullptr || !set_name(hints->fabric_attr->prov_name, "tcp") ||
      !set_address(hints->src_addr, hints->src_addrlen, here.data(), here.size()))
    return failure(FI_ENOMEM);
  hints->addr_format = here.format();
  const int mode = uses_virtual_addresses(device) ? FI_MR_VIRT_ADDR : 0;
  hints->domain_attr->mr_mode = mode | FI_MR_ALLOCATED | FI_MR_LOCAL;
  hints->domain_attr->threading = device.domain_attr->threading == FI_THREAD_SAFE ? FI_THREAD_SAFE : FI_THREAD_UNSPEC;
  hints->tx_attr->op_flags = kLowerLevels;
  auto found = find_lower(version, nullptr, nullptr, 0, hints.get());
  if (!found) return found;
  free_info(std::exchange((*found)->next, nullptr));
  (*found)->tx_attr->op_flags = 0;
  (*found)->domain_attr->mr_mode = mode;
  return found;
}

Result<std::unique_ptr<LocalSide>> try_to_open(const fi_info& device, uint32_t version) {
  if (!tcp_shares_memory()) return failure(FI_EOPNOTSUPP);
  auto info = find_local(device, version);
  if (!info) return failure(info.error());
  fid_fabric* fabric = nullptr;
  if (const int error = fi_fabric((*info)->fabric_attr, &fabric, nullptr); error != 0) return failure(Status(error));
  Lower<fid_fabric> opened(fabric);
  fid_domain* domain = nullptr;
  if (const int error = fi_domain(fabric, info->get(), &domain, nullptr); error != 0) return failure(Status(error));
  return std::unique_ptr<LocalSide>(
      new LocalSide{std::move(opened), {fabric, Lower<fid_domain>(domain), std::move(*info), kLowerLevels}});
}

}  // namespace

std::unique_ptr<LocalSide> open_local_side(const fi_info& device, uint32_t version) {
  if (is_stream(device)) return nullptr;
  auto opened = try_to_open(device, version);
  if (opened) return std::move(*opened);
  FI_INFO(&provider(), FI_LOG_DOMAIN,
          "peers of this host are reached through the device: tcp does not share memory (%s)\n",
          fi_strerror(opened.error().error()));
  return nullptr;
}

std::uint32_t local_mark() noexcept {
  std::uint64_t mark = 0x9d31'6b1e'77e6'7406;
  const auto add = [&mark](std::uint64_t number) { mark = (mark ^ number) * 0x100'0000'01b3; };
  add(::geteuid());
  for (const char* space : {"/proc/self/ns/net", "/proc/self/ns/pid", "/proc/self/ns/user"}) {
    struct ::stat status {};
    add(::stat(space, &status) == 0 ? status.st_ino : 0);
  }
  return static_cast<std::uint32_t>(mark >> 32) | 1;
}

}  // namespace weft::rxm
