// SPDX-License-Identifier: BSD-2-Clause
// One end of atomic operations between reliable datagrams (fi_atomic(3)), for running two libraries against each other.
// The program is linked with the distribution's libfabric; LD_LIBRARY_PATH decides which library each end really uses.
//   atomics_peer server                prints where it is, then lets its memory be updated
//   atomics_peer client WHERE...       applies every operation on every type and prints what came of it
// Two libraries that mean the same by an operation print the same.
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>
#include <thread>
#include <vector>

namespace {

constexpr size_t kRegion = 4096;
constexpr size_t kCount = 3;  // elements an operation
constexpr std::chrono::seconds kPatience{30};

[[noreturn]] void fail(const char* what, ssize_t rc) {
  std::fprintf(stderr, "%s: %s\n", what, fi_strerror(static_cast<int>(-rc)));
  std::exit(1);
}
void ok(ssize_t rc, const char* call) {
  if (rc < 0) fail(call, rc);
}

// Everything of one process: the objects live until it exits.
struct Peer {
  Peer() : region(kRegion) {
    fi_info* hints = fi_allocinfo();
    hints->caps = FI_TAGGED | FI_RMA | FI_ATOMIC;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->fabric_attr->prov_name = strdup("tcp;ofi_rxm");
    fi_info* info = nullptr;
    ok(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", nullptr, FI_SOURCE, hints, &info), "fi_getinfo");
    fi_freeinfo(hints);
    fid_fabric* fabric = nullptr;
    ok(fi_fabric(info->fabric_attr, &fabric, nullptr), "fi_fabric");
    ok(fi_domain(fabric, info, &domain, nullptr), "fi_domain");
    fi_cq_attr cq_attr{};
    cq_attr.format = FI_CQ_FORMAT_TAGGED;
    ok(fi_cq_open(domain, &cq_attr, &cq, nullptr), "fi_cq_open");
    fi_av_attr av_attr{};
    ok(fi_av_open(domain, &av_attr, &av, nullptr), "fi_av_open");
    ok(fi_endpoint(domain, info, &ep, nullptr), "fi_endpoint");
    ok(fi_ep_bind(ep, &cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    ok(fi_ep_bind(ep, &av->fid, 0), "fi_ep_bind");
    ok(fi_enable(ep), "fi_enable");
    ok(fi_mr_reg(domain, region.data(), kRegion, FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 0, 0, &mr, nullptr), "fi_mr_reg");
    virtual_addresses = (info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
  }

  // Waits for `context`; an error is returned. Nothing else is outstanding.
  int wait(void* expected) {
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    fi_cq_tagged_entry entry{};
    while (std::chrono::steady_clock::now() < deadline) {
      const ssize_t rc = fi_cq_read(cq, &entry, 1);
      if (rc == 1 && entry.op_context == expected) return 0;
      if (rc == -FI_EAVAIL) {
        fi_cq_err_entry error{};
        fi_cq_readerr(cq, &error, 0);
        return error.err;
      }
      if (rc == -FI_EAGAIN) std::this_thread::yield();
    }
    fail("completion", -FI_ETIMEDOUT);
  }
  template <class Call>
  int run(Call call) {
    ssize_t rc;
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    while ((rc = call()) == -FI_EAGAIN && std::chrono::steady_clock::now() < deadline) fi_cq_read(cq, nullptr, 0);
    return rc == 0 ? wait(&context) : static_cast<int>(-rc);
  }

  fid_domain* domain = nullptr;
  fid_cq* cq = nullptr;
  fid_av* av = nullptr;
  fid_ep* ep = nullptr;
  fid_mr* mr = nullptr;
  bool virtual_addresses = false;
  std::vector<char> region;
  fi_context2 context{};
};

void print_bytes(const char* name, const unsigned char* bytes, size_t count, size_t size, size_t meant) {
  std::printf(" %s", name);
  for (size_t i = 0; i < count; ++i) {
    std::putchar('.');
    for (size_t j = 0; j < size; ++j)
      if (j % 16 < meant) std::printf("%02x", bytes[i * size + j]);
  }
}

template <class T>
void put(unsigned char* to, const double (&values)[2 * kCount], size_t parts) {
  for (size_t i = 0; i < kCount * parts; ++i) {
    const T value = static_cast<T>(values[i]);
    std::memcpy(to + i * sizeof(T), &value, sizeof(T));
  }
}

void put_values(fi_datatype type, unsigned char* to, const double (&values)[2 * kCount]) {
  switch (type) {
    case FI_INT8:
      return put<int8_t>(to, values, 1);
    case FI_UINT8:
      return put<uint8_t>(to, values, 1);
    case FI_INT16:
      return put<int16_t>(to, values, 1);
    case FI_UINT16:
      return put<uint16_t>(to, values, 1);
    case FI_INT32:
      return put<int32_t>(to, values, 1);
    case FI_UINT32:
      return put<uint32_t>(to, values, 1);
    case FI_INT64:
      return put<int64_t>(to, values, 1);
    case FI_UINT64:
      return put<uint64_t>(to, values, 1);
    case FI_FLOAT:
      return put<float>(to, values, 1);
    case FI_DOUBLE:
      return put<double>(to, values, 1);
    case FI_FLOAT_COMPLEX:
      return put<float>(to, values, 2);
    case FI_DOUBLE_COMPLEX:
      return put<double>(to, values, 2);
    case FI_LONG_DOUBLE:
      return put<long double>(to, values, 1);
    default:
      return put<long double>(to, values, 2);
  }
}

struct Remote {
  fi_addr_t peer;
  uint64_t address, key;
};

// One operation on fresh values; prints them as they are afterwards and what was fetched.
void apply(Peer& peer, const Remote& at, fi_datatype type, fi_op op, int kind) {
  static constexpr const char* kKinds[] = {"update", "fetch", "compare"};
  static constexpr uint64_t kFlags[] = {0, FI_FETCH_ATOMIC, FI_COMPARE_ATOMIC};
  constexpr double kTarget[] = {5, 0, 90, 7, 3, 2}, kOperand[] = {3, 12, 90, 0, 7, 1}, kCompare[] = {5, 1, 33, 7, 3, 9};
  std::printf("%d %d %s", type, op, kKinds[kind]);
  fi_atomic_attr attr{};
  if (fi_query_atomic(peer.domain, type, op, &attr, kFlags[kind]) != 0) return void(std::puts(" -"));
  const size_t size = attr.size, meant = type == FI_LONG_DOUBLE || type == FI_LONG_DOUBLE_COMPLEX ? 10 : 16;
  alignas(16) unsigned char target[256]{}, operand[256]{}, compare[256]{}, result[256]{};
  put_values(type, target, kTarget);
  put_values(type, operand, kOperand);
  put_values(type, compare, kCompare);
  void* const context = &peer.context;
  int error =
      peer.run([&] { return fi_write(peer.ep, target, kCount * size, nullptr, at.peer, at.address, at.key, context); });
  // A read behind it: the write may have completed before it was made.
  if (error == 0)
    error = peer.run(
        [&] { return fi_read(peer.ep, target, kCount * size, nullptr, at.peer, at.address, at.key, context); });
  if (error == 0)
    error = peer.run([&]() -> ssize_t {
      if (kind == 0)
        return fi_atomic(peer.ep, operand, kCount, nullptr, at.peer, at.address, at.key, type, op, context);
      if (kind == 1)
        return fi_fetch_atomic(peer.ep, operand, kCount, nullptr, result, nullptr, at.peer, at.address, at.key, type,
                               op, context);
      return fi_compare_atomic(peer.ep, operand, kCount, nullptr, compare, nullptr, result, nullptr, at.peer,
                               at.address, at.key, type, op, context);
    });
  if (error == 0)
    error = peer.run(
        [&] { return fi_read(peer.ep, target, kCount * size, nullptr, at.peer, at.address, at.key, context); });
  if (error != 0) std::printf(" error %s", fi_strerror(error));
  print_bytes("now", target, kCount, size, meant);
  print_bytes("was", result, kCount, size, meant);
  std::putchar('\n');
}

int serve() {
  Peer peer;
  unsigned char name[64];
  size_t len = sizeof name;
  ok(fi_getname(&peer.ep->fid, name, &len), "fi_getname");
  for (size_t i = 0; i < len; ++i) std::printf("%02x", name[i]);
  const uint64_t address = peer.virtual_addresses ? reinterpret_cast<uintptr_t>(peer.region.data()) : 0;
  std::printf(" %llu %llu\n", static_cast<unsigned long long>(address),
              static_cast<unsigned long long>(fi_mr_key(peer.mr)));
  std::fflush(stdout);
  char bye;
  ok(fi_trecv(peer.ep, &bye, 1, nullptr, FI_ADDR_UNSPEC, 1, 0, &peer.context), "fi_trecv");
  return peer.wait(&peer.context) == 0 ? 0 : 1;
}

int ask(const char* hex, const char* address, const char* key) {
  Peer peer;
  unsigned char name[64]{};
  for (size_t i = 0; i < sizeof name && hex[2 * i] != 0; ++i)
    name[i] = static_cast<unsigned char>(std::stoul(std::string(hex + 2 * i, 2), nullptr, 16));
  Remote at{0, std::strtoull(address, nullptr, 10), std::strtoull(key, nullptr, 10)};
  if (fi_av_insert(peer.av, name, 1, &at.peer, 0, nullptr) != 1) fail("fi_av_insert", -FI_EINVAL);
  // Of greater elements release 1.17 offers none, and a peer that asks for them ends it.
  for (int type = FI_INT8; type <= FI_FLOAT_COMPLEX; ++type)
    for (int op = FI_MIN; op <= FI_MSWAP; ++op)
      for (int kind = 0; kind < 3; ++kind)
        apply(peer, at, static_cast<fi_datatype>(type), static_cast<fi_op>(op), kind);
  Remote nowhere = at;
  nowhere.key ^= 0x5555;
  uint64_t value = 1;
  const int refused = peer.run([&] {
    return fi_fetch_atomic(peer.ep, &value, 1, nullptr, &value, nullptr, nowhere.peer, nowhere.address, nowhere.key,
                           FI_UINT64, FI_SUM, &peer.context);
  });
  std::printf("an unknown key is %s\n", refused != 0 ? "refused" : "accepted");
  char bye = 0;
  ok(peer.run([&] { return fi_tsend(peer.ep, &bye, 1, nullptr, at.peer, 1, &peer.context); }), "fi_tsend");
  std::fflush(stdout);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 2 && std::strcmp(argv[1], "server") == 0) return serve();
  if (argc == 5 && std::strcmp(argv[1], "client") == 0) return ask(argv[2], argv[3], argv[4]);
  std::fprintf(stderr, "usage: atomics_peer server | client NAME ADDRESS KEY\n");
  return 2;
}
