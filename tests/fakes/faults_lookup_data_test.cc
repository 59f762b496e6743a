// SPDX-License-Identifier: BSD-2-Clause
// Private data of datagram lookups and of their answers, also with peers that are other programs: fi_av(3),
// FI_OPT_WEFT_LOOKUP_ANSWER and FI_OPT_WEFT_LOOKUP_DATA of fi_endpoint(3). rdma_connect(3) allows 180 bytes with a
// lookup, rdma_accept(3) 136 with its answer.
#include <rdma/fi_ext.h>

#include "datagram_world.h"
#include "raw_end.h"

namespace faults_lookup_data_test {

namespace {

constexpr size_t kData = FI_WEFT_LOOKUP_DATA_SIZE, kAnswer = FI_WEFT_LOOKUP_ANSWER_SIZE;

std::string padded(std::string data, size_t size) {
  data.resize(size);
  return data;
}
template <size_t size>
std::string text(const uint8_t (&bytes)[size]) {
  return {reinterpret_cast<const char*>(bytes), size};
}

int set_data(Member& member, const std::string& data) {
  iovec value{const_cast<char*>(data.data()), data.size()};
  return fi_set_val(&member.av->fid, FI_VAL_WEFT_LOOKUP_DATA, &value);
}
std::string answer_of(Member& member, fi_addr_t peer) {
  fi_weft_lookup_answer answer{};
  answer.peer = peer;
  std::memset(answer.data, '?', sizeof answer.data);
  EXPECT_EQ(fi_get_val(&member.av->fid, FI_VAL_WEFT_LOOKUP_ANSWER, &answer), 0);
  return text(answer.data);
}
int set_answer(Member& member, const std::string& data) {
  return fi_setopt(&member.ep->fid, FI_OPT_ENDPOINT, FI_OPT_WEFT_LOOKUP_ANSWER, data.data(), data.size());
}
int take(Member& member, fi_weft_lookup_data& lookup) {
  size_t size = sizeof lookup;
  return fi_getopt(&member.ep->fid, FI_OPT_ENDPOINT, FI_OPT_WEFT_LOOKUP_DATA, &lookup, &size);
}
// The data of the oldest lookup that was not taken; empty: none.
std::string taken(Member& member) {
  fi_weft_lookup_data lookup{};
  const int result = take(member, lookup);
  EXPECT_TRUE(result == 0 || result == -FI_EAGAIN) << result;
  return result == 0 ? text(lookup.data) : "";
}
fi_addr_t insert(Member& member, const sockaddr_in& peer) {
  fi_addr_t handle = FI_ADDR_NOTAVAIL;
  EXPECT_EQ(fi_av_insert(member.av, &peer, 1, &handle, 0, nullptr), 1);
  return handle;
}

// Makes a lookup as another program does; returns the answer.
raw::Seen look_up(World& world, const std::string& data) {
  raw::Events events;
  rdma_cm_id* id = nullptr;
  EXPECT_EQ(rdma_create_id(events.channel(), &id, nullptr, RDMA_PS_UDP), 0);
  sockaddr_in peer = world.receiver.name;
  EXPECT_EQ(rdma_resolve_addr(id, nullptr, raw::generic(peer), 1000), 0);
  EXPECT_EQ(events.next().type, RDMA_CM_EVENT_ADDR_RESOLVED);
  EXPECT_EQ(rdma_resolve_route(id, 1000), 0);
  EXPECT_EQ(events.next().type, RDMA_CM_EVENT_ROUTE_RESOLVED);
  rdma_conn_param request{};
  request.private_data = data.data();
  request.private_data_len = static_cast<uint8_t>(data.size());
  EXPECT_EQ(rdma_connect(id, &request), 0);
  EXPECT_TRUE(wait([&] {
    world.receiver.read();
    return events.readable();
  }));
  raw::Seen answer = events.next();
  EXPECT_EQ(rdma_destroy_id(id), 0);
  return answer;
}

// Another program that answers lookups.
class Answerer {
 public:
  // `answer`: the data of the answer to a request with that data.
  Answerer(int requests, const std::function<std::string(const std::string&)>& answer) {
    EXPECT_EQ(rdma_create_id(events_.channel(), &listener_, nullptr, RDMA_PS_UDP), 0);
    sockaddr_in any = ip("127.0.0.1", 0);
    EXPECT_EQ(rdma_bind_addr(listener_, raw::generic(any)), 0);
    EXPECT_EQ(rdma_listen(listener_, 1), 0);
    thread_ = std::thread([=, this] {
      for (int i = 0; i < requests; ++i) {
        const raw::Seen asked = events_.next();
        EXPECT_EQ(asked.type, RDMA_CM_EVENT_CONNECT_REQUEST);
        const std::string data = answer(asked.data);
        rdma_conn_param param{};
        param.qp_num = 77;
        param.private_data = data.data();
        param.private_data_len = static_cast<uint8_t>(data.size());
        EXPECT_EQ(rdma_accept(asked.id, &param), 0);
        EXPECT_EQ(rdma_destroy_id(asked.id), 0);
      }
    });
  }
  ~Answerer() {
    thread_.join();
    EXPECT_EQ(rdma_destroy_id(listener_), 0);
  }
  sockaddr_in name() const { return ip("127.0.0.1", ntohs(rdma_get_src_port(listener_))); }

 private:
  raw::Events events_;
  rdma_cm_id* listener_ = nullptr;
  std::thread thread_;
};

}  // namespace

class FaultsLookupData : public testing::Test {
 protected:
  void SetUp() override { fake::reset(); }
  void TearDown() override {
    fake::reset();
    EXPECT_EQ(fake::leaks(), "");
  }
};

TEST_F(FaultsLookupData, LookupsWithDataOfAnyLengthAreAnsweredAndKept) {
  World world;
  ASSERT_TRUE(world.open());
  for (size_t bytes = 0; bytes <= kData; ++bytes) {
    const std::string data(bytes, 'q');
    const raw::Seen answer = look_up(world, data);
    ASSERT_EQ(answer.type, RDMA_CM_EVENT_ESTABLISHED) << bytes;
    EXPECT_EQ(answer.data.find_first_not_of('\0'), std::string::npos) << "only padding: no answer was set";
    fi_weft_lookup_data lookup{};
    ASSERT_EQ(take(world.receiver, lookup), bytes == 0 ? -FI_EAGAIN : 0) << bytes;
    if (bytes == 0) continue;
    EXPECT_EQ(text(lookup.data), padded(data, kData));
    const auto& source = reinterpret_cast<const sockaddr_in&>(lookup.source);
    EXPECT_EQ(source.sin_family, AF_INET);
    EXPECT_EQ(source.sin_addr.s_addr, world.receiver.name.sin_addr.s_addr);
  }
  EXPECT_EQ(taken(world.receiver), "");
}

TEST_F(FaultsLookupData, AnswersWithDataOfAnyLengthAreAcceptedAndReturned) {
  World world;
  ASSERT_TRUE(world.open());
  size_t bytes = 0;
  const Answerer peer(kAnswer + 1, [&](const std::string& asked) {
    EXPECT_EQ(asked.find_first_not_of('\0'), std::string::npos) << "only padding: no data was set";
    return std::string(bytes, 'a');
  });
  for (; bytes <= kAnswer; ++bytes) {
    fi_addr_t handle = insert(world.sender, peer.name());
    EXPECT_EQ(answer_of(world.sender, handle), padded(std::string(bytes, 'a'), kAnswer));
    EXPECT_EQ(fi_av_remove(world.sender.av, &handle, 1, 0), 0);
  }
}

TEST_F(FaultsLookupData, LookupsCarryTheDataOfTheirVector) {
  World world;
  ASSERT_TRUE(world.open());
  std::string data;
  const Answerer peer(kData + 2, [&](const std::string& asked) {
    EXPECT_EQ(asked, padded(data, kData));
    return std::string();
  });
  for (size_t bytes = kData;; --bytes) {
    data = std::string(bytes, 'd');
    ASSERT_EQ(set_data(world.sender, data), 0) << bytes;
    insert(world.sender, peer.name());
    if (bytes == 0) break;
  }
  insert(world.receiver, peer.name());  // another vector has no data
}

TEST_F(FaultsLookupData, AnswersCarryTheDataOfTheirEndpoint) {
  World world;
  ASSERT_TRUE(world.open());
  for (size_t bytes = kAnswer;; --bytes) {
    const std::string data(bytes, 'w');
    ASSERT_EQ(set_answer(world.receiver, data), 0) << bytes;
    EXPECT_EQ(look_up(world, {}).data, padded(data, kAnswer));
    char set[kAnswer];
    size_t size = sizeof set;
    EXPECT_EQ(fi_getopt(&world.receiver.ep->fid, FI_OPT_ENDPOINT, FI_OPT_WEFT_LOOKUP_ANSWER, set, &size), 0);
    EXPECT_EQ(std::string(set, size), padded(data, kAnswer));
    if (bytes == 0) break;
  }
}

TEST_F(FaultsLookupData, AnswersStayWithTheirPeers) {
  World world;
  ASSERT_TRUE(world.open());
  int calls = 0;
  const Answerer peer(2, [&](const std::string&) { return std::string(++calls == 1 ? "one" : "the other"); });
  fi_addr_t first = insert(world.sender, peer.name()), second = insert(world.sender, peer.name());
  const fi_addr_t plain = insert(world.sender, world.receiver.name);
  EXPECT_EQ(answer_of(world.sender, second), padded("the other", kAnswer));
  EXPECT_EQ(answer_of(world.sender, first), padded("one", kAnswer));
  EXPECT_EQ(answer_of(world.sender, plain), std::string(kAnswer, '\0'));
  ASSERT_EQ(fi_av_remove(world.sender.av, &first, 1, 0), 0);
  EXPECT_EQ(insert(world.sender, world.receiver.name), first) << "the same handle";
  EXPECT_EQ(answer_of(world.sender, first), std::string(kAnswer, '\0')) << "with another answer";
  fi_weft_lookup_answer nobody{};
  nobody.peer = 99;
  EXPECT_EQ(fi_get_val(&world.sender.av->fid, FI_VAL_WEFT_LOOKUP_ANSWER, &nobody), -FI_EINVAL);
}

TEST_F(FaultsLookupData, DataWaitsForEarlierInsertionsWithEvents) {
  World world;
  ASSERT_TRUE(world.open(FI_EVENT));
  fi_addr_t handles[2];
  const std::string given[] = {"first", "second"};
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(set_data(world.sender, given[i]), 0);
    EXPECT_EQ(fi_av_insert(world.sender.av, &world.receiver.name, 1, &handles[i], 0, nullptr), 0);
  }
  EXPECT_EQ(set_data(world.sender, "third"), 0);
  for (int i = 0; i < 2; ++i) EXPECT_EQ(next_event(world.sender).type, FI_AV_COMPLETE);
  for (const std::string& each : given) EXPECT_EQ(taken(world.receiver), padded(each, kData));
}

TEST_F(FaultsLookupData, WrongSizesAndDirectionsAreRefused) {
  World world;
  ASSERT_TRUE(world.open());
  Member& member = world.receiver;
  fid_t vector = &member.av->fid, endpoint = &member.ep->fid;
  ASSERT_EQ(set_answer(member, "stays"), 0);
  EXPECT_EQ(set_data(member, std::string(kData + 1, 'x')), -FI_EINVAL);
  EXPECT_EQ(set_answer(member, std::string(kAnswer + 1, 'x')), -FI_EINVAL);
  EXPECT_EQ(fi_setopt(endpoint, FI_OPT_ENDPOINT, FI_OPT_WEFT_LOOKUP_ANSWER, nullptr, 1), -FI_EINVAL);
  EXPECT_EQ(look_up(world, {}).data, padded("stays", kAnswer));
  iovec missing{nullptr, 1};
  EXPECT_EQ(fi_set_val(vector, FI_VAL_WEFT_LOOKUP_DATA, &missing), -FI_EINVAL);
  EXPECT_EQ(fi_set_val(vector, FI_VAL_WEFT_LOOKUP_DATA, nullptr), -FI_EINVAL);
  EXPECT_EQ(fi_control(vector, FI_SET_VAL, nullptr), -FI_EINVAL);
  fi_weft_lookup_answer answer{};
  EXPECT_EQ(fi_set_val(vector, FI_VAL_WEFT_LOOKUP_ANSWER, &answer), -FI_ENOSYS);
  EXPECT_EQ(fi_get_val(vector, FI_VAL_WEFT_LOOKUP_DATA, &missing), -FI_ENOSYS);
  EXPECT_EQ(fi_get_val(vector, FI_VAL_WEFT_MR_CACHE, &answer), -FI_ENOSYS);
  fi_weft_lookup_data lookup{};
  EXPECT_EQ(fi_setopt(endpoint, FI_OPT_ENDPOINT, FI_OPT_WEFT_LOOKUP_DATA, &lookup, sizeof lookup), -FI_ENOPROTOOPT);

  ASSERT_EQ(look_up(world, "kept").type, RDMA_CM_EVENT_ESTABLISHED);
  size_t size = sizeof lookup - 1;
  EXPECT_EQ(fi_getopt(endpoint, FI_OPT_ENDPOINT, FI_OPT_WEFT_LOOKUP_DATA, &lookup, &size), -FI_ETOOSMALL);
  EXPECT_EQ(size, sizeof lookup);
  EXPECT_EQ(taken(member), padded("kept", kData));
}

// FI_ADDR_IB_UD needs no lookups.
TEST_F(FaultsLookupData, EndpointsWithoutLookupsHaveNoSuchOptions) {
  World world;
  ASSERT_TRUE(world.open(0, FI_ADDR_IB_UD));
  fi_weft_lookup_data lookup{};
  fi_weft_lookup_answer answer{};
  EXPECT_EQ(set_data(world.sender, "data"), -FI_ENOSYS);
  EXPECT_EQ(fi_get_val(&world.sender.av->fid, FI_VAL_WEFT_LOOKUP_ANSWER, &answer), -FI_ENOSYS);
  EXPECT_EQ(set_answer(world.sender, "data"), -FI_ENOPROTOOPT);
  EXPECT_EQ(take(world.sender, lookup), -FI_ENOPROTOOPT);
}

}  // namespace faults_lookup_data_test
