// SPDX-License-Identifier: BSD-2-Clause
// A datagram endpoint in multicast groups, with its buffers: fi_endpoint(3), fi_cm(3) fi_join, fi_msg(3).
#pragma once

#include <netinet/in.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "fabric_link.h"
#include "failure.h"
#include "watch.h"

namespace weft::tools {

struct GroupOptions {
  std::vector<std::string> groups;  // numeric addresses
  uint16_t port = 4711;
  bool sends = false;              // true: sender, false: receiver
  const char* provider = nullptr;  // nullptr: the first match
  const char* domain = nullptr;
  const char* source = nullptr;  // local address; nullptr: the first match
  std::size_t message = 64;      // bytes; receivers take up to the endpoint's limit
  bool loopback = false;         // receive the messages of this process, too
};

class GroupLink : public Link {
 public:
  static Result<std::unique_ptr<GroupLink>> open(const GroupOptions& options, Watch& watch);

  std::string own_name() const;  // "192.0.2.1:40000"

  // Waits for room and returns the buffer of the next message.
  Result<std::span<std::byte>> outgoing();
  Status send();
  // Waits until all sends are complete.
  Status finish();

  // Reports changes of the membership on standard error; fails if it ended. Reads the event queue only now and then.
  Status check_membership();

  // Waits up to `timeout_ms` for messages and passes each to `show`; its bytes are valid during the call only.
  Status receive(int timeout_ms, const std::function<void(std::span<const std::byte>)>& show);

 private:
  GroupLink(const GroupOptions& options, Watch& watch) : Link(watch), options_(options) {}

  Status find();
  Status prepare();
  struct Membership {
    FidPtr<fid_mc> mc;
    bool joined = false;
    bool was_joined = false;
  };
  Status join();
  Status await_membership(const Membership& membership);
  Status read_event(int timeout_ms);
  Status post_receive(std::size_t slot) {
    return check(fi_recv(ep_.get(), buffer(slot), stride_, descriptor_, FI_ADDR_UNSPEC, &contexts_[slot]), "fi_recv");
  }
  Status completion_failure();
  Status take_completions(int timeout_ms);

  static constexpr std::size_t kReceives = 512;
  static constexpr std::size_t kSends = 64;

  GroupOptions options_;
  std::vector<Membership> memberships_;  // as options_.groups
  std::chrono::steady_clock::time_point next_check_{};
  uint64_t posted_ = 0;    // sends so far
  uint64_t finished_ = 0;  // completed sends
};

}  // namespace weft::tools
