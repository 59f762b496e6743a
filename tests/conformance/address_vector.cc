// SPDX-License-Identifier: BSD-2-Clause
// Address vectors: insertion in all its forms, lookup, removal, printing; fi_av(3). They need no connectionless
// endpoint.

#include <deque>

#include "fixture/member.h"

namespace address_vector {

CONFORMANCE_TOPIC(AddressVector);

namespace {

// Whether inserting an address looks the peer up in the network: then the peer must exist.
bool asks_the_network(const Target& target) {
  return target.provider == "verbs" && target.ep_type == FI_EP_DGRAM;
}

// Endpoints at the addresses that a vector will contain, where lookups need them.
class Inhabitants {
 public:
  explicit Inhabitants(const Fabric& fabric) : fabric_(fabric) {}
  void settle(const Address& place) {
    if (!asks_the_network(fabric_.target())) return;
    NodeOptions options;
    Address name = place;
    options.configure = [&](fid_ep* ep) { require_ok(fi_setname(&ep->fid, name.get(), name.size), "fi_setname"); };
    ends_.emplace_back(fabric_, options);
  }

 private:
  const Fabric& fabric_;
  std::deque<DatagramEnd> ends_;
};

struct Scene {
  explicit Scene(const Target& target, fi_av_type type = FI_AV_TABLE, uint64_t flags = 0) : fabric(target) {
    fi_av_attr attr{};
    attr.type = type;
    attr.flags = flags;
    av = opened<fid_av>("fi_av_open", [&](fid_av** v) { return fi_av_open(fabric.domain(), &attr, v, nullptr); });
  }
  // `count` addresses in the packed array that fi_av_insert reads.
  std::vector<char> addresses(uint16_t first_port, size_t count) {
    std::vector<char> bytes;
    for (size_t i = 0; i < count; ++i) {
      const Address one = expected(static_cast<uint16_t>(first_port + i));
      inhabitants.settle(one);
      bytes.insert(bytes.end(), reinterpret_cast<const char*>(one.get()),
                   reinterpret_cast<const char*>(one.get()) + one.size);
    }
    return bytes;
  }
  Address lookup(fi_addr_t addr) {
    Address found;
    found.size = sizeof found.storage;
    require_ok(fi_av_lookup(av.get(), addr, &found.storage, &found.size), "fi_av_lookup");
    return found;
  }
  Address expected(uint16_t port) { return Address::numeric(fabric.target().address, port); }

  Fabric fabric;
  Inhabitants inhabitants{fabric};
  Handle<fid_av> av;
};

}  // namespace

TEST_P(AddressVector, TableGivesIndicesInTheOrderInserted) {
  Scene scene(target());
  const auto first = scene.addresses(1000, 3), second = scene.addresses(2000, 2);
  fi_addr_t out[5] = {99, 99, 99, 99, 99};
  ASSERT_EQ(fi_av_insert(scene.av.get(), first.data(), 3, out, 0, nullptr), 3);
  ASSERT_EQ(fi_av_insert(scene.av.get(), second.data(), 2, out + 3, 0, nullptr), 2);
  for (fi_addr_t i = 0; i < 5; ++i) EXPECT_EQ(out[i], i);
  EXPECT_EQ(scene.lookup(0), scene.expected(1000));
  EXPECT_EQ(scene.lookup(4), scene.expected(2001));
}

TEST_P(AddressVector, TableInsertsWithoutAnOutputArray) {
  Scene scene(target());
  const auto bytes = scene.addresses(1000, 3);
  ASSERT_EQ(fi_av_insert(scene.av.get(), bytes.data(), 3, nullptr, 0, nullptr), 3);
  EXPECT_EQ(scene.lookup(2), scene.expected(1002));
}

TEST_P(AddressVector, MapValuesResolveToTheAddress) {
  Scene scene(target(), FI_AV_MAP);
  const auto bytes = scene.addresses(1000, 3);
  fi_addr_t out[3] = {};
  ASSERT_EQ(fi_av_insert(scene.av.get(), bytes.data(), 3, out, 0, nullptr), 3);
  for (uint16_t i = 0; i < 3; ++i) {
    EXPECT_NE(out[i], FI_ADDR_NOTAVAIL);
    EXPECT_EQ(scene.lookup(out[i]), scene.expected(static_cast<uint16_t>(1000 + i)));
  }
}

TEST_P(AddressVector, UnspecifiedTypeIsFilledIn) {
  Fabric fabric(target());
  fi_av_attr attr{};
  const auto av =
      opened<fid_av>("fi_av_open", [&](fid_av** v) { return fi_av_open(fabric.domain(), &attr, v, nullptr); });
  EXPECT_TRUE(attr.type == FI_AV_TABLE || attr.type == FI_AV_MAP);
}

TEST_P(AddressVector, LookupTruncatesAndReportsTheSize) {
  Scene scene(target());
  const auto bytes = scene.addresses(1000, 1);
  ASSERT_EQ(fi_av_insert(scene.av.get(), bytes.data(), 1, nullptr, 0, nullptr), 1);
  char room[64];
  std::memset(room, '#', sizeof room);
  size_t size = 5;
  fi_av_lookup(scene.av.get(), 0, room, &size);
  EXPECT_EQ(size, bytes.size());
  EXPECT_EQ(std::memcmp(room, bytes.data(), 5), 0);
  EXPECT_EQ(room[5], '#');
}

TEST_P(AddressVector, SecondFormOfLookupWithoutFlagsIsTheFirst) {
  Scene scene(target());
  const auto bytes = scene.addresses(1000, 1);
  ASSERT_EQ(fi_av_insert(scene.av.get(), bytes.data(), 1, nullptr, 0, nullptr), 1);
  if (!FI_CHECK_OP(scene.av->ops, fi_ops_av, lookup2)) GTEST_SKIP() << "a provider of an earlier release";
  Address found;
  found.size = sizeof found.storage;
  ASSERT_EQ(fi_av_lookup2(scene.av.get(), 0, &found.storage, &found.size, 0, nullptr), 0);
  EXPECT_EQ(found, scene.lookup(0));
  EXPECT_EQ(fi_av_lookup2(scene.av.get(), 0, &found.storage, &found.size, FI_XPU, nullptr), -FI_ENOSYS);
}

TEST_P(AddressVector, LookupOfNothingIsRefused) {
  Scene scene(target());
  sockaddr_storage storage;
  size_t size = sizeof storage;
  EXPECT_LT(fi_av_lookup(scene.av.get(), 0, &storage, &size), 0);
  EXPECT_LT(fi_av_lookup(scene.av.get(), FI_ADDR_NOTAVAIL, &storage, &size), 0);
}

TEST_P(AddressVector, RemovedAddressIsInvalidUntilInsertedAgain) {
  Scene scene(target());
  const auto bytes = scene.addresses(1000, 2);
  fi_addr_t out[2];
  ASSERT_EQ(fi_av_insert(scene.av.get(), bytes.data(), 2, out, 0, nullptr), 2);
  ASSERT_EQ(fi_av_remove(scene.av.get(), &out[0], 1, 0), 0);
  sockaddr_storage storage;
  size_t size = sizeof storage;
  EXPECT_LT(fi_av_lookup(scene.av.get(), out[0], &storage, &size), 0);
  EXPECT_EQ(scene.lookup(out[1]), scene.expected(1001));
  fi_addr_t again = 99;
  ASSERT_EQ(fi_av_insert(scene.av.get(), bytes.data(), 1, &again, 0, nullptr), 1);
  EXPECT_EQ(again, 0u) << "the lowest unused index";
  EXPECT_EQ(scene.lookup(again), scene.expected(1000));
}

TEST_P(AddressVector, StraddrPrintsAnAddressThatWasNeverInserted) {
  Scene scene(target());
  const auto bytes = scene.addresses(4711, 1);
  char text[128];
  size_t size = sizeof text;
  EXPECT_EQ(fi_av_straddr(scene.av.get(), bytes.data(), text, &size), text);
  const std::string printed = text;
  EXPECT_NE(printed.find("4711"), std::string::npos) << printed;
  EXPECT_NE(printed.find(target().address), std::string::npos) << printed;
  EXPECT_GE(size, printed.size());
  char room[16];
  std::memset(room, '#', sizeof room);
  size_t small = 8;
  fi_av_straddr(scene.av.get(), bytes.data(), room, &small);
  EXPECT_EQ(small, size) << "the size needed";
  EXPECT_EQ(room[8], '#') << "wrote beyond the buffer";
  EXPECT_EQ(std::string(room, 4), printed.substr(0, 4)) << "truncated, not replaced";
}

TEST_P(AddressVector, AnAddressInsertedAgainKeepsItsHandle) {
  if (asks_the_network(target())) GTEST_SKIP() << "the peer may have changed";
  Scene s(target());
  const std::vector<char> one = s.addresses(7471, 1), other = s.addresses(7472, 1);
  fi_addr_t first = FI_ADDR_NOTAVAIL, second = FI_ADDR_NOTAVAIL, next = FI_ADDR_NOTAVAIL;
  ASSERT_EQ(fi_av_insert(s.av.get(), one.data(), 1, &first, 0, nullptr), 1);
  ASSERT_EQ(fi_av_insertsvc(s.av.get(), target().address.c_str(), "7471", &second, 0, nullptr), 1);
  EXPECT_EQ(second, first);
  ASSERT_EQ(fi_av_insert(s.av.get(), other.data(), 1, &next, 0, nullptr), 1);
  EXPECT_EQ(next, first + 1);
  ASSERT_EQ(fi_av_remove(s.av.get(), &first, 1, 0), 0);
  EXPECT_EQ(s.lookup(second), s.expected(7471)) << "one of two uses is left";
  ASSERT_EQ(fi_av_remove(s.av.get(), &second, 1, 0), 0);
  Address nobody;
  EXPECT_NE(fi_av_lookup(s.av.get(), second, &nobody.storage, &nobody.size), 0);
}

TEST_P(AddressVector, FailedInsertionsAreMarked) {
  Scene scene(target());
  auto bytes = scene.addresses(1000, 3);
  const size_t one = bytes.size() / 3;
  std::memset(bytes.data() + one, 0, one);  // no family at all
  fi_addr_t out[3] = {};
  int status[3] = {-1, -1, -1};
  EXPECT_EQ(fi_av_insert(scene.av.get(), bytes.data(), 3, out, FI_SYNC_ERR, status), 2);
  EXPECT_EQ(out[1], FI_ADDR_NOTAVAIL);
  EXPECT_EQ(status[0], 0);
  EXPECT_NE(status[1], 0);
  EXPECT_EQ(status[2], 0);
  EXPECT_EQ(scene.lookup(out[2]), scene.expected(1002));
}

TEST_P(AddressVector, WildcardsAreNoPeers) {
  Scene scene(target());
  const Address no_port = scene.expected(0);
  const Address no_host = Address::numeric(no_port.storage.ss_family == AF_INET ? "0.0.0.0" : "::", 1000);
  for (const Address& wildcard : {no_port, no_host}) {
    fi_addr_t out = 0;
    int status = 0;
    EXPECT_EQ(fi_av_insert(scene.av.get(), wildcard.get(), 1, &out, FI_SYNC_ERR, &status), 0);
    EXPECT_EQ(out, FI_ADDR_NOTAVAIL);
    EXPECT_EQ(status, FI_EINVAL);
  }
}

TEST_P(AddressVector, InsertsvcResolvesNodeAndService) {
  Scene scene(target());
  scene.inhabitants.settle(scene.expected(7471));
  fi_addr_t out = 99;
  ASSERT_EQ(fi_av_insertsvc(scene.av.get(), target().address.c_str(), "7471", &out, 0, nullptr), 1);
  EXPECT_EQ(scene.lookup(out), scene.expected(7471));
  EXPECT_LT(fi_av_insertsvc(scene.av.get(), "no.such.host.invalid", "1", &out, 0, nullptr), 1);
}

TEST_P(AddressVector, InsertsvcTakesAnAddressString) {
  Scene scene(target());
  const Address place = scene.expected(7472);
  scene.inhabitants.settle(place);
  char text[128];
  size_t len = sizeof text;
  ASSERT_STREQ(fi_av_straddr(scene.av.get(), place.get(), text, &len), text);
  fi_addr_t out = 99;
  ASSERT_EQ(fi_av_insertsvc(scene.av.get(), text, nullptr, &out, 0, nullptr), 1) << text;
  EXPECT_EQ(scene.lookup(out), place);
  EXPECT_LT(fi_av_insertsvc(scene.av.get(), text, "7472", &out, 0, nullptr), 1) << "the port is there already";
}

TEST_P(AddressVector, InsertsymCountsThroughServicesThenNodes) {
  Scene scene(target());
  if (target().addr_format != FI_SOCKADDR_IN) GTEST_SKIP() << "the host addresses counted here are IPv4";
  if (asks_the_network(target())) GTEST_SKIP() << "no endpoint is at the hosts counted here, and that is detected";
  fi_addr_t out[4];
  ASSERT_EQ(fi_av_insertsym(scene.av.get(), "10.1.1.1", 2, "5000", 2, out, 0, nullptr), 4);
  const char* hosts[] = {"10.1.1.1", "10.1.1.1", "10.1.1.2", "10.1.1.2"};
  for (uint16_t i = 0; i < 4; ++i)
    EXPECT_EQ(scene.lookup(out[i]), Address::numeric(hosts[i], static_cast<uint16_t>(5000 + i % 2)));
}

TEST_P(AddressVector, AsynchronousInsertNeedsAnEventQueue) {
  Scene scene(target(), FI_AV_TABLE, FI_EVENT);
  const auto bytes = scene.addresses(1000, 1);
  fi_addr_t out = 0;
  EXPECT_EQ(fi_av_insert(scene.av.get(), bytes.data(), 1, &out, 0, nullptr), -FI_ENOEQ);
}

TEST_P(AddressVector, AsynchronousInsertReportsToTheEventQueue) {
  Fabric fabric(target());
  EventQueue eq(fabric);
  fi_av_attr attr{};
  attr.type = FI_AV_TABLE;
  attr.flags = FI_EVENT;
  const auto av =
      opened<fid_av>("fi_av_open", [&](fid_av** v) { return fi_av_open(fabric.domain(), &attr, v, nullptr); });
  ASSERT_EQ(fi_av_bind(av.get(), eq.fid(), 0), 0);
  const Address good = Address::numeric(target().address, 1234);
  std::vector<char> bytes(3 * good.size, 0);  // the middle one is not an address
  std::memcpy(bytes.data(), good.get(), good.size);
  std::memcpy(bytes.data() + 2 * good.size, good.get(), good.size);
  bytes[2 * good.size + 3] ^= 1;  // another port
  Inhabitants inhabitants(fabric);
  for (const uint16_t port : {1234, 1235}) inhabitants.settle(Address::numeric(target().address, port));
  fi_addr_t out[3] = {};
  int context = 0;
  ASSERT_EQ(fi_av_insert(av.get(), bytes.data(), 3, out, 0, &context), 0);
  const Event error = eq.expect(Event::kError, &av->fid);
  EXPECT_EQ(error.context, &context);
  EXPECT_EQ(error.data, 1u) << "index of the failed address";
  EXPECT_NE(error.err, 0);
  const Event event = eq.expect(FI_AV_COMPLETE, &av->fid);
  EXPECT_EQ(event.context, &context);
  EXPECT_EQ(event.data, 2u) << "number of addresses inserted";
  EXPECT_EQ(out[1], FI_ADDR_NOTAVAIL);
  EXPECT_TRUE(eq.stays_silent(milliseconds(20)));
}

TEST_P(AddressVector, LargeVectorsKeepTheirOrder) {
  Scene scene(target());
  const size_t count = asks_the_network(target()) ? 40 : 5000;
  const auto bytes = scene.addresses(2000, count);
  std::vector<fi_addr_t> out(count);
  ASSERT_EQ(fi_av_insert(scene.av.get(), bytes.data(), count, out.data(), 0, nullptr), static_cast<int>(count));
  for (size_t i = 0; i < count; i += count / 10)
    EXPECT_EQ(scene.lookup(i), scene.expected(static_cast<uint16_t>(2000 + i)));
}

}  // namespace address_vector
