// SPDX-License-Identifier: BSD-2-Clause
// The part of a fabric that its children use: parameters, the connection engine, and the handles that an fi_info may
// carry. Base of Fabric. Thread-safe.
#pragma once

#include <memory>
#include <utility>

#include "base/ref.h"
#include "objects/live_handles.h"
#include "verbs/cm/cm_engine.h"
#include "verbs/device/parameters.h"

namespace weft::verbs {

class FabricServices : public RefCounted {
 public:
  CmEngine& engine() const noexcept { return *engine_; }

  const Parameters parameters;
  LiveHandles requests;
  LiveHandles passive_endpoints;

 protected:
  FabricServices(Parameters values, std::unique_ptr<CmEngine> engine) noexcept
      : parameters(std::move(values)), engine_(std::move(engine)) {}
  ~FabricServices() = default;

 private:
  const std::unique_ptr<CmEngine> engine_;
};

}  // namespace weft::verbs
