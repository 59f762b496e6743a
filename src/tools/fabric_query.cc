// SPDX-License-Identifier: BSD-2-Clause
// A fi_getinfo call from a command line; see fabric_query.h.
#include "fabric_query.h"

#include <fmt/format.h>
#include <netdb.h>
#include <rdma/fi_errno.h>
#include <sys/socket.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "names.h"

namespace weft::tools {
namespace {

// Accepts "FI_MSG|FI_RMA", or one flag at a time with the option repeated.
Complaint add_flags(const char* text, fi_type type, const char* what, uint64_t& flags) {
  std::string_view rest(text);
  while (true) {
    const std::string_view name = rest.substr(0, rest.find('|'));
    const std::optional<uint64_t> flag = flag_named(name, type);
    if (!flag) return fmt::format("unrecognized {}: {}", what, name);
    flags |= *flag;
    if (name.size() == rest.size()) return {};
    rest.remove_prefix(name.size() + 1);
  }
}

}  // namespace

int get_info(const char* node, const char* service, uint64_t flags, const fi_info* hints, InfoPtr& result) {
  fi_info* list = nullptr;
  const int error = fi_getinfo(api_version(), node, service, flags, hints, &list);
  if (error == 0) result.reset(list);
  return error;
}

uint32_t api_version() {
  return std::min<uint32_t>(FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION), fi_version());
}

void set_string(char*& target, const char* text) {
  std::free(target);
  target = strdup(text);
}

FabricQuery::FabricQuery(InfoPtr hints) : hints_(std::move(hints)) {
  // A query accepts every mode, because it only lists the entries.
  hints_->mode = ~uint64_t{0};
  hints_->domain_attr->mode = ~uint64_t{0};
  hints_->domain_attr->mr_mode = ~(FI_MR_BASIC | FI_MR_SCALABLE);
}

Complaint FabricQuery::set_addr_format(const char* text) {
  std::optional<uint32_t> format = value_named(text, FI_TYPE_ADDR_FORMAT, "FI_");
  if (!format) return fmt::format("unrecognized address format: {}", text);
  hints_->addr_format = *format;
  return {};
}

std::vector<Option> FabricQuery::options() {
  auto string_hint = [](char*& target) {
    return [&target](const char* text) {
      set_string(target, text);
      return Complaint();
    };
  };
  fi_info* hints = hints_.get();
  std::vector<Option> options = {
      {'n', "node", "NAME", "host name or address of the peer", set_text(node_)},
      {'P', "port", "PORT", "port number or service name", set_text(port_)},
      {'s', "src_addr", "ADDR", "local host name or address", set_text(source_)},
      {'c', "caps", "CAP1|CAP2..", "required capabilities: FI_MSG|FI_RMA",
       [hints](const char* text) { return add_flags(text, FI_TYPE_CAPS, "capability", hints->caps); }},
      {'m', "mode", "MOD1|MOD2..", "accepted modes (default: all)",
       [hints, first = true](const char* text) mutable {
         if (std::exchange(first, false)) hints->mode = 0;
         return add_flags(text, FI_TYPE_MODE, "mode", hints->mode);
       }},
      {'t', "ep_type", "EPTYPE", "endpoint type: FI_EP_MSG, FI_EP_RDM or FI_EP_DGRAM",
       [hints](const char* text) -> Complaint {
         std::optional<uint32_t> type = value_named(text, FI_TYPE_EP_TYPE, "FI_EP_");
         if (!type) return fmt::format("unrecognized endpoint type: {}", text);
         hints->ep_attr->type = static_cast<fi_ep_type>(*type);
         return {};
       }},
      {'d', "domain", "DOMAIN", "domain name", string_hint(hints->domain_attr->name)},
      {'f', "fabric", "FABRIC", "fabric name", string_hint(hints->fabric_attr->name)},
      {'a', "addr_format", "FMT", "address format, e.g. FI_SOCKADDR_IN",
       [this](const char* text) { return set_addr_format(text); }},
      {'p', "provider", "PROV", "provider name", string_hint(hints->fabric_attr->prov_name)},
  };
  for (Option& option : options) {
    if (std::strchr("nPs", option.letter)) continue;  // arguments of fi_getinfo, not hints
    option.apply = [this, apply = std::move(option.apply)](const char* text) {
      narrowed_ = true;
      return apply(text);
    };
  }
  return options;
}

int set_source_address(fi_info& hints, const char* host) {
  addrinfo* found = nullptr;
  if (int error = getaddrinfo(host, nullptr, nullptr, &found); error != 0) {
    fmt::print(stderr, "{}: {}\n", host, gai_strerror(error));
    return -FI_ENODATA;
  }
  std::free(hints.src_addr);
  hints.src_addr = std::malloc(found->ai_addrlen);
  if (hints.src_addr) {
    std::memcpy(hints.src_addr, found->ai_addr, found->ai_addrlen);
    hints.src_addrlen = found->ai_addrlen;
    if (hints.addr_format == FI_FORMAT_UNSPEC)
      hints.addr_format = found->ai_family == AF_INET6 ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
  }
  freeaddrinfo(found);
  return hints.src_addr ? 0 : -FI_ENOMEM;
}

int FabricQuery::run(InfoPtr& result, uint64_t extra_flags) {
  uint64_t flags = extra_flags;
  const char* node = node_;
  if (source_ && node_) {
    // With both -n and -s, node and service are the destination, so the source must be a hint.
    if (int error = set_source_address(*hints_, source_); error != 0) return error;
    narrowed_ = true;
  } else if (source_) {
    node = source_;
    flags |= FI_SOURCE;
  }
  return get_info(node, port_, flags, narrowed_ ? hints_.get() : nullptr, result);
}

}  // namespace weft::tools
