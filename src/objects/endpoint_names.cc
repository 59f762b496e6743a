// SPDX-License-Identifier: BSD-2-Clause
// Addresses of endpoints and of their peers; see endpoint_names.h.
#include "objects/endpoint_names.h"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <charconv>
#include <cstring>
#include <new>
#include <system_error>
#include <utility>

namespace weft {
namespace {

bool fits(std::uint32_t addr_format, const Address& address) noexcept {
  switch (addr_format) {
    case FI_SOCKADDR_IN:
      return address.family() == AF_INET;
    case FI_SOCKADDR_IN6:
      return address.family() == AF_INET6;
    default:  // FI_SOCKADDR, FI_SOCKADDR_IP, FI_FORMAT_UNSPEC
      return true;
  }
}

Result<Address> checked(std::uint32_t addr_format, const Result<Address>& address) noexcept {
  if (address && !fits(addr_format, *address)) return failure(FI_EINVAL);
  return address;
}

// "node7" plus 3 is "node10"; "node07" gives "node10", too, and "node008" keeps its width. Empty if the name does not
// end in a number.
std::string count_up(const std::string& name, uint64_t steps) {
  if (steps == 0) return name;
  const size_t start = name.find_last_not_of("0123456789") + 1;  // 0 if there is no other character
  uint64_t number;
  const auto [end, error] = std::from_chars(name.data() + start, name.data() + name.size(), number);
  if (error != std::errc()) return {};
  std::string digits = std::to_string(number + steps);
  const size_t width = name.size() - start;
  if (digits.size() < width) digits.insert(0, width - digits.size(), '0');
  return name.substr(0, start) + digits;
}

Result<Address> look_up(const std::string& node, const std::string& service, int family) {
  auto found =
      resolve(node.empty() ? nullptr : node.c_str(), service.empty() ? nullptr : service.c_str(), {.family = family});
  if (!found) return failure(found.error());
  return found->front();
}

// No endpoint has the wildcard address or port 0 as its name: they stand for any.
Result<Address> peer_address(Result<Address> address) noexcept {
  if (address && (address->is_any() || address->port() == 0)) return failure(FI_EINVAL);
  return address;
}

}  // namespace

int report_name(const void* name, std::size_t size, void* buf, std::size_t* len) noexcept {
  if (len == nullptr || (buf == nullptr && *len != 0)) return -FI_EINVAL;
  const std::size_t room = std::exchange(*len, size);
  if (room != 0) std::memcpy(buf, name, std::min(room, size));
  return room < size ? -FI_ETOOSMALL : 0;
}

Result<Address> read_name(std::uint32_t addr_format, const void* name, std::size_t len) noexcept {
  return checked(addr_format, Address::from(name, len));
}

Result<Address> read_name(std::uint32_t addr_format, const void* name) noexcept {
  return checked(addr_format, Address::from(name));
}

Result<Address> source_name(const fi_info& info) noexcept {
  if (info.src_addr == nullptr) return unnamed(info.addr_format);
  return read_name(info.addr_format, info.src_addr, info.src_addrlen);
}

Address unnamed(std::uint32_t addr_format) noexcept {
  return Address::any(addr_format == FI_SOCKADDR_IN6 ? AF_INET6 : AF_INET, 0);
}

void resolve_names(const PeerNames& names, uint32_t addr_format,
                   const std::function<void(const Result<Address>&)>& take) {
  const int family = addr_format == FI_SOCKADDR_IN ? AF_INET : addr_format == FI_SOCKADDR_IN6 ? AF_INET6 : AF_UNSPEC;
  const auto numeric = resolve(names.node.empty() ? nullptr : names.node.c_str(), nullptr, {.numeric = true});
  for (size_t n = 0; n < names.nodes; ++n) {
    for (size_t s = 0; s < names.services; ++s) {
      const std::string service = count_up(names.service, s);
      // The first node stays as it is: an address in the form of FI_ADDR_STR has a port.
      const std::string node =
          n != 0 && numeric ? numeric->front().next_host(n).host_string() : count_up(names.node, n);
      const bool countable = (s == 0 || !service.empty()) && (n == 0 || !node.empty());
      take(countable ? peer_address(checked(addr_format, look_up(node, service, family))) : failure(FI_EINVAL));
    }
  }
}

const char* report_text(const std::function<std::string()>& make, char* buf, size_t* length) noexcept {
  if (length == nullptr) return nullptr;
  try {
    const std::string text = make();
    const size_t room = std::exchange(*length, text.size() + 1);
    if (buf != nullptr && room != 0) {
      const size_t copied = std::min(room - 1, text.size());
      std::memcpy(buf, text.data(), copied);
      buf[copied] = '\0';
    }
  } catch (const std::bad_alloc&) {
    return nullptr;
  }
  return buf;
}

std::string uri_of(const void* address) {
  const auto parsed = Address::from(address);
  return parsed ? parsed->to_uri() : "(invalid address)";
}

Result<Address> read_address(uint32_t addr_format, const std::byte*& next) noexcept {
  sa_family_t family;
  std::memcpy(&family, next, sizeof family);
  const bool v6 = addr_format == FI_SOCKADDR_IN6 || (addr_format != FI_SOCKADDR_IN && family == AF_INET6);
  const std::byte* address = next;
  next += v6 ? sizeof(sockaddr_in6) : sizeof(sockaddr_in);
  if (family != (v6 ? AF_INET6 : AF_INET)) return failure(FI_EINVAL);
  return peer_address(Address::from(address));
}

}  // namespace weft
