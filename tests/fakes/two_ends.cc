// SPDX-License-Identifier: BSD-2-Clause
// A client and a server on the fakes; see two_ends.h.
#include "two_ends.h"

#include <rdma/fi_domain.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>
#include <rdma/fi_rma.h>

#include <arpa/inet.h>

#include <chrono>
#include <cstring>
#include <thread>

#include "fake_rdma.h"

namespace ends {

namespace {

using Clock = std::chrono::steady_clock;

fi_info* hints_for(const Options& options) {
  fi_info* hints = fi_allocinfo();
  hints->fabric_attr->prov_name = strdup("verbs");
  hints->ep_attr->type = FI_EP_MSG;
  hints->caps = FI_MSG | FI_RMA;
  hints->addr_format = options.native ? FI_SOCKADDR_IB : FI_SOCKADDR_IN;
  hints->mode = FI_CONTEXT | FI_CONTEXT2 | FI_RX_CQ_DATA;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->tx_attr->size = hints->rx_attr->size = 16;
  if (options.dscp != 0) hints->tx_attr->tclass = fi_tc_dscp_set(options.dscp);
  if (options.automatic_progress)
    hints->domain_attr->control_progress = hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
  return hints;
}

// Room for an event with its private data, which is a flexible array.
struct EventBuffer {
  alignas(fi_eq_cm_entry) char bytes[sizeof(fi_eq_cm_entry) + 256] = {};
  fi_eq_cm_entry* entry = reinterpret_cast<fi_eq_cm_entry*>(bytes);
};

std::string data_of(const EventBuffer& buffer, ssize_t size) {
  const auto* data = reinterpret_cast<const char*>(buffer.entry->data);
  return {data, static_cast<size_t>(buffer.bytes + size - data)};
}

void* description(End& end) {
  return end.mr ? fi_mr_desc(end.mr) : nullptr;
}

}  // namespace

// ---- One end ----

bool End::open_endpoint(fi_info* info) {
  if (!eq || !cq || !mr) return false;
  if (fi_endpoint(domain, info, &ep, this)) return false;
  const bool bound = !fi_ep_bind(ep, &eq->fid, 0) && !fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV) &&
                     (!srx || !fi_ep_bind(ep, &srx->fid, 0));
  return bound && !fi_enable(ep);
}

void* End::take_context() {
  const size_t at = next_context_ % contexts_.size();
  return open_[at] ? nullptr : &contexts_[at];
}

void End::post_receive(uint64_t flags, bool without_buffer) {
  void* context = take_context();
  if (!ep || !context) return;
  fid_ep* where = srx ? srx : ep;
  const iovec buffer{without_buffer ? nullptr : memory_.data() + 4096, 256};
  void* desc = without_buffer ? nullptr : description(*this);
  const fi_msg message{&buffer, &desc, 1, FI_ADDR_UNSPEC, context, 0};
  if (flags ? fi_recvmsg(where, &message, flags)
            : fi_recv(where, buffer.iov_base, buffer.iov_len, desc, FI_ADDR_UNSPEC, context))
    return;
  open_[next_context_++ % open_.size()] = 1;
  ++posted;
  if (srx) ++shared;
}

bool End::post_send(bool inject, size_t length) {
  void* context = take_context();
  if (!ep || !context) return false;
  if (inject) return injected = !fi_inject(ep, memory_.data(), 8, FI_ADDR_UNSPEC);
  if (fi_send(ep, memory_.data(), length, description(*this), FI_ADDR_UNSPEC, context)) return false;
  open_[next_context_++ % open_.size()] = 1;
  ++posted;
  return true;
}

bool End::post_send_of(size_t buffers, uint64_t flags) {
  void* context = take_context();
  if (!ep || !context) return false;
  constexpr size_t kBytes = 4;
  std::vector<iovec> iov;
  for (size_t i = 0; i < buffers; ++i) iov.push_back({memory_.data() + i * kBytes, kBytes});
  std::vector<void*> descriptions(buffers, description(*this));
  const fi_msg message{iov.data(), descriptions.data(), buffers, FI_ADDR_UNSPEC, context, 0};
  if (fi_sendmsg(ep, &message, flags)) return false;
  open_[next_context_++ % open_.size()] = 1;
  ++posted;
  return true;
}

bool End::post_rma(End& target, bool read) {
  void* context = take_context();
  if (!ep || !context || !target.mr) return false;
  const auto address = reinterpret_cast<uint64_t>(target.memory_.data());
  const uint64_t key = fi_mr_key(target.mr);
  const ssize_t rc =
      read ? fi_read(ep, memory_.data() + 1024, 64, description(*this), FI_ADDR_UNSPEC, address, key, context)
           : fi_write(ep, memory_.data(), 64, description(*this), FI_ADDR_UNSPEC, address, key, context);
  if (rc) return false;
  open_[next_context_++ % open_.size()] = 1;
  ++posted;
  return true;
}

bool End::post_read_of(End& target, size_t buffers) {
  void* context = take_context();
  if (!ep || !context || !target.mr) return false;
  constexpr size_t kBytes = 16;
  std::vector<iovec> iov;
  for (size_t i = 0; i < buffers; ++i) iov.push_back({memory_.data() + 1024 + 2 * i * kBytes, kBytes});
  std::vector<void*> descriptions(buffers, description(*this));
  const auto address = reinterpret_cast<uint64_t>(target.memory_.data());
  if (fi_readv(ep, iov.data(), descriptions.data(), buffers, FI_ADDR_UNSPEC, address, fi_mr_key(target.mr), context))
    return false;
  open_[next_context_++ % open_.size()] = 1;
  ++posted;
  return true;
}

void End::settle(TwoEnds& all, void* context, bool success) {
  if (!context && !success && injected) return;  // fi_inject has no context, but its failure is reported
  const auto at = static_cast<fi_context2*>(context) - contexts_.data();
  if (at < 0 || static_cast<size_t>(at) >= open_.size())
    return all.complain(std::string(name) + ": a completion of an unknown context");
  if (!open_[static_cast<size_t>(at)]) return all.complain(std::string(name) + ": an operation completed twice");
  open_[static_cast<size_t>(at)] = 0;
  ++(success ? completed : failed);
}

void End::read_completions(TwoEnds& all) {
  if (!cq) return;
  for (int i = 0; i < 64; ++i) {
    fi_cq_msg_entry entry{};
    const ssize_t rc = fi_cq_read(cq, &entry, 1);
    if (rc == 1) {
      settle(all, entry.op_context, true);
    } else if (rc == -FI_EAVAIL) {
      fi_cq_err_entry failure{};
      if (fi_cq_readerr(cq, &failure, 0) != 1) continue;
      failed_flags = failure.flags;
      if ((failure.flags & FI_SEND) != 0) send_error = failure.err;
      settle(all, failure.op_context, false);
    } else {
      return;
    }
  }
}

void End::close_endpoint(TwoEnds& all) {
  if (!ep) return;
  if (fi_close(&ep->fid)) all.complain(std::string(name) + ": the endpoint cannot be closed");
  ep = nullptr;
  closed = true;
  read_completions(all);
}

// ---- Both ----

bool TwoEnds::open_end(End& end) {
  fi_eq_attr eq_attr{};
  eq_attr.wait_obj = FI_WAIT_FD;
  fi_cq_attr cq_attr{};
  cq_attr.format = FI_CQ_FORMAT_MSG;
  cq_attr.wait_obj = FI_WAIT_FD;
  cq_attr.size = options_.queue_entries;
  if (fi_eq_open(end.fabric, &eq_attr, &end.eq, nullptr) || fi_cq_open(end.domain, &cq_attr, &end.cq, nullptr))
    return false;
  constexpr uint64_t kAccess = FI_SEND | FI_RECV | FI_READ | FI_WRITE | FI_REMOTE_READ | FI_REMOTE_WRITE;
  if (fi_mr_reg(end.domain, end.memory_.data(), end.memory_.size(), kAccess, 0, 0, 0, &end.mr, nullptr)) return false;
  return !options_.shared_receives || !fi_srx_context(end.domain, info->rx_attr, &end.srx, nullptr);
}

bool TwoEnds::open_domain(End& end) {
  return !fi_fabric(info->fabric_attr, &end.fabric, nullptr) && !fi_domain(end.fabric, info, &end.domain, nullptr);
}

bool TwoEnds::open() {
  client.name = "client";
  server.name = "server";
  fi_info* hints = hints_for(options_);
  const int found = options_.native ? fi_getinfo(FI_VERSION(1, 18), nullptr, nullptr, 0, hints, &info)
                                    : fi_getinfo(FI_VERSION(1, 18), "127.0.0.1", nullptr, FI_SOURCE, hints, &info);
  fi_freeinfo(hints);
  if (found || !open_domain(client)) return false;
  fabric = server.fabric = client.fabric;
  domain = server.domain = client.domain;
  if (options_.two_fabrics && !open_domain(server)) return false;
  fi_eq_attr attr{};
  attr.wait_obj = FI_WAIT_FD;
  if (!open_end(client) || !open_end(server) || fi_eq_open(fabric, &attr, &listener_eq, nullptr)) return false;
  return !fi_passive_ep(fabric, info, &listener, nullptr) && !fi_pep_bind(listener, &listener_eq->fid, 0) &&
         !fi_listen(listener);
}

bool TwoEnds::connect() {
  std::array<char, 256> address{};
  size_t length = address.size();
  return !fi_getname(&listener->fid, address.data(), &length) && connect_to(address.data());
}

bool TwoEnds::connect_to(const char* ipv4, uint16_t port) {
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  return inet_pton(AF_INET, ipv4, &address.sin_addr) == 1 && connect_to(&address);
}

bool TwoEnds::connect_to(const void* address) {
  fi_info* wanted = fi_dupinfo(info);
  std::free(wanted->src_addr);
  wanted->src_addr = nullptr;
  wanted->src_addrlen = 0;
  const bool opened = client.open_endpoint(wanted);
  fi_freeinfo(wanted);
  if (!opened) return false;
  fi_setopt(&client.ep->fid, FI_OPT_ENDPOINT, FI_OPT_WEFT_CONNECT_TIMEOUT, &options_.connect_timeout_ms, sizeof(int));
  for (int i = 0; i < options_.receives; ++i) client.post_receive(options_.receive_flags);
  if (options_.before_connect) options_.before_connect(client.ep);
  client.started = !fi_connect(client.ep, address, "hello", 5);
  return client.started;
}

void TwoEnds::answer(fi_info* request) {
  const fid_t handle = request->handle;
  if (server.ep || options_.server_rejects || !server.open_endpoint(request)) {
    if (server.ep && !server.started) server.close_endpoint(*this);
    if (listener) fi_reject(listener, handle, "no", 2);  // fails if an endpoint has taken it over
  } else {
    fi_setopt(&server.ep->fid, FI_OPT_ENDPOINT, FI_OPT_WEFT_CONNECT_TIMEOUT, &options_.connect_timeout_ms, sizeof(int));
    for (int i = 0; i < options_.receives; ++i) server.post_receive(options_.receive_flags);
    if (options_.before_accept) options_.before_accept(server.ep);
    server.started = !fi_accept(server.ep, "welcome", 7);
    if (!server.started) server.close_endpoint(*this);
  }
  fi_freeinfo(request);
}

void TwoEnds::read_listener() {
  if (!listener_eq) return;
  EventBuffer buffer;
  uint32_t event = 0;
  const ssize_t rc = fi_eq_read(listener_eq, &event, buffer.bytes, sizeof buffer.bytes, 0);
  if (rc == -FI_EAVAIL) {
    fi_eq_err_entry error{};
    fi_eq_readerr(listener_eq, &error, 0);
  } else if (rc > 0 && event == FI_CONNREQ) {
    request_seen = true;
    request_data = data_of(buffer, rc);
    requests.push_back(buffer.entry->info);
  }
  while (answer_requests && !requests.empty()) {
    fi_info* request = requests.front();
    requests.erase(requests.begin());
    answer(request);
  }
}

void TwoEnds::read_events(End& end) {
  if (!end.eq) return;
  EventBuffer buffer;
  uint32_t event = 0;
  const ssize_t rc = fi_eq_read(end.eq, &event, buffer.bytes, sizeof buffer.bytes, 0);
  const auto check = [&](fid_t fid) {
    if (!end.ep || fid != &end.ep->fid) complain(std::string(end.name) + ": an event of a closed object");
    if (end.terminals) complain(std::string(end.name) + ": an event after the terminal one");
  };
  if (rc == -FI_EAVAIL) {
    fi_eq_err_entry error{};
    if (fi_eq_readerr(end.eq, &error, 0) < 0) return;
    check(error.fid);
    char text[256] = "";
    end.history.push_back(std::string("error ") + std::to_string(error.err) + " " +
                          fi_eq_strerror(end.eq, error.prov_errno, error.err_data, text, sizeof text));
    end.error = error.err;
    end.native_error = error.prov_errno;
    end.sentence = fi_eq_strerror(end.eq, error.prov_errno, error.err_data, nullptr, 0);
    end.data.assign(static_cast<const char*>(error.err_data), error.err_data_size);
    ++end.terminals;
  } else if (rc > 0) {
    check(buffer.entry->fid);
    end.history.push_back(event == FI_CONNECTED ? "connected" : event == FI_SHUTDOWN ? "shutdown" : "other event");
    if (event == FI_CONNECTED) end.data = data_of(buffer, rc);
    if (event == FI_CONNECTED && end.connected++) complain(std::string(end.name) + ": connected twice");
    if (event == FI_SHUTDOWN) {
      ++end.terminals;
      end.read_completions(*this);
      const size_t still = end.outstanding();
      if (still > end.shared)
        complain(std::string(end.name) + ": " + std::to_string(still) + " operations outstanding at the end event");
    }
  }
}

void TwoEnds::poll() {
  read_listener();
  read_events(client);
  read_events(server);
  client.read_completions(*this);
  server.read_completions(*this);
}

bool TwoEnds::wait(const std::function<bool()>& done, int milliseconds) {
  const auto limit = Clock::now() + std::chrono::milliseconds(milliseconds);
  for (int round = 0;; ++round) {
    poll();
    if (done()) return true;
    if (Clock::now() >= limit) return false;
    if (round > 20) std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

void TwoEnds::expect_ended(int milliseconds) {
  if (wait([this] { return quiet(); }, milliseconds)) return;
  for (End* end : {&client, &server})
    if (!end->over()) complain(std::string(end->name) + ": no terminal event");
}

void TwoEnds::transfer() {
  for (int i = 0; i < 2; ++i) {
    client.post_send();
    server.post_send();
  }
  client.post_send(true);
  client.post_rma(server, false);
  client.post_rma(server, true);
  struct fid* queue = client.cq ? &client.cq->fid : nullptr;
  if (queue) fi_trywait(fabric, &queue, 1);
  const auto sent = [](const End& end) { return end.outstanding() <= 4; };
  wait([&] { return (sent(client) && sent(server)) || client.terminals || server.terminals; }, 1000);
}

void TwoEnds::run() {
  if (open() && connect()) {
    wait([this] { return (client.established() && server.established()) || client.over() || server.terminals; }, 3000);
    if (client.established() && server.established()) transfer();
    if (client.established() && fi_shutdown(client.ep, 0)) client.close_endpoint(*this);
    if (server.started && !server.over() && client.over() && !server.connected) wait([this] { return quiet(); }, 300);
    expect_ended();
  }
  close();
}

void TwoEnds::close_fid(fid_t fid, const char* what) {
  if (const int rc = fi_close(fid)) complain(std::string(what) + " cannot be closed: " + fi_strerror(-rc));
}

void TwoEnds::close_listener() {
  if (listener) close_fid(&listener->fid, "listener");
  listener = nullptr;
}

void TwoEnds::close_end(End& end) {
  end.close_endpoint(*this);
  if (end.srx) close_fid(&end.srx->fid, "shared receives");
  end.read_completions(*this);
  if (end.outstanding() > end.shared)
    complain(std::string(end.name) + ": " + std::to_string(end.outstanding()) + " operations never completed");
  if (end.mr) close_fid(&end.mr->fid, "memory region");
  if (end.cq) close_fid(&end.cq->fid, "completion queue");
  end.srx = nullptr;
  end.mr = nullptr;
  end.cq = nullptr;
}

void TwoEnds::close() {
  for (fi_info* request : requests) fi_freeinfo(request);
  requests.clear();
  close_end(client);
  close_end(server);
  close_listener();
  for (fid_eq** queue : {&client.eq, &server.eq, &listener_eq}) {
    if (*queue) close_fid(&(*queue)->fid, "event queue");
    *queue = nullptr;
  }
  if (server.domain && server.domain != domain) close_fid(&server.domain->fid, "server's domain");
  if (server.fabric && server.fabric != fabric) close_fid(&server.fabric->fid, "server's fabric");
  if (client.domain) close_fid(&client.domain->fid, "domain");
  if (client.fabric) close_fid(&client.fabric->fid, "fabric");
  if (info) fi_freeinfo(info);
  client.domain = server.domain = nullptr;
  client.fabric = server.fabric = nullptr;
  domain = nullptr;
  fabric = nullptr;
  info = nullptr;
}

std::string TwoEnds::verdict() const {
  std::string text = complaints_;
  if (const std::string left = fake::leaks(); !left.empty()) text += "left behind: " + left + "\n";
  if (text.empty()) return text;
  for (const End* end : {&client, &server}) {
    text += std::string("  ") + end->name + ":";
    for (const std::string& line : end->history) text += " [" + line + "]";
    text += " posted " + std::to_string(end->posted) + ", completed " + std::to_string(end->completed) + ", failed " +
            std::to_string(end->failed) + "\n";
  }
  return text;
}

}  // namespace ends
