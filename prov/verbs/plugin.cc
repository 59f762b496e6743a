// SPDX-License-Identifier: BSD-2-Clause
// The module's one export, which libfabric calls after it has loaded it; fi_provider(3).
#include "verbs/cache/domain_cache.h"
#include "verbs/device/logging.h"
#include "verbs/device/parameters.h"

// Never null, even without RDMA devices: fi_getinfo logs what is missing.
extern "C" __attribute__((visibility("default"))) fi_provider* fi_prov_ini(void) {
  weft::verbs::Parameters::define();
  weft::verbs::DomainCache::define_parameters();
  return &weft::verbs::provider();
}
