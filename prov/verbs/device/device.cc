// SPDX-License-Identifier: BSD-2-Clause
// RDMA devices; see device.h.
#include "verbs/device/device.h"

#include <dirent.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <rdma/fi_errno.h>
#include <rdma/rdma_cma.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <ctime>
#include <filesystem>
#include <list>
#include <memory>
#include <string_view>

#include "base/kept.h"
#include "base/readiness.h"
#include "base/standard_descriptors.h"
#include "base/unique_fd.h"
#include "verbs/device/verbs_handles.h"

namespace weft::verbs {
namespace {

// librdmacm keeps every device open for the life of the process, so its object is kept too, and its limits are queried
// once.
struct Devices {
  std::mutex mutex;
  std::list<Device> known;
  std::vector<Ref<Device>> listed;  // the last answer of open_devices(), valid while ...
  timespec changed{};               // ... /dev/infiniband has not changed
};
Devices& devices() noexcept {
  static Kept<Devices> all;
  return all.object;
}

bool exists(const char* path) noexcept {
  struct stat ignored;
  return ::stat(path, &ignored) == 0;
}

// Devices come and go with their nodes. Zero: unknown, or so recent that the next change may have the same time.
timespec last_change() noexcept {
  struct stat folder {};
  if (::stat("/dev/infiniband", &folder) != 0 || ::time(nullptr) - folder.st_mtim.tv_sec < 2) return {};
  return folder.st_mtim;
}

constexpr const char* kCmNode = "/dev/infiniband/rdma_cm";

// Whether the user lacks permission for a node of /dev/infiniband. librdmacm and libibverbs report no devices then.
// readdir, because the iterators of std::filesystem end the process when memory runs out.
bool forbidden() noexcept {
  const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir("/dev/infiniband"), &::closedir);
  if (folder == nullptr) return errno == EACCES;
  while (const dirent* node = ::readdir(folder.get())) {
    const std::string_view name = node->d_name;
    if ((name.starts_with("uverbs") || name == "rdma_cm") &&
        ::faccessat(::dirfd(folder.get()), node->d_name, R_OK | W_OK, 0) != 0)
      return true;
  }
  return false;
}

// The reason why no device was found, and the remedy.
std::string absence(int error) {
  if (!exists("/sys/class/infiniband"))
    return "the kernel has no RDMA support loaded: load the device's driver, or rdma_rxe for any network interface "
           "(rdma link add rxe0 type rxe netdev eth0)";
  if (!exists("/dev/infiniband"))
    return "/dev/infiniband is missing: load ib_uverbs and rdma_ucm, and give containers the folder (--device)";
  if (!exists(kCmNode)) return fmt::format("{} is missing: load rdma_ucm", kCmNode);
  if (forbidden())
    return "no permission for /dev/infiniband: the nodes there must be readable and writable for this user";
  if (error == ENOMEM) return "the device cannot lock enough memory: raise the memlock limit (ulimit -l)";
  return "no RDMA device: see rdma link";
}

std::string last_component(const std::filesystem::path& link) {
  std::error_code error;
  const auto target = std::filesystem::read_symlink(link, error);
  return error ? "" : target.filename().string();
}

fi_bus_attr bus_of(const std::filesystem::path& folder) {
  fi_bus_attr bus{};
  unsigned domain, number, device, function;
  const std::string name = last_component(folder);
  if (last_component(folder / "subsystem") != "pci" ||
      std::sscanf(name.c_str(), "%x:%x:%x.%x", &domain, &number, &device, &function) != 4)
    return bus;
  bus.bus_type = FI_BUS_PCI;
  bus.attr.pci = {static_cast<uint16_t>(domain), static_cast<uint8_t>(number), static_cast<uint8_t>(device),
                  static_cast<uint8_t>(function)};
  return bus;
}

constexpr std::uint32_t kMostInline = 1024;

// Devices with a transport of their own have neither connections nor datagrams as here: EFA, usNIC.
bool has_known_transport(const ibv_context& context) noexcept {
  const ibv_transport_type transport = context.device->transport_type;
  return transport == IBV_TRANSPORT_IB || transport == IBV_TRANSPORT_IWARP;
}

}  // namespace

Status Device::query() {
  const std::filesystem::path folder = std::filesystem::path("/sys/class/infiniband") / name() / "device";
  driver_ = last_component(folder / "driver");
  bus_ = bus_of(folder);
  return status_of(ibv_query_device_ex(context_, nullptr, &attr_));
}

Result<Device::Port> Device::port(std::uint8_t number) const noexcept {
  if (number == 0 || number > port_count()) return failure(FI_ENODEV);
  Port port{number, {}, Transport::kInfiniBand};
  if (Status status = status_of(ibv_query_port(context_, number, &port.attr)); !status.ok()) return failure(status);
  if (is_iwarp())
    port.transport = Transport::kIwarp;
  else if (port.attr.link_layer == IBV_LINK_LAYER_ETHERNET)
    port.transport = Transport::kRoce;
  return port;
}

// Found by creating queue pairs: no query reports it. Some drivers accept any size and answer with what they have,
// which is none for hfi1 and qib. Without memory for any queue pair the next call tries again.
std::uint32_t Device::max_inline() noexcept {
  std::lock_guard lock(probing_);
  if (max_inline_) return *max_inline_;
  const ProtectionDomainHandle pd(ibv_alloc_pd(context_));
  const CompletionQueueHandle cq(ibv_create_cq(context_, 2, nullptr, nullptr, 0));
  if (pd == nullptr || cq == nullptr) return 0;
  for (std::uint32_t wanted = kMostInline;; wanted /= 2) {
    ibv_qp_init_attr attr{};
    attr.send_cq = attr.recv_cq = cq.get();
    attr.qp_type = IBV_QPT_RC;
    attr.cap = {.max_send_wr = 1, .max_recv_wr = 1, .max_send_sge = 1, .max_recv_sge = 1, .max_inline_data = wanted};
    if (const QueuePairHandle qp(ibv_create_qp(pd.get(), &attr)); qp != nullptr)
      max_inline_ = std::min(wanted, attr.cap.max_inline_data);
    if (max_inline_ || wanted == 0) return max_inline_.value_or(0);
  }
}

// Registers an invalid descriptor: only where a valid one could be registered, EBADF is the answer.
bool Device::takes_dmabufs() noexcept {
  std::lock_guard lock(probing_);
  if (takes_dmabufs_) return *takes_dmabufs_;
  const ProtectionDomainHandle pd(ibv_alloc_pd(context_));
  if (pd == nullptr) return false;
  const auto page = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  const MemoryRegionHandle none(ibv_reg_dmabuf_mr(pd.get(), 0, page, 0, -1, IBV_ACCESS_LOCAL_WRITE));
  if (none == nullptr && errno == ENOMEM) return false;
  takes_dmabufs_ = none != nullptr || errno == EBADF;
  return *takes_dmabufs_;
}

Result<std::vector<Ref<Device>>> open_devices(std::string& why) {
  Devices& all = devices();
  const timespec changed = last_change();
  if (std::lock_guard lock(all.mutex);
      changed.tv_sec != 0 && changed.tv_sec == all.changed.tv_sec && changed.tv_nsec == all.changed.tv_nsec)
    return all.listed;
  const StandardDescriptors held;
  int count = 0;
  errno = 0;
  ibv_context** list = rdma_get_devices(&count);
  const std::unique_ptr<ibv_context*, decltype(&rdma_free_devices)> owner(list, &rdma_free_devices);
  const int error = errno;
  std::vector<Ref<Device>> found;
  bool all_answer = true;
  for (int i = 0; list != nullptr && i < count; ++i) {
    if (!has_known_transport(*list[i])) continue;
    auto device = device_of(list[i]);
    all_answer = all_answer && device;
    if (device) found.push_back(std::move(*device));
  }
  if (found.empty()) {
    if (lacks_descriptors(why)) return failure(FI_EMFILE);
    why = absence(error);
    return failure(forbidden() ? FI_EACCES : FI_ENODEV);
  }
  // A device that failed for now or that this user may not open is tried again at the next call.
  const bool lasts = changed.tv_sec != 0 && all_answer;
  if (lasts && !forbidden() && !lacks_descriptors(why)) {
    std::lock_guard lock(all.mutex);
    all.listed = found;
    all.changed = changed;
  }
  return found;
}

bool lacks_descriptors(std::string& why) {
  constexpr std::size_t kNeeded = 8;
  std::array<UniqueFd, kNeeded> probes;
  for (UniqueFd& probe : probes) {
    probe.reset(net::event_open());
    if (probe) continue;
    why = "too few descriptors are free: raise the limit (ulimit -n)";
    return true;
  }
  return false;
}

Result<Ref<Device>> open_device(const std::string& name) {
  std::string why;
  auto all = open_devices(why);
  if (!all) return failure(all.error());
  for (Ref<Device>& device : *all)
    if (name == device->name()) return device;
  return failure(FI_ENODEV);
}

Result<Ref<Device>> device_of(ibv_context* context) {
  if (context == nullptr) return failure(FI_ENODEV);
  Devices& all = devices();
  std::lock_guard lock(all.mutex);
  for (Device& device : all.known)
    if (device.context() == context) return Ref<Device>(device);
  std::list<Device> added;
  added.emplace_back(context);
  if (Status status = added.back().query(); !status.ok()) return failure(status);
  all.known.splice(all.known.end(), added);
  return Ref<Device>(all.known.back());
}

std::string low_memlock() {
  constexpr rlim_t kLow = rlim_t{1} << 20;
  if (::geteuid() == 0) return {};  // not limited
  rlimit limit{};
  if (::getrlimit(RLIMIT_MEMLOCK, &limit) != 0 || limit.rlim_cur >= kLow) return {};
  return "the memlock limit is only " + std::to_string(limit.rlim_cur / 1024) +
         " KiB, so registering memory and creating queues may fail: raise it (ulimit -l unlimited, or LimitMEMLOCK= of "
         "systemd)";
}

}  // namespace weft::verbs
