// SPDX-License-Identifier: BSD-2-Clause
// Arbitrary bytes over an established connection: data headers, payloads, acknowledgements; spec:
// prov/tcp/stream/data_header.h. Receives of every kind are posted, a region is exposed, reads and acknowledged sends
// are outstanding. No input may crash, write outside the buffers, leak, or complete an operation twice.
#include "wire_target.h"

#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <array>

using namespace weft;
using namespace weft::fuzz;

namespace {

constexpr std::size_t kReceives = 6;
constexpr std::size_t kRegion = 512;
constexpr std::uint64_t kKey = 7;

// Separate buffers, so that the address sanitizer detects every overrun.
struct Buffers {
  std::vector<std::vector<char>> receives;
  std::vector<char> region = std::vector<char>(kRegion);
  std::vector<char> read_into = std::vector<char>(64);
  std::string sent = std::string(200, 's');
};

UniqueFd establish(Application& application, bool foreign_order) {
  UniqueFd peer = application.connected_socket();
  tcp::CmMessage message;
  message.compose(tcp::CmType::kRequest, nullptr, 0);
  std::array<std::byte, tcp::kCmHeaderSize> bytes;
  std::memcpy(bytes.data(), message.unsent().data(), bytes.size());
  if (foreign_order) std::swap(bytes[24], bytes[31]);
  (void)tcp::net::send(peer.get(), bytes.data(), bytes.size());
  InfoPtr request;
  while (application.next_event(request) != FI_CONNREQ) {
  }
  application.open_endpoint(request.get());
  WEFT_FUZZ_CHECK(fi_accept(application.ep, nullptr, 0) == 0);
  WEFT_FUZZ_CHECK(application.next_event(request) == FI_CONNECTED);
  return peer;
}

// Returns how many operations were posted.
int post_all(Application& application, Buffers& buffers, std::uint8_t choice) {
  int posted = 0;
  for (std::size_t i = 0; i < kReceives; ++i) {
    buffers.receives.emplace_back(std::size_t{8} << i);
    std::vector<char>& buffer = buffers.receives.back();
    const bool tagged = (choice >> i & 1) != 0;
    const ssize_t result =
        tagged
            ? fi_trecv(application.ep, buffer.data(), buffer.size(), nullptr, FI_ADDR_UNSPEC, i, ~0ull, buffer.data())
            : fi_recv(application.ep, buffer.data(), buffer.size(), nullptr, FI_ADDR_UNSPEC, buffer.data());
    posted += result == 0;
  }
  if (choice & 0x40)
    posted += fi_read(application.ep, buffers.read_into.data(), buffers.read_into.size(), nullptr, FI_ADDR_UNSPEC, 0, 1,
                      buffers.read_into.data()) == 0;
  if (choice & 0x80) {
    const iovec iov{buffers.sent.data(), buffers.sent.size()};
    fi_msg message{};
    message.msg_iov = &iov;
    message.iov_count = 1;
    message.context = buffers.sent.data();
    posted += fi_sendmsg(application.ep, &message, FI_DELIVERY_COMPLETE | FI_COMPLETION) == 0;
  }
  return posted;
}

int drain(Application& application) {
  int completed = 0;
  fi_cq_tagged_entry entry;
  for (;;) {
    const ssize_t count = fi_cq_read(application.cq, &entry, 1);
    if (count == -FI_EAGAIN) return completed;
    if (count == -FI_EAVAIL) {
      fi_cq_err_entry error{};
      WEFT_FUZZ_CHECK(fi_cq_readerr(application.cq, &error, 0) == 1);
      completed += error.op_context != nullptr;
    } else {
      completed += entry.op_context != nullptr;  // null for remote writes with data
    }
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  tcp::sim::reset({});
  Buffers buffers;
  {
    Application application;
    WEFT_FUZZ_CHECK(fi_mr_reg(application.domain, buffers.region.data(), kRegion, FI_REMOTE_READ | FI_REMOTE_WRITE, 0,
                              kKey, 0, &application.mr, nullptr) == 0);
    UniqueFd peer = establish(application, input.take_flag());
    const int posted = post_all(application, buffers, input.take<std::uint8_t>());
    int completed = 0;
    std::byte unwanted[1024];
    while (!input.empty()) {
      say(input, peer.get());
      for (int i = 0; i < 3; ++i) completed += drain(application);
      while (tcp::net::recv(peer.get(), unwanted, sizeof unwanted) > 0) {
      }
    }
    peer.reset();
    InfoPtr none;
    int shutdowns = 0;
    for (int i = 0; i < 40; ++i) {
      shutdowns += application.next_event(none) == FI_SHUTDOWN;
      completed += drain(application);
      if (i % 10 == 9) tcp::sim::advance_to_timer();
    }
    WEFT_FUZZ_CHECK(shutdowns == 1);
    WEFT_FUZZ_CHECK(completed == posted);
  }
  WEFT_FUZZ_CHECK(tcp::sim::open_sockets() == 0);
  return 0;
}
