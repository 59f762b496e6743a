// SPDX-License-Identifier: BSD-2-Clause
// A fi_getinfo call made from a command line. fi_getinfo(3), fi_info(1).
#pragma once

#include <rdma/fabric.h>

#include <memory>
#include <vector>

#include "command_line.h"

namespace weft::tools {

struct InfoDeleter {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using InfoPtr = std::unique_ptr<fi_info, InfoDeleter>;

// The newest API version that both this tool and the library support.
uint32_t api_version();
// fi_getinfo of that version. 0 and a list, or a negative fi_errno.
int get_info(const char* node, const char* service, uint64_t flags, const fi_info* hints, InfoPtr& result);

// Neither copied nor moved: the options point into it.
class FabricQuery {
 public:
  // `hints` are those of fi_allocinfo().
  explicit FabricQuery(InfoPtr hints);
  FabricQuery(const FabricQuery&) = delete;
  FabricQuery& operator=(const FabricQuery&) = delete;

  // fi_info's options that narrow the query, each writing to this object.
  std::vector<Option> options();

  // Calls fi_getinfo. 0 and a list, or a negative fi_errno.
  int run(InfoPtr& result, uint64_t extra_flags = 0);
  // fi_getinfo without any hint or address: every entry of the library.
  static int run_unfiltered(InfoPtr& result, uint64_t flags) {
    return get_info(nullptr, nullptr, flags, nullptr, result);
  }

  const fi_info& hints() const { return *hints_; }

 private:
  Complaint set_addr_format(const char* text);

  InfoPtr hints_;
  bool narrowed_ = false;  // an option set a hint; without any, fi_getinfo gets NULL
  const char* node_ = nullptr;
  const char* port_ = nullptr;
  const char* source_ = nullptr;
};

// Sets the source address of the hints to that of `host`. Prints the reason of a failure to resolve it; 0 or a negative
// fi_errno.
int set_source_address(fi_info& hints, const char* host);

// Replaces a string of the hints; the library frees it.
void set_string(char*& target, const char* text);

}  // namespace weft::tools
