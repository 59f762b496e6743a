// SPDX-License-Identifier: BSD-2-Clause
// A program of version node FABRIC_<NODE/10>.<...>: it binds fi_getinfo, fi_dupinfo, fi_freeinfo and fi_fabric at that
// node and uses that node's structures. Every object passed to the library ends at a page without access, so a read
// past the old layout crashes. fi_getinfo(3), fi_fabric(3).
#include "old_layout.h"

#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define STRING_(x) #x
#define STRING(x) STRING_(x)
#define BIND(function, node) __asm__(".symver old_" #function "," #function "@FABRIC_" node)
#define CHECK(condition)                                                                     \
  do {                                                                                       \
    if (!(condition)) {                                                                      \
      fprintf(stderr, "%s:%d: " STRING(NODE_NAME) ": %s\n", __FILE__, __LINE__, #condition); \
      exit(1);                                                                               \
    }                                                                                        \
  } while (0)

#define VERSION(major, minor) ((uint32_t)(major) << 16 | (minor))
enum { kEpMsg = 1, kSockaddrIn = 2, kClassNic = 20, kControlDup = 15, kEnoData = 61, kEnoSys = 38 };

uint32_t fi_version(void);
int old_fi_getinfo(uint32_t version, const char* node, const char* service, uint64_t flags,
                   const struct old_info* hints, struct old_info** info);
void old_fi_freeinfo(struct old_info* info);
struct old_info* old_fi_dupinfo(const struct old_info* info);
int old_fi_fabric(struct old_fabric_attr* attr, struct old_fabric** fabric, void* context);
BIND(fi_getinfo, STRING(NODE_NAME));
BIND(fi_freeinfo, STRING(NODE_NAME));
BIND(fi_dupinfo, STRING(NODE_NAME));
#if NODE == 10
BIND(fi_fabric, "1.0");
#else
BIND(fi_fabric, "1.1");
#endif

// The newest release with programs of this node.
static uint32_t api_version(void) {
  switch (NODE) {
    case 10:
      return VERSION(1, 4);
    case 11:
      return VERSION(1, 6);
    case 12:
      return VERSION(1, 8);
    case 13:
      return VERSION(1, 17);
    case 17:
      return VERSION(1, 22);
    case 18:
      return VERSION(2, 4);
    case 19:
      return VERSION(2, 6);
    default:
      return VERSION(2, 7);
  }
}

// Copies an object so that it ends where a page without access begins. Never freed: the process is short.
static void* at_page_end(const void* object, size_t size) {
  const size_t page = (size_t)sysconf(_SC_PAGESIZE);
  char* pages = mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  CHECK(pages != MAP_FAILED && mprotect(pages + page, page, PROT_NONE) == 0);
  return memcpy(pages + page - size, object, size);
}
// Equal from the first member through `last`; padding behind it does not count.
#define SAME_THROUGH(a, b, last) (memcmp((a), (b), (size_t)((char*)(&(b)->last + 1) - (char*)(b))) == 0)
#define AT_PAGE_END(object) at_page_end(&(object), sizeof(object))

// An info whose every old member is set, every piece of it at a page end.
static struct old_info* full_info(void) {
  static char keys[] = "key";
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = 7, .sin_addr = {0x0100007f}};
  struct old_tx_attr tx = {
    1,
    2,
    3,
    4,
    0,
    6,
    7,
    8,
    9
#if NODE >= 13
    ,
    10
#endif
  };
  struct old_rx_attr rx = {11, 12, 13, 14, 0, 0, 17, 18};
  struct old_ep_attr ep = {.type = kEpMsg, .protocol = 6, .protocol_version = 1, .rx_ctx_cnt = 21};
  struct old_domain_attr domain = {.name = at_page_end("domain", 7), .threading = 1, .max_ep_srx_ctx = 22};
  struct old_fabric_attr fabric;
  memset(&fabric, 0xab, sizeof fabric);  // also what is padding in 1.0 and api_version since
  fabric.fabric = NULL;
  fabric.name = at_page_end("fabric", 7);
  fabric.prov_name = at_page_end("tcp", 4);
  struct old_info info = {.caps = 2,
                          .mode = 3,
                          .addr_format = kSockaddrIn,
                          .src_addrlen = sizeof address,
                          .dest_addrlen = sizeof address,
                          .src_addr = AT_PAGE_END(address),
                          .dest_addr = AT_PAGE_END(address),
                          .handle = (struct fid*)keys};
#if NODE >= 11
  ep.auth_key_size = domain.auth_key_size = sizeof keys;
  ep.auth_key = domain.auth_key = at_page_end(keys, sizeof keys);
  domain.mr_cnt = 23;
#endif
#if NODE >= 13
  domain.tclass = 24;
#endif
#if NODE >= 18
  domain.max_group_id = 25;
#endif
#if NODE >= 19
  domain.max_err_cntr_value = 26;
#endif
#if NODE >= 110
  ep.xpu_ctx = keys;
  domain.max_xpu_ctx_cnt = 27;
#endif
  info.tx_attr = AT_PAGE_END(tx);
  info.rx_attr = AT_PAGE_END(rx);
  info.ep_attr = AT_PAGE_END(ep);
  info.domain_attr = AT_PAGE_END(domain);
  info.fabric_attr = AT_PAGE_END(fabric);
  info.next = AT_PAGE_END(info);
  return AT_PAGE_END(info);
}

// fi_allocinfo is an inline that calls the program's own fi_dupinfo with NULL.
static void allocates(void) {
  struct old_info* info = old_fi_dupinfo(NULL);
  CHECK(info && info->tx_attr && info->rx_attr && info->ep_attr && info->domain_attr && info->fabric_attr);
  CHECK(info->caps == 0 && info->ep_attr->type == 0 && info->domain_attr->name == NULL && info->next == NULL);
  CHECK(info->fabric_attr->prov_name == NULL && info->src_addr == NULL);
  old_fi_freeinfo(info);
}

static void duplicates(void) {
  struct old_info* info = full_info();
  struct old_info* copy = old_fi_dupinfo(info);
  CHECK(copy && copy != info && copy->next == NULL);
  CHECK(copy->caps == 2 && copy->mode == 3 && copy->addr_format == kSockaddrIn && copy->handle == info->handle);
  CHECK(copy->src_addr != info->src_addr && copy->src_addrlen == info->src_addrlen);
  CHECK(memcmp(copy->src_addr, info->src_addr, info->src_addrlen) == 0);
  CHECK(memcmp(copy->dest_addr, info->dest_addr, info->dest_addrlen) == 0);
  CHECK(copy->tx_attr != info->tx_attr && SAME_THROUGH(copy->tx_attr, info->tx_attr, rma_iov_limit));
  CHECK(copy->rx_attr != info->rx_attr && SAME_THROUGH(copy->rx_attr, info->rx_attr, iov_limit));
  CHECK(copy->ep_attr != info->ep_attr && SAME_THROUGH(copy->ep_attr, info->ep_attr, rx_ctx_cnt));
  CHECK(copy->domain_attr->name != info->domain_attr->name && strcmp(copy->domain_attr->name, "domain") == 0);
  CHECK(copy->domain_attr->threading == 1 && copy->domain_attr->max_ep_srx_ctx == 22);
  CHECK(strcmp(copy->fabric_attr->name, "fabric") == 0 && strcmp(copy->fabric_attr->prov_name, "tcp") == 0);
  CHECK(copy->fabric_attr->prov_version == 0xabababab);
#if NODE >= 11
  CHECK(copy->fabric_attr->api_version == 0xabababab && copy->domain_attr->mr_cnt == 23);
  CHECK(copy->ep_attr->auth_key_size == 4 && memcmp(copy->ep_attr->auth_key, "key", 4) == 0);
  CHECK(copy->domain_attr->auth_key_size == 4 && memcmp(copy->domain_attr->auth_key, "key", 4) == 0);
  CHECK(copy->ep_attr->auth_key != info->ep_attr->auth_key);
#endif
#if NODE >= 13
  CHECK(copy->tx_attr->tclass == 10 && copy->domain_attr->tclass == 24);
#endif
#if NODE >= 18
  CHECK(copy->domain_attr->max_group_id == 25);
#endif
#if NODE >= 19
  CHECK(copy->domain_attr->max_err_cntr_value == 26);
#endif
#if NODE >= 110
  CHECK(copy->ep_attr->xpu_ctx == info->ep_attr->xpu_ctx && copy->domain_attr->max_xpu_ctx_cnt == 27);
#endif
  old_fi_freeinfo(copy);
}

// Absent attributes stay absent.
static void duplicates_sparse(void) {
  struct old_ep_attr ep = {.type = kEpMsg};
  struct old_info sparse = {.caps = 2, .ep_attr = AT_PAGE_END(ep)};
  struct old_info* copy = old_fi_dupinfo(AT_PAGE_END(sparse));
  CHECK(copy && copy->ep_attr && copy->ep_attr->type == kEpMsg);
  CHECK(!copy->tx_attr && !copy->rx_attr && !copy->domain_attr && !copy->fabric_attr && !copy->src_addr);
  old_fi_freeinfo(copy);
}

#if NODE >= 12
static int nics_open;

static int nic_close(struct fid* fid) {
  free(fid);
  nics_open--;
  return 0;
}

static int nic_control(struct fid* fid, int command, void* argument) {
  CHECK(command == kControlDup);
  struct old_nic* copy = malloc(sizeof *copy);
  CHECK(copy);
  memcpy(copy, fid, sizeof *copy);
  *(struct old_nic**)argument = copy;
  nics_open++;
  return 0;
}

// The NIC belongs to the provider: it is copied with FI_DUP and closed, never looked into. fi_nic(3).
static void duplicates_nic(void) {
  static struct old_ops ops = {.size = sizeof ops, .close = nic_close, .control = nic_control};
  struct old_nic nic = {.fid = {.fclass = kClassNic, .ops = &ops}};
  struct old_info info = {.nic = &nic};
  struct old_info* copy = old_fi_dupinfo(AT_PAGE_END(info));
  CHECK(copy && copy->nic && copy->nic != &nic && nics_open == 1);
  old_fi_freeinfo(copy);
  CHECK(nics_open == 0);
}
#endif

static void gets_info(void) {
  struct old_ep_attr ep = {.type = kEpMsg};
  struct old_fabric_attr fabric = {.prov_name = at_page_end("tcp", 4)};
  struct old_info hints = {.ep_attr = AT_PAGE_END(ep), .fabric_attr = AT_PAGE_END(fabric), .mode = ~0ULL};
  struct old_info* list = NULL;
  CHECK(old_fi_getinfo(api_version(), NULL, NULL, 0, AT_PAGE_END(hints), &list) == 0 && list);
  for (struct old_info* info = list; info; info = info->next) {
    CHECK(info->ep_attr->type == kEpMsg && strncmp(info->fabric_attr->prov_name, "tcp", 3) == 0);
    CHECK(info->tx_attr && info->rx_attr && info->domain_attr && info->domain_attr->name && info->fabric_attr->name);
#if NODE == 10
    CHECK(info->domain_attr->mr_mode == 1 || info->domain_attr->mr_mode == 2);  // FI_MR_BASIC, FI_MR_SCALABLE
#else
    CHECK(info->fabric_attr->api_version == api_version());
#endif
    struct old_info* copy = old_fi_dupinfo(info);
    CHECK(copy && strcmp(copy->domain_attr->name, info->domain_attr->name) == 0);
    old_fi_freeinfo(copy);
  }
  old_fi_freeinfo(list);

  list = NULL;
  CHECK(old_fi_getinfo(api_version(), NULL, NULL, 0, NULL, &list) == 0 && list);
  old_fi_freeinfo(list);

  fabric.prov_name = at_page_end("nobody", 7);
  hints.fabric_attr = AT_PAGE_END(fabric);
  CHECK(old_fi_getinfo(api_version(), NULL, NULL, 0, AT_PAGE_END(hints), &list) == -kEnoData);
  CHECK(old_fi_getinfo(VERSION(99, 0), NULL, NULL, 0, NULL, &list) == -kEnoSys);
  old_fi_freeinfo(NULL);
}

static void opens_fabric(void) {
  struct old_fabric_attr wanted = {.prov_name = at_page_end("tcp", 4)};
  struct old_info hints = {.fabric_attr = AT_PAGE_END(wanted), .mode = ~0ULL};
  struct old_info* info = NULL;
  CHECK(old_fi_getinfo(api_version(), NULL, NULL, 0, AT_PAGE_END(hints), &info) == 0);
  struct old_fabric_attr attr;
  memset(&attr, 0xab, sizeof attr);
  attr.fabric = NULL;
  attr.name = info->fabric_attr->name;
  attr.prov_name = info->fabric_attr->prov_name;
  attr.prov_version = info->fabric_attr->prov_version;
#if NODE == 10
  const uint32_t version = VERSION(1, 0);  // 1.0 has no api_version: what lies in its place is padding
#else
  const uint32_t version = attr.api_version = api_version();
#endif
  struct old_fabric* fabric = NULL;
  CHECK(old_fi_fabric(AT_PAGE_END(attr), &fabric, &attr) == 0 && fabric);
  CHECK(fabric->fid.fclass == 1 && fabric->fid.context == &attr && fabric->api_version == version);
  CHECK(fabric->fid.ops->close(&fabric->fid) == 0);
  old_fi_freeinfo(info);
}

int main(void) {
  // A pointer left on the stack can hide one leak from LeakSanitizer, but not three.
  for (int round = 0; round < 3; round++) {
    allocates();
    duplicates();
    duplicates_sparse();
#if NODE >= 12
    duplicates_nic();
#endif
    gets_info();
    opens_fabric();
  }
  printf("FABRIC_" STRING(NODE_NAME) " on %u.%u: allocate, duplicate, get, open and free hold\n", fi_version() >> 16,
         fi_version() & 0xffff);
  return 0;
}
