// SPDX-License-Identifier: BSD-2-Clause
// Atomic operations; see atomics.h.
#include "rdm/atomics.h"

#include <rdma/fi_errno.h>

#include <algorithm>
#include <atomic>
#include <complex>
#include <cstring>
#include <iterator>
#include <type_traits>

namespace weft::rdm {
namespace {

__extension__ typedef __int128 Int128;
__extension__ typedef unsigned __int128 Uint128;

template <class T>
constexpr bool kInteger = std::is_integral_v<T> || std::is_same_v<T, Int128> || std::is_same_v<T, Uint128>;
template <class T>
constexpr bool kComplex = !kInteger<T> && !std::is_floating_point_v<T>;
// Integers wrap around: the arithmetic is unsigned, in a type without integer promotion.
template <class T>
using Wide = std::conditional_t<sizeof(T) <= sizeof(std::uint64_t), std::uint64_t, Uint128>;

template <class T>
T load(const void* from, std::size_t index) noexcept {
  T value;
  std::memcpy(&value, static_cast<const std::byte*>(from) + index * sizeof(T), sizeof value);
  return value;
}
template <class T>
void store(void* to, std::size_t index, const T& value) noexcept {
  std::memcpy(static_cast<std::byte*>(to) + index * sizeof(T), &value, sizeof value);
}

// The unsigned integer of `size` bytes: compilers turn atomic accesses to structures into calls of libatomic.
template <std::size_t size>
using Bits = std::conditional_t<
    size == 1, std::uint8_t,
    std::conditional_t<size == 2, std::uint16_t, std::conditional_t<size == 4, std::uint32_t, std::uint64_t>>>;

// Replaces one element by `next` of it, and returns the former value.
template <class T, class Next>
T exchange(void* target, std::size_t index, const Next& next) noexcept {
  if constexpr (sizeof(T) <= sizeof(std::uint64_t)) {
    using Word = Bits<sizeof(T)>;
    using Shared = std::atomic_ref<Word>;
    static_assert(sizeof(Word) == sizeof(T) && Shared::is_always_lock_free);
    auto* const place = static_cast<std::byte*>(target) + index * sizeof(T);
    if (reinterpret_cast<std::uintptr_t>(place) % Shared::required_alignment == 0) {
      Shared shared(*reinterpret_cast<Word*>(place));
      Word before = shared.load();
      for (;;) {
        const T value = load<T>(&before, 0), made = next(value);
        const Word after = load<Word>(&made, 0);
        // An operation that changes nothing must not write: the memory may be read-only.
        if (after == before || shared.compare_exchange_weak(before, after)) return value;
      }
    }
  }
  const T before = load<T>(target, index), after = next(before);
  if (std::memcmp(&after, &before, sizeof before) != 0) store(target, index, after);
  return before;
}

// `next(target, operand, compare)` for each element.
template <class T, class Next>
void each(const AtomicWork& work, const Next& next) noexcept {
  for (std::size_t i = 0; i < work.count; ++i) {
    const T operand = work.operand != nullptr ? load<T>(work.operand, i) : T{};
    const T compare = work.compare != nullptr ? load<T>(work.compare, i) : T{};
    const T before = exchange<T>(work.target, i, [&](const T& target) { return next(target, operand, compare); });
    if (work.result != nullptr) store(work.result, i, before);
  }
}

template <class T>
bool is_true(const T& value) noexcept {
  return value != T{};
}

template <class T>
void swap_if(fi_op operation, const AtomicWork& work) noexcept {
  const auto when = [&](auto holds) {
    each<T>(work, [&](const T& t, const T& o, const T& c) { return holds(c, t) ? o : t; });
  };
  if (operation == FI_CSWAP) return when([](const T& c, const T& t) { return c == t; });
  if (operation == FI_CSWAP_NE) return when([](const T& c, const T& t) { return c != t; });
  if constexpr (!kComplex<T>) {
    if (operation == FI_CSWAP_LE) return when([](const T& c, const T& t) { return c <= t; });
    if (operation == FI_CSWAP_LT) return when([](const T& c, const T& t) { return c < t; });
    if (operation == FI_CSWAP_GE) return when([](const T& c, const T& t) { return c >= t; });
    if (operation == FI_CSWAP_GT) return when([](const T& c, const T& t) { return c > t; });
  }
}

template <class T>
void calculate(fi_op operation, const AtomicWork& work) noexcept {
  // Integers are converted to Wide<T>, others are used as they are.
  const auto with = [&](auto compute) {
    each<T>(work, [&](const T& t, const T& o, const T&) {
      if constexpr (kInteger<T>)
        return static_cast<T>(compute(static_cast<Wide<T>>(t), static_cast<Wide<T>>(o)));
      else
        return static_cast<T>(compute(t, o));
    });
  };
  if (operation == FI_SUM) return with([](const auto& t, const auto& o) { return t + o; });
  if (operation == FI_PROD) return with([](const auto& t, const auto& o) { return t * o; });
  if (operation == FI_DIFF) return with([](const auto& t, const auto& o) { return t - o; });
  if constexpr (kInteger<T>) {
    if (operation == FI_BOR) return with([](auto t, auto o) { return t | o; });
    if (operation == FI_BAND) return with([](auto t, auto o) { return t & o; });
    if (operation == FI_BXOR) return with([](auto t, auto o) { return t ^ o; });
    if (operation == FI_MSWAP)
      each<T>(work, [](const T& t, const T& o, const T& c) { return static_cast<T>((o & c) | (t & ~c)); });
  }
}

template <class T>
void apply(fi_op operation, const AtomicWork& work) noexcept {
  switch (operation) {
    case FI_LOR:
      return each<T>(work, [](const T& t, const T& o, const T&) { return static_cast<T>(is_true(t) || is_true(o)); });
    case FI_LAND:
      return each<T>(work, [](const T& t, const T& o, const T&) { return static_cast<T>(is_true(t) && is_true(o)); });
    case FI_LXOR:
      return each<T>(work, [](const T& t, const T& o, const T&) { return static_cast<T>(is_true(t) != is_true(o)); });
    case FI_ATOMIC_READ:
      return each<T>(work, [](const T& t, const T&, const T&) { return t; });
    case FI_ATOMIC_WRITE:
      return each<T>(work, [](const T&, const T& o, const T&) { return o; });
    case FI_MIN:
    case FI_MAX:
      if constexpr (!kComplex<T>) {
        const bool least = operation == FI_MIN;
        each<T>(work, [&](const T& t, const T& o, const T&) { return (least ? o < t : o > t) ? o : t; });
      }
      return;
    default:
      return operation >= FI_CSWAP && operation <= FI_CSWAP_GT ? swap_if<T>(operation, work)
                                                               : calculate<T>(operation, work);
  }
}

struct Type {
  std::size_t size = 0;
  bool integer = false;
  bool complex = false;
  void (*apply)(fi_op operation, const AtomicWork& work) = nullptr;
};
template <class... T>
constexpr Type kTypesOf[] = {{sizeof(T), kInteger<T>, kComplex<T>, &apply<T>}...};

// By fi_datatype.
constexpr auto& kTypes = kTypesOf<std::int8_t, std::uint8_t, std::int16_t, std::uint16_t, std::int32_t, std::uint32_t,
                                  std::int64_t, std::uint64_t, float, double, std::complex<float>, std::complex<double>,
                                  long double, std::complex<long double>, Int128, Uint128>;
static_assert(std::size(kTypes) == FI_UINT128 + 1 && FI_FLOAT == 8 && FI_LONG_DOUBLE == 12 && FI_INT128 == 14);

const Type& type_of(fi_datatype datatype) noexcept {
  static constexpr Type kUnknown;
  return static_cast<std::size_t>(datatype) < std::size(kTypes) ? kTypes[datatype] : kUnknown;
}

bool fits_type(const Type& type, fi_op operation) noexcept {
  switch (operation) {
    case FI_BOR:
    case FI_BAND:
    case FI_BXOR:
    case FI_MSWAP:
      return type.integer;
    case FI_MIN:
    case FI_MAX:
    case FI_CSWAP_LE:
    case FI_CSWAP_LT:
    case FI_CSWAP_GE:
    case FI_CSWAP_GT:
      return !type.complex;
    default:
      return true;
  }
}

}  // namespace

std::size_t element_size(fi_datatype datatype) noexcept {
  return type_of(datatype).size;
}

bool has_atomic(AtomicKind kind, fi_datatype datatype, fi_op operation) noexcept {
  const Type& type = type_of(datatype);
  if (type.size == 0 || !fits_type(type, operation)) return false;
  const bool compares = operation >= FI_CSWAP && operation <= FI_MSWAP;
  if (kind == AtomicKind::kCompare) return compares;
  if (operation == FI_ATOMIC_READ) return kind == AtomicKind::kFetch;
  return !compares && operation >= FI_MIN && operation <= FI_DIFF;
}

void apply_atomic(fi_datatype datatype, fi_op operation, const AtomicWork& work) noexcept {
  type_of(datatype).apply(operation, work);
}

// ---- The origin ----

std::size_t atomic_count(std::size_t limit, AtomicKind kind, fi_datatype datatype, fi_op operation) noexcept {
  if (!has_atomic(kind, datatype, operation)) return 0;
  const std::size_t arrays = kind == AtomicKind::kCompare ? 2 : 1;
  return limit / arrays / element_size(datatype);
}

int query_atomic(std::size_t limit, fi_datatype datatype, fi_op operation, fi_atomic_attr* attr,
                 std::uint64_t flags) noexcept {
  if (attr == nullptr) return -FI_EINVAL;
  if (flags != 0 && flags != FI_FETCH_ATOMIC && flags != FI_COMPARE_ATOMIC) return -FI_EBADFLAGS;
  const AtomicKind kind = flags == 0                 ? AtomicKind::kUpdate
                          : flags == FI_FETCH_ATOMIC ? AtomicKind::kFetch
                                                     : AtomicKind::kCompare;
  const std::size_t count = atomic_count(limit, kind, datatype, operation);
  if (count == 0) return -FI_EOPNOTSUPP;
  attr->count = count;
  attr->size = element_size(datatype);
  return 0;
}

AtomicBuffers::AtomicBuffers(const AtomicRequest& request) noexcept {
  const std::size_t size = element_size(request.datatype);
  const auto add = [size](iovec* list, std::size_t& count, std::span<const fi_ioc> pieces) {
    for (const fi_ioc& each : pieces) list[count++] = {each.addr, each.count * size};
  };
  if (request.operation != FI_ATOMIC_READ) add(sent_, sent_count_, request.operands);
  if (request.kind == AtomicKind::kCompare) add(sent_, sent_count_, request.compares);
  if (request.kind != AtomicKind::kUpdate) add(results_, result_count_, request.results);
}

bool ReceivedAtomic::read(const Words& words, std::span<const AtomicRange> where, std::size_t len,
                          std::size_t limit) noexcept {
  if (words.kind > static_cast<unsigned>(AtomicKind::kCompare)) return false;
  kind_ = static_cast<AtomicKind>(words.kind);
  datatype_ = static_cast<fi_datatype>(words.datatype);
  operation_ = static_cast<fi_op>(words.operation);
  if (!has_atomic(kind_, datatype_, operation_)) return false;
  if (where.empty() || where.size() > kMaxAtomicRanges) return false;
  size_ = element_size(datatype_);
  std::size_t elements = 0;
  for (const AtomicRange& each : where) {
    if (each.count > limit / size_) return false;
    elements += each.count;
  }
  bytes_ = elements * size_;
  if (bytes_ > limit) return false;
  ranges_ = where.size();
  std::copy(where.begin(), where.end(), where_);
  const std::size_t arrays = kind_ == AtomicKind::kCompare ? 2 : operation_ == FI_ATOMIC_READ ? 0 : 1;
  return arrays * bytes_ == len;
}

int ReceivedAtomic::find_targets(MemoryRegions& regions, std::uint64_t since,
                                 void* (&targets)[kMaxAtomicRanges]) const noexcept {
  const std::uint64_t access = atomic_access(kind_, operation_);
  for (std::size_t i = 0; i < ranges_; ++i) {
    const AtomicRange& range = where_[i];
    const auto target = regions.check(range.key, range.addr, range.count * size_, access, since);
    if (!target) return target.error().code();
    targets[i] = *target;
  }
  return 0;
}

// FI_RMA_EVENT: for fi_endpoint(3) an operation that fetches is a read, for fi_mr(3) one that modifies is a write.
void ReceivedAtomic::count(MemoryRegions& regions, CompletionRoutes& routes) const noexcept {
  CounterCore* counter = (kind_ == AtomicKind::kUpdate ? routes.remote_write : routes.remote_read).get();
  if (counter != nullptr) counter->add(1);
  for (std::size_t i = 0; i < ranges_ && regions.has_counters(); ++i)
    regions.count_access(where_[i].key, atomic_access(kind_, operation_));
}

int ReceivedAtomic::execute(MemoryRegions& regions, CompletionRoutes& routes, const std::byte* arrays,
                            std::byte* results, std::uint64_t since) const noexcept {
  void* targets[kMaxAtomicRanges];
  if (const int error = find_targets(regions, since, targets); error != 0) return error;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < ranges_; ++i) {
    apply_atomic(datatype_, operation_,
                 {.target = targets[i],
                  .operand = operation_ == FI_ATOMIC_READ ? nullptr : arrays + offset,
                  .compare = kind_ == AtomicKind::kCompare ? arrays + bytes_ + offset : nullptr,
                  .result = kind_ == AtomicKind::kUpdate ? nullptr : results + offset,
                  .count = where_[i].count});
    offset += where_[i].count * size_;
  }
  count(regions, routes);
  return 0;
}

}  // namespace weft::rdm
