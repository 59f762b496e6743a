// SPDX-License-Identifier: BSD-2-Clause
// The mutable state of the library and its lifetime; fabric(7).
#include "core/state.h"

#include <atomic>
#include <mutex>

namespace weft::core {
namespace {

std::atomic<State*> current{nullptr};
std::mutex creation;

Parameters make_parameters() {
  const ConfigFile file = ConfigFile::read(WEFT_SYSCONFDIR "/libfabric.conf");
  const char* name = "FI_PREFER_SYSCONFIG";
  const char* in_file = file.find(name);
  const char* text = std::getenv(name) != nullptr ? std::getenv(name) : in_file;
  return Parameters(file, text != nullptr && parse_flag(text).value_or(false));
}

// Core parameters that providers read by name (with a NULL provider), as libfabric's plug-ins do.
void define_shared(Parameters& parameters) {
  parameters.define("FI_PREFER_SYSCONFIG", FI_PARAM_BOOL,
                    "Let " WEFT_SYSCONFDIR "/libfabric.conf override the environment (default: no)");
  parameters.define("FI_HOOK", FI_PARAM_STRING, "Hook providers to put over every fabric, separated by semicolons");
  parameters.define("FI_UNIVERSE_SIZE", FI_PARAM_SIZE_T,
                    "Number of processes of the application, which providers may use to size their tables "
                    "(default: provider specific)");
  parameters.define("FI_FORK_UNSAFE", FI_PARAM_BOOL,
                    "Providers need not make fork safe, which may be faster (default: no)");
  parameters.define("FI_AV_REMOVE_CLEANUP", FI_PARAM_BOOL,
                    "Removing an address also releases what was set up to reach it, such as hidden connections "
                    "(default: no)");
  parameters.define("FI_ADDR_FORMAT", FI_PARAM_STRING,
                    "Offer only what has addresses of this format, such as FI_SOCKADDR_IN (default: all)");
}

// Settings that are read before there is a log.
void warn_of_settings(const Parameters& parameters, const Log& log) {
  for (const std::string& complaint : parameters.config().complaints())
    log.warn(WEFT_SYSCONFDIR "/libfabric.conf: " + complaint);
  const char* const prefer = parameters.text("FI_PREFER_SYSCONFIG");
  if (prefer != nullptr && !parse_flag(prefer)) log.warn(parameters.wrong_type("FI_PREFER_SYSCONFIG", prefer));
}

}  // namespace

State::State() : parameters(make_parameters()), log(parameters), registry(parameters) {
  warn_of_settings(parameters, log);
  define_shared(parameters);
  Log::define(parameters);
  Registry::define(parameters);
}

State& state() {
  if (State* existing = current.load(std::memory_order_acquire)) return *existing;
  const std::lock_guard lock(creation);
  State* made = current.load(std::memory_order_relaxed);
  if (made == nullptr) current.store(made = new State, std::memory_order_release);
  return *made;
}

// A static object would be destroyed before the application's exit handlers, which may still close fabrics.
[[gnu::destructor]] static void on_unload() {
  unload();
}

void unload() noexcept {
  State* old = current.load(std::memory_order_acquire);
  if (old == nullptr) return;
  old->registry.close();
  current.store(nullptr, std::memory_order_release);
  delete old;
}

}  // namespace weft::core
