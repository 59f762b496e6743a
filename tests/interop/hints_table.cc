// SPDX-License-Identifier: BSD-2-Clause
// The answers of fi_getinfo(3) to many sets of hints, for comparing libraries: ranks of one job on two of them must
// find the same provider and protocol first.
//   hints_table LIBRARY [all]
// Each line of standard input is a set of words such as "api=1.9 type=rdm caps=msg|tagged mr=basic"; `kFields` has
// them. The output repeats the line up to the first tab and adds, after a tab, the error or the distinct kinds of
// answers in their order: provider, type of endpoint, protocol and version of it. Answers of ofi_rxd, which weft lacks,
// are left out. "all": with the attributes of the first answer.
#include <dlfcn.h>
#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <sstream>
#include <string>

namespace {

struct Word {
  const char* text;
  uint64_t value;
};
constexpr Word kWords[] = {
    // types of endpoints, formats of addresses, models
    {"unspec", 0},
    {"msg_ep", FI_EP_MSG},
    {"dgram", FI_EP_DGRAM},
    {"rdm", FI_EP_RDM},
    {"sockaddr", FI_SOCKADDR},
    {"in", FI_SOCKADDR_IN},
    {"in6", FI_SOCKADDR_IN6},
    {"str", FI_ADDR_STR},
    {"ib", FI_SOCKADDR_IB},
    {"safe", FI_THREAD_SAFE},
    {"fid", FI_THREAD_FID},
    {"domain", FI_THREAD_DOMAIN},
    {"completion", FI_THREAD_COMPLETION},
    {"endpoint", FI_THREAD_ENDPOINT},
    {"auto", FI_PROGRESS_AUTO},
    {"manual", FI_PROGRESS_MANUAL},
    {"unified", FI_PROGRESS_CONTROL_UNIFIED},
    {"map", FI_AV_MAP},
    {"table", FI_AV_TABLE},
    {"enabled", FI_RM_ENABLED},
    {"disabled", FI_RM_DISABLED},
    // capabilities
    {"msg", FI_MSG},
    {"rma", FI_RMA},
    {"tagged", FI_TAGGED},
    {"atomic", FI_ATOMIC},
    {"collective", FI_COLLECTIVE},
    {"multicast", FI_MULTICAST},
    {"read", FI_READ},
    {"write", FI_WRITE},
    {"recv", FI_RECV},
    {"send", FI_SEND},
    {"remote_read", FI_REMOTE_READ},
    {"remote_write", FI_REMOTE_WRITE},
    {"multi_recv", FI_MULTI_RECV},
    {"trigger", FI_TRIGGER},
    {"fence", FI_FENCE},
    {"rma_event", FI_RMA_EVENT},
    {"rma_pmem", FI_RMA_PMEM},
    {"source", FI_SOURCE},
    {"source_err", FI_SOURCE_ERR},
    {"directed_recv", FI_DIRECTED_RECV},
    {"named_rx_ctx", FI_NAMED_RX_CTX},
    {"shared_av", FI_SHARED_AV},
    {"local_comm", FI_LOCAL_COMM},
    {"remote_comm", FI_REMOTE_COMM},
    {"hmem", FI_HMEM},
    // modes
    {"context", FI_CONTEXT},
    {"context2", FI_CONTEXT2},
    {"msg_prefix", FI_MSG_PREFIX},
    {"async_iov", FI_ASYNC_IOV},
    {"rx_cq_data", FI_RX_CQ_DATA},
    {"local_mr", FI_LOCAL_MR},
    // registration
    {"basic", FI_MR_BASIC},
    {"scalable", FI_MR_SCALABLE},
    {"local", FI_MR_LOCAL},
    {"raw", FI_MR_RAW},
    {"virt_addr", FI_MR_VIRT_ADDR},
    {"allocated", FI_MR_ALLOCATED},
    {"prov_key", FI_MR_PROV_KEY},
    {"mmu_notify", FI_MR_MMU_NOTIFY},
    {"mr_rma_event", FI_MR_RMA_EVENT},
    {"mr_endpoint", FI_MR_ENDPOINT},
    {"mr_hmem", FI_MR_HMEM},
    {"collective_mr", FI_MR_COLLECTIVE},
    // flags of operations
    {"injection", FI_INJECT},
    {"completed", FI_COMPLETION},
    {"inject_complete", FI_INJECT_COMPLETE},
    {"transmit_complete", FI_TRANSMIT_COMPLETE},
    {"delivery_complete", FI_DELIVERY_COMPLETE},
    // order
    {"rar", FI_ORDER_RAR},
    {"raw_order", FI_ORDER_RAW},
    {"ras", FI_ORDER_RAS},
    {"war", FI_ORDER_WAR},
    {"waw", FI_ORDER_WAW},
    {"was", FI_ORDER_WAS},
    {"sar", FI_ORDER_SAR},
    {"saw", FI_ORDER_SAW},
    {"sas", FI_ORDER_SAS},
    {"rma_rar", FI_ORDER_RMA_RAR},
    {"rma_raw", FI_ORDER_RMA_RAW},
    {"rma_waw", FI_ORDER_RMA_WAW},
    {"atomic_rar", FI_ORDER_ATOMIC_RAR},
    {"atomic_raw", FI_ORDER_ATOMIC_RAW},
    {"atomic_waw", FI_ORDER_ATOMIC_WAW},
    // flags of fi_getinfo and protocols
    {"from", FI_SOURCE},
    {"numeric", FI_NUMERICHOST},
    {"sock_tcp", FI_PROTO_SOCK_TCP},
    {"xnet", FI_PROTO_XNET},
    {"rxm", FI_PROTO_RXM},
    {"rxm_tcp", FI_PROTO_RXM_TCP},
    {"udp", FI_PROTO_UDP},
};

// A number, or words of the list joined by "|".
uint64_t number(const std::string& text) {
  if (!text.empty() && text.find_first_not_of("0123456789") == std::string::npos) return std::stoull(text);
  uint64_t value = 0;
  std::istringstream parts(text);
  for (std::string part; std::getline(parts, part, '|');) {
    const Word* found = nullptr;
    for (const Word& word : kWords)
      if (part == word.text) found = &word;
    if (found == nullptr) {
      std::cerr << "unknown word " << part << '\n';
      std::exit(2);
    }
    value |= found->value;
  }
  return value;
}

struct Request {
  uint32_t api = FI_VERSION(2, 1);
  std::string node, service;
  uint64_t flags = 0;
  bool no_hints = false;
  fi_info* hints = nullptr;
};

uint32_t version(const std::string& text) {
  const size_t point = text.find('.');
  return FI_VERSION(std::stoul(text.substr(0, point)), std::stoul(text.substr(point + 1)));
}

struct Field {
  const char* key;
  void (*set)(Request& request, const std::string& value);
};
#define NUMBER(key, member)                                                                                            \
  {                                                                                                                    \
    key, [](Request& r, const std::string& v) { r.hints->member = static_cast<decltype(r.hints->member)>(number(v)); } \
  }
#define TEXT(key, member)                                                              \
  {                                                                                    \
    key, [](Request& r, const std::string& v) { r.hints->member = strdup(v.c_str()); } \
  }
const Field kFields[] = {
    {"api", [](Request& r, const std::string& v) { r.api = version(v); }},
    {"hints", [](Request& r, const std::string&) { r.no_hints = true; }},  // hints=none
    {"node", [](Request& r, const std::string& v) { r.node = v; }},
    {"service", [](Request& r, const std::string& v) { r.service = v; }},
    {"flags", [](Request& r, const std::string& v) { r.flags = number(v); }},
    TEXT("prov", fabric_attr->prov_name),
    TEXT("fabric", fabric_attr->name),
    TEXT("domain", domain_attr->name),
    NUMBER("caps", caps),
    NUMBER("mode", mode),
    NUMBER("format", addr_format),
    NUMBER("type", ep_attr->type),
    NUMBER("protocol", ep_attr->protocol),
    NUMBER("protocol_version", ep_attr->protocol_version),
    NUMBER("max_msg", ep_attr->max_msg_size),
    NUMBER("prefix", ep_attr->msg_prefix_size),
    NUMBER("raw_size", ep_attr->max_order_raw_size),
    NUMBER("war_size", ep_attr->max_order_war_size),
    NUMBER("waw_size", ep_attr->max_order_waw_size),
    NUMBER("tag_format", ep_attr->mem_tag_format),
    NUMBER("tx_ctx", ep_attr->tx_ctx_cnt),
    NUMBER("rx_ctx", ep_attr->rx_ctx_cnt),
    NUMBER("threading", domain_attr->threading),
    NUMBER("control", domain_attr->control_progress),
    NUMBER("data", domain_attr->data_progress),
    NUMBER("rm", domain_attr->resource_mgmt),
    NUMBER("av", domain_attr->av_type),
    NUMBER("mr", domain_attr->mr_mode),
    NUMBER("key_size", domain_attr->mr_key_size),
    NUMBER("cq_data", domain_attr->cq_data_size),
    NUMBER("cq_cnt", domain_attr->cq_cnt),
    NUMBER("ep_cnt", domain_attr->ep_cnt),
    NUMBER("domain_caps", domain_attr->caps),
    NUMBER("domain_mode", domain_attr->mode),
    NUMBER("mr_iov", domain_attr->mr_iov_limit),
    NUMBER("err_data", domain_attr->max_err_data),
    NUMBER("mr_cnt", domain_attr->mr_cnt),
    NUMBER("tx_caps", tx_attr->caps),
    NUMBER("tx_mode", tx_attr->mode),
    NUMBER("tx_op", tx_attr->op_flags),
    NUMBER("tx_order", tx_attr->msg_order),
    NUMBER("tx_comp", tx_attr->comp_order),
    NUMBER("inject", tx_attr->inject_size),
    NUMBER("tx_size", tx_attr->size),
    NUMBER("tx_iov", tx_attr->iov_limit),
    NUMBER("rma_iov", tx_attr->rma_iov_limit),
    NUMBER("tclass", tx_attr->tclass),
    NUMBER("rx_caps", rx_attr->caps),
    NUMBER("rx_mode", rx_attr->mode),
    NUMBER("rx_op", rx_attr->op_flags),
    NUMBER("rx_order", rx_attr->msg_order),
    NUMBER("rx_comp", rx_attr->comp_order),
    NUMBER("rx_size", rx_attr->size),
    NUMBER("rx_iov", rx_attr->iov_limit),
};
#undef NUMBER
#undef TEXT

void read(const std::string& line, Request& request) {
  std::istringstream words(line);
  for (std::string word; words >> word;) {
    const size_t equals = word.find('=');
    const Field* found = nullptr;
    for (const Field& field : kFields)
      if (word.substr(0, equals) == field.key) found = &field;
    if (equals == std::string::npos || found == nullptr) {
      std::cerr << "unknown field " << word << '\n';
      std::exit(2);
    }
    found->set(request, word.substr(equals + 1));
  }
}

struct Calls {
  decltype(&::fi_getinfo) getinfo;
  decltype(&::fi_freeinfo) freeinfo;
  decltype(&::fi_dupinfo) dupinfo;
  decltype(&::fi_tostr) tostr;
};

const char* protocol_name(uint32_t protocol) {
  switch (protocol) {
    case FI_PROTO_SOCK_TCP:
    case FI_PROTO_XNET:
      return "tcp";  // two names of one protocol
    case FI_PROTO_RXM:
    case FI_PROTO_RXM_TCP:
      return "rxm";
    case FI_PROTO_UDP:
      return "udp";
    case FI_PROTO_RXD:
      return "rxd";
    case FI_PROTO_RDMA_CM_IB_RC:
      return "ib_rc";
    default:
      return "another";
  }
}

std::string kind(const fi_info& info) {
  static constexpr const char* kTypes[] = {"unspec", "msg", "dgram", "rdm"};
  const fi_ep_attr& ep = *info.ep_attr;
  return std::string(info.fabric_attr->prov_name) + "/" + (ep.type < 4 ? kTypes[ep.type] : "?") + "/" +
         protocol_name(ep.protocol) + "/" + std::to_string(ep.protocol_version);
}

void print_attributes(const Calls& calls, const fi_info& info) {
  std::istringstream text(calls.tostr(&info, FI_TYPE_INFO));
  for (std::string line; std::getline(text, line);) {
    const size_t begin = line.find_first_not_of(" ");
    std::cout << ' ' << line.substr(begin == std::string::npos ? 0 : begin) << ';';
  }
}

void answer(const Calls& calls, const std::string& line, bool all) {
  Request request;
  request.hints = calls.dupinfo(nullptr);
  read(line, request);
  fi_info* list = nullptr;
  const auto text = [](const std::string& each) { return each.empty() ? nullptr : each.c_str(); };
  const int rc = calls.getinfo(request.api, text(request.node), text(request.service), request.flags,
                               request.no_hints ? nullptr : request.hints, &list);
  std::cout << line << '\t';
  const fi_info* first = nullptr;
  std::string last;
  for (const fi_info* info = list; info != nullptr; info = info->next) {
    const std::string each = kind(*info);
    if (each == last || info->ep_attr->protocol == FI_PROTO_RXD) continue;
    std::cout << (last.empty() ? "" : " ") << each;
    last = each;
    if (first == nullptr) first = info;
  }
  if (first == nullptr) std::cout << "error " << (rc != 0 ? -rc : FI_ENODATA);
  if (all && first != nullptr) print_attributes(calls, *first);
  std::cout << '\n';
  if (list != nullptr) calls.freeinfo(list);
  calls.freeinfo(request.hints);
}

}  // namespace

int main(int argc, char** argv) {
  void* library = argc > 1 ? dlopen(argv[1], RTLD_NOW) : nullptr;
  if (library == nullptr) {
    std::cerr << "usage: hints_table LIBRARY [all]\n" << (argc > 1 ? dlerror() : "") << '\n';
    return 2;
  }
  // Functions have the newest version of the library, whatever that is.
  const auto find = [&]<class Function>(Function& function, const char* name) {
    function = reinterpret_cast<Function>(dlsym(library, name));
    return function != nullptr;
  };
  Calls calls{};
  if (!find(calls.getinfo, "fi_getinfo") || !find(calls.freeinfo, "fi_freeinfo") ||
      !find(calls.dupinfo, "fi_dupinfo") || !find(calls.tostr, "fi_tostr")) {
    std::cerr << dlerror() << '\n';
    return 2;
  }
  for (std::string line; std::getline(std::cin, line);) answer(calls, line.substr(0, line.find('\t')), argc > 2);
  return 0;
}
