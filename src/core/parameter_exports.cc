// SPDX-License-Identifier: BSD-2-Clause
// fi_param_define, fi_param_get, fi_getparams, fi_freeparams; fi_provider(3).
#include <rdma/fi_errno.h>
#include <rdma/providers/fi_prov.h>

#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "core/boundary.h"
#include "core/state.h"
#include "objects/sentence.h"

namespace weft::core {
namespace {

// Bypasses a Capture: a parameter's value is never the reason for which a provider refuses. Without memory only the
// line is lost.
template <class... Arguments>
void note(const fi_provider* provider, fi_log_level level, fmt::format_string<Arguments...> format,
          Arguments&&... arguments) noexcept {
  const Log& log = state().log;
  if (!log.enabled(provider, level, FI_LOG_CORE)) return;
  const std::string message = sentence(format, std::forward<Arguments>(arguments)...);
  log.write(provider, level, FI_LOG_CORE, "fi_param_get", __LINE__, message.c_str());
}

template <class To, class From>
int store(const Result<From>& parsed, void* value) {
  if (!parsed) return parsed.error().code();
  *static_cast<To*>(value) = *parsed;
  return 0;
}

int read(const Parameter& parameter, const char* text, void* value) {
  switch (parameter.type) {
    case FI_PARAM_STRING:
      *static_cast<const char**>(value) = text;
      return 0;
    case FI_PARAM_INT:
      return store<int>(parse_int(text), value);
    case FI_PARAM_BOOL:
      return store<int>(parse_flag(text), value);
    case FI_PARAM_SIZE_T:
      return store<std::size_t>(parse_size(text), value);
  }
  return -FI_EINVAL;
}

int get(const fi_provider* provider, const char* name, void* value) {
  const Parameters& parameters = state().parameters;
  const Parameter* parameter = parameters.find(provider, name);
  if (parameter == nullptr) return -FI_ENOENT;
  const char* text = parameters.text(parameter->name);
  if (text == nullptr) {
    note(provider, FI_LOG_INFO, "variable {}=<not set>", parameter->name);
    return -FI_ENODATA;
  }
  const int error = read(*parameter, text, value);
  if (error == 0) {
    note(provider, FI_LOG_INFO, "variable {}={}", parameter->name, text);
  } else {
    note(provider, FI_LOG_WARN, "{}", state().parameters.wrong_type(parameter->name, text));
  }
  return error;
}

std::string formatted(const char* format, va_list arguments) {
  va_list again;
  va_copy(again, arguments);
  const int size = std::vsnprintf(nullptr, 0, format, again);
  va_end(again);
  std::string text(size < 0 ? 0 : static_cast<std::size_t>(size), '\0');
  std::vsnprintf(text.data(), text.size() + 1, format, arguments);
  return text;
}

int define(const fi_provider* provider, const char* name, fi_param_type type, const char* format, va_list arguments) {
  if (name == nullptr || *name == '\0' || format == nullptr || *format == '\0' || type > FI_PARAM_SIZE_T) {
    return -FI_EINVAL;
  }
  std::string help = formatted(format, arguments);
  if (provider != nullptr && provider->name != nullptr) help.insert(0, std::string(provider->name) + ": ");
  state().parameters.define(Parameters::variable(provider, name), type, std::move(help));
  return 0;
}

void free_strings(const fi_param& parameter) noexcept {
  std::free(const_cast<char*>(parameter.name));
  std::free(const_cast<char*>(parameter.help_string));
  std::free(const_cast<char*>(parameter.value));
}

}  // namespace
}  // namespace weft::core

using namespace weft::core;

WEFT_EXPORT int fi_param_define(const fi_provider* provider, const char* param_name, fi_param_type type,
                                const char* help_string_fmt, ...) {
  va_list arguments;
  va_start(arguments, help_string_fmt);
  const int error = guarded([&] { return define(provider, param_name, type, help_string_fmt, arguments); });
  va_end(arguments);
  return error;
}

WEFT_EXPORT int fi_param_get(fi_provider* provider, const char* param_name, void* value) {
  if (param_name == nullptr || value == nullptr) return -FI_EINVAL;
  return guarded([&] { return get(provider, param_name, value); });
}

WEFT_EXPORT int fi_getparams(fi_param** params, int* count) {
  if (params == nullptr || count == nullptr) return -FI_EINVAL;
  return guarded([&] {
    // Providers define their parameters when they are loaded.
    if (const weft::Status status = state().registry.load(); !status.ok()) return status.code();
    const Parameters& parameters = state().parameters;
    const std::vector<const Parameter*> all = parameters.all();
    // A zeroed element ends the array, so that fi_freeparams needs no count.
    auto* list = static_cast<fi_param*>(std::calloc(all.size() + 1, sizeof(fi_param)));
    if (list == nullptr) return -FI_ENOMEM;
    for (std::size_t i = 0; i < all.size(); ++i) {
      const char* value = parameters.text(all[i]->name);
      list[i] = {::strdup(all[i]->name.c_str()), all[i]->type, ::strdup(all[i]->help.c_str()),
                 value == nullptr ? nullptr : ::strdup(value)};
      if (list[i].name == nullptr || list[i].help_string == nullptr || (value != nullptr && list[i].value == nullptr)) {
        free_strings(list[i]);
        list[i] = {};
        fi_freeparams(list);
        return -FI_ENOMEM;
      }
    }
    *params = list;
    *count = static_cast<int>(all.size());
    return 0;
  });
}

WEFT_EXPORT void fi_freeparams(fi_param* params) {
  if (params == nullptr) return;
  for (const fi_param* each = params; each->name != nullptr; ++each) free_strings(*each);
  std::free(params);
}
