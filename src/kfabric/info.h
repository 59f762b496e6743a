// SPDX-License-Identifier: BSD-2-Clause
// kfi_info to fi_info and back.
#pragma once

#include "kfabric/generations.h"
#include "kfabric/object.h"

namespace weft::kfabric {

// A connection request: the handle of the infos that a listener reports. It belongs to the fabric until kfi_endpoint or
// kfi_reject takes it, also when its passive endpoint has closed.
struct ConnectionRequest : kfid {
  ConnectionRequest();
  ConnectionRequest(const ConnectionRequest&) = delete;
  ConnectionRequest& operator=(const ConnectionRequest&) = delete;
  ~ConnectionRequest();
  fid* fi = nullptr;
};

// The request behind a handle of an info; NULL: another handle, or a request that has ended.
ConnectionRequest* request_of(kfid* handle) noexcept;

// An fi_info on the stack with the contents of a kfi_info, whose strings and addresses it points to.
class LowerInfo {
 public:
  // An info of API 1.7, or one of 1.1 in its place.
  LowerInfo(const kfi_info& info, bool is_1_1);
  explicit LowerInfo(const kfi_info& info) : LowerInfo(info, false) {}
  explicit LowerInfo(const kfi_info_1_1& info);
  LowerInfo(const LowerInfo&) = delete;
  LowerInfo& operator=(const LowerInfo&) = delete;

  // -KFI_ENODATA: no provider of libfabric can have what the info requires.
  int status() const { return status_; }
  fi_info* get() { return &info_; }
  // The connection request that the info's handle is; NULL: another handle.
  ConnectionRequest* request() const { return request_; }

 private:
  template <class Info>
  void fill(const Info& info, bool is_1_1);
  template <class Attr>
  void fill_domain(const Attr& attr, bool is_1_1);
  template <class Attr>
  void fill_fabric(const Attr& attr);
  // Bits that kfabric lacks are granted by no provider.
  void require(uint64_t bits, uint64_t known);

  fi_info info_{};
  fi_tx_attr tx_{};
  fi_rx_attr rx_{};
  fi_ep_attr ep_{};
  fi_domain_attr domain_{};
  fi_fabric_attr fabric_{};
  ConnectionRequest* request_ = nullptr;
  int status_ = 0;
};

// The attributes of a context in libfabric's form.
template <class Attr, class Lower>
class LowerContext {
 public:
  LowerContext(const Attr* attr, bool is_1_1);
  Lower* get() { return pointer_; }

 private:
  Lower value_{};
  Lower* pointer_ = nullptr;
};
using LowerTransmit = LowerContext<kfi_tx_attr, fi_tx_attr>;
using LowerReceive = LowerContext<kfi_rx_attr, fi_rx_attr>;

template <class Info>
constexpr bool kIs1_1 = std::is_same_v<Info, kfi_info_1_1>;

// Infos of a generation, kfi_info or kfi_info_1_1: a new one with its attributes, a copy, one from libfabric's, and the
// end of a list. NULL without memory. `version` is the one that the client requested.
template <class Info>
Info* blank();
template <class Info>
Info* duplicate(const Info* info);
template <class Info>
Info* upper_info(const fi_info& info, uint32_t version);
template <class Info>
void release(Info* info);
// Whether the generation has a number for an address format of libfabric.
bool has_format(uint32_t lower, bool is_1_1);

// The info of a connection request, in the client's generation; NULL without memory.
kfi_info* upper_request(const fi_info& info, bool is_1_1);
void set_handle(kfi_info* info, kfid* handle, bool is_1_1);
void free_info(kfi_info* info, bool is_1_1);

}  // namespace weft::kfabric
