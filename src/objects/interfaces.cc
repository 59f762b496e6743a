// SPDX-License-Identifier: BSD-2-Clause
// The interfaces of the host and their addresses; rtnetlink(7), netdevice(7). See address.h.
#include <linux/rtnetlink.h>
#include <net/if.h>
#include <sys/ioctl.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>

#include "base/unique_fd.h"
#include "objects/address.h"

namespace weft {
namespace {

// Reads the properties that all addresses of a link share, by its name in `request`. False: the link is gone, or down.
bool read_link(int socket, ifreq request, Interface& link) {
  if (::ioctl(socket, SIOCGIFFLAGS, &request) != 0) return false;
  link.name = request.ifr_name;
  link.loopback = (request.ifr_flags & IFF_LOOPBACK) != 0;
  const bool up = (request.ifr_flags & IFF_UP) != 0;
  if (up && ::ioctl(socket, SIOCGIFMTU, &request) == 0) link.mtu = static_cast<size_t>(request.ifr_mtu);
  return up;
}

// A dump has the addresses of one family after those of the other: each link is read once.
class InterfaceList {
 public:
  explicit InterfaceList(int socket) noexcept : socket_(socket) {}

  void add(const nlmsghdr& header) {
    const auto& message = *static_cast<const ifaddrmsg*>(NLMSG_DATA(&header));
    if (message.ifa_family != AF_INET && message.ifa_family != AF_INET6) return;
    const Link& link = link_of(message.ifa_index);
    if (!link.up) return;
    Interface interface = link.shared;
    interface.prefix = message.ifa_prefixlen;
    const rtattr* local = nullptr;
    auto length = IFA_PAYLOAD(&header);
    for (const rtattr* each = IFA_RTA(&message); RTA_OK(each, length); each = RTA_NEXT(each, length)) {
      // With a peer, IFA_ADDRESS is the peer's.
      if (each->rta_type == IFA_LOCAL || (each->rta_type == IFA_ADDRESS && local == nullptr)) local = each;
      if (each->rta_type == IFA_LABEL) interface.name = static_cast<const char*>(RTA_DATA(each));
    }
    if (local == nullptr) return;
    interface.address = Address::of_host(message.ifa_family, RTA_DATA(local), link.index);
    found_.push_back(std::move(interface));
  }
  std::vector<Interface> take() noexcept { return std::move(found_); }

 private:
  struct Link {
    unsigned index;
    bool up;
    Interface shared;  // without an address
  };
  const Link& link_of(unsigned index) {
    const auto known = std::ranges::find(links_, index, &Link::index);
    if (known != links_.end()) return *known;
    Link link{.index = index, .up = false, .shared = {}};
    ifreq request{};
    request.ifr_ifindex = static_cast<int>(index);
    link.up = ::ioctl(socket_, SIOCGIFNAME, &request) == 0 && read_link(socket_, request, link.shared);
    return links_.emplace_back(std::move(link));
  }

  const int socket_;
  std::vector<Link> links_;
  std::vector<Interface> found_;
};

// The two functions below serve where a sandbox denies netlink sockets, as services do with RestrictAddressFamilies of
// systemd.exec(5).

// IPv4 addresses.
void add_from_ioctl(int socket, std::vector<Interface>& found) {
  constexpr size_t kMost = 256;
  const auto requests = std::make_unique<ifreq[]>(kMost);
  ifconf all{};
  all.ifc_len = kMost * sizeof(ifreq);
  all.ifc_req = requests.get();
  if (::ioctl(socket, SIOCGIFCONF, &all) != 0) return;
  for (size_t i = 0; i < static_cast<size_t>(all.ifc_len) / sizeof(ifreq); ++i) {
    ifreq& request = requests[i];
    const auto address = Address::from(&request.ifr_addr, sizeof request.ifr_addr);
    Interface interface;
    if (!address || !read_link(socket, request, interface)) continue;
    interface.address = *address;
    if (::ioctl(socket, SIOCGIFNETMASK, &request) == 0)
      interface.prefix = static_cast<unsigned>(
          std::popcount(reinterpret_cast<const sockaddr_in&>(request.ifr_netmask).sin_addr.s_addr));
    found.push_back(std::move(interface));
  }
}

// IPv6 addresses, proc(5).
void add_from_proc(int socket, std::vector<Interface>& found) {
  const std::unique_ptr<FILE, decltype(&::fclose)> table(::fopen("/proc/net/if_inet6", "re"), &::fclose);
  if (table == nullptr) return;
  char digits[33] = "", name[IFNAMSIZ] = "";
  unsigned index = 0, prefix = 0;
  while (::fscanf(table.get(), "%32s %x %x %*x %*x %15s", digits, &index, &prefix, name) == 4) {
    in6_addr host{};
    for (size_t i = 0; i < sizeof host; ++i) {
      const char byte[] = {digits[2 * i], digits[2 * i + 1], '\0'};
      host.s6_addr[i] = static_cast<uint8_t>(std::strtoul(byte, nullptr, 16));
    }
    ifreq request{};
    std::strcpy(request.ifr_name, name);
    Interface interface;
    if (!read_link(socket, request, interface)) continue;
    interface.address = Address::of_host(AF_INET6, &host, index);
    interface.prefix = prefix;
    found.push_back(std::move(interface));
  }
}

int rank(const Interface& interface) noexcept {
  if (interface.loopback) return 2;
  return interface.address.is_link_local() ? 1 : 0;
}

// getifaddrs(3) dumps the links too, with all their statistics, which takes longer than the rest. `links`: a socket for
// ioctl(2), which kernels that are emulated, as in a sandbox, may not take on a netlink socket.
Result<std::vector<Interface>> dump(const UniqueFd& netlink, const UniqueFd& links) {
  struct {
    nlmsghdr header;
    ifaddrmsg message;
  } request{};
  request.header.nlmsg_len = sizeof request;
  request.header.nlmsg_type = RTM_GETADDR;
  request.header.nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP;
  if (::send(netlink.get(), &request, sizeof request, 0) < 0) return failure(Status::last_errno());
  InterfaceList list(links.get());
  constexpr size_t kBytes = 32 * 1024;                              // the kernel's largest piece of a dump
  const std::unique_ptr<std::byte[]> piece(new std::byte[kBytes]);  // threads may have small stacks
  for (bool done = false; !done;) {
    const ssize_t bytes = ::recv(netlink.get(), piece.get(), kBytes, 0);
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return failure(Status::last_errno());
    auto left = static_cast<size_t>(bytes);
    for (auto* each = reinterpret_cast<nlmsghdr*>(piece.get()); NLMSG_OK(each, left); each = NLMSG_NEXT(each, left)) {
      if (each->nlmsg_type == NLMSG_ERROR)
        return failure(Status(static_cast<const nlmsgerr*>(NLMSG_DATA(each))->error));
      if (each->nlmsg_type == RTM_NEWADDR) list.add(*each);
      done |= each->nlmsg_type == NLMSG_DONE;
    }
  }
  return list.take();
}

}  // namespace

std::string Interface::network() const {
  Address masked = address;
  const bool v4 = address.family() == AF_INET;
  uint8_t bytes[16];
  const size_t offset = v4 ? offsetof(sockaddr_in, sin_addr) : offsetof(sockaddr_in6, sin6_addr);
  const size_t size = v4 ? 4 : 16;
  const auto bits = address.is_loopback() ? static_cast<unsigned>(8 * size) : prefix;
  sockaddr_in6 raw{};
  std::memcpy(&raw, masked.data(), masked.size());
  std::memcpy(bytes, reinterpret_cast<const uint8_t*>(&raw) + offset, size);
  for (size_t i = 0; i < size; ++i) {
    const int kept = std::clamp(static_cast<int>(bits) - static_cast<int>(8 * i), 0, 8);
    bytes[i] &= static_cast<uint8_t>(0xFF00 >> kept);
  }
  std::memcpy(reinterpret_cast<uint8_t*>(&raw) + offset, bytes, size);
  raw.sin6_scope_id = v4 ? raw.sin6_scope_id : 0;
  masked = *Address::from(&raw);
  return masked.host_string() + "/" + std::to_string(bits);
}

Result<std::vector<Interface>> local_interfaces() {
  const UniqueFd netlink(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE));
  const bool denied = !netlink && errno != EMFILE && errno != ENFILE && errno != ENOMEM && errno != ENOBUFS;
  if (!netlink && !denied) return failure(Status::last_errno());
  const UniqueFd links(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  if (!links) return failure(Status::last_errno());
  Result<std::vector<Interface>> found = std::vector<Interface>();
  if (denied) {
    add_from_ioctl(links.get(), *found);
    add_from_proc(links.get(), *found);
  } else {
    found = dump(netlink, links);
  }
  if (found)
    std::stable_sort(found->begin(), found->end(),
                     [](const Interface& a, const Interface& b) { return rank(a) < rank(b); });
  return found;
}

}  // namespace weft
