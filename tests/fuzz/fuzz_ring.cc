// SPDX-License-Identifier: BSD-2-Clause
// Arbitrary words and bytes in the memory that a live endpoint of tcp's own reliable datagrams shares with a peer of
// its host; spec: prov/tcp/local/local_wire.h, prov/tcp/stream/data_header.h. The peer gives the memory over real
// sockets, and writes valid messages, messages with wrong headers, offers and garbage to it. No input may crash, write
// outside the buffers, leak, or complete an operation never or twice.
#include <sys/mman.h>
#include <sys/socket.h>

#include <chrono>
#include <optional>
#include <utility>

#include "tcp/connection/cm_message.h"
#include "tcp/local/local_host.h"
#include "tcp/local/local_wire.h"
#include "tcp/reliable/greeting.h"
#include "tcp/socket.h"
#include "tcp/stream/data_header.h"
#include "victim.h"

using namespace weft;
using namespace weft::fuzz;

namespace {

constexpr int kRounds = 3;
constexpr int kMostSends = 8;
constexpr std::size_t kOffered = 100'000;
constexpr std::chrono::seconds kPatience{8};

// The peer: a socket, and the end of the memory that created it.
class Attacker final : tcp::Recipient {
 public:
  explicit Attacker(Victim& victim) : victim_(victim) {
    const sockaddr_in to = victim_.name();
    socket_.reset(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    WEFT_FUZZ_CHECK(::connect(socket_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof to) == 0);
    tcp::Greeting greeting = tcp::Greeting::of(kNoListener, 4711);
    greeting.features = tcp::kHasAtomics | tcp::kHasNumbers;
    tcp::CmMessage request;
    request.compose(tcp::CmType::kRequest, &greeting, sizeof greeting);
    send(request.unsent());
    receive(tcp::kCmHeaderSize + sizeof greeting);
  }
  ~Attacker() { ::munmap(memory_, tcp::kLocalMemorySize); }

  // The victim's next operations may go to this address.
  static sockaddr_in name() {
    sockaddr_in name{};
    name.sin_family = AF_INET;
    name.sin_port = htons(kNoListener);
    name.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    return name;
  }

  void share_memory() {
    const auto mailbox = host_.invite(*this);
    WEFT_FUZZ_CHECK(mailbox.has_value());
    send({.op = tcp::Op::kMailbox,
          .flags = tcp::kFlagCqData,
          .cq_data = mailbox->token,
          .tag = mailbox->mailbox,
          .rma = {}});
    receive(kControlSize);  // a datagram is in the mailbox
    host_.read_mailbox();
    WEFT_FUZZ_CHECK(wire_ != nullptr);
    send({.op = tcp::Op::kMailbox, .rma = {}});
    receive(tcp::kBaseHeaderSize);  // Op::kSwitch
    wire_->keep_proof();
    send({.op = tcp::Op::kSwitch, .rma = {}});
  }

  void act(Input& input) {
    const std::uint8_t kind = input.take<std::uint8_t>();
    switch (kind % 8) {
      case 0:
        return write_word(input, kind);
      case 1:
        return write_bytes(input);
      case 2:
      case 3:
        return say(input, kind);
      case 4: {
        std::byte bytes[255];
        const std::size_t len = input.take<std::uint8_t>();
        input.take_bytes(bytes, len);
        return put({bytes, len});
      }
      case 5:
        return read_some();
      case 6:
        (void)tcp::net::send(socket_.get(), &kind, (kind & 8) != 0 ? 1 : 0);
        return;
      default:
        if (sends_ < kMostSends) ++sends_, victim_.send_to(name());
    }
  }
  void leave() {
    wire_.reset();
    socket_.reset();
  }

 private:
  static constexpr std::uint16_t kNoListener = 9;
  static constexpr std::size_t kControlSize = tcp::kBaseHeaderSize + sizeof(std::uint64_t);
  static constexpr std::size_t kWords = offsetof(tcp::LocalMemory, rings) / sizeof(std::uint64_t);

  void on_datagram(UniqueFd, pid_t, std::uint64_t from) noexcept override {
    UniqueFd memory;
    auto made = tcp::LocalWire::create(memory);
    if (!made) return;
    wire_ = std::move(*made);
    void* const mapped = ::mmap(nullptr, tcp::kLocalMemorySize, PROT_READ | PROT_WRITE, MAP_SHARED, memory.get(), 0);
    WEFT_FUZZ_CHECK(mapped != MAP_FAILED);
    memory_ = static_cast<tcp::LocalMemory*>(mapped);
    (void)host_.send({from, token}, memory.get());
  }

  void receive(std::size_t len) {
    std::byte bytes[256];
    const auto deadline = std::chrono::steady_clock::now() + kPatience;
    for (std::size_t got = 0; got < len;) {
      victim_.drive();
      const ssize_t part = ::recv(socket_.get(), bytes, len - got, MSG_DONTWAIT);
      if (part > 0) got += static_cast<std::size_t>(part);
      WEFT_FUZZ_CHECK(part != 0 && std::chrono::steady_clock::now() < deadline);
    }
  }
  void send(std::span<const std::byte> bytes) {
    WEFT_FUZZ_CHECK(tcp::net::send(socket_.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
  }
  void send(const tcp::DataHeader& header) {
    std::byte bytes[tcp::kMaxHeaderSize];
    send({bytes, tcp::encode(header, bytes)});
  }
  void put(std::span<const std::byte> bytes) {
    const iovec piece{const_cast<std::byte*>(bytes.data()), bytes.size()};
    if (!bytes.empty()) (void)wire_->write({&piece, 1});
  }

  void write_word(Input& input, std::uint8_t kind) {
    auto* const words = reinterpret_cast<std::atomic<std::uint64_t>*>(memory_);
    std::atomic<std::uint64_t>& word = words[input.take<std::uint16_t>() % kWords];
    switch (kind / 8 % 4) {
      case 0:
        return word.store(input.take<std::uint64_t>());
      case 1:
        return word.store(input.take<std::uint8_t>());
      case 2:
        return void(word += static_cast<std::uint64_t>(std::int64_t{input.take<std::int16_t>()}));
      default:  // an address that exists
        return word.store(reinterpret_cast<std::uintptr_t>(offered_.data()) + input.take<std::uint16_t>());
    }
  }
  void write_bytes(Input& input) {
    const std::size_t at = input.take<std::uint16_t>() % tcp::LocalMemory::kRing;
    const std::size_t len = std::min<std::size_t>(input.take<std::uint8_t>(), tcp::LocalMemory::kRing - at);
    input.take_bytes(memory_->rings[input.take_flag() ? 1 : 0] + at, len);
  }
  // A message, or part of one, whose payload is offered if it is long.
  void say(Input& input, std::uint8_t kind) {
    tcp::DataHeader header;
    header.op = static_cast<tcp::Op>((kind & 64) != 0 ? 64 + input.take<std::uint8_t>() % 8 : kind / 8 % 8);
    header.op_data = (kind & 128) != 0 ? input.take<std::uint8_t>() : std::uint8_t{0};
    header.flags = static_cast<std::uint16_t>(input.take<std::uint8_t>() & 0x8f);
    header.tag = input.take<std::uint8_t>();
    header.payload = kind % 8 == 3 ? input.take<std::uint32_t>() % kOffered : input.take<std::uint8_t>();
    header.announced = header.payload;
    if (header.op == tcp::Op::kReadRequest || header.op == tcp::Op::kWrite || header.op == tcp::Op::kAtomic)
      header.rma_count = input.take<std::uint8_t>() % 5;
    for (std::size_t i = 0; i < header.rma_count; ++i)
      header.rma[i] = {input.take<std::uint8_t>(), input.take<std::uint16_t>(),
                       input.take_flag() ? victim_.exposed_key() : 1};
    if (header.op == tcp::Op::kReadRequest || header.op == tcp::Op::kAnnouncement) header.payload = 0;
    std::byte bytes[tcp::kMaxHeaderSize];
    if (header.size() > sizeof bytes) header.flags = 0;  // a longer header cannot be encoded
    const iovec pieces[] = {{bytes, tcp::encode(header, bytes)}, {offered_.data(), header.payload}};
    const ssize_t written = wire_->write({pieces, header.payload != 0 ? 2u : 1u});
    if (written >= static_cast<ssize_t>(pieces[0].iov_len) && (input.take_flag())) {
      const auto sent = static_cast<std::size_t>(written) - pieces[0].iov_len;
      put(std::as_bytes(std::span(offered_)).subspan(sent, header.payload - sent));
    }
  }
  void read_some() {
    std::byte unwanted[4096];
    const iovec piece{unwanted, sizeof unwanted};
    if (wire_->is_settled()) (void)wire_->settle();
    (void)wire_->read({&piece, 1});
  }

  Victim& victim_;
  UniqueFd socket_;
  tcp::LocalHost host_;
  std::unique_ptr<tcp::LocalWire> wire_;
  tcp::LocalMemory* memory_ = nullptr;
  std::vector<char> offered_ = std::vector<char>(kOffered, 'o');
  int sends_ = 0;
};

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  Victim victim("tcp", FI_ATOMIC);
  Attacker attacker(victim);
  attacker.share_memory();
  victim.post_receives();
  while (!input.empty()) {
    attacker.act(input);
    for (int i = 0; i < kRounds; ++i) victim.drive();
  }
  attacker.leave();
  // The peer is gone: transmits fail, receives are cancelled, and nothing is left.
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  for (int i = 0; i < kRounds; ++i) victim.drive();
  victim.cancel();
  while (victim.outstanding() != 0 && std::chrono::steady_clock::now() < deadline) victim.drive();
  WEFT_FUZZ_CHECK(victim.outstanding() == 0);
  return 0;
}
