// SPDX-License-Identifier: BSD-2-Clause
// Address vectors through their ops tables; fi_av(3).
#include "objects/address_vector.h"

#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <thread>
#include <vector>

#include "fake_engine.h"

namespace weft {
namespace {

using Vector = AddressVector<FakeEngine>;

struct AddressVectorTest : testing::Test {
  void open(fi_av_type type = FI_AV_TABLE, uint64_t flags = 0, uint32_t format = FI_SOCKADDR_IN, int rx_ctx_bits = 0) {
    fi_av_attr attr{};
    attr.type = type;
    attr.flags = flags;
    attr.rx_ctx_bits = rx_ctx_bits;
    vector = Vector::open(parent.ref(), &attr, format, this).value();
    if (type == FI_AV_UNSPEC) {
      EXPECT_EQ(attr.type, FI_AV_TABLE);
    }
    av = &vector->abi;
  }
  void open_events() {
    fi_eq_attr attr{};
    attr.wait_obj = FI_WAIT_FD;
    events = EventQueue<FakeEngine>::open(parent.ref(), &attr, FI_VERSION(2, 6), nullptr).value();
    eq = &events->abi;
  }
  void TearDown() override {
    if (av != nullptr) {
      EXPECT_EQ(fi_close(&av->fid), 0);
    }
    if (eq != nullptr) {
      EXPECT_EQ(fi_close(&eq->fid), 0);
    }
    EXPECT_FALSE(parent.in_use());
  }
  static std::vector<sockaddr_in> addresses(size_t count, uint16_t first_port = 1) {
    std::vector<sockaddr_in> list(count);
    for (size_t i = 0; i < count; ++i) {
      const Address address = Address::loopback(AF_INET, static_cast<uint16_t>(first_port + i));
      std::memcpy(&list[i], address.data(), sizeof list[i]);
    }
    return list;
  }
  uint16_t port_of(fi_addr_t handle) const {
    const Address* found = vector->find(handle);
    return found != nullptr ? found->port() : 0;
  }

  FakeParent parent;
  Vector* vector = nullptr;
  fid_av* av = nullptr;
  EventQueue<FakeEngine>* events = nullptr;
  fid_eq* eq = nullptr;
};

TEST_F(AddressVectorTest, TableHandlesCountUpAcrossCalls) {
  for (fi_av_type type : {FI_AV_TABLE, FI_AV_MAP, FI_AV_UNSPEC}) {
    open(type);
    const auto list = addresses(300);
    std::vector<fi_addr_t> handles(300);
    EXPECT_EQ(fi_av_insert(av, list.data(), 200, handles.data(), 0, nullptr), 200);
    EXPECT_EQ(fi_av_insert(av, &list[200], 100, nullptr, FI_MORE, nullptr), 100);
    for (size_t i = 0; i < 200; ++i) EXPECT_EQ(handles[i], i);
    for (size_t i = 0; i < 300; ++i) EXPECT_EQ(port_of(i), i + 1);
    EXPECT_EQ(vector->find(300), nullptr);
    EXPECT_EQ(vector->find(FI_ADDR_NOTAVAIL), nullptr);
    EXPECT_EQ(fi_av_insert(av, nullptr, 0, nullptr, 0, nullptr), 0);
    TearDown();
    av = nullptr;
  }
}

TEST_F(AddressVectorTest, FailedAddressesKeepTheirPlaceAndAreReported) {
  open();
  auto list = addresses(4);
  list[1].sin_family = AF_UNIX;
  list[2].sin_family = AF_INET6;
  std::array<fi_addr_t, 4> handles{};
  std::array<int, 4> errors{9, 9, 9, 9};
  EXPECT_EQ(fi_av_insert(av, list.data(), 4, handles.data(), FI_SYNC_ERR, errors.data()), 2);
  EXPECT_EQ(handles, (std::array<fi_addr_t, 4>{0, FI_ADDR_NOTAVAIL, FI_ADDR_NOTAVAIL, 3}));
  EXPECT_EQ(errors, (std::array<int, 4>{0, FI_EINVAL, FI_EINVAL, 0}));
  sockaddr_in out;
  size_t len = sizeof out;
  EXPECT_EQ(fi_av_lookup(av, 1, &out, &len), -FI_EINVAL);
  EXPECT_EQ(fi_av_insert(av, addresses(1, 9).data(), 1, handles.data(), 0, nullptr), 1);
  EXPECT_EQ(handles[0], 1u) << "the lowest unused index";
}

TEST_F(AddressVectorTest, RemovedHandlesAreInvalidUntilReused) {
  open();
  const auto list = addresses(5);
  EXPECT_EQ(fi_av_insert(av, list.data(), 5, nullptr, 0, nullptr), 5);
  std::array<fi_addr_t, 2> gone{3, 1};
  EXPECT_EQ(fi_av_remove(av, gone.data(), 2, 0), 0);
  EXPECT_EQ(vector->find(1), nullptr);
  EXPECT_EQ(vector->source_of(Address::loopback(AF_INET, 2)), FI_ADDR_NOTAVAIL);
  EXPECT_EQ(fi_av_remove(av, gone.data(), 2, 0), -FI_EINVAL);
  EXPECT_EQ(fi_av_remove(av, gone.data(), 2, 1), -FI_EBADFLAGS);
  std::array<fi_addr_t, 3> handles{};
  EXPECT_EQ(fi_av_insert(av, list.data(), 3, handles.data(), 0, nullptr), 3);
  EXPECT_EQ(handles, (std::array<fi_addr_t, 3>{0, 1, 2})) << "two of them were there";
}

// fi_av(3): a vector stores an address once.
TEST_F(AddressVectorTest, AnAddressThatIsThereKeepsItsHandle) {
  open();
  const auto list = addresses(3);
  const std::array<decltype(list)::value_type, 4> again{list[0], list[0], list[1], list[0]};
  std::array<fi_addr_t, 4> handles{};
  EXPECT_EQ(fi_av_insert(av, again.data(), 4, handles.data(), 0, nullptr), 4);
  EXPECT_EQ(handles, (std::array<fi_addr_t, 4>{0, 0, 1, 0}));
  EXPECT_EQ(fi_av_insert(av, &list[2], 1, handles.data(), 0, nullptr), 1);
  EXPECT_EQ(handles[0], 2u) << "no handle is left out";
  fi_addr_t first = 0;
  for (int uses = 3; uses > 0; --uses) {
    EXPECT_EQ(vector->source_of(Address::loopback(AF_INET, 1)), 0u);
    EXPECT_EQ(fi_av_remove(av, &first, 1, 0), 0);
  }
  EXPECT_EQ(vector->source_of(Address::loopback(AF_INET, 1)), FI_ADDR_NOTAVAIL);
  EXPECT_EQ(fi_av_remove(av, &first, 1, 0), -FI_EINVAL);
  // A table whose caller counts the handles has each in its place.
  EXPECT_EQ(fi_av_insert(av, list.data(), 3, nullptr, 0, nullptr), 3);
  sockaddr_in out{};
  size_t len = sizeof out;
  EXPECT_EQ(fi_av_lookup(av, 4, &out, &len), 0);
  EXPECT_EQ(out.sin_port, htons(3));
}

TEST_F(AddressVectorTest, SourcesMayHaveUserIds) {
  open(FI_AV_TABLE, FI_AV_USER_ID);
  const auto list = addresses(2);
  std::array<fi_addr_t, 2> handles{70, 80};
  EXPECT_EQ(fi_av_insert(av, list.data(), 2, handles.data(), FI_AV_USER_ID, nullptr), 2);
  EXPECT_EQ(handles, (std::array<fi_addr_t, 2>{0, 1}));
  EXPECT_EQ(vector->source_of(Address::loopback(AF_INET, 2)), 80u);
  EXPECT_EQ(fi_av_set_user_id(av, 1, 90, 0), 0);
  EXPECT_EQ(vector->source_of(Address::loopback(AF_INET, 2)), 90u);
  EXPECT_EQ(fi_av_set_user_id(av, 5, 90, 0), -FI_EINVAL);
  // An address that was inserted twice is still found after one removal.
  EXPECT_EQ(fi_av_insert(av, list.data(), 1, nullptr, 0, nullptr), 1);
  fi_addr_t first = 0;
  EXPECT_EQ(fi_av_remove(av, &first, 1, 0), 0);
  EXPECT_EQ(vector->source_of(Address::loopback(AF_INET, 1)), 2u);
}

TEST_F(AddressVectorTest, LookupAndStraddrReportTheRequiredSize) {
  open();
  const auto list = addresses(1, 4711);
  EXPECT_EQ(fi_av_insert(av, list.data(), 1, nullptr, 0, nullptr), 1);
  sockaddr_in out{};
  size_t len = 4;
  EXPECT_EQ(fi_av_lookup(av, 0, &out, &len), 0);
  EXPECT_EQ(len, sizeof out);
  EXPECT_EQ(out.sin_port, htons(4711));
  EXPECT_EQ(out.sin_addr.s_addr, 0u) << "only four bytes were given";
  EXPECT_EQ(fi_av_lookup(av, 0, &out, &len), 0);
  EXPECT_EQ(std::memcmp(&out, list.data(), sizeof out), 0);
  char text[64];
  len = 5;
  EXPECT_EQ(fi_av_straddr(av, list.data(), text, &len), text);
  EXPECT_STREQ(text, "fi_s");
  EXPECT_EQ(len, sizeof "fi_sockaddr_in://127.0.0.1:4711");
  EXPECT_STREQ(fi_av_straddr(av, list.data(), text, &len), "fi_sockaddr_in://127.0.0.1:4711");
}

TEST_F(AddressVectorTest, InsertsMixedFamilies) {
  open(FI_AV_TABLE, 0, FI_SOCKADDR);
  const Address v6 = Address::loopback(AF_INET6, 6);
  const Address v4 = Address::loopback(AF_INET, 4);
  std::vector<std::byte> bytes(v6.size() + v4.size());
  std::memcpy(bytes.data(), v6.data(), v6.size());
  std::memcpy(bytes.data() + v6.size(), v4.data(), v4.size());
  EXPECT_EQ(fi_av_insert(av, bytes.data(), 2, nullptr, 0, nullptr), 2);
  EXPECT_EQ(*vector->find(0), v6);
  EXPECT_EQ(*vector->find(1), v4);
}

TEST_F(AddressVectorTest, InsertsServicesAndRanges) {
  open();
  EXPECT_EQ(fi_av_insertsvc(av, "127.0.0.1", "5000", nullptr, 0, nullptr), 1);
  EXPECT_EQ(vector->find(0)->to_string(), "127.0.0.1:5000");
  std::array<fi_addr_t, 4> handles{};
  EXPECT_EQ(fi_av_insertsym(av, "10.1.1.255", 2, "5000", 2, handles.data(), 0, nullptr), 4);
  const char* expected[] = {"10.1.1.255:5000", "10.1.1.255:5001", "10.1.2.0:5000", "10.1.2.0:5001"};
  for (size_t i = 0; i < 4; ++i) EXPECT_EQ(vector->find(handles[i])->to_string(), expected[i]);
  EXPECT_EQ(fi_av_insertsym(av, "localhost", 2, "5000", 1, handles.data(), 0, nullptr), 1)
      << "a name without a number has no successor";
  EXPECT_EQ(handles[1], FI_ADDR_NOTAVAIL);
  EXPECT_EQ(fi_av_insertsvc(av, nullptr, nullptr, nullptr, 0, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_av_insertsym(av, "10.1.1.1", size_t{1} << 63, "5000", 2, nullptr, 0, nullptr), -FI_EINVAL);
}

TEST_F(AddressVectorTest, EventsReportFailuresAndThenTheCount) {
  open(FI_AV_TABLE, FI_EVENT);
  auto list = addresses(3);
  list[1].sin_family = AF_UNIX;
  EXPECT_EQ(fi_av_insert(av, list.data(), 3, nullptr, 0, nullptr), -FI_ENOEQ);
  open_events();
  EXPECT_EQ(fi_av_bind(av, nullptr, 0), -FI_EINVAL);
  EXPECT_EQ(fi_av_bind(av, &eq->fid, 1), -FI_EBADFLAGS);
  EXPECT_EQ(fi_av_bind(av, &eq->fid, 0), 0);
  EXPECT_EQ(fi_close(&eq->fid), -FI_EBUSY);
  int errors[3];
  EXPECT_EQ(fi_av_insert(av, list.data(), 3, nullptr, FI_SYNC_ERR, errors), -FI_EINVAL);
  std::array<fi_addr_t, 3> handles{};
  int context = 0;
  EXPECT_EQ(fi_av_insert(av, list.data(), 3, handles.data(), 0, &context), 0);
  fi_eq_entry entry{};
  uint32_t event = 0;
  EXPECT_EQ(fi_eq_sread(eq, &event, &entry, sizeof entry, 5000, 0), -FI_EAVAIL);
  fi_eq_err_entry error{};
  ASSERT_GT(fi_eq_readerr(eq, &error, 0), 0);
  EXPECT_EQ(error.fid, &av->fid);
  EXPECT_EQ(error.context, &context);
  EXPECT_EQ(error.data, 1u) << "the index of the failed address";
  EXPECT_EQ(error.err, FI_EINVAL);
  ASSERT_GT(fi_eq_sread(eq, &event, &entry, sizeof entry, 5000, 0), 0);
  EXPECT_EQ(event, static_cast<uint32_t>(FI_AV_COMPLETE));
  EXPECT_EQ(entry.fid, &av->fid);
  EXPECT_EQ(entry.context, &context);
  EXPECT_EQ(entry.data, 2u);
  EXPECT_EQ(handles[1], FI_ADDR_NOTAVAIL);
}

TEST_F(AddressVectorTest, NamesResolveInTheBackgroundInOrder) {
  open(FI_AV_TABLE, FI_EVENT);
  open_events();
  ASSERT_EQ(fi_av_bind(av, &eq->fid, 0), 0);
  for (int round = 0; round < 3; ++round) {
    EXPECT_EQ(fi_av_insertsvc(av, "localhost", "100", nullptr, 0, nullptr), 0);
    const auto list = addresses(1, 200);
    EXPECT_EQ(fi_av_insert(av, list.data(), 1, nullptr, 0, nullptr), 0);
    for (int i = 0; i < 2; ++i) {
      fi_eq_entry entry{};
      uint32_t event = 0;
      ASSERT_GT(fi_eq_sread(eq, &event, &entry, sizeof entry, 10000, 0), 0);
      EXPECT_EQ(entry.data, 1u);
    }
    EXPECT_EQ(port_of(static_cast<fi_addr_t>(2 * round)), 100) << "the first call has the first index";
    EXPECT_EQ(port_of(static_cast<fi_addr_t>(2 * round + 1)), 200);
  }
}

TEST_F(AddressVectorTest, ReceiveContextBitsAreStripped) {
  open(FI_AV_TABLE, 0, FI_SOCKADDR_IN, 4);
  const auto list = addresses(2);
  EXPECT_EQ(fi_av_insert(av, list.data(), 2, nullptr, 0, nullptr), 2);
  const fi_addr_t handle = fi_rx_addr(1, 3, 4);
  EXPECT_EQ(port_of(handle), 2);
  EXPECT_EQ(vector->receive_context_of(handle), 3u);
}

TEST_F(AddressVectorTest, LooksUpWhileOthersInsert) {
  open();
  std::atomic<bool> stop{false};
  std::jthread reader([&] {
    while (!stop)
      for (fi_addr_t i = 0; i < 4000; i += 37)
        if (const Address* found = vector->find(i); found != nullptr && found->port() != i % 1000 + 1) std::abort();
  });
  const auto list = addresses(1000);
  for (int i = 0; i < 4; ++i) EXPECT_EQ(fi_av_insert(av, list.data(), 1000, nullptr, 0, nullptr), 1000);
  stop = true;
}

TEST_F(AddressVectorTest, RefusesInvalidArgumentsAndClosesOnlyUnused) {
  fi_av_attr attr{};
  attr.name = const_cast<char*>("shared");
  EXPECT_EQ(Vector::open(parent.ref(), &attr, FI_SOCKADDR_IN, nullptr).error().code(), -FI_ENOSYS);
  attr.name = nullptr;
  attr.flags = FI_MORE;
  EXPECT_EQ(Vector::open(parent.ref(), &attr, FI_SOCKADDR_IN, nullptr).error().code(), -FI_EBADFLAGS);
  attr.type = static_cast<fi_av_type>(9);
  EXPECT_EQ(Vector::open(parent.ref(), &attr, FI_SOCKADDR_IN, nullptr).error().code(), -FI_EINVAL);
  open();
  EXPECT_EQ(fi_av_insert(av, nullptr, 1, nullptr, 0, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_av_insert(av, nullptr, 0, nullptr, FI_EVENT, nullptr), -FI_EBADFLAGS);
  const Ref<AddressVectorCore> user(*vector);
  EXPECT_EQ(fi_close(&av->fid), -FI_EBUSY);
}

}  // namespace
}  // namespace weft
