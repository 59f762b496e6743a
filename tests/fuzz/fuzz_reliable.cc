// SPDX-License-Identifier: BSD-2-Clause
// Arbitrary bytes to tcp's own reliable datagrams: in connection requests and answers, and then in messages,
// announcements, clearances, remote memory accesses, atomic operations and idle-close messages; spec:
// prov/tcp/reliable/greeting.h, prov/tcp/stream/data_header.h. No input may crash, write outside the buffers, leak, or
// complete an operation never or twice.
#include <cstdlib>

#include "tcp/reliable/greeting.h"
#include "tcp/stream/data_header.h"
#include "victim.h"
#include "wire_target.h"

using namespace weft;
using namespace weft::fuzz;

namespace {

constexpr int kRounds = 3;
constexpr int kRoundsToTheEnd = 400;

// The peer is a plain socket.
class Attacker {
 public:
  explicit Attacker(Victim& victim) : victim_(victim) {
    listener_.reset(tcp::net::open_stream(AF_INET));
    name_.sin_family = AF_INET;
    name_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t len = sizeof name_;
    WEFT_FUZZ_CHECK(tcp::net::bind(listener_.get(), reinterpret_cast<sockaddr*>(&name_), len) == 0);
    WEFT_FUZZ_CHECK(tcp::net::listen(listener_.get(), 8) == 0);
    WEFT_FUZZ_CHECK(tcp::net::getsockname(listener_.get(), reinterpret_cast<sockaddr*>(&name_), &len) == 0);
  }
  const sockaddr_in& name() const { return name_; }

  void call(Input& input) {
    const sockaddr_in to = victim_.name();
    socket_.reset(tcp::net::open_stream(AF_INET));
    (void)tcp::net::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to);
    introduce(input, tcp::CmType::kRequest);
  }
  void answer(Input& input) {
    for (int i = 0; i < kRounds; ++i) victim_.drive();
    const int accepted = tcp::net::accept(listener_.get(), nullptr, nullptr);
    if (accepted < 0) return;
    socket_.reset(accepted);
    introduce(input, input.take_flag() ? tcp::CmType::kAccept : static_cast<tcp::CmType>(input.take<std::uint8_t>()));
  }
  void say_one(Input& input) {
    const std::uint8_t kind = input.take<std::uint8_t>();
    if ((kind & 7) == 7) return say(input, socket_.get());
    tcp::DataHeader header;
    header.op = static_cast<tcp::Op>((kind & 64) != 0 ? 64 : kind & 7);
    if ((kind & 128) != 0) return say_atomic(input, kind);
    header.op_data = input.take<std::uint8_t>();
    header.flags = static_cast<std::uint16_t>(input.take<std::uint8_t>() & 0x8d);
    header.tag = input.take<std::uint8_t>();
    header.cq_data = header.tag;
    header.payload = (kind & 8) != 0 ? input.take<std::uint32_t>() : input.take<std::uint8_t>();
    header.announced = (kind & 16) != 0 ? input.take<std::uint64_t>() : header.payload;
    if (header.op == tcp::Op::kReadRequest || header.op == tcp::Op::kWrite) {
      header.rma_count = input.take<std::uint8_t>() % 5;
      for (std::size_t i = 0; i < header.rma_count && i < tcp::kMaxRmaIov; ++i)
        header.rma[i] = {input.take<std::uint8_t>(), input.take<std::uint16_t>(),
                         input.take_flag() ? victim_.exposed_key() : 1};
    }
    if (header.op == tcp::Op::kReadRequest || header.op == tcp::Op::kAnnouncement) header.payload = 0;
    std::byte bytes[tcp::kMaxHeaderSize];
    send({bytes, tcp::encode(header, bytes)});
    // The announced payload length, or less: then the next headers are read as payload.
    const std::vector<std::byte> payload(std::min<std::uint64_t>(header.payload, (kind & 32) != 0 ? 300'000 : 512));
    send(payload);
  }
  // An atomic operation or a response to one; nearly valid, so that it passes most checks.
  void say_atomic(Input& input, std::uint8_t kind) {
    tcp::DataHeader header;
    header.op = (kind & 64) != 0 ? tcp::Op::kAtomicAnswer : tcp::Op::kAtomic;
    header.flags = (kind & 16) != 0 ? input.take<std::uint16_t>() : std::uint16_t{0};
    header.tag = (kind & 32) != 0 ? input.take<std::uint64_t>() : input.take<std::uint8_t>();
    if (header.op == tcp::Op::kAtomic) {
      header.tag %= 4;
      header.tag |= std::uint64_t{input.take<std::uint8_t>()} << 8 | std::uint64_t{input.take<std::uint8_t>()} << 16;
      header.rma_count = input.take<std::uint8_t>() % 5;
      for (std::size_t i = 0; i < header.rma_count && i < tcp::kMaxRmaIov; ++i)
        header.rma[i] = {input.take<std::uint8_t>(), input.take_flag() ? input.take<std::uint64_t>() : 1u,
                         input.take_flag() ? victim_.exposed_key() : 1};
    }
    header.payload = (kind & 8) != 0 ? input.take<std::uint16_t>() : std::uint64_t{kind % 8u} * 8;
    std::byte bytes[tcp::kMaxHeaderSize];
    if (header.size() > sizeof bytes) header.flags = 0;  // a longer header cannot be encoded
    send({bytes, tcp::encode(header, bytes)});
    send(std::vector<std::byte>(std::min<std::uint64_t>(header.payload, 20'000), std::byte{1}));
  }
  void receive() {
    std::byte unwanted[4096];
    while (socket_ && tcp::net::recv(socket_.get(), unwanted, sizeof unwanted) > 0) {
    }
  }
  void leave() { socket_.reset(); }

 private:
  void introduce(Input& input, tcp::CmType type) {
    tcp::Greeting greeting = tcp::Greeting::of(ntohs(name_.sin_port), 4711);
    if (type != tcp::CmType::kRequest) greeting.version |= tcp::kAnsweredVersion;
    greeting.features = input.take<std::uint8_t>();
    if (input.take_flag()) input.take_bytes(&greeting, sizeof greeting);
    const std::size_t len = input.take_flag() ? input.take<std::uint8_t>() % 9 : sizeof greeting;
    tcp::CmMessage message;
    message.compose(type, &greeting, len);
    send(message.unsent());
  }
  void send(std::span<const std::byte> bytes) {
    if (!bytes.empty() && socket_) (void)tcp::net::send(socket_.get(), bytes.data(), bytes.size());
  }

  Victim& victim_;
  UniqueFd listener_, socket_;
  sockaddr_in name_{};
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  tcp::sim::reset({.capacity = std::size_t{1} << 20});
  WEFT_FUZZ_CHECK(setenv("FI_TCP_IDLE_TIMEOUT", input.take_flag() ? "10" : "0", 1) == 0);
  {
    Victim victim("tcp", FI_ATOMIC);
    {
      Attacker attacker(victim);
      victim.post_receives();
      if (input.take_flag()) {
        attacker.call(input);
        for (int i = 0; i < kRounds; ++i) victim.drive();
        if (input.take_flag()) victim.send_to(attacker.name());
      } else {
        const fi_addr_t peer = victim.send_to(attacker.name());
        victim.access(peer);
        victim.fetch_from(peer);
        attacker.answer(input);
      }
      while (!input.empty()) {
        for (int i = 0; i < kRounds; ++i) victim.drive();
        attacker.receive();
        if (input.take<std::uint8_t>() % 16 == 0) tcp::sim::advance(std::chrono::milliseconds(6));
        attacker.say_one(input);
      }
      for (int i = 0; i < kRounds; ++i) victim.drive();
      attacker.leave();
    }
    // The peer is gone: transmits fail, receives are cancelled, and nothing is left.
    for (int i = 0; i < kRoundsToTheEnd; ++i) {
      victim.drive();
      if (i % 10 == 9) tcp::sim::advance(std::chrono::milliseconds(1000));
    }
    victim.cancel();
    for (int i = 0; i < kRoundsToTheEnd && victim.outstanding() != 0; ++i) victim.drive();
    WEFT_FUZZ_CHECK(victim.outstanding() == 0);
  }
  WEFT_FUZZ_CHECK(tcp::sim::open_sockets() == 0);
  return 0;
}
