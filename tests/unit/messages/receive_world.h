// SPDX-License-Identifier: BSD-2-Clause
// For tests of receive sides: a queue whose completions can be compared, and a protocol whose messages are complete or
// still arriving.
#pragma once

#include <gtest/gtest.h>
#include <rdma/fi_eq.h>

#include <algorithm>
#include <memory>
#include <ostream>
#include <vector>

#include "../objects/fake_engine.h"
#include "messages/receive_side.h"

namespace weft::messages {

// A completion, successful or not.
struct Entry {
  std::uintptr_t context = 0;
  std::uint64_t flags = 0;
  std::size_t len = 0;
  const void* buf = nullptr;
  std::uint64_t data = 0;
  std::uint64_t tag = 0;
  fi_addr_t source = FI_ADDR_NOTAVAIL;  // set in successful ones
  std::size_t olen = 0;
  int err = 0;

  bool operator==(const Entry&) const = default;
};

inline std::ostream& operator<<(std::ostream& out, const Entry& entry) {
  return out << "{context " << entry.context << " flags 0x" << std::hex << entry.flags << std::dec << " len "
             << entry.len << " buf " << entry.buf << " data " << entry.data << " tag " << entry.tag << " source "
             << entry.source << " olen " << entry.olen << " err " << entry.err << "}";
}

class Completions {
 public:
  Completions() {
    fi_cq_attr attr{};
    attr.format = FI_CQ_FORMAT_TAGGED;
    queue_ = CompletionQueue<FakeEngine>::open(parent_.ref(), &attr, engine_, FI_VERSION(2, 6), false, nullptr, nullptr)
                 .value();
    routes.receive_queue = Ref<CompletionQueueCore>(*queue_);
  }
  ~Completions() {
    routes = {};
    EXPECT_EQ(fi_close(&queue_->abi.fid), 0);
  }

  // Everything that was reported since the last call.
  std::vector<Entry> read() {
    std::vector<Entry> entries;
    for (;;) {
      fi_cq_tagged_entry entry{};
      fi_addr_t source = FI_ADDR_NOTAVAIL;
      const ssize_t result = fi_cq_readfrom(&queue_->abi, &entry, 1, &source);
      if (result == -FI_EAGAIN) return entries;
      if (result == 1) {
        entries.push_back({reinterpret_cast<std::uintptr_t>(entry.op_context), entry.flags, entry.len, entry.buf,
                           entry.data, entry.tag, source, 0, 0});
        continue;
      }
      fi_cq_err_entry error{};
      EXPECT_EQ(result, -FI_EAVAIL);
      if (fi_cq_readerr(&queue_->abi, &error, 0) != 1) return entries;
      entries.push_back({reinterpret_cast<std::uintptr_t>(error.op_context), error.flags, error.len, error.buf,
                         error.data, error.tag, FI_ADDR_NOTAVAIL, error.olen, error.err});
    }
  }

  CompletionRoutes routes;

 private:
  FakeParent parent_;
  FakeEngine engine_;
  CompletionQueue<FakeEngine>* queue_ = nullptr;
};

// The byte at `at` of message number `number`.
inline std::byte payload_byte(unsigned number, std::size_t at) {
  return static_cast<std::byte>(number * 31 + at * 7 + at / 251);
}
inline std::vector<std::byte> payload_of(unsigned number, std::size_t len) {
  std::vector<std::byte> bytes(len);
  for (std::size_t i = 0; i < len; ++i) bytes[i] = payload_byte(number, i);
  return bytes;
}

struct TestMessage : UnexpectedMessage {
  unsigned number = 0;
  bool arriving = false;
  bool discarded = false;
  Delivery taker;  // set while it was arriving
};

// Owns the messages that one receive side keeps.
template <class Side>
class TestProtocol final : public Protocol {
 public:
  TestProtocol(Side& side, CompletionRoutes& routes) : side_(side), routes_(routes) { memory_.enter(all_); }
  ~TestProtocol() = default;

  TestMessage& keep(const Envelope& envelope, unsigned number, bool arriving) {
    auto message = std::make_unique<TestMessage>();
    message->envelope = envelope;
    message->number = number;
    message->arriving = arriving;
    message->charge(memory_, bytes_of(*message));
    side_.keep(*message, *this, routes_);
    messages_.push_back(std::move(message));
    return *messages_.back();
  }
  // The rest of a message arrives, or with an error it never does.
  void finish(TestMessage& message, int error) {
    message.arriving = false;
    if (message.taker && error != 0)
      side_.fail(message.taker, message.envelope, error, error, routes_);
    else if (message.taker)
      complete(message, message.taker);
    if (message.taker || message.discarded) erase(message);
  }
  std::size_t count() const { return messages_.size(); }
  // The memory that is accounted for, and that of the messages.
  std::size_t kept_bytes() const { return memory_.used(); }
  std::size_t message_bytes() const {
    std::size_t bytes = 0;
    for (const auto& each : messages_) bytes += bytes_of(*each);
    return bytes;
  }

  void take(UnexpectedMessage& taken, const Delivery& delivery) noexcept override {
    auto& message = static_cast<TestMessage&>(taken);
    if (message.arriving) {
      message.taker = delivery;
    } else {
      complete(message, delivery);
      erase(message);
    }
  }
  void discard(UnexpectedMessage& unwanted) noexcept override {
    auto& message = static_cast<TestMessage&>(unwanted);
    message.discarded = true;
    if (!message.arriving) erase(message);
  }

 private:
  static std::size_t bytes_of(const TestMessage& message) { return sizeof message + message.envelope.len; }
  void complete(TestMessage& message, const Delivery& delivery) {
    const auto bytes = payload_of(message.number, message.envelope.len);
    scatter(delivery.iov(), 0, bytes.data(), std::min(bytes.size(), delivery.capacity()));
    side_.complete(delivery, message.envelope, routes_);
  }
  void erase(TestMessage& message) {
    std::erase_if(messages_, [&](const auto& each) { return each.get() == &message; });
  }

  Side& side_;
  CompletionRoutes& routes_;
  UnexpectedMemory all_{SIZE_MAX};
  PeerMemory memory_{[](PeerMemory&) noexcept {}};
  std::vector<std::unique_ptr<TestMessage>> messages_;
};

}  // namespace weft::messages
