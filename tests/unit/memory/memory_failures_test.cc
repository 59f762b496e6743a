// SPDX-License-Identifier: BSD-2-Clause
// Every allocation of a conversation fails once, over every provider; fi_errno(3). Each call works or returns
// -FI_ENOMEM, each operation completes or fails, everything can be closed, nothing is leaked, and nothing hangs.
#include <gtest/gtest.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "../failing_allocations.h"

namespace memory_failures {

using weft::test::ExposedAllocations, weft::test::FailingAllocation, weft::test::SparedAllocations;
using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

struct Kind {
  const char* name;
  const char* provider;
  fi_ep_type type;
};
void PrintTo(const Kind& kind, std::ostream* out) {
  *out << kind.name;
}

constexpr size_t kLong = 300'000;
constexpr int kBurst = 100;

class Conversation;

struct Operation {
  fi_context2 context{};
  const char* what = "";
  bool receives = false;
  bool done = false;
};

struct End {
  fid_eq* eq = nullptr;
  fid_cq* cq = nullptr;
  fid_cntr* counter = nullptr;
  fid_av* av = nullptr;
  fid_ep* ep = nullptr;
  fid_mr* mr = nullptr;
  std::vector<char> memory = std::vector<char>(2 * kLong, 'm');  // sent from the first half, received into the second
  std::deque<Operation> operations;
  fi_addr_t peer = FI_ADDR_UNSPEC;
  bool connected = false;

  char* out() { return memory.data(); }
  char* in() { return memory.data() + kLong; }
  void* desc() const { return mr != nullptr ? fi_mr_desc(mr) : nullptr; }
};

// One run. Its own allocations are spared.
class Conversation {
 public:
  Conversation(const Kind& kind, size_t nth, size_t count) : kind_(kind) {
    if (nth != 0) failing_.emplace(nth, count);
  }
  // Returns the complaints.
  std::string run() {
    if (open() && (kind_.type != FI_EP_MSG || connect())) transfer();
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

  // Calls the library. The call in which the allocation fails has few possible results.
  template <class Call>
  ssize_t lib(const char* what, Call call) {
    const bool before = failed_;
    ssize_t result;
    {
      const ExposedAllocations exposed;
      result = call();
    }
    note_failure();
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
  void close();
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
  std::optional<FailingAllocation> failing_;
  bool failed_ = false;   // the allocation has failed
  bool trouble_ = false;  // and a call or an event has reported it
  std::string complaints_;
  fi_info* infos_ = nullptr;
  fi_info* info_ = nullptr;  // one of those
  fi_info* request_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_eq* listener_eq_ = nullptr;
  fid_pep* listener_ = nullptr;
  End client_, server_;
};

// ---- Set-up ----

bool Conversation::open() {
  fi_info* hints = fi_allocinfo();
  hints->fabric_attr->prov_name = strdup(kind_.provider);
  hints->ep_attr->type = kind_.type;
  hints->addr_format = FI_SOCKADDR_IN;
  hints->caps = kind_.type == FI_EP_DGRAM ? FI_MSG
                : connected_type()        ? FI_MSG | FI_RMA
                                          : FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;
  hints->mode = FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  const bool got =
      ok("fi_getinfo", [&] { return fi_getinfo(FI_VERSION(1, 18), "127.0.0.1", nullptr, FI_SOURCE, hints, &infos_); });
  fi_freeinfo(hints);
  info_ = infos_;
  while (info_ != nullptr && std::string(info_->fabric_attr->prov_name) != kind_.provider) info_ = info_->next;
  if (got && info_ == nullptr && !failed_) complain("no info of the provider");
  const bool opened = info_ != nullptr &&
                      ok("fi_fabric", [&] { return fi_fabric(info_->fabric_attr, &fabric_, nullptr); }) &&
                      ok("fi_domain", [&] { return fi_domain(fabric_, info_, &domain_, nullptr); }) &&
                      open_end(client_) && open_end(server_);
  if (!opened || connected_type()) return opened;
  if (!open_endpoint(client_, info_) || !open_endpoint(server_, info_)) return false;
  for (const auto& [end, other] : {std::pair{&client_, &server_}, std::pair{&server_, &client_}}) {
    char name[64];
    size_t size = sizeof name;
    if (!ok("fi_getname", [&, o = other] { return fi_getname(&o->ep->fid, name, &size); })) return false;
    if (lib("fi_av_insert", [&, e = end] { return fi_av_insert(e->av, name, 1, &e->peer, 0, nullptr); }) != 1)
      return false;
  }
  return true;
}

bool Conversation::open_end(End& end) {
  fi_cq_attr cq_attr{};
  cq_attr.format = FI_CQ_FORMAT_TAGGED;
  cq_attr.size = 512;
  cq_attr.wait_obj = FI_WAIT_UNSPEC;
  fi_cntr_attr counter_attr{};
  fi_av_attr av_attr{};
  fi_eq_attr eq_attr{};
  eq_attr.wait_obj = FI_WAIT_UNSPEC;
  const uint64_t access = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  return (!connected_type() || ok("fi_eq_open", [&] { return fi_eq_open(fabric_, &eq_attr, &end.eq, nullptr); })) &&
         ok("fi_cq_open", [&] { return fi_cq_open(domain_, &cq_attr, &end.cq, nullptr); }) &&
         ok("fi_cntr_open", [&] { return fi_cntr_open(domain_, &counter_attr, &end.counter, nullptr); }) &&
         (connected_type() || ok("fi_av_open", [&] { return fi_av_open(domain_, &av_attr, &end.av, nullptr); })) &&
         ok("fi_mr_reg", [&] {
           return fi_mr_reg(domain_, end.memory.data(), end.memory.size(), access, 0, &end == &client_ ? 1 : 2, 0,
                            &end.mr, nullptr);
         });
}

bool Conversation::open_endpoint(End& end, fi_info* info) {
  return ok("fi_endpoint", [&] { return fi_endpoint(domain_, info, &end.ep, nullptr); }) &&
         (end.eq == nullptr || ok("fi_ep_bind(eq)", [&] { return fi_ep_bind(end.ep, &end.eq->fid, 0); })) &&
         (end.av == nullptr || ok("fi_ep_bind(av)", [&] { return fi_ep_bind(end.ep, &end.av->fid, 0); })) &&
         ok("fi_ep_bind(cq)", [&] { return fi_ep_bind(end.ep, &end.cq->fid, FI_TRANSMIT | FI_RECV); }) &&
         ok("fi_ep_bind(cntr)", [&] { return fi_ep_bind(end.ep, &end.counter->fid, FI_SEND | FI_RECV); }) &&
         ok("fi_enable", [&] { return fi_enable(end.ep); });
}

bool Conversation::connect() {
  char name[64];
  size_t size = sizeof name;
  fi_eq_attr attr{};
  attr.wait_obj = FI_WAIT_UNSPEC;
  return ok("fi_eq_open", [&] { return fi_eq_open(fabric_, &attr, &listener_eq_, nullptr); }) &&
         ok("fi_passive_ep", [&] { return fi_passive_ep(fabric_, info_, &listener_, nullptr); }) &&
         ok("fi_pep_bind", [&] { return fi_pep_bind(listener_, &listener_eq_->fid, 0); }) &&
         ok("fi_listen", [&] { return fi_listen(listener_); }) &&
         ok("fi_getname", [&] { return fi_getname(&listener_->fid, name, &size); }) && open_endpoint(client_, info_) &&
         ok("fi_connect", [&] { return fi_connect(client_.ep, name, "hello", 5); }) &&
         wait([&] { return request_ != nullptr; }, "FI_CONNREQ") && open_endpoint(server_, request_) &&
         ok("fi_accept", [&] { return fi_accept(server_.ep, "welcome", 7); }) &&
         wait([&] { return client_.connected && server_.connected; }, "FI_CONNECTED");
}

// ---- Transfers ----

Operation* Conversation::start(End& end, const char* what, bool receives, const std::function<ssize_t(void*)>& post) {
  end.operations.emplace_back();
  Operation& operation = end.operations.back();
  operation.what = what;
  operation.receives = receives;
  const auto limit = Clock::now() + milliseconds(5000);
  ssize_t result;
  while ((result = lib(what, [&] { return post(&operation.context); })) == -FI_EAGAIN && Clock::now() < limit)
    if (!progress()) relieve();
  if (result == -FI_EAGAIN && !trouble_) complain(std::string(what) + " returns -FI_EAGAIN for ever");
  if (result == 0) return &operation;
  end.operations.pop_back();
  return nullptr;
}

bool Conversation::receive(End& end, size_t len, bool tagged) {
  return start(end, tagged ? "fi_trecv" : "fi_recv", true, [&](void* context) {
    return tagged ? fi_trecv(end.ep, end.in(), len, end.desc(), FI_ADDR_UNSPEC, 7, 0, context)
                  : fi_recv(end.ep, end.in(), len, end.desc(), FI_ADDR_UNSPEC, context);
  });
}

bool Conversation::send(End& end, size_t len, bool tagged, uint64_t flags) {
  const iovec iov{end.out(), len};
  void* desc = end.desc();
  return start(end, tagged ? "fi_tsend" : "fi_send", false, [&](void* context) {
    const fi_msg_tagged with_tag{&iov, &desc, 1, end.peer, 7, 0, context, 0};
    const fi_msg plain{&iov, &desc, 1, end.peer, context, 0};
    return tagged ? fi_tsendmsg(end.ep, &with_tag, flags | FI_COMPLETION)
                  : fi_sendmsg(end.ep, &plain, flags | FI_COMPLETION);
  });
}

bool Conversation::read_events(End& end, fid_eq* eq) {
  if (eq == nullptr) return false;
  alignas(fi_eq_cm_entry) char bytes[sizeof(fi_eq_cm_entry) + 256];
  uint32_t event = 0;
  const ssize_t got = lib("fi_eq_read", [&] { return fi_eq_read(eq, &event, bytes, sizeof bytes, 0); });
  if (got < 0 && got != -FI_EAVAIL) return false;
  const auto* entry = reinterpret_cast<const fi_eq_cm_entry*>(bytes);
  if (got == -FI_EAVAIL) {
    fi_eq_err_entry error{};
    if (lib("fi_eq_readerr", [&] { return fi_eq_readerr(eq, &error, 0); }) < 0) return false;
    if (!failed_) complain(std::string("an error event: ") + fi_strerror(error.err));
    trouble_ = true;
  } else if (event == FI_CONNREQ) {
    request_ = entry->info;
  } else if (event == FI_CONNECTED) {
    end.connected = true;
  } else if (event == FI_SHUTDOWN) {
    if (!failed_) complain("a connection ended");
    trouble_ = true;
  }
  return true;
}

bool Conversation::read(End& end) {
  bool found = read_events(end, end.eq);
  if (end.cq == nullptr) return found;
  for (int i = 0; i < 64; ++i) {
    fi_cq_tagged_entry entry{};
    const ssize_t got = lib("fi_cq_read", [&] { return fi_cq_read(end.cq, &entry, 1); });
    void* context = entry.op_context;
    if (got == -FI_EAVAIL) {
      fi_cq_err_entry error{};
      if (lib("fi_cq_readerr", [&] { return fi_cq_readerr(end.cq, &error, 0); }) != 1) return found;
      context = error.op_context;
      if (!failed_) complain(std::string("an operation failed: ") + fi_strerror(error.err));
      trouble_ = true;
    } else if (got != 1) {
      break;
    }
    found = true;
    bool known = context == nullptr;
    for (Operation& operation : end.operations) {
      if (&operation.context != context) continue;
      if (operation.done) complain(std::string(operation.what) + " completed twice");
      operation.done = known = true;
    }
    if (!known) complain("a completion of an unknown operation");
  }
  return found;
}

bool Conversation::progress() {
  const bool requested = listener_eq_ != nullptr && read_events(server_, listener_eq_);
  const bool at_client = read(client_), at_server = read(server_);
  return requested || at_client || at_server;
}

// Without memory for a long time, some operations cannot proceed: it comes back. Once a call has reported the
// failure, whatever depends on the lost part may never happen.
bool Conversation::wait(const std::function<bool()>& done, const char* what) {
  const auto begin = Clock::now();
  auto last = begin;
  while (!done()) {
    const auto now = Clock::now();
    if (progress()) last = now;
    const auto idle = now - last;
    if (failed_ && failing_ && idle > milliseconds(3)) {
      relieve();
      last = now;
    }
    const bool lossy = kind_.type == FI_EP_DGRAM && failed_;
    if ((trouble_ || lossy) && idle > milliseconds(10)) return false;
    if (idle > milliseconds(5000) || now - begin > milliseconds(20000)) {
      complain(std::string("hangs: ") + what);
      trouble_ = true;
      return false;
    }
  }
  return true;
}

bool Conversation::all_done() {
  for (End* end : {&client_, &server_})
    for (const Operation& operation : end->operations)
      if (!operation.done) return false;
  return true;
}

// Whether everything that was posted has completed.
bool Conversation::settle() {
  if (!wait([&] { return all_done(); }, "operations")) return false;
  client_.operations.clear();
  server_.operations.clear();
  return true;
}

void Conversation::exchange(size_t len, bool expected, bool tagged, uint64_t flags) {
  if (trouble_) return;
  if (expected && !receive(server_, len, tagged)) return;
  if (!send(client_, len, tagged, flags)) return;
  if (!expected) {
    for (int i = 0; i < 5; ++i) progress();
    if (!receive(server_, len, tagged)) return;
  }
  settle();
}

void Conversation::access(size_t len) {
  const bool virtual_addresses = (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
  const uint64_t at = virtual_addresses ? reinterpret_cast<uintptr_t>(server_.memory.data()) : 0;
  const uint64_t key = fi_mr_key(server_.mr);
  const auto write = [&](void* context) {
    return fi_write(client_.ep, client_.out(), len, client_.desc(), client_.peer, at, key, context);
  };
  const auto read = [&](void* context) {
    return fi_read(client_.ep, client_.in(), len, client_.desc(), client_.peer, at, key, context);
  };
  if (trouble_ || start(client_, "fi_write", false, write) == nullptr) return;
  if (start(client_, "fi_read", false, read) != nullptr) settle();
}

void Conversation::change_atomically() {
  const bool virtual_addresses = (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
  const uint64_t at = virtual_addresses ? reinterpret_cast<uintptr_t>(server_.memory.data()) : 0;
  const auto fetch = [&](void* context) {
    return fi_fetch_atomic(client_.ep, client_.out(), 32, client_.desc(), client_.in(), client_.desc(), client_.peer,
                           at, fi_mr_key(server_.mr), FI_UINT64, FI_SUM, context);
  };
  if (!trouble_ && start(client_, "fi_fetch_atomic", false, fetch) != nullptr) settle();
}

// More than the queues and pools hold at first.
void Conversation::burst() {
  if (trouble_) return;
  for (int i = 0; i < kBurst; ++i)
    if (!receive(server_, 64, false)) return;
  for (int i = 0; i < kBurst; ++i)
    if (!send(client_, 64, false, i % 2 == 0 ? FI_MORE : 0)) return;
  settle();
}

void Conversation::transfer() {
  const bool reliable = kind_.type != FI_EP_DGRAM, tagged = kind_.type == FI_EP_RDM;
  exchange(64, true, false);
  exchange(1000, reliable ? false : true, false);
  if (reliable) {
    exchange(kLong, true, false);
    exchange(kLong, false, tagged);
    exchange(2000, true, false, FI_DELIVERY_COMPLETE);
    exchange(2000, false, false, FI_TRANSMIT_COMPLETE);
    access(64);
    access(kLong);
  }
  if (tagged) {
    exchange(64, false, true);
    exchange(20'000, true, true);
    change_atomically();
  }
  burst();
}

// Receives whose message was lost are cancelled or end with the endpoint.
void Conversation::close() {
  relieve();
  close_one(client_.ep, "endpoint");
  close_one(server_.ep, "endpoint");
  close_one(listener_, "listener");
  for (End* end : {&client_, &server_}) {
    close_one(end->mr, "region");
    close_one(end->av, "address vector");
    close_one(end->counter, "counter");
    close_one(end->cq, "completion queue");
    close_one(end->eq, "event queue");
  }
  close_one(listener_eq_, "event queue");
  close_one(domain_, "domain");
  close_one(fabric_, "fabric");
  const ExposedAllocations exposed;
  fi_freeinfo(request_);
  fi_freeinfo(infos_);
}

// ---- The tests ----

class MemoryFailures : public testing::TestWithParam<Kind> {
 protected:
  void SetUp() override {
    if (!FailingAllocation::supported()) GTEST_SKIP() << "a sanitizer has its own allocator";
    setenv("FI_PROVIDER_PATH", "/nonexistent", 1);
  }
  struct Outcome {
    std::string complaints;
    bool failed;
    long kept;  // blocks
  };
  static Outcome run(size_t nth, size_t count) {
    const SparedAllocations spared;
    const long before = weft::test::live_allocations();
    Conversation conversation(GetParam(), nth, count);
    std::string complaints = conversation.run();
    return {std::move(complaints), conversation.failed(), weft::test::live_allocations() - before};
  }

  void expect_survival(size_t count) {
    for (int i = 0; i < 3; ++i) ASSERT_EQ(run(0, 0).complaints, "") << "without a failure";
    const long usual = run(0, 0).kept;
    size_t nth = 1;
    std::set<std::string> seen;
    for (bool failed = true; failed; ++nth) {
      Outcome outcome = run(nth, count);
      failed = outcome.failed;
      if (!outcome.complaints.empty() && seen.insert(outcome.complaints).second)
        ADD_FAILURE() << "allocation " << nth << ": " << outcome.complaints;
      // A block that the library keeps for later use is kept once; one that is lost is lost each time.
      for (int i = 0; i < 2 && outcome.kept > usual; ++i) outcome = run(nth, count);
      EXPECT_LE(outcome.kept, usual) << "blocks are lost when allocation " << nth << " fails";
    }
    ASSERT_GT(nth, 20u) << "something was allocated";
    EXPECT_EQ(run(0, 0).complaints, "") << "with memory again";
  }
};

TEST_P(MemoryFailures, EachAllocationFailsOnce) {
  expect_survival(1);
}

TEST_P(MemoryFailures, BurstsOfAllocationsFail) {
  for (const size_t count : {3, 20}) expect_survival(count);
}

TEST_P(MemoryFailures, AllAllocationsFailForAWhile) {
  expect_survival(FailingAllocation::kAll);
}

#ifdef WEFT_ON_FAKES
INSTANTIATE_TEST_SUITE_P(, MemoryFailures,
                         testing::Values(Kind{"verbs_msg", "verbs", FI_EP_MSG},
                                         Kind{"verbs_dgram", "verbs", FI_EP_DGRAM},
                                         Kind{"rxm", "verbs;ofi_rxm", FI_EP_RDM}),
                         [](const auto& kind) { return std::string(kind.param.name); });
#else
INSTANTIATE_TEST_SUITE_P(, MemoryFailures,
                         testing::Values(Kind{"tcp_msg", "tcp", FI_EP_MSG}, Kind{"udp", "udp", FI_EP_DGRAM},
                                         Kind{"tcp_rdm", "tcp", FI_EP_RDM}, Kind{"rxm", "tcp;ofi_rxm", FI_EP_RDM}),
                         [](const auto& kind) { return std::string(kind.param.name); });
#endif

}  // namespace memory_failures
