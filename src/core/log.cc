// SPDX-License-Identifier: BSD-2-Clause
// The log behind fi_log; fabric(7), fi_provider(3).
#include "core/log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>

#include <algorithm>
#include <chrono>
#include <ctime>
#include <iterator>
#include <new>
#include <optional>
#include <utility>

#include "base/standard_descriptors.h"
#include "core/names.h"

namespace weft::core {
namespace {

static_assert(std::size(names::kLogLevel) == FI_LOG_MAX && std::size(names::kLogSubsys) == FI_LOG_SUBSYS_MAX);

constexpr int kDefaultIntervalMs = 2000;
constexpr int kDefaultMode = 0600;

// "none" and an unset level mean no log. Empty: there is no such level.
std::optional<int> known_level(const char* text) noexcept {
  if (text == nullptr || equal_ignoring_case(text, "none")) return -1;
  for (const Name& level : names::kLogLevel)
    if (equal_ignoring_case(text, level.text)) return static_cast<int>(level.value);
  return std::nullopt;
}

// An unknown level means warnings: the user has requested a log.
int level_of(const char* text) noexcept {
  return known_level(text).value_or(FI_LOG_WARN);
}

uint64_t now_ms() noexcept {
  using namespace std::chrono;
  return static_cast<uint64_t>(duration_cast<milliseconds>(steady_clock::now().time_since_epoch()).count());
}

const char* provider_name(const fi_provider* provider) noexcept {
  return provider != nullptr && provider->name != nullptr ? provider->name : "core";
}

// Beyond this limit write(2) raises SIGXFSZ.
bool may_grow(off_t len, std::size_t size) noexcept {
  rlimit longest{};
  return ::getrlimit(RLIMIT_FSIZE, &longest) == 0 && static_cast<rlim_t>(len) + size <= longest.rlim_cur;
}

// Writes the text if that is possible at once. A line that a peer causes must not raise SIGPIPE when the reader of a
// pipe has gone. A pipe or terminal is opened again, because O_NONBLOCK on the shared description would affect every
// process that uses it.
void write_at_once(int fd, const char* text, std::size_t size) noexcept {
  const Uncancellable through;
  struct stat status {};
  if (::fstat(fd, &status) != 0) return;
  // A failed write cannot be reported anywhere.
  [[maybe_unused]] ssize_t written = 0;
  if (S_ISREG(status.st_mode)) {
    if (may_grow(status.st_size, size)) written = ::write(fd, text, size);
  } else if (S_ISSOCK(status.st_mode)) {
    written = ::send(fd, text, size, MSG_DONTWAIT | MSG_NOSIGNAL);
  } else {
    char path[32];
    *fmt::format_to_n(path, sizeof path - 1, "/proc/self/fd/{}", fd).out = '\0';
    // Without permission to open it another process may fill it between these calls.
    pollfd room{fd, POLLOUT, 0};
    if (::poll(&room, 1, 0) <= 0 || room.revents != POLLOUT) return;
    const UniqueFd own(::open(path, O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
    written = ::write(own ? own.get() : fd, text, size);
  }
}

}  // namespace

LineLimit::Verdict LineLimit::admit(const char* function, int line, uint64_t now_ms, uint64_t interval_ms) noexcept {
  // A thread that is counting may not exist in this process any more, after fork(2).
  const std::unique_lock lock(mutex_, std::try_to_lock);
  if (!lock) return {true, 0};
  const auto index = (reinterpret_cast<std::uintptr_t>(function) >> 3) + static_cast<std::size_t>(line);
  Place& place = places_[index % kPlaces];
  if (now_ms - place.since_ms >= interval_ms) {
    place.since_ms = now_ms;
    place.shown = 0;
  }
  if (place.shown == kLines) {
    ++place.left_out;
    return {false, 0};
  }
  ++place.shown;
  return {true, std::exchange(place.left_out, 0)};
}

void Log::define(Parameters& parameters) {
  parameters.define("FI_LOG_LEVEL", FI_PARAM_STRING,
                    "Log messages up to this level: none, warn, trace, info, debug (default: none)");
  parameters.define("FI_LOG_PROV", FI_PARAM_STRING,
                    "Log only these providers, a comma separated list; a leading ^ negates the list (default: all)");
  parameters.define("FI_LOG_SUBSYS", FI_PARAM_STRING,
                    "Log only these subsystems, a comma separated list of core, fabric, domain, ep_ctrl, ep_data, av, "
                    "cq, eq, mr, cntr; a leading ^ negates the list (default: all)");
  parameters.define("FI_LOG_INTERVAL", FI_PARAM_INT, "Least time in ms between rate limited messages (default: 2000)");
  parameters.define("FI_LOG_LOCATION", FI_PARAM_STRING,
                    "Destination of the log: stderr, stdout, a file to append to, or a folder, in which each process "
                    "appends to ofi_<process>.log (default: stderr)");
  parameters.define("FI_LOG_LOCATION_MODE", FI_PARAM_STRING,
                    "Octal permissions of a log file that is created (default: 0600)");
}

Log::Log(const Parameters& parameters)
    : level_(level_of(parameters.text("FI_LOG_LEVEL"))), providers_(parameters.text("FI_LOG_PROV")) {
  const NameFilter subsystems(parameters.text("FI_LOG_SUBSYS"));
  for (const Name& subsys : names::kLogSubsys)
    if (!subsystems.allows(subsys.text)) subsystems_ &= ~(1U << subsys.value);
  const long interval = parameters.integer("FI_LOG_INTERVAL", kDefaultIntervalMs);
  interval_ms_ = static_cast<uint64_t>(interval < 0 ? kDefaultIntervalMs : interval);
  if (const char* path = parameters.text("FI_LOG_LOCATION"); path != nullptr && *path != '\0') {
    open_destination(path, static_cast<int>(parameters.integer("FI_LOG_LOCATION_MODE", kDefaultMode, 8)));
  }
  // Without it no line is written: another file may get its number later.
  if (::fcntl(destination_, F_GETFD) < 0) level_ = -1;
  if (const char* level = parameters.text("FI_LOG_LEVEL"); !known_level(level))
    warn(fmt::format("FI_LOG_LEVEL={} is no level: warnings are logged", level));
  for (const auto& [variable, base] : {std::pair("FI_LOG_INTERVAL", 0), std::pair("FI_LOG_LOCATION_MODE", 8)})
    if (const char* text = parameters.text(variable); text != nullptr && !parse_int(text, base))
      warn(parameters.wrong_type(variable, text));
  for (const std::string& name : subsystems.names())
    if (std::ranges::none_of(names::kLogSubsys, [&](const Name& s) { return equal_ignoring_case(s.text, name); }))
      warn(fmt::format("FI_LOG_SUBSYS names {}, but no subsystem has this name", name));
}

void Log::warn(const std::string& text) const noexcept {
  if (level_ >= FI_LOG_WARN) write(nullptr, FI_LOG_WARN, FI_LOG_CORE, __func__, __LINE__, text.c_str());
}

void Log::open_destination(const char* path, int mode) {
  if (std::string_view(path) == "stderr") return;
  if (std::string_view(path) == "stdout") {
    destination_ = STDOUT_FILENO;
    return;
  }
  std::string file = path;
  struct stat status {};
  if (::stat(path, &status) == 0 && S_ISDIR(status.st_mode)) file += fmt::format("/ofi_{}.log", ::getpid());
  // O_NONBLOCK: nobody may read a FIFO.
  constexpr int kFlags = O_WRONLY | O_CREAT | O_APPEND | O_NONBLOCK | O_CLOEXEC | O_NOCTTY;
  file_.reset(above_standard(::open(file.c_str(), kFlags, static_cast<mode_t>(mode))));
  if (file_) {
    destination_ = file_.get();
    return;
  }
  const int error = errno;
  const std::string complaint =
      fmt::format("cannot open FI_LOG_LOCATION {}: {}; logging to standard error", path, fi_strerror(error));
  write(nullptr, FI_LOG_WARN, FI_LOG_CORE, __func__, __LINE__, complaint.c_str());
}

// A list of providers is about the providers: only "^core" leaves out the core, whose lines name wrong settings.
bool Log::provider_filtered(const fi_provider* provider) const noexcept {
  const std::string_view name = provider_name(provider);
  return !providers_.allows(name) && (providers_.negated() || name != core_provider().name);
}

bool Log::enabled(const fi_provider* provider, fi_log_level level, fi_log_subsys subsys) const noexcept {
  if (const fi_ops_log* handler = this->handler()) {
    return handler->enabled(provider, level, subsys, provider_filtered(provider) ? FI_LOG_PROV_FILTERED : 0) != 0;
  }
  return static_cast<int>(level) <= level_ && (subsystems_ >> subsys & 1) != 0 && !provider_filtered(provider);
}

bool Log::ready(const fi_provider* provider, fi_log_level level, fi_log_subsys subsys,
                uint64_t* showtime) const noexcept {
  if (const fi_ops_log* handler = this->handler()) {
    return handler->ready(provider, level, subsys, provider_filtered(provider) ? FI_LOG_PROV_FILTERED : 0, showtime) !=
           0;
  }
  if (!enabled(provider, level, subsys)) return false;
  // Threads share the `showtime` of a call site: the one that advances it logs.
  const std::atomic_ref<uint64_t> next(*showtime);
  const uint64_t now = now_ms();
  uint64_t seen = next.load(std::memory_order_relaxed);
  return now >= seen && next.compare_exchange_strong(seen, now + interval_ms_, std::memory_order_relaxed);
}

void Log::write(const fi_provider* provider, fi_log_level level, fi_log_subsys subsys, const char* function, int line,
                const char* message) const noexcept {
  if (const fi_ops_log* handler = this->handler()) {
    handler->log(provider, level, subsys, function, line, message);
    return;
  }
  const auto [shown, left_out] = limit_.admit(function, line, now_ms(), interval_ms_);
  if (!shown) return;
  if (left_out != 0) {
    char count[64];
    *fmt::format_to_n(count, sizeof count - 1, "{} lines like the next one were left out", left_out).out = '\0';
    put(provider, level, subsys, function, line, count);
  }
  put(provider, level, subsys, function, line, message);
}

void Log::put(const fi_provider* provider, fi_log_level level, fi_log_subsys subsys, const char* function, int line,
              const char* message) const noexcept {
  constexpr std::size_t kPrefixSize = 256;
  char text[kPrefixSize + kLogMessageSize];
  // The empty field held a prefix that applications could set in early releases; scripts count the colons.
  const auto end = fmt::format_to_n(text, sizeof text - 1, "libfabric:{}:{}::{}:{}:{}():{}<{}> {}", ::getpid(),
                                    std::time(nullptr), provider_name(provider), name_of(names::kLogSubsys, subsys),
                                    function, line, name_of(names::kLogLevel, level), message);
  std::size_t size = static_cast<std::size_t>(end.out - text);
  if (text[size - 1] != '\n') text[size++] = '\n';
  write_at_once(destination_, text, size);
}

namespace {

// A provider logs its last candidate last: one line with its own value, one with the requested value.
constexpr std::size_t kLines = 4;

thread_local Capture* innermost = nullptr;

}  // namespace

Capture::Capture() noexcept : outer_(innermost) {
  innermost = this;
}
Capture::~Capture() {
  innermost = outer_;
}
Capture* Capture::current() noexcept {
  return innermost;
}

void Capture::add(std::string_view line) noexcept try {
  line = trim(line);
  if (line.empty()) return;
  std::erase(lines_, line);  // ten interfaces may give the same reason
  if (lines_.size() == kLines) lines_.erase(lines_.begin());
  lines_.emplace_back(line);
} catch (const std::bad_alloc&) {
}

std::string Capture::reason() const {
  std::string text;
  for (const std::string& line : lines_) {
    if (!text.empty()) text += "; ";
    text += line;
  }
  return text;
}

}  // namespace weft::core
