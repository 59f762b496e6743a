// SPDX-License-Identifier: BSD-2-Clause
//
// The interface between a provider and the core: entry point and parameters. Governing page:
// fi_provider(3); for users: fabric(7) "ENVIRONMENT VARIABLE CONTROLS".
//
// A plug-in is a shared object whose file name ends in FI_LIB_SUFFIX and which exports
// fi_prov_ini. The core searches for it in the folders of FI_PROVIDER_PATH, or by default in
// $(libdir)/libfabric.
#ifndef FI_PROV_H
#define FI_PROV_H

#include <stddef.h>
#include <stdint.h>

#include <rdma/fabric.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FI_LIB_EXTENSION "fi"
#define FI_LIB_SUFFIX FI_LIB_EXTENSION ".so"

// Head of the plug-in's entry point. It returns its fi_provider, which must live until cleanup, or
// NULL when it cannot work on this machine (no device, no driver).
#define FI_EXT_INI __attribute__((visibility("default"), EXTERNALLY_VISIBLE)) struct fi_provider* fi_prov_ini(void)

// One provider. The layout is frozen: 72 bytes on 64-bit machines.
struct fi_provider {
  uint32_t version;           // the provider's own, FI_VERSION(major, minor)
  uint32_t fi_version;        // newest API version it implements; older than 1.3 is not loaded
  struct fi_context context;  // the core's, not the provider's; zero until registered
  const char* name;           // unique; of two equal names the higher `version` wins

  // fi_getinfo(3) for this provider alone: 0 and a list in *info, or -FI_ENODATA when nothing
  // matches. Everything reachable from *info must come from malloc, and prov_name stays NULL: the
  // core fills it in and frees the list. May be called from any thread, and may call fi_getinfo.
  int (*getinfo)(uint32_t version, const char* node, const char* service, uint64_t flags, const struct fi_info* hints,
                 struct fi_info** info);

  // fi_fabric(3): 0 and *fabric, or a negative fi_errno.
  int (*fabric)(struct fi_fabric_attr* attr, struct fid_fabric** fabric, void* context);

  // Called once, after all fabrics are closed, before the plug-in is unloaded.
  void (*cleanup)(void);
};

// Declares a parameter, read from the environment as FI_<PROVIDER>_<NAME> (FI_<NAME> when provider
// is NULL; all in upper case) or from libfabric.conf, and listed by `fi_info -e`. The name and the
// printf-style help text are copied. 0; -FI_EINVAL without name or help text; -FI_ENOMEM. The first
// definition of a parameter is kept.
int fi_param_define(const struct fi_provider* provider, const char* param_name, enum fi_param_type type,
                    const char* help_string_fmt, ...);

// Reads a declared parameter into *value, which is by type: FI_PARAM_STRING char * (the library
// keeps it, do not free), FI_PARAM_INT int, FI_PARAM_BOOL int (0/false/no/off, 1/true/yes/on),
// FI_PARAM_SIZE_T size_t. 0; -FI_ENOENT never declared; -FI_ENODATA not set by the user; -FI_EINVAL
// not of that type. On failure *value is untouched.
int fi_param_get(struct fi_provider* provider, const char* param_name, void* value);

// fi_param_get with the pointer checked by the compiler.
static inline int fi_param_get_str(struct fi_provider* provider, const char* param_name, char** value) {
  return fi_param_get(provider, param_name, value);
}

static inline int fi_param_get_int(struct fi_provider* provider, const char* param_name, int* value) {
  return fi_param_get(provider, param_name, value);
}

static inline int fi_param_get_bool(struct fi_provider* provider, const char* param_name, int* value) {
  return fi_param_get(provider, param_name, value);
}

static inline int fi_param_get_size_t(struct fi_provider* provider, const char* param_name, size_t* value) {
  return fi_param_get(provider, param_name, value);
}

#ifdef __cplusplus
}
#endif

#endif  // FI_PROV_H
