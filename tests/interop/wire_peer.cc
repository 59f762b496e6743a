// SPDX-License-Identifier: BSD-2-Clause
// One end of a conversation over connected endpoints, for running two different libraries against each other. The
// program is linked with the distribution's libfabric; LD_LIBRARY_PATH decides which library each end really uses.
//   wire_peer server ADDRESS         prints its port, then plays the accepting side
//   wire_peer client ADDRESS PORT    plays the asking side
// Both follow the same script (play() and below); the first deviation ends the program with a sentence and code 1.
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <arpa/inet.h>
#include <netinet/in.h>

#include <chrono>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr size_t kRegion = 4 << 20;
constexpr std::chrono::seconds kPatience{30};
constexpr size_t kSizes[] = {0, 1, 64, 4096, 65'537, 1 << 20, kRegion};
const char* role = "?";
const char* step = "set-up";  // the part of the script, for the sentence of a failure

[[noreturn]] void fail(const char* format, ...) {
  va_list args;
  va_start(args, format);
  std::fprintf(stderr, "%s, %s: ", role, step);
  std::vfprintf(stderr, format, args);
  std::fputc('\n', stderr);
  va_end(args);
  std::exit(1);
}

void check(bool holds, const char* what) {
  if (!holds) fail("%s", what);
}

void ok(ssize_t rc, const char* call) {
  if (rc < 0) fail("%s: %s", call, fi_strerror(static_cast<int>(-rc)));
}

void fill(std::vector<char>& bytes, size_t length, unsigned seed) {
  for (size_t i = 0; i < length; ++i) bytes[i] = static_cast<char>(i * 7 + (i >> 9) + seed * 31);
}

bool filled(const std::vector<char>& bytes, size_t length, unsigned seed) {
  for (size_t i = 0; i < length; ++i)
    if (bytes[i] != static_cast<char>(i * 7 + (i >> 9) + seed * 31)) return false;
  return true;
}

// The address of the peer's region, sent as a message.
struct RegionName {
  uint64_t address, key;
};

// Everything of one process: the objects live until it exits.
struct Peer {
  explicit Peer(const char* address) : out(kRegion), in(kRegion), region(kRegion) {
    fi_info* hints = fi_allocinfo();
    hints->caps = FI_MSG | FI_RMA;
    hints->ep_attr->type = FI_EP_MSG;
    hints->addr_format = std::strchr(address, ':') ? FI_SOCKADDR_IN6 : FI_SOCKADDR_IN;
    hints->fabric_attr->prov_name = strdup("tcp");
    ok(fi_getinfo(FI_VERSION(1, 17), address, nullptr, FI_SOURCE, hints, &info), "fi_getinfo");
    fi_freeinfo(hints);
    ok(fi_fabric(info->fabric_attr, &fabric, nullptr), "fi_fabric");
    fi_eq_attr eq_attr{};
    eq_attr.wait_obj = FI_WAIT_UNSPEC;
    ok(fi_eq_open(fabric, &eq_attr, &eq, nullptr), "fi_eq_open");
    ok(fi_eq_open(fabric, &eq_attr, &requests, nullptr), "fi_eq_open");
    ok(fi_domain(fabric, info, &domain, nullptr), "fi_domain");
    fi_cq_attr cq_attr{};
    cq_attr.format = FI_CQ_FORMAT_DATA;
    ok(fi_cq_open(domain, &cq_attr, &cq, nullptr), "fi_cq_open");
    ok(fi_mr_reg(domain, region.data(), kRegion, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0x77, 0, &mr, nullptr),
       "fi_mr_reg");
  }

  void open_endpoint(fi_info* from) {
    ok(fi_endpoint(domain, from, &ep, nullptr), "fi_endpoint");
    ok(fi_ep_bind(ep, &eq->fid, 0), "fi_ep_bind");
    ok(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    ok(fi_enable(ep), "fi_enable");
    post_receive();  // from here on exactly one receive is always posted
  }
  void close_endpoint() {
    ok(fi_close(&ep->fid), "fi_close");
    fi_cq_data_entry entry;
    fi_cq_err_entry error{};
    ssize_t rc;
    while ((rc = fi_cq_read(cq, &entry, 1)) != -FI_EAGAIN)  // entries that the close may have canceled
      if (rc == -FI_EAVAIL) fi_cq_readerr(cq, &error, 0);
  }
  void post_receive() { ok(fi_recv(ep, in.data(), in.size(), nullptr, 0, &in), "fi_recv"); }

  // Waits for an event. All queues are read in turn: with manual progress an end moves only then.
  ssize_t read_event(fid_eq* queue, uint32_t* type, char* bytes, size_t size) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    ssize_t rc;
    while ((rc = fi_eq_read(queue, type, bytes, size, 0)) == -FI_EAGAIN) {
      check(std::chrono::steady_clock::now() < deadline, "no event");
      fi_cq_read(cq, nullptr, 0);
      std::this_thread::yield();  // the other end may need this very processor
    }
    return rc;
  }

  // The next event, which must be `expected`; returns the bytes behind the entry. Requests have a queue of their own:
  // the next one may overtake the end of the last connection.
  std::string event(uint32_t expected, fi_info** request = nullptr) {
    fid_eq* const queue = request ? requests : eq;
    alignas(8) char bytes[1024];
    uint32_t type = 0;
    const ssize_t rc = read_event(queue, &type, bytes, sizeof bytes);
    if (rc == -FI_EAVAIL) {
      fi_eq_err_entry error{};
      fi_eq_readerr(queue, &error, 0);
      fail("error %s instead of event %u", fi_strerror(error.err), expected);
    }
    ok(rc, "fi_eq_read");
    if (type != expected) fail("event %u instead of %u", type, expected);
    const auto* entry = reinterpret_cast<fi_eq_cm_entry*>(bytes);
    if (request) *request = entry->info;
    return {bytes + sizeof *entry, static_cast<size_t>(rc) - sizeof *entry};
  }

  // The next completion; both kinds share the queue, so completions out of turn are stored.
  fi_cq_data_entry completion(void* context) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    for (;;) {
      for (size_t i = 0; i < kept.size(); ++i)
        if (kept[i].op_context == context) {
          const fi_cq_data_entry found = kept[i];
          kept.erase(kept.begin() + static_cast<ptrdiff_t>(i));
          return found;
        }
      fi_cq_data_entry entry{};
      const ssize_t rc = fi_cq_read(cq, &entry, 1);
      if (rc == 1) kept.push_back(entry);
      if (rc == -FI_EAVAIL) {
        fi_cq_err_entry error{};
        fi_cq_readerr(cq, &error, 0);
        fail("transfer with flags %s failed: %s", fi_tostr(&error.flags, FI_TYPE_CQ_EVENT_FLAGS),
             fi_strerror(error.err));
      }
      check(std::chrono::steady_clock::now() < deadline, "no completion");
      if (rc == -FI_EAGAIN) std::this_thread::yield();
    }
  }

  template <class Call>
  void post(const char* name, Call call) {
    ssize_t rc;
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while ((rc = call()) == -FI_EAGAIN && std::chrono::steady_clock::now() < deadline) fi_cq_read(cq, nullptr, 0);
    ok(rc, name);
  }

  void send(size_t length, unsigned seed, uint64_t flags = 0, uint64_t data = 0) {
    fill(out, length, seed);
    const iovec iov{out.data(), length};
    fi_msg message{};
    message.msg_iov = &iov;
    message.iov_count = 1;
    message.context = &out;
    message.data = data;
    post("fi_sendmsg", [&] { return fi_sendmsg(ep, &message, flags); });
    completion(&out);
  }
  void receive(size_t length, unsigned seed, uint64_t data = 0) {
    const fi_cq_data_entry entry = completion(&in);
    check(entry.len == length, "a message has the wrong length");
    check(filled(in, length, seed), "a message has the wrong bytes");
    check(bool(entry.flags & FI_REMOTE_CQ_DATA) == (data != 0) && (!data || entry.data == data), "wrong CQ data");
    post_receive();
  }

  fi_info* info = nullptr;
  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
  fid_eq *eq = nullptr, *requests = nullptr;
  fid_cq* cq = nullptr;
  fid_mr* mr = nullptr;
  fid_ep* ep = nullptr;
  std::vector<char> out, in, region;
  std::vector<fi_cq_data_entry> kept;
};

// Messages of every size and kind; the leading side sends first.
void play_messages(Peer& peer, bool leads) {
  step = "messages";
  unsigned seed = 1;
  for (uint64_t flags : {uint64_t{0}, uint64_t{FI_REMOTE_CQ_DATA}, uint64_t{FI_DELIVERY_COMPLETE},
                         uint64_t{FI_TRANSMIT_COMPLETE}, uint64_t{FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE}}) {
    const uint64_t data = flags & FI_REMOTE_CQ_DATA ? 0x1020304050607080 : 0;
    for (size_t size : kSizes) {
      ++seed;
      if (leads) peer.send(size, seed, flags, data);
      peer.receive(size, seed, data);
      if (!leads) peer.send(size, seed, flags, data);
    }
  }
}

// A burst of injected messages in one direction, then in the other.
void play_burst(Peer& peer, bool leads) {
  step = "burst";
  for (bool mine : {leads, !leads}) {
    for (unsigned i = 0; i < 200; ++i) {
      if (mine) {
        fill(peer.out, 32, i);
        peer.post("fi_inject", [&] { return fi_inject(peer.ep, peer.out.data(), 32, 0); });
      } else {
        peer.receive(32, i);
      }
    }
    if (mine) peer.receive(1, 999);
    if (!mine) peer.send(1, 999);
  }
}

// RMA by the leading side into and out of the other side's region.
void play_rma(Peer& peer, bool leads) {
  step = leads ? "RMA as initiator" : "RMA as target";
  if (!leads) {
    const RegionName name{
        peer.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR ? reinterpret_cast<uintptr_t>(peer.region.data()) : 0,
        fi_mr_key(peer.mr)};
    std::memcpy(peer.out.data(), &name, sizeof name);
    peer.post("fi_inject", [&] { return fi_inject(peer.ep, peer.out.data(), sizeof name, 0); });
    for (unsigned round = 0; round < std::size(kSizes); ++round) {  // each write is reported by its data
      const fi_cq_data_entry entry = peer.completion(nullptr);
      check(entry.flags & FI_REMOTE_CQ_DATA && entry.data == 1000 + round, "a write was reported wrongly");
      check(filled(peer.region, kSizes[round], round), "written bytes are wrong");
    }
    peer.receive(3, 55);
    return;
  }
  RegionName name;
  check(peer.completion(&peer.in).len == sizeof name, "no region name");
  std::memcpy(&name, peer.in.data(), sizeof name);
  peer.post_receive();
  for (unsigned round = 0; round < std::size(kSizes); ++round) {
    const size_t size = kSizes[round];
    fill(peer.out, size, round);
    const iovec iov{peer.out.data(), size};
    const fi_rma_iov remote{name.address, size, name.key};
    fi_msg_rma message{};
    message.msg_iov = &iov;
    message.iov_count = 1;
    message.rma_iov = &remote;
    message.rma_iov_count = 1;
    message.context = &message;
    message.data = 1000 + round;
    peer.post("fi_writemsg", [&] { return fi_writemsg(peer.ep, &message, FI_REMOTE_CQ_DATA | FI_DELIVERY_COMPLETE); });
    peer.completion(&message);
    std::memset(peer.out.data(), 0, size);
    peer.post("fi_read",
              [&] { return fi_read(peer.ep, peer.out.data(), size, nullptr, 0, name.address, name.key, &message); });
    peer.completion(&message);
    check(filled(peer.out, size, round), "bytes read back are wrong");
  }
  peer.send(3, 55);
}

void play(Peer& peer, bool asks) {
  play_messages(peer, asks);
  play_burst(peer, asks);
  play_rma(peer, asks);
  play_rma(peer, !asks);
  play_messages(peer, !asks);
}

// After the script one side shuts down and the other one gets FI_SHUTDOWN.
void finish(Peer& peer, bool shuts_down) {
  step = "shutdown";
  if (shuts_down)
    ok(fi_shutdown(peer.ep, 0), "fi_shutdown");
  else
    peer.event(FI_SHUTDOWN);
  peer.close_endpoint();
  if (shuts_down) {  // an own terminal event is allowed, but nothing else
    uint32_t type = 0;
    char bytes[256];
    const ssize_t rc = fi_eq_read(peer.eq, &type, bytes, sizeof bytes, 0);
    check(rc == -FI_EAGAIN || type == FI_SHUTDOWN, "an unexpected event after the shutdown");
  }
}

void set_port(sockaddr* address, uint16_t port) {
  reinterpret_cast<sockaddr_in*>(address)->sin_port = htons(port);
}
uint16_t get_port(const sockaddr* address) {
  return ntohs(reinterpret_cast<const sockaddr_in*>(address)->sin_port);
}

int serve(const char* address) {
  Peer peer(address);
  fid_pep* pep = nullptr;
  ok(fi_passive_ep(peer.fabric, peer.info, &pep, nullptr), "fi_passive_ep");
  ok(fi_pep_bind(pep, &peer.requests->fid, 0), "fi_pep_bind");
  ok(fi_listen(pep), "fi_listen");
  sockaddr_storage name{};
  size_t size = sizeof name;
  ok(fi_getname(&pep->fid, &name, &size), "fi_getname");
  std::printf("%u\n", get_port(reinterpret_cast<sockaddr*>(&name)));
  std::fflush(stdout);

  fi_info* request = nullptr;
  check(peer.event(FI_CONNREQ, &request) == "reject me", "wrong data in the first request");
  ok(fi_reject(pep, request->handle, "not today", 9), "fi_reject");
  fi_freeinfo(request);
  for (bool shuts_down : {false, true}) {
    step = "request";
    check(peer.event(FI_CONNREQ, &request) == "hello", "wrong data in the request");
    peer.open_endpoint(request);
    ok(fi_accept(peer.ep, "welcome", 7), "fi_accept");
    fi_freeinfo(request);
    peer.event(FI_CONNECTED);
    play(peer, false);
    finish(peer, shuts_down);
  }
  return 0;
}

int ask(const char* address, const char* port) {
  Peer peer(address);
  sockaddr_storage name{};
  std::memcpy(&name, peer.info->src_addr, peer.info->src_addrlen);
  set_port(reinterpret_cast<sockaddr*>(&name), static_cast<uint16_t>(std::atoi(port)));

  peer.open_endpoint(peer.info);
  ok(fi_connect(peer.ep, &name, "reject me", 9), "fi_connect");
  uint32_t type = 0;
  char bytes[256];
  check(peer.read_event(peer.eq, &type, bytes, sizeof bytes) == -FI_EAVAIL, "the rejection is no error entry");
  fi_eq_err_entry error{};
  ok(fi_eq_readerr(peer.eq, &error, 0), "fi_eq_readerr");
  check(error.err == FI_ECONNREFUSED, "the rejection is not ECONNREFUSED");
  check(error.err_data_size >= 9 && !std::memcmp(error.err_data, "not today", 9), "the reject data got lost");
  peer.close_endpoint();

  for (bool shuts_down : {true, false}) {
    step = "request";
    peer.open_endpoint(peer.info);
    ok(fi_connect(peer.ep, &name, "hello", 5), "fi_connect");
    check(peer.event(FI_CONNECTED) == "welcome", "wrong data in the answer");
    play(peer, true);
    finish(peer, shuts_down);
  }
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 3 && !std::strcmp(argv[1], "server")) {
    role = "server";
    return serve(argv[2]);
  }
  if (argc == 4 && !std::strcmp(argv[1], "client")) {
    role = "client";
    return ask(argv[2], argv[3]);
  }
  std::fprintf(stderr, "usage: wire_peer server ADDRESS | wire_peer client ADDRESS PORT\n");
  return 2;
}
