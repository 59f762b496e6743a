// SPDX-License-Identifier: BSD-2-Clause
// Every event of rdma_get_cm_event(3) at every identifier of a datagram endpoint, expected there or not: the one that
// answers lookups, one that looks up, and a group's while it joins and when it is a member.
#include <cstdio>

#include "conformance/fixture/parameter.h"
#include "datagram_world.h"

namespace faults_datagram_events_test {

namespace {

constexpr int kLastEvent = RDMA_CM_EVENT_TIMEWAIT_EXIT;

std::vector<int> statuses_of(int event) {
  switch (event) {
    case RDMA_CM_EVENT_REJECTED:
      return {8, 28};
    case RDMA_CM_EVENT_UNREACHABLE:
      return {1, 2, 3, 4, 5, 77, -ETIMEDOUT};
    case RDMA_CM_EVENT_ADDR_ERROR:
    case RDMA_CM_EVENT_ROUTE_ERROR:
    case RDMA_CM_EVENT_CONNECT_ERROR:
    case RDMA_CM_EVENT_MULTICAST_ERROR:
      return {-ETIMEDOUT, -ENETUNREACH, -ENOMEM};
    default:
      return {0};
  }
}

using Inject = std::function<void(const rdma_cm_id*)>;

const rdma_cm_id* newest_id() {
  return fake::ids().back().id;
}

// After each event an endpoint still receives, and a group can be joined.
void expect_alive(World& world) {
  close_one(world.receiver.mc, "group");
  ASSERT_TRUE(joins(world.receiver));
  ASSERT_TRUE(joins(world.sender));
  ASSERT_TRUE(world.receiver.post_receive() && world.sender.send_to_group());
  EXPECT_TRUE(wait([&] { return world.receiver.drain() == 1; }));
}

void at_the_answering_id(const Inject& inject) {
  World world;
  ASSERT_TRUE(world.open());
  const rdma_cm_id* id = nullptr;
  for (const fake::IdState& each : fake::ids())
    if (each.role == fake::Role::kListener) id = each.id;
  inject(id);
  for (int i = 0; i < 5; ++i) world.receiver.read();
  expect_alive(world);
}

void at_a_group(bool member, const Inject& inject) {
  World world;
  ASSERT_TRUE(world.open());
  if (member) {
    ASSERT_TRUE(joins(world.receiver));
    inject(newest_id());
    for (int i = 0; i < 5; ++i) world.receiver.read();
  } else {
    fake::hold();
    ASSERT_TRUE(world.receiver.join());
    inject(newest_id());
    fake::deliver_all();
    EXPECT_NE(next_event(world.receiver).fid, nullptr) << "a join has an event";
  }
  expect_alive(world);
}

void at_a_lookup(const Inject& inject) {
  World world;
  ASSERT_TRUE(world.open(FI_EVENT));
  const size_t before = fake::ids().size();
  fake::hold();
  fi_addr_t peer = FI_ADDR_NOTAVAIL;
  ASSERT_EQ(fi_av_insert(world.sender.av, &world.receiver.name, 1, &peer, 0, nullptr), 0);
  ASSERT_TRUE(wait([&] { return fake::ids().size() > before; }));
  inject(newest_id());
  fake::deliver_all();
  ASSERT_TRUE(wait([&] {
    world.receiver.read();
    return world.sender.read().type == FI_AV_COMPLETE;
  })) << "an insertion must end";
  expect_alive(world);
}

}  // namespace

TEST(FaultsDatagramEvents, EachEventAtEachIdentifier) {
  const Parameter timeout("FI_VERBS_CONNECT_TIMEOUT", "2000");
  const std::pair<const char*, std::function<void(const Inject&)>> places[] = {
      {"the answering id", at_the_answering_id},
      {"a lookup", at_a_lookup},
      {"a join", [](const Inject& inject) { at_a_group(false, inject); }},
      {"a member", [](const Inject& inject) { at_a_group(true, inject); }}};
  int runs = 0;
  for (int event = 0; event <= kLastEvent; ++event) {
    const auto type = static_cast<rdma_cm_event_type>(event);
    for (const int status : statuses_of(event)) {
      for (const auto& [place, run] : places) {
        if (event == RDMA_CM_EVENT_CONNECT_REQUEST && place != places[0].first) continue;  // cannot happen
        SCOPED_TRACE(std::string(rdma_event_str(type)) + " with status " + std::to_string(status) + " at " + place);
        fake::reset();
        run([&](const rdma_cm_id* id) { fake::inject_cm_event(id, type, status); });
        fake::reset();
        EXPECT_EQ(fake::leaks(), "");
        if (HasFailure()) return;
        ++runs;
      }
    }
  }
  std::printf("%d events injected\n", runs);
}

}  // namespace faults_datagram_events_test
