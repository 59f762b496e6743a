// SPDX-License-Identifier: BSD-2-Clause
// One end of atomic operations between reliable datagrams (fi_atomic(3)), for running two libraries against each other.
// The program is linked with the distribution's libfabric; LD_LIBRARY_PATH decides which library each end really uses.
//   atomics_peer server                prints where it is, then lets its memory be updated
//   atomics_peer client WHERE...       applies every operation on every type and prints what came of it
// Two libraries that mean the same by an operation print the same.
#include <rdma/fi_atomic.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

#include "reliable_end.h"

namespace {

constexpr uint64_t kCaps = FI_TAGGED | FI_RMA | FI_ATOMIC;
constexpr size_t kRegion = 4096;
constexpr size_t kCount = 3;  // elements an operation
using Peer = ReliableEnd;

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

// One operation on fresh values; prints the values afterwards and the fetched ones.
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
  // A read behind it: the write may have completed before it was carried out.
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
  Peer peer(kCaps, kRegion);
  const uint64_t address = peer.virtual_addresses ? reinterpret_cast<uintptr_t>(peer.region.data()) : 0;
  std::printf("%s %llu %llu\n", peer.name().c_str(), static_cast<unsigned long long>(address),
              static_cast<unsigned long long>(fi_mr_key(peer.mr)));
  std::fflush(stdout);
  char bye;
  ok(fi_trecv(peer.ep, &bye, 1, nullptr, FI_ADDR_UNSPEC, 1, 0, &peer.context), "fi_trecv");
  return peer.wait(&peer.context) == 0 ? 0 : 1;
}

int ask(const char* hex, const char* address, const char* key) {
  Peer peer(kCaps, kRegion);
  const Remote at{peer.insert(hex), std::strtoull(address, nullptr, 10), std::strtoull(key, nullptr, 10)};
  // Release 1.17 has no operations on larger elements, and ends when a peer requests one.
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
