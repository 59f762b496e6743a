// SPDX-License-Identifier: BSD-2-Clause
// fi_getinfo(3) for loopback, or for the addresses that the provider has; see offers.h.
#include "program/offers.h"

#include <cstdio>
#include <cstdlib>
#include <sstream>
#include <thread>

#include "fixture/address.h"
#include "fixture/fabric.h"
#include "fixture/library.h"
#include "program/run.h"

namespace conform {
namespace {

constexpr const char* kProviderVariable = "FI_CONFORM_PROVIDER";
constexpr const char* kAddressVariable = "FI_CONFORM_ADDRESS";
constexpr const char* kNone = "none";

std::string variable(const char* name) {
  const char* const value = std::getenv(name);
  return value ? value : "";
}

std::string offered(Target target, std::string address) {
  target.address = std::move(address);
  return Fabric::offers(target, {}) ? target.address : kNone;
}

// The first address that fi_getinfo answers for the target's family.
std::string own_address(const Target& target) {
  fi_info* list = nullptr;
  fi_getinfo(static_cast<int>(api_version()), nullptr, nullptr, 0, hints_for(target).get(), &list);
  const InfoPtr all(list);
  for (const fi_info* info = list; info; info = info->next) {
    if (info->fabric_attr->prov_name != target.provider || info->addr_format != target.addr_format) continue;
    if (info->src_addr == nullptr) continue;
    const std::string text = Address::copied(info->src_addr, info->src_addrlen).text();
    const std::string found = offered(target, text.substr(0, text.find('|')));
    if (found != kNone) return found;
  }
  return kNone;
}

std::string address_for(const Target& target) {
  const bool ipv6 = target.addr_format == FI_SOCKADDR_IN6;
  const std::string given = variable(kAddressVariable);
  if (!given.empty()) return (given.find(':') != std::string::npos) == ipv6 ? offered(target, given) : kNone;
  const std::string loopback = variable("WEFT_CONFORMANCE_DOMAIN").empty() ? offered(target, target.address) : kNone;
  return loopback != kNone ? loopback : own_address(target);
}

}  // namespace

int print_offers() {
  std::printf("%s\n%u\n", library::path().c_str(), ::fi_version());
  const std::string provider = variable(kProviderVariable);
  for (const auto& [name, type] : {std::pair{"msg", FI_EP_MSG}, {"rdm", FI_EP_RDM}, {"dgram", FI_EP_DGRAM}}) {
    const std::string ipv4 = address_for({provider, type, FI_SOCKADDR_IN, "127.0.0.1"});
    const std::string ipv6 = address_for({provider, type, FI_SOCKADDR_IN6, "::1"});
    if (ipv4 != kNone || ipv6 != kNone) std::printf("%s %s %s\n", name, ipv4.c_str(), ipv6.c_str());
  }
  return 0;
}

Library examine(const Settings& settings) {
  Variables environment{{"WEFT_CONFORMANCE_ROLE", kOffersRole}, {kProviderVariable, settings.provider}};
  if (!settings.address.empty()) environment.emplace_back(kAddressVariable, settings.address);
  Run run("", environment, std::chrono::seconds(settings.timeout_s));
  while (!run.ended()) std::this_thread::sleep_for(std::chrono::milliseconds(5));
  const std::string said = run.output();
  Library library;
  std::istringstream lines(said);
  Offer offer;
  if (!std::getline(lines, library.path) || !(lines >> library.version)) {
    library.failure = said.empty() ? run.death() : said;
    return library;
  }
  while (lines >> offer.type >> offer.ipv4 >> offer.ipv6) library.offers.push_back(offer);
  return library;
}

}  // namespace conform
