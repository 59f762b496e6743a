// SPDX-License-Identifier: BSD-2-Clause
// Multicast groups of datagram endpoints: fi_join, fi_mc_addr and fi_close of fi_cm(3), FI_MULTICAST of fi_endpoint(3),
// and FI_OPT_WEFT_MULTICAST_LOOPBACK of rdma/fi_ext.h.
#include <netinet/in.h>
#include <rdma/fi_ext.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <deque>
#include <set>

#include "fixture/member.h"
#include "fixture/process.h"

namespace multicast {

CONFORMANCE_TOPIC(Multicast);

namespace {

constexpr uint16_t kPort = 47'471;
constexpr size_t kSize = 100;

void with_multicast(fi_info& hints) {
  hints.caps = FI_MSG | FI_MULTICAST | FI_SOURCE;
}

// First line of every body: the target's fabric.
#define MULTICAST_FABRIC(fabric)                                                                                 \
  if (target().ep_type != FI_EP_DGRAM) GTEST_SKIP() << "groups are for datagrams";                               \
  const Target here = multicast_target(target());                                                                \
  if (here.address.empty()) GTEST_SKIP() << "no interface with an IPv6 address that carries multicast";          \
  ASSERT_TRUE(Fabric::offers(here, with_multicast)) << "fi_getinfo offers no FI_MULTICAST for " << here.address; \
  Fabric fabric(here, with_multicast)

// A member with a receive posted; groups go before their endpoint.
struct Member {
  explicit Member(const Fabric& fabric, const NodeOptions& options = {})
      : in(fabric, 2048), out(fabric, 2048), end(fabric, options) {}

  void join(const Address& group, uint64_t flags = 0) { mc = joined(*end, group, flags, &join_context); }
  ssize_t post() { return end->recv(in, in.size(), &received); }
  // Sends the pattern of `seed` and waits for the sender's completion.
  void say(unsigned seed, fid_mc* to = nullptr) {
    out.fill_pattern(seed);
    ASSERT_EQ(send_to_group(*end, out, kSize, to ? to : mc.get(), &sent), 0);
    const Completion completion = end->tx().wait();
    ASSERT_TRUE(completion.ok()) << completion;
    EXPECT_EQ(completion.context(), &sent);
  }
  // The posted receive gets that message, and is posted again.
  void expect_message(unsigned seed, fi_addr_t* source = nullptr) {
    fi_cq_tagged_entry entry{};
    fi_addr_t from = FI_ADDR_NOTAVAIL;
    const ssize_t rc = retry([&] { return fi_cq_readfrom(end->rx().get(), &entry, 1, &from); });
    ASSERT_EQ(rc, 1) << "no message of seed " << seed;
    EXPECT_EQ(entry.op_context, &received);
    EXPECT_EQ(entry.len, kSize);
    EXPECT_TRUE(in.holds_pattern(seed, kSize)) << "message of seed " << seed;
    if (source) *source = from;
    ASSERT_EQ(post(), 0);
  }
  bool receives_nothing() { return end->rx().stays_silent(); }

  Buffer in, out;
  Context received, sent;
  int join_context = 0;
  DatagramEnd end;
  Handle<fid_mc> mc;
};

int set_loopback(Member& member, int value) {
  return fi_setopt(member.end->fid(), FI_OPT_ENDPOINT, FI_OPT_WEFT_MULTICAST_LOOPBACK, &value, sizeof value);
}

Address wildcard(const Target& target) {
  return Address::numeric(target.addr_format == FI_SOCKADDR_IN ? "0.0.0.0" : "::", 0);
}
int set_name(const Node& node, Address& name) {
  return fi_setname(node.fid(), name.get(), name.size);
}
// A socket that shares addresses gets this one.
bool can_share(const Address& name) {
  const int fd = ::socket(name.storage.ss_family, SOCK_DGRAM | SOCK_CLOEXEC, 0), on = 1;
  EXPECT_EQ(::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on), 0);
  if (name.storage.ss_family == AF_INET6) ::setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &on, sizeof on);
  const bool bound =
      ::bind(fd, reinterpret_cast<const sockaddr*>(&name.storage), static_cast<socklen_t>(name.size)) == 0;
  ::close(fd);
  return bound;
}
// An endpoint gets the address that `name` has when it is opened.
NodeOptions at_address(Address& name) {
  NodeOptions options;
  options.configure = [&name](fid_ep* ep) { EXPECT_EQ(fi_setname(&ep->fid, name.get(), name.size), 0); };
  return options;
}

}  // namespace

TEST_P(Multicast, JoinCompletesWithAnEvent) {
  MULTICAST_FABRIC(fabric);
  DatagramEnd end(fabric);
  int context = 0;
  const Handle<fid_mc> mc = joined(*end, group_address(here, 0, kPort), 0, &context);
  EXPECT_EQ(mc->fid.fclass, size_t{FI_CLASS_MC});
  EXPECT_EQ(mc->fid.context, &context);
  EXPECT_NE(fi_mc_addr(mc.get()), FI_ADDR_NOTAVAIL);
  EXPECT_TRUE(end->eq().stays_silent());
}

TEST_P(Multicast, MessageReachesEveryOtherMember) {
  MULTICAST_FABRIC(fabric);
  Member members[3] = {Member(fabric), Member(fabric), Member(fabric)};
  for (Member& member : members) {
    member.join(group_address(here, 0, kPort));
    ASSERT_EQ(member.post(), 0);
  }
  for (unsigned sender = 0; sender < 3; ++sender) {
    members[sender].say(sender);
    for (unsigned other = 0; other < 3; ++other)
      if (other != sender) members[other].expect_message(sender);
    EXPECT_TRUE(members[sender].receives_nothing()) << "its own message";
  }
}

TEST_P(Multicast, LoopbackIsAnOption) {
  MULTICAST_FABRIC(fabric);
  Member member(fabric);
  int value = -1;
  size_t size = sizeof value;
  ASSERT_EQ(fi_getopt(member.end->fid(), FI_OPT_ENDPOINT, FI_OPT_WEFT_MULTICAST_LOOPBACK, &value, &size), 0);
  EXPECT_EQ(value, 0) << "off by default";
  EXPECT_EQ(set_loopback(member, 2), -FI_EINVAL);
  EXPECT_EQ(set_loopback(member, 1), 0);
  member.join(group_address(here, 0, kPort));
  ASSERT_EQ(member.post(), 0);
  member.say(1);
  member.expect_message(1);
  EXPECT_EQ(set_loopback(member, 0), 0);
  member.say(2);
  EXPECT_TRUE(member.receives_nothing());
}

TEST_P(Multicast, WildcardAddressMakesNoDifference) {
  MULTICAST_FABRIC(fabric);
  Address any = wildcard(here);
  bool possible = false;
  NodeOptions options;
  options.configure = [&](fid_ep* ep) { possible = fi_setname(&ep->fid, any.get(), any.size) == 0; };
  Member speaker(fabric, options), receiver(fabric, options);
  if (!possible) GTEST_SKIP() << "no endpoints at the wildcard address";
  for (Member* member : {&speaker, &receiver}) {
    member->join(group_address(here, 0, kPort));
    ASSERT_EQ(member->post(), 0);
  }
  speaker.say(1);
  receiver.expect_message(1);
  EXPECT_TRUE(speaker.receives_nothing()) << "its own message";
}

TEST_P(Multicast, EverySendCallReachesTheGroup) {
  MULTICAST_FABRIC(fabric);
  Member speaker(fabric), receiver(fabric);
  speaker.join(group_address(here, 0, kPort));
  receiver.join(group_address(here, 0, kPort));
  ASSERT_EQ(receiver.post(), 0);
  fid_ep* ep = speaker.end->ep();
  uint64_t flags = FI_TRANSMIT | FI_COMPLETION | FI_MULTICAST;
  ASSERT_EQ(fi_control(&ep->fid, FI_SETOPSFLAG, &flags), 0);
  const fi_addr_t group = fi_mc_addr(speaker.mc.get());
  const size_t rest = kSize - 10;
  iovec iov[] = {{speaker.out.data(), 10}, {speaker.out.data() + 10, rest}};
  void* desc[] = {speaker.out.desc(), speaker.out.desc()};
  const std::function<ssize_t()> calls[] = {
      [&] { return fi_send(ep, speaker.out.data(), kSize, desc[0], group, &speaker.sent); },
      [&] { return fi_sendv(ep, iov, desc, 2, group, &speaker.sent); },
      [&] { return fi_inject(ep, speaker.out.data(), kSize, group); }};
  for (unsigned i = 0; i < std::size(calls); ++i) {
    speaker.out.fill_pattern(i);
    ASSERT_EQ(retry(calls[i]), 0) << i;
    if (i != 2) {
      EXPECT_TRUE(speaker.end->tx().wait().ok()) << i;
    }
    receiver.expect_message(i);
  }
  if (!Fabric::offers(here, with_remote_data)) return;
  speaker.out.fill_pattern(9);
  ASSERT_EQ(retry([&] { return fi_senddata(ep, speaker.out.data(), kSize, desc[0], 7, group, &speaker.sent); }), 0);
  EXPECT_TRUE(speaker.end->tx().wait().ok());
  receiver.expect_message(9);
  ASSERT_EQ(retry([&] { return fi_injectdata(ep, speaker.out.data(), kSize, 7, group); }), 0);
  receiver.expect_message(9);
}

TEST_P(Multicast, SendOnlyMemberReceivesNothing) {
  MULTICAST_FABRIC(fabric);
  Member speaker(fabric), receiver(fabric);
  speaker.join(group_address(here, 0, kPort), FI_SEND);
  receiver.join(group_address(here, 0, kPort));
  ASSERT_EQ(speaker.post(), 0);
  ASSERT_EQ(receiver.post(), 0);
  speaker.say(1);
  receiver.expect_message(1);
  receiver.say(2);
  EXPECT_TRUE(speaker.receives_nothing());
}

TEST_P(Multicast, ReceiveOnlyMemberCannotSend) {
  MULTICAST_FABRIC(fabric);
  Member speaker(fabric), receiver(fabric);
  speaker.join(group_address(here, 0, kPort));
  receiver.join(group_address(here, 0, kPort), FI_RECV);
  ASSERT_EQ(receiver.post(), 0);
  speaker.say(1);
  receiver.expect_message(1);
  EXPECT_LT(send_to_group(*receiver.end, receiver.out, kSize, receiver.mc.get(), &receiver.sent), 0);
}

TEST_P(Multicast, LeavingStopsDelivery) {
  MULTICAST_FABRIC(fabric);
  Member speaker(fabric), leaver(fabric), other(fabric);
  for (Member* member : {&speaker, &leaver, &other}) {
    member->join(group_address(here, 0, kPort));
    ASSERT_EQ(member->post(), 0);
  }
  speaker.say(1);
  leaver.expect_message(1);
  other.expect_message(1);
  leaver.mc.reset();
  speaker.say(2);
  other.expect_message(2);
  EXPECT_TRUE(leaver.receives_nothing());
  leaver.join(group_address(here, 0, kPort));
  speaker.say(3);
  leaver.expect_message(3);
}

TEST_P(Multicast, EndpointWithGroupsIsBusy) {
  MULTICAST_FABRIC(fabric);
  Member member(fabric);
  member.join(group_address(here, 0, kPort));
  EXPECT_EQ(fi_close(member.end->fid()), -FI_EBUSY);
  member.mc.reset();  // the member's destructor expects that closing works now
}

TEST_P(Multicast, EachMistakeHasItsOwnError) {
  MULTICAST_FABRIC(fabric);
  DatagramEnd end(fabric);
  const Address group = group_address(here, 0, kPort);
  fid_mc* mc = nullptr;
  const auto join = [&](fid_ep* ep, const Address& address, uint64_t flags) {
    return fi_join(ep, &address.storage, flags, &mc, nullptr);
  };
  EXPECT_EQ(join(end->ep(), group, uint64_t{1} << 40), -FI_EBADFLAGS);
  EXPECT_EQ(join(end->ep(), end.address(), 0), -FI_EINVAL) << "not a group";
  EXPECT_EQ(fi_join(end->ep(), nullptr, 0, &mc, nullptr), -FI_EINVAL);
  Node disabled(fabric);
  EXPECT_EQ(join(disabled.ep(), group, 0), -FI_EOPBADSTATE);
  CompletionQueue cq(fabric);
  const auto no_eq = opened<fid_ep>(
      "fi_endpoint", [&](fid_ep** ep) { return fi_endpoint(fabric.domain(), fabric.info(), ep, nullptr); });
  require_ok(fi_ep_bind(no_eq.get(), cq.fid(), FI_TRANSMIT | FI_RECV), "fi_ep_bind CQ");
  require_ok(fi_ep_bind(no_eq.get(), &end.av()->fid, 0), "fi_ep_bind AV");
  require_ok(fi_enable(no_eq.get()), "fi_enable");
  EXPECT_EQ(join(no_eq.get(), group, 0), -FI_ENOEQ);
  EXPECT_EQ(mc, nullptr) << "a refused call leaves its results alone";
  EXPECT_TRUE(end->eq().stays_silent(milliseconds(20)));
}

TEST_P(Multicast, RoleBeyondTheCapabilitiesIsRefused) {
  MULTICAST_FABRIC(fabric);
  Fabric narrow(here, [](fi_info& hints) { hints.caps = FI_MSG | FI_MULTICAST | FI_SEND; });
  DatagramEnd end(narrow);
  const Address group = group_address(here, 0, kPort);
  fid_mc* mc = nullptr;
  EXPECT_EQ(fi_join(end->ep(), &group.storage, FI_RECV, &mc, nullptr), -FI_EACCES);
  Fabric none(here, [](fi_info& hints) { hints.caps = FI_MSG; });
  DatagramEnd plain(none);
  EXPECT_EQ(fi_join(plain->ep(), &group.storage, 0, &mc, nullptr), -FI_EOPNOTSUPP);
}

TEST_P(Multicast, JoiningTwiceIsRefused) {
  MULTICAST_FABRIC(fabric);
  Member member(fabric);
  const Address group = group_address(here, 0, kPort);
  member.join(group);
  fid_mc* mc = nullptr;
  EXPECT_EQ(fi_join(member.end->ep(), &group.storage, 0, &mc, nullptr), -FI_EALREADY);
}

TEST_P(Multicast, AddressesOfGroupsAndOfPeersAreDistinguished) {
  MULTICAST_FABRIC(fabric);
  Member member(fabric);
  const fi_addr_t self = member.end.insert(member.end.address());
  const iovec iov{member.out.data(), kSize};
  void* desc = member.out.desc();
  const auto send = [&](fi_addr_t to, uint64_t flags) {
    const fi_msg message{&iov, &desc, 1, to, &member.sent, 0};
    return fi_sendmsg(member.end->ep(), &message, flags);
  };
  EXPECT_LT(send(FI_ADDR_NOTAVAIL, FI_MULTICAST), 0) << "the address before the join completed";
  EXPECT_LT(send(self, FI_MULTICAST), 0) << "no group yet";
  member.join(group_address(here, 0, kPort));
  const fi_addr_t group = fi_mc_addr(member.mc.get());
  EXPECT_LT(send(self, FI_MULTICAST), 0) << "a peer";
  EXPECT_LT(send(group, 0), 0) << "without FI_MULTICAST";
  member.mc.reset();
  EXPECT_LT(send(group, FI_MULTICAST), 0) << "left";
  member.join(group_address(here, 1, kPort));
  EXPECT_LT(send(group, FI_MULTICAST), 0) << "left, and another one joined";
  EXPECT_TRUE(member.end->tx().stays_silent(milliseconds(20)));
}

TEST_P(Multicast, GroupsAreSeparate) {
  MULTICAST_FABRIC(fabric);
  constexpr unsigned kGroups = 4;
  Member speaker(fabric);
  std::deque<Member> receivers;
  std::vector<Handle<fid_mc>> groups;
  for (unsigned i = 0; i < kGroups; ++i) {
    groups.push_back(joined(*speaker.end, group_address(here, i, kPort)));
    receivers.emplace_back(fabric).join(group_address(here, i, kPort));
    ASSERT_EQ(receivers.back().post(), 0);
  }
  for (unsigned i = 0; i < kGroups; ++i) {
    speaker.say(i, groups[i].get());
    receivers[i].expect_message(i);
  }
  for (Member& receiver : receivers) EXPECT_TRUE(receiver.end->rx().stays_silent(milliseconds(20)));
}

TEST_P(Multicast, OneEndpointReceivesFromAllItsGroups) {
  MULTICAST_FABRIC(fabric);
  constexpr unsigned kGroups = 64;
  Member receiver(fabric), speaker(fabric);
  ASSERT_EQ(receiver.post(), 0);
  std::vector<Handle<fid_mc>> heard, spoken;
  for (unsigned i = 0; i < kGroups; ++i) {
    heard.push_back(joined(*receiver.end, group_address(here, i, kPort), FI_RECV));
    spoken.push_back(joined(*speaker.end, group_address(here, i, kPort), FI_SEND));
  }
  std::set<fi_addr_t> names;
  for (unsigned i = 0; i < kGroups; ++i) {
    names.insert(fi_mc_addr(spoken[i].get()));
    speaker.say(i, spoken[i].get());
    receiver.expect_message(i);
  }
  EXPECT_EQ(names.size(), kGroups);
}

TEST_P(Multicast, ManyMembersReceiveOneMessage) {
  MULTICAST_FABRIC(fabric);
  Member speaker(fabric);
  speaker.join(group_address(here, 0, kPort), FI_SEND);
  std::deque<Member> receivers;
  for (int i = 0; i < 32; ++i) {
    receivers.emplace_back(fabric).join(group_address(here, 0, kPort), FI_RECV);
    ASSERT_EQ(receivers.back().post(), 0);
  }
  for (unsigned seed = 0; seed < 3; ++seed) {
    speaker.say(seed);
    for (Member& receiver : receivers) receiver.expect_message(seed);
  }
}

TEST_P(Multicast, GroupsPortIsHonoured) {
  MULTICAST_FABRIC(fabric);
  if (target().provider == "verbs") GTEST_SKIP() << "an RDMA group is a GID, which has no port";
  Member speaker(fabric), same(fabric), another(fabric);
  speaker.join(group_address(here, 0, kPort));
  same.join(group_address(here, 0, kPort));
  another.join(group_address(here, 0, kPort + 1));
  ASSERT_EQ(same.post(), 0);
  ASSERT_EQ(another.post(), 0);
  speaker.say(1);
  same.expect_message(1);
  EXPECT_TRUE(another.receives_nothing());
}

TEST_P(Multicast, PortZeroIsTheEndpoints) {
  MULTICAST_FABRIC(fabric);
  Member receiver(fabric), speaker(fabric);
  receiver.join(group_address(here, 0, 0));
  ASSERT_EQ(receiver.post(), 0);
  speaker.join(group_address(here, 0, receiver.end.address().port()));
  speaker.say(1);
  receiver.expect_message(1);
}

// As many programs have it: receivers at the wildcard address and the group's port. In whichever order they come.
TEST_P(Multicast, MembersAtTheWildcardAddressMayHaveTheGroupsPort) {
  MULTICAST_FABRIC(fabric);
  if (target().provider == "verbs") GTEST_SKIP() << "an RDMA group is a GID, which has no port";
  Address any = wildcard(here);
  const NodeOptions at_wildcard = at_address(any);
  auto receiver = std::make_unique<Member>(fabric, at_wildcard);
  const uint16_t port = receiver->end.address().port();
  any.set_port(port);
  Member first(fabric), second(fabric);
  const auto expect_delivery = [&](unsigned seed) {
    ASSERT_EQ(receiver->post(), 0);
    first.say(seed);
    receiver->expect_message(seed);
    second.say(seed + 1);
    receiver->expect_message(seed + 1);
  };
  receiver->join(group_address(here, 0, 0));
  first.join(group_address(here, 0, port));
  second.join(group_address(here, 0, port));
  expect_delivery(1);

  EXPECT_EQ(set_name(Node(fabric), any), -FI_EADDRINUSE) << "the receiver has the port";
  receiver.reset();
  receiver = std::make_unique<Member>(fabric, at_wildcard);
  EXPECT_EQ(receiver->end.address().port(), port) << "members of the group do not occupy it";
  EXPECT_EQ(set_name(Node(fabric), any), -FI_EADDRINUSE) << "the receiver has the port";
  receiver->join(group_address(here, 0, port));
  expect_delivery(3);
  EXPECT_EQ(set_name(Node(fabric), any), -FI_EADDRINUSE) << "the receiver has the port";
  receiver->mc.reset();
  EXPECT_FALSE(can_share(any)) << "the receiver is no member any more";
}

// The system delivers a group's messages to sockets at the wildcard address that have not joined it.
TEST_P(Multicast, EndpointAtTheWildcardAddressReceivesNoGroupOfOthers) {
  MULTICAST_FABRIC(fabric);
  if (target().provider == "verbs") GTEST_SKIP() << "an RDMA group is a GID, which has no port";
  Address any = wildcard(here);
  const NodeOptions at_wildcard = at_address(any);
  Member receiver(fabric), speaker(fabric);
  receiver.join(group_address(here, 0, kPort));
  any.set_port(kPort);
  Member bystander(fabric, at_wildcard);
  ASSERT_EQ(receiver.post(), 0);
  ASSERT_EQ(bystander.post(), 0);
  speaker.join(group_address(here, 0, kPort), FI_SEND);
  speaker.say(1);
  receiver.expect_message(1);
  EXPECT_TRUE(bystander.receives_nothing());
}

TEST_P(Multicast, SourceIsReportedAndCanBeAnswered) {
  MULTICAST_FABRIC(fabric);
  Member speaker(fabric), receiver(fabric);
  for (Member* member : {&speaker, &receiver}) {
    member->join(group_address(here, 0, kPort));
    ASSERT_EQ(member->post(), 0);
  }
  const fi_addr_t known = receiver.end.insert(speaker.end.address());
  speaker.say(1);
  fi_addr_t source = FI_ADDR_NOTAVAIL;
  receiver.expect_message(1, &source);
  EXPECT_EQ(source, known);
  receiver.out.fill_pattern(5);
  ASSERT_EQ(retry([&] {
              return fi_send(receiver.end->ep(), receiver.out.data(), kSize, receiver.out.desc(), source,
                             &receiver.sent);
            }),
            0);
  EXPECT_TRUE(receiver.end->tx().wait().ok());
  speaker.expect_message(5);
}

TEST_P(Multicast, CompletionsHaveTheFlag) {
  MULTICAST_FABRIC(fabric);
  Member speaker(fabric), receiver(fabric);
  for (Member* member : {&speaker, &receiver}) member->join(group_address(here, 0, kPort));
  const fi_addr_t peer = speaker.end.insert(receiver.end.address());
  speaker.out.fill_pattern(7);
  for (const uint64_t flag : {FI_MULTICAST, 0ULL}) {
    ASSERT_EQ(receiver.post(), 0);
    const ssize_t sent =
        flag != 0 ? send_to_group(*speaker.end, speaker.out, kSize, speaker.mc.get(), &speaker.sent)
                  : fi_send(speaker.end->ep(), speaker.out.data(), kSize, speaker.out.desc(), peer, &speaker.sent);
    ASSERT_EQ(sent, 0);
    EXPECT_EQ(speaker.end->tx().wait().entry.flags, FI_SEND | FI_MSG | flag);
    EXPECT_EQ(receiver.end->rx().wait().entry.flags, FI_RECV | FI_MSG | flag);
  }
}

TEST_P(Multicast, BurstArrivesInOrder) {
  MULTICAST_FABRIC(fabric);
  constexpr unsigned kCount = 200;
  Member speaker(fabric), receiver(fabric);
  speaker.join(group_address(here, 0, kPort), FI_SEND);
  receiver.join(group_address(here, 0, kPort), FI_RECV);
  Buffer in(fabric, kCount * kSize), out(fabric, kCount * kSize);
  out.fill_pattern(3);
  Context context;
  for (unsigned i = 0; i < kCount; ++i) {
    ASSERT_EQ(fi_recv(receiver.end->ep(), in.data() + i * kSize, kSize, in.desc(), FI_ADDR_UNSPEC, &context), 0);
    const iovec iov{out.data() + i * kSize, kSize};
    void* desc = out.desc();
    const fi_msg message{&iov, &desc, 1, fi_mc_addr(speaker.mc.get()), &context, 0};
    ASSERT_EQ(retry([&] { return fi_sendmsg(speaker.end->ep(), &message, FI_MULTICAST | FI_COMPLETION); }), 0);
  }
  for (unsigned i = 0; i < kCount; ++i) {
    ASSERT_TRUE(speaker.end->tx().wait().ok()) << i;
    ASSERT_TRUE(receiver.end->rx().wait().ok()) << i;
  }
  EXPECT_TRUE(in.holds_pattern(3, kCount * kSize));
}

TEST_P(Multicast, JoiningAndLeavingLeavesNothingBehind) {
  MULTICAST_FABRIC(fabric);
  constexpr int kWarmUp = 100;
  Member speaker(fabric), receiver(fabric);
  speaker.join(group_address(here, 0, kPort), FI_SEND);
  ASSERT_EQ(receiver.post(), 0);
  const int cycles = asked_cycles(1000);
  size_t before = 0, memory = 0;
  for (int i = -kWarmUp; i < cycles; ++i) {
    if (i == 0) before = open_descriptors(), memory = resident_kib();
    receiver.join(group_address(here, 0, kPort));
    receiver.mc.reset();
  }
  EXPECT_EQ(open_descriptors(), before);
  if (!kSanitized) {
    EXPECT_LE(resident_kib(), memory + 1024) << "KiB; started with " << memory;
  }
  receiver.join(group_address(here, 0, kPort));
  speaker.say(1);
  receiver.expect_message(1);
}

TEST_P(Multicast, ClosedMembershipRemovesItsEvent) {
  MULTICAST_FABRIC(fabric);
  DatagramEnd end(fabric);
  const Address group = group_address(here, 0, kPort);
  fid_mc* mc = nullptr;
  ASSERT_EQ(fi_join(end->ep(), &group.storage, 0, &mc, nullptr), 0);
  ASSERT_EQ(fi_close(&mc->fid), 0) << "also while the join is under way";
  EXPECT_TRUE(end->eq().stays_silent());
}

TEST_P(Multicast, FailureIsAnErrorEventWithASentence) {
  MULTICAST_FABRIC(fabric);
  if (target().provider != "udp") GTEST_SKIP() << "how to make a join fail is known for udp only";
  DatagramEnd end(fabric);
  const Address group = group_address(here, 0, kPort);
  rlimit limit{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
  const rlimit none{0, limit.rlim_max};
  fid_mc* mc = nullptr;
  int context = 0;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const int rc = fi_join(end->ep(), &group.storage, 0, &mc, &context);
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &limit), 0);
  ASSERT_EQ(rc, 0);
  const Handle<fid_mc> owner(mc);
  const Event event = end->eq().expect(Event::kError, &mc->fid);
  EXPECT_EQ(event.err, FI_EMFILE);
  EXPECT_EQ(event.context, &context);
  EXPECT_NE(event.sentence.find("joining the group"), std::string::npos) << event.sentence;
  EXPECT_EQ(fi_mc_addr(mc), FI_ADDR_NOTAVAIL);
}

}  // namespace multicast
