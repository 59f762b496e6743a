// SPDX-License-Identifier: BSD-2-Clause
// The conversation; see conversation.h.
#include "conversation.h"

#include <arpa/inet.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <utility>

namespace memory_failures {

using Clock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr int kBurst = 100;
constexpr size_t kRoom = 4096, kMinimum = 1024;  // the buffer of a receive for many messages

// ---- Set-up ----

bool Conversation::open() {
  fi_info* hints = fi_allocinfo();
  hints->fabric_attr->prov_name = strdup(kind_.provider);
  hints->ep_attr->type = kind_.type;
  hints->addr_format = FI_SOCKADDR_IN;
  hints->caps = kind_.type == FI_EP_DGRAM ? FI_MSG
                : connected_type()        ? FI_MSG | FI_RMA
                                          : FI_MSG | FI_TAGGED | FI_RMA | FI_ATOMIC;
  if (part_ == Part::kRest) hints->caps |= FI_MULTI_RECV | (kind_.type == FI_EP_DGRAM ? FI_MULTICAST : 0);
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
  const bool events = connected_type() || part_ == Part::kRest;
  return (!events || ok("fi_eq_open", [&] { return fi_eq_open(fabric_, &eq_attr, &end.eq, nullptr); })) &&
         ok("fi_cq_open", [&] { return fi_cq_open(domain_, &cq_attr, &end.cq, nullptr); }) &&
         ok("fi_cntr_open", [&] { return fi_cntr_open(domain_, &counter_attr, &end.counter, nullptr); }) &&
         (connected_type() || ok("fi_av_open", [&] { return fi_av_open(domain_, &av_attr, &end.av, nullptr); })) &&
         ok("fi_mr_reg", [&] {
           const uint64_t key = &end == &client_ ? 1 : &end == &server_ ? 2 : 3;
           return fi_mr_reg(domain_, end.memory.data(), end.memory.size(), access, 0, key, 0, &end.mr, nullptr);
         });
}

bool Conversation::open_endpoint(End& end, fi_info* info) {
  return ok("fi_endpoint", [&] { return fi_endpoint(domain_, info, &end.ep, nullptr); }) &&
         (end.eq == nullptr || ok("fi_ep_bind(eq)", [&] { return fi_ep_bind(end.ep, &end.eq->fid, 0); })) &&
         (end.av == nullptr || ok("fi_ep_bind(av)", [&] { return fi_ep_bind(end.ep, &end.av->fid, 0); })) &&
         ok("fi_ep_bind(cq)", [&] { return fi_ep_bind(end.ep, &end.cq->fid, FI_TRANSMIT | FI_RECV); }) &&
         (part_ != Part::kRest || ok("fi_setopt",
                                     [&] {
                                       return fi_setopt(&end.ep->fid, FI_OPT_ENDPOINT, FI_OPT_MIN_MULTI_RECV, &kMinimum,
                                                        sizeof kMinimum);
                                     })) &&
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
    if (&end == &refused_ && error.err == FI_ECONNREFUSED) return end.refused = true;
    if (!failed_) complain(std::string("an error event: ") + fi_strerror(error.err));
    trouble_ = true;
  } else if (event == FI_CONNREQ) {
    request_ = entry->info;
  } else if (event == FI_CONNECTED) {
    end.connected = true;
  } else if (event == FI_JOIN_COMPLETE) {
    end.joined = true;
  } else if (event == FI_AV_COMPLETE) {
    ++end.insertions;
  } else if (event == FI_SHUTDOWN && ending_) {
    end.ended = true;
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
    fi_cq_err_entry error{};
    if (got == -FI_EAVAIL) {
      if (lib("fi_cq_readerr", [&] { return fi_cq_readerr(end.cq, &error, 0); }) != 1) return found;
      context = error.op_context;
    } else if (got != 1) {
      break;
    }
    found = true;
    bool known = context == nullptr, refused = false;
    for (Operation& operation : end.operations) {
      if (&operation.context != context) continue;
      if (operation.done) complain(std::string(operation.what) + " completed twice");
      known = true;
      refused = operation.refused && error.err == FI_ECONNREFUSED;
      operation.done = !operation.many || error.err != 0 || (entry.flags & FI_MULTI_RECV) != 0;
    }
    if (error.err != 0 && !refused) {
      if (!failed_) complain(std::string("an operation failed: ") + fi_strerror(error.err));
      trouble_ = true;
    }
    if (!known) complain("a completion of an unknown operation");
  }
  return found;
}

bool Conversation::progress() {
  const bool requested = listener_eq_ != nullptr && read_events(server_, listener_eq_);
  const bool at_client = read(client_), at_server = read(server_), at_refused = read(refused_);
  return requested || at_client || at_server || at_refused;
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

// ---- Everything else ----

// Both ends send first, so two connections are under way.
void Conversation::cross() {
  for (End* end : {&client_, &server_})
    if (!receive(*end, 64, false)) return;
  for (End* end : {&client_, &server_})
    if (!send(*end, 64, false)) return;
  settle();
}

void Conversation::inject() {
  if (trouble_ || !receive(server_, 64, false)) return;
  const auto injected = [&](const char* what, const std::function<ssize_t()>& call) {
    Operation* const operation = start(client_, what, false, [&](void*) { return call(); });
    if (operation != nullptr) operation->done = true;
    return operation != nullptr;
  };
  if (!injected("fi_inject", [&] { return fi_inject(client_.ep, client_.out(), 64, client_.peer); }) || !settle())
    return;
  if (kind_.type == FI_EP_DGRAM) return;
  const bool virtual_addresses = (info_->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
  const uint64_t at = virtual_addresses ? reinterpret_cast<uintptr_t>(server_.memory.data()) : 0;
  const uint64_t key = fi_mr_key(server_.mr);
  if (!injected("fi_inject_write",
                [&] { return fi_inject_write(client_.ep, client_.out(), 32, client_.peer, at, key); }) ||
      kind_.type != FI_EP_RDM)
    return;
  if (injected(
          "fi_inject_atomic",
          [&] { return fi_inject_atomic(client_.ep, client_.out(), 4, client_.peer, at, key, FI_UINT64, FI_SUM); }) &&
      receive(server_, 64, true) &&
      injected("fi_tinject", [&] { return fi_tinject(client_.ep, client_.out(), 64, client_.peer, 7); }))
    settle();
}

void Conversation::receive_many() {
  if (trouble_) return;
  Operation* const operation = start(server_, "fi_recvmsg", true, [&](void* context) {
    const iovec iov{server_.in(), kRoom};
    void* desc = server_.desc();
    const fi_msg message{&iov, &desc, 1, FI_ADDR_UNSPEC, context, 0};
    return fi_recvmsg(server_.ep, &message, FI_MULTI_RECV);
  });
  if (operation == nullptr) return;
  operation->many = true;
  for (int i = 0; i < 4; ++i)
    if (!send(client_, 1000, false)) return;
  settle();
}

void Conversation::look_up() {
  if (trouble_) return;
  fi_info* none = nullptr;
  const auto unnumbered = [&] { return fi_getinfo(FI_VERSION(1, 18), "localhost", "7", FI_NUMERICHOST, info_, &none); };
  lib("fi_getinfo(no number)", unnumbered, -FI_ENODATA);
  const auto unknown = [&] { return fi_getinfo(FI_VERSION(1, 18), "127.0.0.1", "no-service", 0, info_, &none); };
  lib("fi_getinfo(no service)", unknown, -FI_ENODATA);
  if (connected_type() || trouble_) return;
  fi_addr_t handle = 0;
  const auto insert = [&](const char* service) {
    return fi_av_insertsvc(client_.av, "127.0.0.1", service, &handle, 0, nullptr);
  };
  if (lib(
          "fi_av_insertsvc", [&] { return insert("no-service"); }, -FI_ENODATA) > 0)
    complain("an unknown service");
}

void Conversation::insert_late(End& end) {
  if (trouble_ || connected_type()) return;
  fi_av_attr attr{};
  char name[64];
  size_t size = sizeof name;
  attr.flags = FI_EVENT;
  if (!ok("fi_av_open", [&] { return fi_av_open(domain_, &attr, &end.late_av, nullptr); }) ||
      !ok("fi_av_bind", [&] { return fi_av_bind(end.late_av, &end.eq->fid, 0); }) ||
      !ok("fi_getname", [&] { return fi_getname(&server_.ep->fid, name, &size); }))
    return;
  // A refused insertion must not run later, beside the repeated one.
  const auto insert = [&] { return fi_av_insert(end.late_av, name, 1, &end.late_peer, 0, nullptr); };
  if (lib("fi_av_insert", insert) != 0) {
    relieve();
    if (lib("fi_av_insert again", insert) != 0) return complain("fi_av_insert fails with memory");
  }
  const auto limit = Clock::now() + milliseconds(5000);
  while (end.insertions == 0 && Clock::now() < limit) progress();
  close_one(end.late_av, "address vector");  // waits for what is under way
  progress();
  if (end.insertions != 1) complain("FI_AV_COMPLETE arrived " + std::to_string(end.insertions) + " times");
  if (end.late_peer != 0 && end.late_peer != FI_ADDR_NOTAVAIL) complain("a refused insertion keeps its index");
}

// Nobody listens at port 1.
void Conversation::call_stranger() {
  if (trouble_) return;
  sockaddr_in nobody{};
  nobody.sin_family = AF_INET;
  nobody.sin_port = htons(1);
  nobody.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (connected_type()) return knock(refused_, &nobody, "nobody");
  fi_addr_t handle = FI_ADDR_NOTAVAIL;
  const auto inserted = lib("fi_av_insert", [&] { return fi_av_insert(client_.av, &nobody, 1, &handle, 0, nullptr); });
  if (inserted != 1) return;  // nobody answers the lookup
  Operation* const operation = start(client_, "fi_send", false, [&](void* context) {
    return fi_send(client_.ep, client_.out(), 64, client_.desc(), handle, context);
  });
  if (operation == nullptr) return;
  operation->refused = true;
  settle();
}

// Connects to a listener that rejects, or to nobody.
void Conversation::knock(End& end, const void* name, const char* greeting) {
  if (trouble_ || !open_end(end) || !open_endpoint(end, info_)) return;
  fi_freeinfo(std::exchange(request_, nullptr));
  end.refused = false;
  if (ok("fi_connect", [&] { return fi_connect(end.ep, name, greeting, std::strlen(greeting)); }))
    wait([&] { return end.refused || request_ != nullptr; }, "the refusal or FI_CONNREQ");
  if (request_ != nullptr && ok("fi_reject", [&] { return fi_reject(listener_, request_->handle, "no", 2); }))
    wait([&] { return end.refused; }, "the rejection");
  close_end(end);
}

void Conversation::join() {
  if (trouble_ || kind_.type != FI_EP_DGRAM) return;
  sockaddr_in group{};
  group.sin_family = AF_INET;
  group.sin_port = htons(47'473);
  group.sin_addr.s_addr = htonl(0xef4d0001u);
  for (End* end : {&client_, &server_})
    if (!ok("fi_join", [&] { return fi_join(end->ep, &group, 0, &end->group, nullptr); })) return;
  if (!wait([&] { return client_.joined && server_.joined; }, "FI_JOIN_COMPLETE")) return;
  const auto say = [&](void* context) {
    const iovec iov{client_.out(), 64};
    void* desc = client_.desc();
    const fi_msg message{&iov, &desc, 1, fi_mc_addr(client_.group), context, 0};
    return fi_sendmsg(client_.ep, &message, FI_MULTICAST | FI_COMPLETION);
  };
  if (receive(server_, 64, false) && start(client_, "fi_sendmsg", false, say) != nullptr) settle();
}

void Conversation::shut_down() {
  if (trouble_ || !connected_type()) return;
  ending_ = true;
  if (ok("fi_shutdown", [&] { return fi_shutdown(client_.ep, 0); }))
    wait([&] { return client_.ended && server_.ended; }, "FI_SHUTDOWN");
}

// A domain with a thread.
void Conversation::open_automatic() {
  fid_domain* domain = nullptr;
  if (trouble_) return;
  const fi_progress usual = std::exchange(info_->domain_attr->progress, FI_PROGRESS_AUTO);
  ok("fi_domain(automatic)", [&] { return fi_domain(fabric_, info_, &domain, nullptr); });
  info_->domain_attr->progress = usual;
  close_one(domain, "automatic domain");
}

void Conversation::use_the_rest() {
  if (kind_.type == FI_EP_RDM) cross();
  inject();
  receive_many();
  look_up();
  insert_late(client_);
  call_stranger();
  if (connected_type() && !trouble_) {
    char name[64];
    size_t size = sizeof name;
    if (ok("fi_getname", [&] { return fi_getname(&listener_->fid, name, &size); })) knock(refused_, name, "reject me");
  }
  join();
  shut_down();
  open_automatic();
}

void Conversation::close_end(End& end) {
  close_one(end.group, "group");
  close_one(end.ep, "endpoint");
  close_one(end.mr, "region");
  close_one(end.av, "address vector");
  close_one(end.late_av, "address vector");
  close_one(end.counter, "counter");
  close_one(end.cq, "completion queue");
  close_one(end.eq, "event queue");
}

// Receives whose message was lost are cancelled or end with the endpoint.
void Conversation::close() {
  relieve();
  close_one(listener_, "listener");
  for (End* end : {&client_, &server_, &refused_}) close_end(*end);
  close_one(listener_eq_, "event queue");
  close_one(domain_, "domain");
  close_one(fabric_, "fabric");
  const ExposedAllocations exposed;
  fi_freeinfo(request_);
  fi_freeinfo(infos_);
}

}  // namespace memory_failures
