// SPDX-License-Identifier: BSD-2-Clause
// Receive sides with each matcher in random schedules against a plain model: posts, messages that arrive at once or in
// two steps, FI_PEEK, FI_CLAIM, FI_DISCARD, FI_MULTI_RECV, truncation, failures, cancellation. fi_msg(3), fi_tagged(3).
#include <gtest/gtest.h>

#include <list>
#include <map>
#include <optional>
#include <random>

#include "receive_world.h"

namespace weft::messages {
namespace {

// A posted receive of the model, with its memory.
struct ModelReceive {
  std::uintptr_t context = 0;
  std::uint64_t flags = 0;
  bool tagged = false;
  Wanted wanted;
  std::vector<std::byte> memory;
  std::vector<iovec> iov;  // pieces of `memory`
  std::size_t used = 0;
  unsigned arriving = 0;
  bool retired = false;

  bool multi() const { return (flags & FI_MULTI_RECV) != 0; }
};
using ReceivePtr = std::shared_ptr<ModelReceive>;

// The part of a receive that a message gets.
struct Target {
  ReceivePtr receive;
  std::size_t offset = 0;
  std::size_t capacity = 0;
};

struct ModelMessage {
  unsigned number = 0;
  Envelope envelope;
  bool arriving = false;
  std::uintptr_t claimer = 0;
  bool discarded = false;
  std::optional<Target> target;
};
using MessagePtr = std::shared_ptr<ModelMessage>;

// Everything in plain lists, searched from the front.
struct ReceiveModel {
  bool by_source = false, by_tag = false;  // the keys of the matcher
  bool selective = false;
  std::size_t size = 0, min_multi = 0;
  std::list<ReceivePtr> posted;
  std::list<MessagePtr> kept;  // in the order of arrival, also the claimed ones
  std::vector<Entry> entries;  // reported since the last comparison

  bool matches(bool tagged, const Wanted& wanted, const Envelope& envelope) const {
    if (!by_tag) return true;
    if (tagged != envelope.matches_by_tag()) return false;
    const bool source = !by_source || wanted.source == kAnySource || wanted.source == envelope.source;
    return source && (!tagged || ((wanted.tag ^ envelope.tag) & ~wanted.ignore) == 0);
  }
  std::optional<Target> match(const Envelope& envelope) {
    for (const ReceivePtr& receive : posted)
      if (matches(receive->tagged, receive->wanted, envelope)) return give(receive, envelope.len);
    return std::nullopt;
  }
  Target give(const ReceivePtr receive, std::size_t len) {
    if (!receive->multi()) {
      posted.remove(receive);
      return {receive, 0, receive->memory.size()};
    }
    const Target target{receive, receive->used, std::min(len, receive->memory.size() - receive->used)};
    receive->used += target.capacity;
    ++receive->arriving;
    if (receive->memory.size() - receive->used < min_multi || target.capacity < len) {
      receive->retired = true;
      posted.remove(receive);
    }
    return target;
  }
  MessagePtr find(bool tagged, const Wanted& wanted) const {
    for (const MessagePtr& message : kept)
      if (message->claimer == 0 && matches(tagged, wanted, message->envelope)) return message;
    return nullptr;
  }
  ssize_t post(const ReceivePtr& receive) {
    if (receive->multi() && receive->iov.size() != 1) return -FI_EINVAL;
    if (posted.size() >= size) return -FI_EAGAIN;
    posted.push_back(receive);
    while (std::find(posted.begin(), posted.end(), receive) != posted.end()) {
      const MessagePtr message = find(receive->tagged, receive->wanted);
      if (message == nullptr) break;
      kept.remove(message);
      take(*message, give(receive, message->envelope.len));
    }
    return 0;
  }
  void take(ModelMessage& message, const Target& target) {
    message.target = target;
    if (!message.arriving) complete(target, message.envelope);
  }

  Entry entry_for(const Target& target, const Envelope& envelope, bool& last) {
    ModelReceive& receive = *target.receive;
    last = receive.multi() && --receive.arriving == 0 && receive.retired;
    return {.context = receive.context,
            .flags = FI_RECV | (envelope.tagged ? FI_TAGGED : FI_MSG) | (envelope.has_data ? FI_REMOTE_CQ_DATA : 0) |
                     (last ? FI_MULTI_RECV : 0),
            .buf = receive.multi() ? receive.memory.data() + target.offset : nullptr,
            .data = envelope.data,
            .tag = envelope.tag};
  }
  void complete(const Target& target, const Envelope& envelope) {
    bool last = false;
    Entry entry = entry_for(target, envelope, last);
    entry.len = std::min(envelope.len, target.capacity);
    if (envelope.len > target.capacity) {
      entry.olen = envelope.len - target.capacity;
      entry.err = FI_ETRUNC;
    } else {
      entry.source = envelope.name;
      if (selective && !last && (target.receive->flags & FI_COMPLETION) == 0) return;
    }
    entries.push_back(entry);
  }
  void fail(const Target& target, const Envelope& envelope, int error) {
    bool last = false;
    Entry entry = entry_for(target, envelope, last);
    entry.err = error;
    entries.push_back(entry);
  }
  bool cancel(std::uintptr_t context) {
    for (bool tagged : {false, true}) {
      const auto found = std::find_if(posted.begin(), posted.end(), [&](const ReceivePtr& each) {
        return each->tagged == tagged && each->context == context;
      });
      if (found == posted.end()) continue;
      const ReceivePtr receive = *found;
      posted.erase(found);
      receive->retired = true;
      if (receive->arriving != 0) return true;
      entries.push_back({.context = context,
                         .flags = FI_RECV | (tagged ? FI_TAGGED : FI_MSG) | (receive->flags & FI_MULTI_RECV),
                         .tag = by_tag ? receive->wanted.tag : 0,
                         .err = FI_ECANCELED});
      return true;
    }
    return false;
  }
  void report_found(const ReceivePtr& request, const ModelMessage& message) {
    const Envelope& envelope = message.envelope;
    entries.push_back(
        {.context = request->context,
         .flags = FI_RECV | (request->tagged ? FI_TAGGED : FI_MSG) | (envelope.has_data ? FI_REMOTE_CQ_DATA : 0),
         .len = envelope.len,
         .data = envelope.data,
         .tag = envelope.tag,
         .source = envelope.name});
  }
  ssize_t peek_or_claim(const ReceivePtr& request, std::uint64_t flags) {
    const bool peek = (flags & FI_PEEK) != 0, claim = (flags & FI_CLAIM) != 0, discard = (flags & FI_DISCARD) != 0;
    if (peek && claim && discard) return -FI_EINVAL;
    MessagePtr message = peek ? find(request->tagged, request->wanted) : nullptr;
    if (!peek)
      for (const MessagePtr& each : kept)
        if (each->claimer == request->context && (message == nullptr || each->claimer == 0)) message = each;
    if (message == nullptr) {
      if (!peek) return -FI_EINVAL;
      entries.push_back({.context = request->context,
                         .flags = FI_RECV | (request->tagged ? FI_TAGGED : FI_MSG),
                         .tag = request->wanted.tag,
                         .err = FI_ENOMSG});
      return 0;
    }
    if (!peek && !discard) {
      kept.remove(message);
      take(*message, {request, 0, request->memory.size()});
      return 0;
    }
    report_found(request, *message);
    if (claim && peek) message->claimer = request->context;
    if (discard) {
      kept.remove(message);
      message->discarded = true;
    }
    return 0;
  }
};

template <class M>
constexpr bool kKeeps = MessageMatcher<M>;
template <class M>
using SideOf = std::conditional_t<kKeeps<M>, ReceiveSide<M>, ReceiveQueue<M>>;

// The model and the real thing side by side.
template <class M>
class Schedule {
 public:
  explicit Schedule(unsigned seed) : random_(seed), side_(pool_, 1 + seed % 40) {
    model_.by_tag = !std::is_same_v<M, Fifo>;
    model_.by_source = std::is_same_v<M, TagTable>;
    model_.size = side_.size();
    model_.selective = completions_.routes.receive_selective = seed % 3 == 0;
    model_.min_multi = side_.min_multi_receive = seed % 4 * 16;
    tags_ = 1 + below(6);
  }

  void step() {
    const unsigned what = below(16);
    if (what < 5)
      post();
    else if (what < 9)
      arrive();
    else if (what < 12)
      finish();
    else if (what == 12)
      cancel();
    else if constexpr (kKeeps<M>)
      peek_or_claim();
    compare();
  }
  void end() {
    while (!arriving_.empty()) finish();
    compare();
    while (!model_.posted.empty()) model_.cancel(first_to_cancel());
    side_.cancel_all(completions_.routes);
    if constexpr (kKeeps<M>) side_.discard_all(nullptr);
    model_.kept.clear();
    compare();
    EXPECT_EQ(kept_messages(), 0u);
    EXPECT_TRUE(side_.empty());
  }
  std::size_t reported() const { return reported_; }

 private:
  // A message that arrives in two steps, and has a receive or is kept.
  struct Arriving {
    MessagePtr model;
    Delivery delivery;
    TestMessage* kept = nullptr;
  };

  unsigned below(unsigned limit) { return static_cast<unsigned>(random_() % limit); }

  ReceivePtr make_receive() {
    auto receive = std::make_shared<ModelReceive>();
    receive->context = ++last_context_;
    receive->tagged = model_.by_tag && below(2) == 0;
    receive->flags = (below(2) == 0 ? FI_COMPLETION : 0) | (below(4) == 0 ? FI_MULTI_RECV : 0);
    if (model_.by_source && below(3) != 0) receive->wanted.source = below(3);
    if (receive->tagged) {
      receive->wanted.ignore = below(4) == 0 ? (below(2) == 0 ? ~std::uint64_t{0} : 1) : 0;
      receive->wanted.tag = below(tags_) & ~receive->wanted.ignore;
    }
    receive->memory.resize(below(8) == 0 ? 0 : below(receive->multi() ? 400 : 120));
    const unsigned pieces = below(3) == 0 ? 1 + below(kIovLimit) : 1;
    std::size_t at = 0;
    for (unsigned i = 0; i < pieces; ++i) {
      const std::size_t rest = receive->memory.size() - at;
      const std::size_t len = i + 1 == pieces ? rest : below(static_cast<unsigned>(rest) + 1);
      receive->iov.push_back({receive->memory.data() + at, len});
      at += len;
    }
    return receive;
  }
  static ReceiveRequest request_for(const ModelReceive& receive, std::uint64_t flags) {
    return {.iov = receive.iov,
            .context = reinterpret_cast<void*>(receive.context),
            .flags = flags,
            .tagged = receive.tagged,
            .wanted = receive.wanted};
  }
  void post() {
    const ReceivePtr receive = make_receive();
    remember(receive);
    EXPECT_EQ(side_.post(request_for(*receive, receive->flags)), model_.post(receive));
  }
  void arrive() {
    auto message = std::make_shared<ModelMessage>();
    message->number = ++last_message_;
    message->arriving = below(3) == 0;
    Envelope& envelope = message->envelope;
    envelope.len = below(6) == 0 ? 0 : below(150);
    envelope.name = below(100);
    envelope.has_data = below(3) == 0;
    envelope.data = envelope.has_data ? random_() : 0;
    if (model_.by_tag && below(2) == 0) {
      envelope.tagged = true;
      envelope.tag = below(tags_);
      envelope.ignores_tag = below(8) == 0;
    }
    if (model_.by_source) envelope.source = below(3);
    const auto bytes = payload_of(message->number, envelope.len);
    if (!message->arriving && side_.deliver(bytes, envelope, completions_.routes)) {
      const auto target = model_.match(envelope);
      ASSERT_TRUE(target.has_value());
      model_.complete(*target, envelope);
      return expect_payload(*target, *message);
    }
    Arriving arriving{message, message->arriving ? side_.match(envelope) : Delivery(), nullptr};
    message->target = model_.match(envelope);
    ASSERT_EQ(static_cast<bool>(arriving.delivery), message->target.has_value());
    if constexpr (kKeeps<M>) {
      if (!arriving.delivery) {
        arriving.kept = &protocol_.keep(envelope, message->number, message->arriving);
        model_.kept.push_back(message);
      }
    }
    if (message->arriving && (arriving.delivery || arriving.kept != nullptr)) arriving_.push_back(arriving);
  }
  void finish() {
    if (arriving_.empty()) return;
    const auto at = arriving_.begin() + below(static_cast<unsigned>(arriving_.size()));
    const Arriving arrived = *at;
    arriving_.erase(at);
    ModelMessage& message = *arrived.model;
    message.arriving = false;
    const bool kept = arrived.kept != nullptr && !message.target && !message.discarded;
    const int error = !kept && below(5) == 0 ? FI_ECONNRESET : 0;
    if constexpr (kKeeps<M>)
      if (arrived.kept != nullptr) protocol_.finish(*arrived.kept, error);
    if (arrived.delivery) {
      const auto bytes = payload_of(message.number, message.envelope.len);
      scatter(arrived.delivery.iov(), 0, bytes.data(), std::min(bytes.size(), arrived.delivery.capacity()));
      if (error != 0)
        side_.fail(arrived.delivery, message.envelope, error, error, completions_.routes);
      else
        side_.complete(arrived.delivery, message.envelope, completions_.routes);
    }
    if (!message.target) return;
    if (error != 0) return model_.fail(*message.target, message.envelope, error);
    model_.complete(*message.target, message.envelope);
    expect_payload(*message.target, message);
  }
  void cancel() {
    if (last_context_ == 0) return;
    const std::uintptr_t context = 1 + below(static_cast<unsigned>(last_context_));
    EXPECT_EQ(side_.cancel(reinterpret_cast<void*>(context), completions_.routes), model_.cancel(context));
  }
  void peek_or_claim() {
    constexpr std::uint64_t kFlags[] = {FI_PEEK,  FI_PEEK | FI_CLAIM,    FI_PEEK | FI_DISCARD,
                                        FI_CLAIM, FI_CLAIM | FI_DISCARD, FI_PEEK | FI_CLAIM | FI_DISCARD};
    const std::uint64_t flags = kFlags[below(6)];
    const ReceivePtr receive = make_receive();
    receive->flags &= ~FI_MULTI_RECV;
    if ((flags & FI_PEEK) == 0 && !claims_.empty()) receive->context = claims_[below(claims_.size())];
    remember(receive);
    const ssize_t expected = model_.peek_or_claim(receive, flags);
    EXPECT_EQ(side_.peek_or_claim(request_for(*receive, flags | receive->flags), completions_.routes), expected);
    if (flags == (FI_PEEK | FI_CLAIM)) claims_.push_back(receive->context);
  }

  void compare() {
    const std::vector<Entry> got = completions_.read();
    EXPECT_EQ(got, model_.entries);
    reported_ += got.size();
    model_.entries.clear();
    EXPECT_EQ(side_.room(), model_.size - model_.posted.size());
    if constexpr (kKeeps<M>) {
      EXPECT_EQ(protocol_.kept_bytes(), protocol_.message_bytes());
    }
  }
  static void expect_payload(const Target& target, const ModelMessage& message) {
    const std::size_t len = std::min(message.envelope.len, target.capacity);
    for (std::size_t i = 0; i < len; ++i)
      ASSERT_EQ(target.receive->memory[target.offset + i], payload_byte(message.number, i)) << "byte " << i;
  }
  std::size_t kept_messages() const {
    if constexpr (kKeeps<M>) return protocol_.count();
    return 0;
  }
  std::uintptr_t first_to_cancel() const {
    for (const ReceivePtr& each : model_.posted)
      if (!each->tagged) return each->context;
    return model_.posted.front()->context;
  }
  void remember(const ReceivePtr& receive) { receives_.push_back(receive); }

  std::mt19937 random_;
  Completions completions_;
  Pool<typename M::Receive> pool_;
  SideOf<M> side_;
  struct NoProtocol {
    NoProtocol(SideOf<M>&, CompletionRoutes&) {}
  };
  std::conditional_t<kKeeps<M>, TestProtocol<SideOf<M>>, NoProtocol> protocol_{side_, completions_.routes};
  ReceiveModel model_;
  unsigned tags_ = 1;
  unsigned last_message_ = 0;
  std::uintptr_t last_context_ = 0;
  std::size_t reported_ = 0;
  std::vector<Arriving> arriving_;
  std::vector<std::uintptr_t> claims_;
  std::vector<ReceivePtr> receives_;  // their memory outlives the side
};

template <class M>
class ReceiveSchedules : public testing::Test {};
using Matchers = testing::Types<Fifo, TagList, TagTable>;
TYPED_TEST_SUITE(ReceiveSchedules, Matchers);

TYPED_TEST(ReceiveSchedules, AgreeWithThePlainModel) {
  std::size_t reported = 0;
  for (unsigned seed = 1; seed <= 150; ++seed) {
    Schedule<TypeParam> schedule(seed);
    for (int step = 0; step < 400 && !testing::Test::HasFailure(); ++step) schedule.step();
    schedule.end();
    ASSERT_FALSE(testing::Test::HasFailure()) << "seed " << seed;
    reported += schedule.reported();
  }
  EXPECT_GT(reported, 5000u);
}

}  // namespace
}  // namespace weft::messages
