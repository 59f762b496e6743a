// SPDX-License-Identifier: BSD-2-Clause
// One end of a conversation over a connected endpoint between two hosts, of which one may die and whose wire may break;
// fi_cm(3), fi_eq(3), fi_cq(3). It prints its observations, one line each, which two_hosts.sh evaluates.
//   peer serve ADDRESS PORT                accepts one connection and returns every message until it ends
//   peer talk ADDRESS PORT ROUNDS [IDLE]   connects, exchanges that many messages, waits IDLE seconds for an end from
//                                          elsewhere, then ends the connection itself
// Lines: listening; connected; talked N; completion error CODE; event shutdown; event error CODE: SENTENCE; listener
// error CODE: SENTENCE; ended MS
// (since the last message or, without one, since the first call); transfers POSTED DONE FAILED; closed. The status is 0
// if all that was said in words is true; what ends the connection is not judged here.
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;
constexpr size_t kSlots = 4;  // receives that are always posted
constexpr size_t kSlotSize = 64 * 1024;
constexpr size_t kSizes[] = {1, 64, 1000, 4096, 65'536};
constexpr size_t kProbeSize = 2;  // a message without an answer: a dead peer shows only when something is sent
constexpr std::chrono::seconds kProbeAfter{1};
constexpr int kPatienceMs = 80'000;  // longer than any promised end takes

[[noreturn]] void fail(const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::printf("FAILED: ");
  std::vprintf(format, args);
  std::printf("\n");
  va_end(args);
  std::exit(1);
}

void ok(ssize_t rc, const char* call) {
  if (rc < 0) fail("%s: %s", call, fi_strerror(static_cast<int>(-rc)));
}

size_t size_of_round(unsigned round) {
  return kSizes[round % std::size(kSizes)];
}

char byte_of_round(unsigned round, size_t i) {
  return static_cast<char>(round * 31 + i * 7 + (i >> 8));
}

// All objects of one end. They live until close(), or until the process exits.
class Peer {
 public:
  Peer(const char* address, const char* port, bool server) : buffers_((kSlots + 1) * kSlotSize) {
    fi_info* hints = fi_allocinfo();
    hints->caps = FI_MSG;
    hints->mode = FI_CONTEXT | FI_RX_CQ_DATA;
    hints->ep_attr->type = FI_EP_MSG;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->addr_format = std::strchr(address, ':') ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
    const char* provider = std::getenv("PEER_PROVIDER");
    hints->fabric_attr->prov_name = strdup(provider ? provider : "verbs");
    ok(fi_getinfo(FI_VERSION(1, 17), address, port, server ? FI_SOURCE : 0, hints, &info_), "fi_getinfo");
    fi_freeinfo(hints);
    ok(fi_fabric(info_->fabric_attr, &fabric_, nullptr), "fi_fabric");
    fi_eq_attr eq_attr{};
    eq_attr.wait_obj = FI_WAIT_FD;
    ok(fi_eq_open(fabric_, &eq_attr, &eq_, nullptr), "fi_eq_open");
    open_domain();
  }

  void serve() {
    fid_pep* pep = nullptr;
    ok(fi_passive_ep(fabric_, info_, &pep, nullptr), "fi_passive_ep");
    ok(fi_pep_bind(pep, &eq_->fid, 0), "fi_pep_bind");
    ok(fi_listen(pep), "fi_listen");
    std::printf("listening\n");
    fi_info* request = nullptr;
    while (!request) read_events(1000, &request);
    open_endpoint(request);
    ok(fi_accept(ep_, nullptr, 0), "fi_accept");
    fi_freeinfo(request);
    while (!ended_) {
      progress();
      if (!connected_ || received_ == 0 || ended_) continue;  // a message may overtake FI_CONNECTED
      --received_;
      send_round();
    }
    close();
    ok(fi_close(&pep->fid), "fi_close of the passive endpoint");
  }

  void talk(unsigned rounds, int idle_s) {
    open_endpoint(info_);
    ok(fi_connect(ep_, info_->dest_addr, nullptr, 0), "fi_connect");
    while (!connected_ && !ended_) progress();
    while (!ended_ && round_ < rounds) {
      send_round();
      while (!ended_ && received_ == 0) {
        progress();
        if (!sending_ && Clock::now() - last_sent_ > kProbeAfter) send(kProbeSize);
      }
      if (!ended_) --received_;
    }
    std::printf("talked %u\n", round_);
    const auto until = Clock::now() + std::chrono::seconds(idle_s);
    while (!ended_ && Clock::now() < until) progress();
    if (!ended_) {
      ok(fi_shutdown(ep_, 0), "fi_shutdown");
      std::printf("shut down\n");
    }
    close();
  }

 private:
  void open_domain() {
    ok(fi_domain(fabric_, info_, &domain_, nullptr), "fi_domain");
    fi_cq_attr cq_attr{};
    cq_attr.format = FI_CQ_FORMAT_MSG;
    cq_attr.wait_obj = FI_WAIT_FD;
    cq_attr.size = 64;
    ok(fi_cq_open(domain_, &cq_attr, &cq_, nullptr), "fi_cq_open");
    ok(fi_mr_reg(domain_, buffers_.data(), buffers_.size(), FI_SEND | FI_RECV, 0, 0, 0, &region_, nullptr),
       "fi_mr_reg");
  }

  void open_endpoint(fi_info* info) {
    ok(fi_endpoint(domain_, info, &ep_, nullptr), "fi_endpoint");
    ok(fi_ep_bind(ep_, &eq_->fid, 0), "fi_ep_bind");
    ok(fi_ep_bind(ep_, &cq_->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    ok(fi_enable(ep_), "fi_enable");
    for (size_t slot = 0; slot < kSlots; ++slot) post_receive(slot);
  }

  char* slot_buffer(size_t slot) { return buffers_.data() + slot * kSlotSize; }

  void post_receive(size_t slot) {
    const ssize_t rc = fi_recv(ep_, slot_buffer(slot), kSlotSize, fi_mr_desc(region_), 0, &contexts_[slot]);
    if (rc == 0)
      ++posted_;
    else if (!ended_ && connected_)
      std::printf("receive refused %s\n", fi_strerror(static_cast<int>(-rc)));
  }

  void send_round() {
    const size_t size = size_of_round(round_);
    for (size_t i = 0; i < size; ++i) slot_buffer(kSlots)[i] = byte_of_round(round_, i);
    if (!send(size)) return;
    ++round_;
    while (sending_ && !ended_) progress();
  }

  // The event explains why the endpoint refuses a message once the connection is over.
  bool send(size_t size) {
    ssize_t rc;
    while ((rc = fi_send(ep_, slot_buffer(kSlots), size, fi_mr_desc(region_), 0, &contexts_[kSlots])) == -FI_EAGAIN &&
           !ended_)
      progress();
    if (rc == 0) {
      ++posted_;
      sending_ = true;
      last_sent_ = Clock::now();
    }
    while (rc != 0 && !ended_) progress();
    return rc == 0;
  }

  void progress() {
    read_completions(20);
    read_events(0, nullptr);
    if (Clock::now() - last_ > std::chrono::milliseconds(kPatienceMs)) fail("nothing for %d ms", kPatienceMs);
  }

  void read_completions(int timeout_ms) {
    fi_cq_msg_entry entry{};
    const ssize_t rc = fi_cq_sread(cq_, &entry, 1, nullptr, timeout_ms);
    if (rc == 1) {
      ++done_;
      completed(entry);
    } else if (rc == -FI_EAVAIL) {
      fi_cq_err_entry error{};
      ok(fi_cq_readerr(cq_, &error, 0), "fi_cq_readerr");
      ++failed_;
      if (error.op_context == &contexts_[kSlots]) sending_ = false;
      if (error.err != FI_ECANCELED) {
        std::printf("completion error %d: %s\n", error.err,
                    fi_cq_strerror(cq_, error.prov_errno, error.err_data, nullptr, 0));
      }
    } else if (rc != -FI_EAGAIN && rc != -FI_EINTR && rc != -FI_ECANCELED) {
      ok(rc, "fi_cq_sread");
    }
  }

  void completed(const fi_cq_msg_entry& entry) {
    if (entry.op_context == &contexts_[kSlots]) {
      sending_ = false;
      return;
    }
    const auto slot = static_cast<size_t>(static_cast<fi_context*>(entry.op_context) - contexts_);
    if (entry.len == kProbeSize) return post_receive(slot);
    last_ = Clock::now();
    const unsigned round = received_rounds_++;
    if (entry.len != size_of_round(round)) fail("%zu bytes in round %u", entry.len, round);
    for (size_t i = 0; i < entry.len; ++i)
      if (slot_buffer(slot)[i] != byte_of_round(round, i)) fail("byte %zu of round %u", i, round);
    ++received_;
    post_receive(slot);
  }

  void read_events(int timeout_ms, fi_info** request) {
    alignas(8) char bytes[512];
    uint32_t type = 0;
    const ssize_t rc = timeout_ms == 0 ? fi_eq_read(eq_, &type, bytes, sizeof bytes, 0)
                                       : fi_eq_sread(eq_, &type, bytes, sizeof bytes, timeout_ms, 0);
    if (rc == -FI_EAGAIN || rc == -FI_EINTR) return;
    if (rc == -FI_EAVAIL) return error_event();
    ok(rc, "fi_eq_read");
    if (type == FI_CONNREQ && request) {
      *request = reinterpret_cast<fi_eq_cm_entry*>(bytes)->info;
    } else if (type == FI_CONNECTED) {
      connected_ = true;
      last_ = Clock::now();
      std::printf("connected\n");
    } else if (type == FI_SHUTDOWN) {
      std::printf("event shutdown\n");
      end();
    } else {
      fail("event %u", type);
    }
  }

  void error_event() {
    fi_eq_err_entry error{};
    ok(fi_eq_readerr(eq_, &error, 0), "fi_eq_readerr");
    const bool connections = ep_ != nullptr && error.fid == &ep_->fid;
    std::printf("%s error %d: %s\n", connections ? "event" : "listener", error.err,
                fi_eq_strerror(eq_, error.prov_errno, error.err_data, nullptr, 0));
    if (connections) end();
  }

  void end() {
    if (ended_++ > 0) return;
    const auto since = std::chrono::duration_cast<std::chrono::milliseconds>(Clock::now() - last_).count();
    std::printf("ended %lld\n", static_cast<long long>(since));
  }

  // Events after the end are collected for two seconds: a second end would be an error.
  void close() {
    const auto until = Clock::now() + std::chrono::seconds(2);
    while (Clock::now() < until) {
      read_completions(20);
      read_events(0, nullptr);
    }
    ok(fi_close(&ep_->fid), "fi_close of the endpoint");
    ssize_t before;
    do {
      before = done_ + failed_;
      read_completions(20);
    } while (done_ + failed_ != before);
    std::printf("transfers %zd %zd %zd\nends %d\n", posted_, done_, failed_, ended_);
    ok(fi_close(&region_->fid), "fi_close of the region");
    ok(fi_close(&cq_->fid), "fi_close of the completion queue");
    ok(fi_close(&domain_->fid), "fi_close of the domain");
    std::printf("closed\n");
  }

  std::vector<char> buffers_;  // kSlots receives, one send
  fi_context contexts_[kSlots + 1]{};
  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_eq* eq_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_cq* cq_ = nullptr;
  fid_mr* region_ = nullptr;
  fid_ep* ep_ = nullptr;
  Clock::time_point last_ = Clock::now();  // the start of ended_
  Clock::time_point last_sent_{};
  bool connected_ = false;
  bool sending_ = false;
  int ended_ = 0;
  unsigned round_ = 0;            // the next to send
  unsigned received_rounds_ = 0;  // the next to receive
  unsigned received_ = 0;         // messages that wait for an answer
  ssize_t posted_ = 0, done_ = 0, failed_ = 0;
};

}  // namespace

int main(int argc, char** argv) {
  std::setvbuf(stdout, nullptr, _IOLBF, 0);
  if (argc == 4 && !std::strcmp(argv[1], "serve")) {
    Peer(argv[2], argv[3], true).serve();
  } else if (argc >= 5 && !std::strcmp(argv[1], "talk")) {
    Peer(argv[2], argv[3], false).talk(static_cast<unsigned>(std::atoi(argv[4])), argc > 5 ? std::atoi(argv[5]) : 0);
  } else {
    std::fprintf(stderr, "usage: %s serve ADDRESS PORT | talk ADDRESS PORT ROUNDS [IDLE]\n", argv[0]);
    return 2;
  }
}
