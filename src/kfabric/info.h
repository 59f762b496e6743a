// SPDX-License-Identifier: BSD-2-Clause
// kfi_info to fi_info and back.
#pragma once

#include "kfabric/object.h"

namespace weft::kfabric {

// A connection request: the handle of the infos that a listener reports. It belongs to its passive endpoint until
// kfi_endpoint or kfi_reject takes it.
struct PassiveEndpoint;
struct ConnectionRequest : kfid {
  PassiveEndpoint* listener = nullptr;
  fid* fi = nullptr;
};

// An fi_info on the stack with the contents of a kfi_info, whose strings and addresses it points to.
class LowerInfo {
 public:
  LowerInfo(const kfi_info& info, bool is_1_1);
  LowerInfo(const LowerInfo&) = delete;
  LowerInfo& operator=(const LowerInfo&) = delete;

  // -KFI_ENODATA: no provider of libfabric can have what the info requires.
  int status() const { return status_; }
  fi_info* get() { return &info_; }

 private:
  fi_info info_{};
  fi_tx_attr tx_{};
  fi_rx_attr rx_{};
  fi_ep_attr ep_{};
  fi_domain_attr domain_{};
  fi_fabric_attr fabric_{};
  int status_ = 0;
};

// One kfi_info for the client to free; NULL without memory. `api` is the client's version.
kfi_info* upper_info(const fi_info& info, uint32_t api);

uint64_t lower_caps(uint64_t caps, bool is_1_1);
int upper_mr_mode(int mode);

}  // namespace weft::kfabric
