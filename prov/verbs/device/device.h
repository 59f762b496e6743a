// SPDX-License-Identifier: BSD-2-Clause
// RDMA devices as librdmacm opens them: names, limits and ports; ibv_query_device_ex(3), ibv_query_port(3). Every limit
// that the provider reports or uses comes from here. All fabrics of a process share a device, because librdmacm has one
// context for each.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/fabric.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "base/ref.h"
#include "base/status.h"

namespace weft::verbs {

// The cq_context of every ibv_cq.
class OverrunHandler {
 public:
  // IBV_EVENT_CQ_ERR: the device lost completions. Any thread.
  virtual void on_overrun() noexcept = 0;

 protected:
  ~OverrunHandler() = default;
};

enum class Transport : std::uint8_t { kInfiniBand, kRoce, kIwarp };

// Owner: the process; a device that was unplugged keeps its object. Thread-safe.
class Device : public RefCounted {
 public:
  struct Port {
    std::uint8_t number;
    ibv_port_attr attr;
    Transport transport;
    bool active() const noexcept { return attr.state == IBV_PORT_ACTIVE || attr.state == IBV_PORT_ACTIVE_DEFER; }
  };

  explicit Device(ibv_context* context) noexcept : context_(context) {}
  Status query();

  ibv_context* context() const noexcept { return context_; }
  bool is_iwarp() const noexcept { return context_->device->transport_type == IBV_TRANSPORT_IWARP; }
  const char* name() const noexcept { return ibv_get_device_name(context_->device); }
  const ibv_device_attr_ex& attr() const noexcept { return attr_; }
  // As the device reports it now; -FI_ENODEV for a port it does not have.
  Result<Port> port(std::uint8_t number) const noexcept;
  const std::string& driver() const noexcept { return driver_; }
  const fi_bus_attr& bus() const noexcept { return bus_; }
  std::uint8_t port_count() const noexcept { return attr_.orig_attr.phys_port_cnt; }
  // Bytes that a work request may contain, up to 1024; 0: the device has no inline data.
  std::uint32_t max_inline() noexcept;
  // Whether device, driver and kernel register DMA buffers, the form in which accelerators export their memory.
  bool takes_dmabufs() noexcept;

 private:
  ibv_context* const context_;
  ibv_device_attr_ex attr_{};
  std::string driver_;
  fi_bus_attr bus_{};
  std::mutex probing_;  // guards the next two; empty: not known yet
  std::optional<std::uint32_t> max_inline_;
  std::optional<bool> takes_dmabufs_;
};

// Every device of the host; one that is plugged in later is found. -FI_ENODEV, -FI_EACCES, -FI_EMFILE ...: none can be
// used; `why` has the reason and the remedy.
Result<std::vector<Ref<Device>>> open_devices(std::string& why);
// Whether so few descriptors are free that libibverbs and librdmacm may have missed devices: they report no error then.
bool lacks_descriptors(std::string& why);
// By its exact name; -FI_ENODEV.
Result<Ref<Device>> open_device(const std::string& name);
// The device of a librdmacm context.
Result<Ref<Device>> device_of(ibv_context* context);
// A warning if the process may lock so little memory that devices are hardly usable; otherwise empty.
std::string low_memlock();

}  // namespace weft::verbs
