// SPDX-License-Identifier: BSD-2-Clause
// fi_info: lists the answers of fi_getinfo, the providers, and the variables that configure them. fi_info(1).
#include <fmt/format.h>
#include <rdma/fi_errno.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <iterator>
#include <string_view>
#include <unordered_set>
#include <utility>

#include "command_line.h"
#include "fabric_query.h"
#include "library_log.h"
#include "program.h"

namespace weft::tools {
namespace {

struct Request {
  bool list = false;
  bool variables = false;
  bool verbose = false;
  bool version = false;
  const char* variable_filter = nullptr;
  const char* info_filter = nullptr;
};

void print_version() {
  const uint32_t version = fi_version();
  fmt::print("fi_info: {}\n", WEFT_VERSION);
  fmt::print("libfabric: {}\n", fi_tostr(&version, FI_TYPE_VERSION));
  fmt::print("libfabric api: {}.{}\n", FI_MAJOR(version), FI_MINOR(version));
}

// By fi_param_type.
constexpr const char* kTypeNames[] = {"String", "Integer", "Boolean (0/1, on/off, true/false, yes/no)", "size_t"};
static_assert(FI_PARAM_STRING == 0 && FI_PARAM_INT == 1 && FI_PARAM_BOOL == 2 && FI_PARAM_SIZE_T == 3);

int print_variables(const char* filter) {
  fi_param* params = nullptr;
  int count = 0;
  if (int error = fi_getparams(&params, &count); error != 0) {
    fmt::print(stderr, "fi_getparams: {} ({})\n", error, fi_strerror(-error));
    return -error;
  }
  for (const fi_param* param = params; param != params + count; ++param) {
    if (filter && ::strcasestr(param->name, filter) == nullptr) continue;
    const auto type = static_cast<std::size_t>(param->type);
    fmt::print("# {}: {}\n", param->name, type < std::size(kTypeNames) ? kTypeNames[type] : "Unknown");
    fmt::print("# {}\n", param->help_string ? param->help_string : "");
    if (param->value) fmt::print("{}={}\n", param->name, param->value);
    fmt::print("\n");
  }
  fi_freeparams(params);
  return 0;
}

void print_providers(const fi_info* list) {
  std::unordered_set<std::string_view> seen;  // a provider may have several entries
  for (const fi_info* info = list; info; info = info->next) {
    const fi_fabric_attr& fabric = *info->fabric_attr;
    if (!seen.insert(fabric.prov_name).second) continue;
    fmt::print("{}:\n    version: {}.{}\n", fabric.prov_name, FI_MAJOR(fabric.prov_version),
               FI_MINOR(fabric.prov_version));
  }
}

void print_summary(const fi_info* list) {
  for (const fi_info* info = list; info; info = info->next) {
    const fi_fabric_attr& fabric = *info->fabric_attr;
    fmt::print("provider: {}\n    fabric: {}\n    domain: {}\n    version: {}.{}\n", fabric.prov_name, fabric.name,
               info->domain_attr->name, FI_MAJOR(fabric.prov_version), FI_MINOR(fabric.prov_version));
    if (info->ep_attr->type == FI_EP_UNSPEC) continue;
    fmt::print("    type: {}\n", fi_tostr(&info->ep_attr->type, FI_TYPE_EP_TYPE));
    fmt::print("    protocol: {}\n", fi_tostr(&info->ep_attr->protocol, FI_TYPE_PROTOCOL));
  }
}

void print_everything(const fi_info* list, const char* filter) {
  for (const fi_info* info = list; info; info = info->next) {
    const char* const text = fi_tostr(info, FI_TYPE_INFO);
    if (text == nullptr || (filter && ::strcasestr(text, filter) == nullptr)) continue;
    fmt::print("---\n{}", text);
  }
}

// Returns the exit status: 0, or a positive fi_errno of which the shell gets the low eight bits.
int answer(const Request& request, FabricQuery& query) {
  if (request.version) {
    print_version();
    return 0;
  }
  if (request.variables) {
    InfoPtr unused;  // providers define their variables in the first call
    (void)FabricQuery::run_unfiltered(unused, 0);
    return print_variables(request.variable_filter);
  }
  InfoPtr list;
  const int error = request.list ? FabricQuery::run_unfiltered(list, FI_PROV_ATTR_ONLY) : query.run(list);
  if (error != 0) {
    print_getinfo_failure(error);
    return -error;
  }
  if (request.verbose || request.info_filter)
    print_everything(list.get(), request.info_filter);
  else if (request.list)
    print_providers(list.get());
  else
    print_summary(list.get());
  return 0;
}

int run(int argc, char** argv) {
  InfoPtr hints(fi_allocinfo());
  if (!hints) {
    fmt::print(stderr, "fi_info: {}\n", fi_strerror(FI_ENOMEM));
    return FI_ENOMEM;
  }
  FabricQuery query(std::move(hints));
  Request request;
  std::vector<Option> options = query.options();
  options.insert(options.end(),
                 {
                     {'e', "env", nullptr, "print the environment variables of libfabric", set_flag(request.variables)},
                     {'g', "getenv", "SUBSTR", "print those with SUBSTR in their name",
                      [&request](const char* text) {
                        request.variables = true;
                        request.variable_filter = text;
                        return Complaint();
                      }},
                     {'i', "info", "SUBSTR", "print whole entries that contain SUBSTR", set_text(request.info_filter)},
                     {'l', "list", nullptr, "list the providers", set_flag(request.list)},
                     {'v', "verbose", nullptr, "print whole entries", set_flag(request.verbose)},
                     {0, "version", nullptr, "print the versions of tool and library", set_flag(request.version)},
                 });
  const CommandLine command_line("Usage: fi_info [OPTIONS]\n\nPrints the entries that fi_getinfo returns.\n",
                                 std::move(options), EXIT_FAILURE);  // as libfabric's
  CommandLine::Parsed parsed = command_line.parse(argc, argv);
  if (parsed.exit_code >= 0) return parsed.exit_code;
  if (!parsed.operands.empty()) fmt::print(stderr, "fi_info: '{}' is ignored\n", parsed.operands.front());
  catch_library_log();
  return answer(request, query);
}

}  // namespace
}  // namespace weft::tools

int main(int argc, char** argv) {
  return weft::tools::run_program(weft::tools::run, argc, argv);
}
