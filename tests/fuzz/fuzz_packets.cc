// SPDX-License-Identifier: BSD-2-Clause
// Arbitrary packets to a reliable-datagram endpoint over an established connection: every type with any contents,
// answers to messages that were sent and to others; spec: prov/rxm/packet.h. Receives of several kinds are
// posted, memory is exposed, long and short messages are on their way to the peer. No input may crash, write outside
// the buffers, leak, or complete an operation never or twice.
#include <array>
#include <cstdlib>
#include <cstring>
#include <deque>

#include "rxm/packet.h"
#include "victim.h"
#include "wire_target.h"

using namespace weft;
using namespace weft::fuzz;

namespace {

constexpr std::size_t kEager = 16384;
constexpr std::size_t kPacket = sizeof(rxm::PacketHeader) + kEager;
constexpr int kRounds = 4;
constexpr int kRoundsForEvents = 1200;  // connections are polled every thousandth time

// The peer: a connected endpoint of the lower provider that sends the input.
class Attacker {
 public:
  explicit Attacker(Victim& victim) : victim_(victim) {
    WEFT_FUZZ_CHECK(fi_mr_reg(application_.domain, memory_.data(), memory_.size(),
                              FI_SEND | FI_RECV | FI_REMOTE_READ | FI_REMOTE_WRITE, 0, 1, 0, &application_.mr,
                              nullptr) == 0);
  }
  sockaddr_in name() { return application_.listening_at(); }

  // True when connected. `said`: connection data that the input changed.
  bool connect(Input& input) {
    rxm::ConnectData said;
    said.eager_limit = kEager;
    said.receive_size = 8;
    said.id = 1;
    said.port = input.take<std::uint16_t>();
    if (input.take_flag()) input.take_bytes(&said, sizeof said);
    application_.open_endpoint(application_.info.get());
    const sockaddr_in to = victim_.name();
    WEFT_FUZZ_CHECK(fi_enable(application_.ep) == 0);
    WEFT_FUZZ_CHECK(fi_connect(application_.ep, &to, &said, sizeof said) == 0);
    return wait_until_connected();
  }
  bool accept(Input& input) {
    InfoPtr request;
    for (int i = 0; i < kRoundsForEvents; ++i) {
      victim_.drive();
      if (application_.next_event(request) == FI_CONNREQ) break;
    }
    if (request == nullptr) return false;
    rxm::AcceptData said;
    said.receive_size = 8;
    if (input.take_flag()) input.take_bytes(&said, sizeof said);
    application_.open_endpoint(request.get());
    WEFT_FUZZ_CHECK(fi_enable(application_.ep) == 0);
    const std::size_t len = input.take_flag() ? input.take<std::uint8_t>() % sizeof said : sizeof said;
    WEFT_FUZZ_CHECK(fi_accept(application_.ep, &said, len) == 0);
    return wait_until_connected();
  }

  // Receives the victim's packets, so that answers can carry the right number.
  void listen() {
    for (auto& buffer : incoming_)
      (void)fi_recv(application_.ep, buffer.data(), buffer.size(), nullptr, FI_ADDR_UNSPEC, &buffer);
  }

  void say_one(Input& input) {
    alignas(8) std::byte bytes[kPacket] = {};
    const std::uint8_t kind = input.take<std::uint8_t>();
    std::size_t len = 0;
    if (kind & 1) {
      len = input.take<std::uint8_t>();
      input.take_bytes(bytes, len);
    } else {
      rxm::PacketHeader header;
      header.control.type = static_cast<rxm::PacketType>(input.take<std::uint8_t>() % 10);
      header.op.op = static_cast<rxm::PacketOp>(input.take<std::uint8_t>() % 10);
      header.control.segment = input.take<std::uint8_t>();
      header.control.data = input.take<std::uint8_t>();
      const bool of_long_message =
          header.control.type == rxm::PacketType::kReadDone || header.control.type == rxm::PacketType::kWriteTarget;
      header.control.message = !(kind & 2) ? input.take<std::uint8_t>() : of_long_message ? announced_ : heard_;
      header.op.tag = input.take<std::uint32_t>();
      header.op.op_data = input.take<std::uint8_t>();
      const std::size_t payload = kind & 4 ? input.take<std::uint16_t>() % (kEager + 1) : input.take<std::uint8_t>();
      header.op.size = kind & 8 ? input.take<std::uint32_t>() : payload;
      header.control.segment_size = static_cast<std::uint16_t>(payload);
      header.op.flags = kind & 16 ? static_cast<std::uint32_t>(FI_REMOTE_CQ_DATA) : 0;
      std::memcpy(bytes, &header, sizeof header);
      std::byte* body = bytes + sizeof header;
      if (kind & 32) {  // ranges of the peer's memory or of the victim's
        std::uint64_t words[13] = {};
        const std::size_t count = input.take<std::uint8_t>() % 5;
        for (std::size_t i = 0; i < count; ++i) {
          words[3 * i] = input.take<std::uint8_t>();
          words[3 * i + 1] = input.take<std::uint16_t>();
          words[3 * i + 2] = input.take_flag() ? victim_.exposed_key() : 1;
        }
        words[12] = count;
        std::memcpy(body, words, sizeof words);
      }
      input.take_bytes(body + (kind & 32 ? 104 : 0), std::min<std::size_t>(payload, 64));
      len = sizeof header + payload;
    }
    const std::vector<std::byte>& said = said_.emplace_back(bytes, bytes + len);
    if (kind & 64)
      (void)fi_tsend(application_.ep, said.data(), len, nullptr, FI_ADDR_UNSPEC, len, nullptr);
    else
      (void)fi_send(application_.ep, said.data(), len, nullptr, FI_ADDR_UNSPEC, nullptr);
  }

  void drive() {
    fi_cq_tagged_entry entry;
    fi_cq_err_entry error{};
    for (;;) {
      const ssize_t count = fi_cq_read(application_.cq, &entry, 1);
      if (count == -FI_EAVAIL) {
        WEFT_FUZZ_CHECK(fi_cq_readerr(application_.cq, &error, 0) == 1);
      } else if (count == 1) {
        note(entry);
      } else {
        return;
      }
    }
  }
  void leave() {
    fi_shutdown(application_.ep, 0);
    drive();
  }

 private:
  bool wait_until_connected() {
    InfoPtr none;
    for (int i = 0; i < 2 * kRoundsForEvents; ++i) {
      victim_.drive();
      const int event = application_.next_event(none);
      if (event != FI_NOTIFY) return event == FI_CONNECTED;
    }
    return false;
  }
  void note(const fi_cq_tagged_entry& entry) {
    for (auto& buffer : incoming_) {
      if (entry.op_context != &buffer) continue;
      rxm::ControlHeader header;
      if (entry.len >= sizeof header) {
        std::memcpy(&header, buffer.data(), sizeof header);
        heard_ = header.message;
        if (header.type == rxm::PacketType::kRendezvous) announced_ = header.message;
      }
      (void)fi_recv(application_.ep, buffer.data(), buffer.size(), nullptr, FI_ADDR_UNSPEC, &buffer);
    }
  }

  Victim& victim_;
  std::vector<char> memory_ = std::vector<char>(std::size_t{1} << 18);
  std::array<std::array<char, kPacket>, 4> incoming_;
  std::deque<std::vector<std::byte>> said_;
  std::uint64_t heard_ = 0;      // the last number
  std::uint64_t announced_ = 0;  // a long message's number
  Application application_;
};

void take_turns(Victim& victim, Attacker& attacker) {
  for (int i = 0; i < kRounds; ++i) {
    victim.drive();
    attacker.drive();
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  tcp::sim::reset({.capacity = std::size_t{1} << 20});
  {
    WEFT_FUZZ_CHECK(setenv("FI_OFI_RXM_USE_RNDV_WRITE", size != 0 && (data[size - 1] & 1) != 0 ? "1" : "0", 1) == 0);
    Victim victim("tcp;ofi_rxm", FI_ATOMIC);
    {
      auto attacker = std::make_unique<Attacker>(victim);
      victim.post_receives();
      const bool calls = input.take_flag();
      if (!calls) {
        const fi_addr_t peer = victim.send_to(attacker->name());
        victim.fetch_from(peer);
      }
      const bool connected = calls ? attacker->connect(input) : attacker->accept(input);
      if (connected) {
        attacker->listen();
        take_turns(victim, *attacker);  // so that the attacker can answer the victim's packets
        while (!input.empty()) {
          attacker->say_one(input);
          take_turns(victim, *attacker);
        }
        attacker->leave();
      }
    }
    // The peer is gone: transmits fail, receives are cancelled, and nothing is left.
    for (int i = 0; i < 2 * kRoundsForEvents; ++i) victim.drive();
    victim.cancel();
    for (int i = 0; i < kRoundsForEvents && victim.outstanding() != 0; ++i) victim.drive();
    WEFT_FUZZ_CHECK(victim.outstanding() == 0);
  }
  WEFT_FUZZ_CHECK(tcp::sim::open_sockets() == 0);
  return 0;
}
