// SPDX-License-Identifier: BSD-2-Clause
// fi_getinfo with any hints, node, service, flags and version, over the real tcp provider; fi_getinfo(3). Names are
// resolved numerically only. Every result must be complete, printable and copyable.
#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <cstdlib>
#include <cstring>

#include "core/registry.h"
#include "input.h"
#include "objects/info.h"

extern "C" fi_provider* weft_tcp_ini(void);

namespace weft::core {

std::span<const ProviderEntry> builtin_providers() noexcept {
  static constexpr ProviderEntry kTcp[] = {weft_tcp_ini};
  return kTcp;
}

}  // namespace weft::core

namespace {

using weft::fuzz::Input;

// Most bytes of real hints are zero: the input rarely fills a whole structure, mostly one word of it.
template <class T>
void fill(Input& input, T& structure) {
  if (input.take_flag()) return input.take_bytes(&structure, sizeof structure);
  const std::size_t word = input.take<uint8_t>() % (sizeof structure / sizeof(uint64_t));
  const auto value = input.take<uint64_t>();
  std::memcpy(reinterpret_cast<char*>(&structure) + word * sizeof value, &value, sizeof value);
}

char* string_or_null(Input& input) {
  return input.take_flag() ? ::strdup(input.take_string().c_str()) : nullptr;
}

void* address_or_null(Input& input, std::size_t& size) {
  size = input.take<uint8_t>() % 64;
  if (size == 0) return nullptr;
  void* address = std::calloc(1, size);
  input.take_bytes(address, size);
  return address;
}

// Pointers are replaced by valid ones: wild pointers are out of scope.
weft::InfoPtr make_hints(Input& input) {
  weft::InfoPtr hints(weft::allocate_info());
  hints->caps = input.take<uint64_t>();
  hints->mode = input.take<uint64_t>();
  hints->addr_format = input.take<uint8_t>();
  hints->src_addr = address_or_null(input, hints->src_addrlen);
  hints->dest_addr = address_or_null(input, hints->dest_addrlen);
  if (input.take_flag()) fill(input, *hints->tx_attr);
  if (input.take_flag()) fill(input, *hints->rx_attr);
  if (input.take_flag()) {
    fill(input, *hints->ep_attr);
    hints->ep_attr->auth_key = nullptr;
    hints->ep_attr->auth_key_size = 0;
  }
  if (input.take_flag()) {
    fill(input, *hints->domain_attr);
    hints->domain_attr->domain = nullptr;
    hints->domain_attr->auth_key = nullptr;
    hints->domain_attr->auth_key_size = 0;
    hints->domain_attr->name = string_or_null(input);
  }
  if (input.take_flag()) {
    hints->fabric_attr->name = string_or_null(input);
    hints->fabric_attr->prov_name = string_or_null(input);
  }
  const auto absent = input.take<uint8_t>();
  const auto drop = [&](int bit, auto*& attr) {
    if ((absent >> bit & 1) == 0) return;
    std::free(attr);
    attr = nullptr;
  };
  drop(0, hints->tx_attr);
  drop(1, hints->rx_attr);
  if (hints->domain_attr->name == nullptr) drop(2, hints->domain_attr);
  return hints;
}

void check(const fi_info* list, uint32_t version) {
  WEFT_FUZZ_CHECK(list != nullptr);
  for (const fi_info* info = list; info != nullptr; info = info->next) {
    WEFT_FUZZ_CHECK(info->tx_attr && info->rx_attr && info->ep_attr && info->domain_attr && info->fabric_attr);
    WEFT_FUZZ_CHECK(info->fabric_attr->name && info->domain_attr->name);
    WEFT_FUZZ_CHECK(std::strcmp(info->fabric_attr->prov_name, "tcp") == 0);
    WEFT_FUZZ_CHECK(info->fabric_attr->api_version == version);
    WEFT_FUZZ_CHECK(fi_tostr(info, FI_TYPE_INFO) != nullptr);
    fi_info* copy = fi_dupinfo(info);
    WEFT_FUZZ_CHECK(copy != nullptr);
    fi_freeinfo(copy);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const int environment = ::setenv("FI_PROVIDER_PATH", "", 1);
  Input input(data, size);
  const uint32_t version = input.take_flag() ? input.take<uint32_t>() : FI_VERSION(1, input.take<uint8_t>() % 32);
  const uint64_t flags = (input.take_flag() ? input.take<uint64_t>() : input.take_flag() * FI_SOURCE) | FI_NUMERICHOST;
  const std::string node = input.take_string();
  const std::string service = input.take_string();
  const weft::InfoPtr hints = input.take_flag() ? make_hints(input) : nullptr;
  if (hints) static_cast<void>(fi_tostr(hints.get(), FI_TYPE_INFO));
  fi_info* list = nullptr;
  const int error = fi_getinfo(version, node.empty() ? nullptr : node.c_str(),
                               service.empty() ? nullptr : service.c_str(), flags, hints.get(), &list);
  WEFT_FUZZ_CHECK(error <= environment && (error == 0) == (list != nullptr));
  if (error == 0 && (flags & FI_PROV_ATTR_ONLY) == 0) check(list, version);
  fi_freeinfo(list);
  return 0;
}
