// SPDX-License-Identifier: BSD-2-Clause
// Atomic operations executed by the processor: the result of each for two values, after fi_atomic(3).
#include "rdm/atomics.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <complex>
#include <cstring>
#include <thread>
#include <vector>

namespace weft::rdm {
namespace {

template <class T>
struct Outcome {
  T now, was;
};

template <class T>
Outcome<T> apply_one(fi_datatype type, fi_op op, T target, T operand, T compare = T{}) {
  T was{};
  apply_atomic(type, op, {.target = &target, .operand = &operand, .compare = &compare, .result = &was, .count = 1});
  return {target, was};
}

#define EXPECT_MAKES(type, op, target, operand, expected)                                             \
  do {                                                                                                \
    const auto outcome = apply_one<std::remove_const_t<decltype(target)>>(type, op, target, operand); \
    EXPECT_EQ(outcome.now, expected) << #type " " #op;                                                \
    EXPECT_EQ(outcome.was, target) << #type " " #op;                                                  \
  } while (0)

template <class T>
void expect_real_operations(fi_datatype type) {
  const T five{5}, three{3}, zero{0}, one{1};
  EXPECT_MAKES(type, FI_MIN, five, three, three);
  EXPECT_MAKES(type, FI_MIN, three, five, three);
  EXPECT_MAKES(type, FI_MAX, five, three, five);
  EXPECT_MAKES(type, FI_MAX, three, five, five);
  EXPECT_MAKES(type, FI_SUM, five, three, T{8});
  EXPECT_MAKES(type, FI_DIFF, five, three, T{2});
  EXPECT_MAKES(type, FI_PROD, five, three, T{15});
  EXPECT_MAKES(type, FI_LOR, five, zero, one);
  EXPECT_MAKES(type, FI_LOR, zero, zero, zero);
  EXPECT_MAKES(type, FI_LAND, five, three, one);
  EXPECT_MAKES(type, FI_LAND, five, zero, zero);
  EXPECT_MAKES(type, FI_LXOR, five, three, zero);
  EXPECT_MAKES(type, FI_LXOR, zero, three, one);
  EXPECT_MAKES(type, FI_ATOMIC_READ, five, three, five);
  EXPECT_MAKES(type, FI_ATOMIC_WRITE, five, three, three);
}

template <class T>
void expect_swaps(fi_datatype type, bool ordered) {
  struct Case {
    fi_op op;
    bool less, equal, greater;  // compare OP target holds when compare is ...
  };
  const Case cases[] = {{FI_CSWAP, false, true, false},   {FI_CSWAP_NE, true, false, true},
                        {FI_CSWAP_LE, true, true, false}, {FI_CSWAP_LT, true, false, false},
                        {FI_CSWAP_GE, false, true, true}, {FI_CSWAP_GT, false, false, true}};
  for (const Case& each : cases) {
    if (!ordered && each.op > FI_CSWAP_NE) break;
    const T target{5};
    const T operand{9};
    const auto swapped = [&](int compare) {
      return apply_one<T>(type, each.op, target, operand, T(static_cast<std::int8_t>(compare))).now == operand;
    };
    EXPECT_EQ(swapped(4), each.less) << type << " " << each.op;
    EXPECT_EQ(swapped(5), each.equal) << type << " " << each.op;
    EXPECT_EQ(swapped(6), each.greater) << type << " " << each.op;
  }
}

template <class T>
void expect_integer_operations(fi_datatype type) {
  expect_real_operations<T>(type);
  expect_swaps<T>(type, true);
  const T twelve{12}, ten{10};
  EXPECT_MAKES(type, FI_BOR, twelve, ten, T{14});
  EXPECT_MAKES(type, FI_BAND, twelve, ten, T{8});
  EXPECT_MAKES(type, FI_BXOR, twelve, ten, T{6});
  EXPECT_EQ(apply_one<T>(type, FI_MSWAP, T{12}, T{3}, T{6}).now, T{10});
  const T most = std::numeric_limits<T>::max(), least = std::numeric_limits<T>::min(), one{1};
  EXPECT_MAKES(type, FI_SUM, most, one, least);
  EXPECT_MAKES(type, FI_DIFF, least, one, most);
  EXPECT_EQ(apply_one<T>(type, FI_PROD, most, most).now, one);
}

TEST(Atomics, IntegersOfAllSizes) {
  expect_integer_operations<std::int8_t>(FI_INT8);
  expect_integer_operations<std::int16_t>(FI_INT16);
  expect_integer_operations<std::int32_t>(FI_INT32);
  expect_integer_operations<std::int64_t>(FI_INT64);
  EXPECT_MAKES(FI_INT32, FI_MIN, -1, 1, -1);
}

TEST(Atomics, UnsignedIntegersOfAllSizes) {
  expect_real_operations<std::uint8_t>(FI_UINT8);
  expect_real_operations<std::uint16_t>(FI_UINT16);
  expect_real_operations<std::uint32_t>(FI_UINT32);
  expect_real_operations<std::uint64_t>(FI_UINT64);
  expect_swaps<std::uint8_t>(FI_UINT8, true);
  expect_swaps<std::uint64_t>(FI_UINT64, true);
  EXPECT_MAKES(FI_UINT32, FI_MIN, ~0u, 1u, 1u);
  EXPECT_EQ(apply_one<std::uint16_t>(FI_UINT16, FI_PROD, 0xffff, 0xffff).now, 1);
}

TEST(Atomics, FloatingPoint) {
  expect_real_operations<float>(FI_FLOAT);
  expect_real_operations<double>(FI_DOUBLE);
  expect_real_operations<long double>(FI_LONG_DOUBLE);
  expect_swaps<float>(FI_FLOAT, true);
  expect_swaps<long double>(FI_LONG_DOUBLE, true);
}

template <class T>
void expect_complex_operations(fi_datatype type) {
  using C = std::complex<T>;
  const C a{1, 2}, b{3, -1}, zero{}, one{1, 0};
  EXPECT_MAKES(type, FI_SUM, a, b, C(4, 1));
  EXPECT_MAKES(type, FI_PROD, a, b, C(5, 5));
  EXPECT_MAKES(type, FI_LAND, a, zero, zero);
  EXPECT_MAKES(type, FI_LOR, a, zero, one);
  EXPECT_MAKES(type, FI_ATOMIC_WRITE, a, b, b);
  expect_swaps<C>(type, false);
}

TEST(Atomics, ComplexNumbers) {
  expect_complex_operations<float>(FI_FLOAT_COMPLEX);
  expect_complex_operations<double>(FI_DOUBLE_COMPLEX);
  expect_complex_operations<long double>(FI_LONG_DOUBLE_COMPLEX);
}

TEST(Atomics, HundredAndTwentyEightBits) {
  alignas(16) std::uint64_t target[2] = {~std::uint64_t{0}, 1}, operand[2] = {1, 0}, was[2] = {};
  apply_atomic(FI_UINT128, FI_SUM,
               {.target = target, .operand = operand, .compare = nullptr, .result = was, .count = 1});
  EXPECT_EQ(target[0], 0u);
  EXPECT_EQ(target[1], 2u);
  EXPECT_EQ(was[1], 1u);
  target[1] = ~std::uint64_t{0};  // -2^64
  apply_atomic(FI_INT128, FI_MIN,
               {.target = target, .operand = operand, .compare = nullptr, .result = was, .count = 1});
  EXPECT_EQ(target[1], ~std::uint64_t{0}) << "negative is less";
}

TEST(Atomics, ValidCombinationsAreThoseOfTheManualPage) {
  for (int type = FI_INT8; type <= FI_UINT128; ++type) {
    const auto datatype = static_cast<fi_datatype>(type);
    const bool complex =
        datatype == FI_FLOAT_COMPLEX || datatype == FI_DOUBLE_COMPLEX || datatype == FI_LONG_DOUBLE_COMPLEX;
    const bool integer = datatype <= FI_UINT64 || datatype >= FI_INT128;
    EXPECT_TRUE(has_atomic(AtomicKind::kUpdate, datatype, FI_SUM));
    EXPECT_EQ(has_atomic(AtomicKind::kUpdate, datatype, FI_MAX), !complex);
    EXPECT_EQ(has_atomic(AtomicKind::kFetch, datatype, FI_BXOR), integer);
    EXPECT_EQ(has_atomic(AtomicKind::kCompare, datatype, FI_MSWAP), integer);
    EXPECT_EQ(has_atomic(AtomicKind::kCompare, datatype, FI_CSWAP_GE), !complex);
    EXPECT_FALSE(has_atomic(AtomicKind::kUpdate, datatype, FI_ATOMIC_READ));
    EXPECT_TRUE(has_atomic(AtomicKind::kFetch, datatype, FI_ATOMIC_READ));
    EXPECT_FALSE(has_atomic(AtomicKind::kFetch, datatype, FI_CSWAP));
    EXPECT_FALSE(has_atomic(AtomicKind::kCompare, datatype, FI_SUM));
  }
  for (int type : {int{FI_FLOAT16}, int{FI_VOID}, 255})
    for (int op : {int{FI_SUM}, int{FI_ATOMIC_WRITE}})
      EXPECT_FALSE(has_atomic(AtomicKind::kUpdate, static_cast<fi_datatype>(type), static_cast<fi_op>(op)));
  EXPECT_FALSE(has_atomic(AtomicKind::kUpdate, FI_INT8, static_cast<fi_op>(FI_DIFF + 1)));
  EXPECT_FALSE(has_atomic(AtomicKind::kUpdate, FI_INT8, FI_NOOP));
}

TEST(Atomics, TargetsNeedNotBeAligned) {
  alignas(16) std::byte bytes[33]{};
  const std::uint64_t operands[] = {7, 9};
  for (std::size_t at = 0; at < 16; ++at) {
    std::memset(bytes, 0, sizeof bytes);
    apply_atomic(FI_UINT64, FI_SUM,
                 {.target = bytes + at, .operand = operands, .compare = nullptr, .result = nullptr, .count = 2});
    EXPECT_EQ(std::memcmp(bytes + at, operands, sizeof operands), 0);
  }
}

TEST(Atomics, MemoryThatIsOnlyReadMayBeReadOnly) {
  void* const page = ::mmap(nullptr, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  ASSERT_NE(page, MAP_FAILED);
  std::uint64_t was = 1;
  apply_atomic(FI_UINT64, FI_ATOMIC_READ,
               {.target = page, .operand = nullptr, .compare = nullptr, .result = &was, .count = 1});
  EXPECT_EQ(was, 0u);
  ::munmap(page, 4096);
}

TEST(Atomics, UpdatesOfThreadsAllCount) {
  std::uint32_t sum = 0;
  constexpr std::uint32_t kRounds = 20000;
  const auto run = [&] {
    const std::uint32_t one = 1;
    for (std::uint32_t i = 0; i < kRounds; ++i)
      apply_atomic(FI_UINT32, FI_SUM,
                   {.target = &sum, .operand = &one, .compare = nullptr, .result = nullptr, .count = 1});
  };
  std::thread other(run);
  run();
  other.join();
  EXPECT_EQ(sum, 2 * kRounds);
}

}  // namespace
}  // namespace weft::rdm
