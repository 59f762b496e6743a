// SPDX-License-Identifier: BSD-2-Clause
// A conversation of two ends over one provider, through the public interface only, in which an allocation may fail.
#pragma once

#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>

#include <deque>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "../failing_allocations.h"

namespace memory_failures {

using weft::test::ExposedAllocations, weft::test::FailingAllocation, weft::test::SparedAllocations;

struct Kind {
  const char* name;
  const char* provider;
  fi_ep_type type;
};
inline void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

// Transfers; or joins, refusals, failing lookups, inject calls, multi-receive and ends.
enum class Part { kTransfers, kRest };

constexpr size_t kLong = 300'000;

struct Operation {
  fi_context2 context{};
  const char* what = "";
  bool receives = false;
  bool many = false;     // completes with the entry that has FI_MULTI_RECV
  bool refused = false;  // fails, because nobody has the address
  bool done = false;
};

struct End {
  fid_eq* eq = nullptr;
  fid_cq* cq = nullptr;
  fid_cntr* counter = nullptr;
  fid_av* av = nullptr;
  fid_ep* ep = nullptr;
  fid_mr* mr = nullptr;
  fid_mc* group = nullptr;
  fid_av* late_av = nullptr;                                     // reports insertions by events
  std::vector<char> memory = std::vector<char>(2 * kLong, 'm');  // sent from the first half, received into the second
  std::deque<Operation> operations;
  fi_addr_t peer = FI_ADDR_UNSPEC;
  bool connected = false, refused = false, ended = false, joined = false;
  int insertions = 0;                      // reported by events
  fi_addr_t late_peer = FI_ADDR_NOTAVAIL;  // written in the background

  char* out() { return memory.data(); }
  char* in() { return memory.data() + kLong; }
  void* desc() const { return mr != nullptr ? fi_mr_desc(mr) : nullptr; }
};

// One run. Its own allocations are spared.
class Conversation {
 public:
  Conversation(const Kind& kind, Part part, size_t nth, size_t count) : kind_(kind), part_(part) {
    if (nth != 0) failing_.emplace(nth, count);
  }
  // Returns the complaints.
  std::string run() {
    if (open() && (kind_.type != FI_EP_MSG || connect())) part_ == Part::kTransfers ? transfer() : use_the_rest();
    close();
    note_failure();
    return complaints_;
  }
  bool failed() const { return failed_; }

 private:
  bool connected_type() const { return kind_.type == FI_EP_MSG; }
  void complain(const std::string& what) { complaints_ += what + "\n"; }
  void note_failure() { failed_ |= failing_ && failing_->failed(); }
  // The memory is there again.
  void relieve() {
    note_failure();
    failing_.reset();
  }

  // Calls the library. The call in which the allocation fails has few possible results. `usual`: the result without it.
  template <class Call>
  ssize_t lib(const char* what, Call call, ssize_t usual = 0) {
    const bool before = failed_;
    ssize_t result;
    {
      const ExposedAllocations exposed;
      result = call();
    }
    note_failure();
    if (usual < 0 && result == usual) return result;
    const bool expected = result >= 0 || result == -FI_EAGAIN || result == -FI_EAVAIL ||
                          (failed_ && (result == -FI_ENOMEM || result == -FI_EOVERRUN ||
                                       (before && (trouble_ || result == -FI_ENOTCONN))));
    if (!expected) complain(std::string(what) + " returned " + fi_strerror(static_cast<int>(-result)));
    if (result < 0 && result != -FI_EAGAIN && result != -FI_EAVAIL) trouble_ = true;
    return result;
  }
  template <class Call>
  bool ok(const char* what, Call call) {
    return lib(what, call) == 0;
  }

  bool open();
  bool open_end(End& end);
  bool open_endpoint(End& end, fi_info* info);
  bool connect();
  void transfer();
  void exchange(size_t len, bool expected, bool tagged, uint64_t flags = 0);
  void access(size_t len);
  void change_atomically();
  void burst();

  void use_the_rest();
  void cross();
  void inject();
  void receive_many();
  void look_up();
  void insert_late(End& end);
  void call_stranger();
  void knock(End& end, const void* name, const char* greeting);
  void join();
  void shut_down();
  void open_automatic();
  void close();
  void close_end(End& end);
  template <class Fid>
  void close_one(Fid*& object, const char* what) {
    if (object == nullptr) return;
    const ssize_t result = lib(what, [&] { return fi_close(&object->fid); });
    if (result != 0) complain(std::string("closing: ") + what + ": " + std::to_string(result));
    object = nullptr;
  }

  Operation* start(End& end, const char* what, bool receives, const std::function<ssize_t(void*)>& post);
  bool receive(End& end, size_t len, bool tagged);
  bool send(End& end, size_t len, bool tagged, uint64_t flags = 0);
  bool progress();
  bool read(End& end);
  bool read_events(End& end, fid_eq* eq);
  bool wait(const std::function<bool()>& done, const char* what);
  bool settle();
  bool all_done();

  const Kind& kind_;
  const Part part_;
  std::optional<FailingAllocation> failing_;
  bool failed_ = false;   // the allocation has failed
  bool trouble_ = false;  // and a call or an event has reported it
  bool ending_ = false;   // FI_SHUTDOWN is expected
  std::string complaints_;
  fi_info* infos_ = nullptr;
  fi_info* info_ = nullptr;  // one of those
  fi_info* request_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_eq* listener_eq_ = nullptr;
  fid_pep* listener_ = nullptr;
  End client_, server_;
  End refused_;  // connections that fail
};

}  // namespace memory_failures
