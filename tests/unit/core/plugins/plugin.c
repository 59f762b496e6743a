// SPDX-License-Identifier: BSD-2-Clause
// A minimal provider plug-in in plain C, built several times with different macros:
//   NAME, VERSION, API    of the provider
//   PLUGIN_NOTHING        fi_prov_ini returns NULL
//   PLUGIN_NO_ENTRY       without fi_prov_ini
//   PLUGIN_NO_FABRIC      without the fabric call
//   PLUGIN_LAYER          getinfo requests core providers from the library, as layered providers do
// Tests observe loading, use and cleanup through the environment: no other channel crosses the boundary.
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>
#include <stdlib.h>
#include <string.h>

#ifndef VERSION
#define VERSION FI_VERSION(1, 0)
#endif
#ifndef API
#define API FI_VERSION(2, 6)
#endif

#ifndef PLUGIN_NO_ENTRY
static struct fi_provider provider;

static int getinfo(uint32_t version, const char* node, const char* service, uint64_t flags, const struct fi_info* hints,
                   struct fi_info** info) {
#ifdef PLUGIN_LAYER
  return fi_getinfo(version, node, service, flags | 1ULL << 58 | 1ULL << 59, hints, info);
#else
  (void)version, (void)node, (void)service, (void)flags;
  if (hints && hints->caps & FI_ATOMIC) {
    FI_INFO(&provider, FI_LOG_CORE, "hints request FI_ATOMIC, %s has none\n", provider.name);
    return -FI_ENODATA;
  }
  *info = calloc(1, sizeof **info);
  if (!*info) return -FI_ENOMEM;
  (*info)->fabric_attr = calloc(1, sizeof *(*info)->fabric_attr);
  return 0;
#endif
}

static int fabric(struct fi_fabric_attr* attr, struct fid_fabric** fabric, void* context) {
  (void)attr, (void)fabric, (void)context;
  return -FI_ENOSYS;
}

static void cleanup(void) {
  setenv("WEFT_TEST_CLEANED_UP", provider.name, 1);
}

FI_EXT_INI {
  provider.version = VERSION;
  provider.fi_version = API;
  provider.name = NAME;
  provider.getinfo = getinfo;
#ifndef PLUGIN_NO_FABRIC
  provider.fabric = fabric;
#else
  (void)fabric;
#endif
  provider.cleanup = cleanup;
  fi_param_define(&provider, "speed", FI_PARAM_INT, "how fast");
#ifdef PLUGIN_NOTHING
  return NULL;
#else
  return &provider;
#endif
}
#else
int no_entry_here = VERSION;
#endif
