// SPDX-License-Identifier: BSD-2-Clause
// See ibv_post_send(3). The server registers a row of slots and answers one message at the end. The words in the slots
// show that the data really moved, as in fabric/fabric_rma.cc.
#include "process/one_sided.h"

#include "process/message_workloads.h"
#include "process/turns.h"
#include "verbs/rdma_node.h"
#include "verbs/verbs_link.h"

namespace bench {
namespace {

constexpr std::size_t kEndMessageSize = 8;
constexpr unsigned kEndMessages = 2;
constexpr SendPolicy kEndPolicy{kEndMessages, 1};
constexpr std::uint64_t kReadMark = 0x7ead;  // word of every slot for reads

// The client's side: keeps a window of outstanding transfers between equal slots of both sides.
class Transfers {
 public:
  Transfers(const RdmaNode& node, const Measurement& m, ibv_wr_opcode opcode, int access, Channel& channel)
      : node_(node),
        m_(m),
        target_(channel.get()),
        key_(static_cast<std::uint32_t>(channel.get())),
        local_(node, m.size, m.window, access),
        queue_(node, opcode, m.size, many_messages(m)) {}

  // `prepare` gets the number of each transfer before it is posted.
  template <class Prepare>
  void run(Prepare prepare) {
    const std::uint64_t end = deadline_ns(m_);
    do {
      for (unsigned i = 0; i < m_.window; ++i) {
        while (queue_.full()) reap();
        const std::uint64_t number = queue_.posted();
        const std::size_t slot = number % m_.window;
        prepare(number, slot);
        queue_.aim(target_ + slot * local_.stride(), key_);
        queue_.post(local_.address(slot), local_.lkey());
      }
    } while (now_ns() < end);
    while (!queue_.idle()) reap();
  }

  std::uint64_t posted() const { return queue_.posted(); }

  RegisteredMemory& local() { return local_; }

 private:
  void reap() {
    ibv_wc completions[16];
    const int n = ibv_poll_cq(node_.cq(), 16, completions);
    if (n < 0) fail("ibv_poll_cq failed");
    if (n == 0) yield_if_shared();
    for (int i = 0; i < n; ++i) {
      if (completions[i].status != IBV_WC_SUCCESS) fail_with_completion(completions[i]);
      queue_.on_completion(completions[i]);
    }
  }

  const RdmaNode& node_;
  const Measurement& m_;
  std::uint64_t target_;
  std::uint32_t key_;
  RegisteredMemory local_;
  SendQueue queue_;
};

void report_transfers(std::uint64_t transfers, std::size_t size, std::uint64_t start) {
  const auto elapsed_ns = static_cast<double>(now_ns() - start);
  report("bandwidth_gbs", static_cast<double>(transfers * size) / elapsed_ns);
  report("transfer_us", elapsed_ns / 1e3 / static_cast<double>(transfers));
}

void serve(const Measurement& m, Channel& channel, int access) {
  RdmaNode node(m, Role::kServer, channel);
  node.establish(m.connections);
  {
    RegisteredMemory region(node, m.size, m.window, access);
    for (std::size_t slot = 0; slot < m.window; ++slot) region.set_word(slot, kReadMark);
    VerbsLink link(node, kEndMessageSize, kEndMessages, kEndPolicy);
    channel.put(region.address(0));
    channel.put(region.rkey());
    in_turns(Role::kServer, m, channel, [&] {
      const std::uint64_t writes = link.receive();  // number in the last write, or 0 after reads
      if (writes != 0 && region.word((writes - 1) % m.window) != writes) fail("the last write did not arrive");
      link.release();
      link.send_alone(writes);
      link.drain();
    });
    node.leave(channel);
  }
}

}  // namespace

void write_server(const Measurement& m, Channel& channel) {
  serve(m, channel, IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_WRITE);
}
void read_server(const Measurement& m, Channel& channel) {
  serve(m, channel, IBV_ACCESS_REMOTE_READ);
}

void write_client(const Measurement& m, Channel& channel) {
  RdmaNode node(m, Role::kClient, channel);
  node.establish(m.connections);
  {
    Transfers transfers(node, m, IBV_WR_RDMA_WRITE, 0, channel);
    VerbsLink link(node, kEndMessageSize, kEndMessages, kEndPolicy);
    in_turns(Role::kClient, m, channel, [&] {
      const std::uint64_t before = transfers.posted();
      const std::uint64_t start = now_ns();
      transfers.run([&](std::uint64_t number, std::size_t slot) { transfers.local().set_word(slot, number + 1); });
      link.send_alone(transfers.posted());  // sent after the writes, so it arrives after them
      link.receive();
      report_transfers(transfers.posted() - before, m.size, start);
      link.release();
      link.drain();
    });
    node.leave(channel);
  }
}

void read_client(const Measurement& m, Channel& channel) {
  RdmaNode node(m, Role::kClient, channel);
  node.establish(m.connections);
  {
    Transfers transfers(node, m, IBV_WR_RDMA_READ, IBV_ACCESS_LOCAL_WRITE, channel);
    VerbsLink link(node, kEndMessageSize, kEndMessages, kEndPolicy);
    RegisteredMemory& local = transfers.local();
    in_turns(Role::kClient, m, channel, [&] {
      const std::uint64_t before = transfers.posted();
      const std::uint64_t start = now_ns();
      transfers.run([&](std::uint64_t number, std::size_t slot) {
        if (number >= m.window && local.word(slot) != kReadMark) fail("a read completed without its data");
        local.set_word(slot, 0);
      });
      report_transfers(transfers.posted() - before, m.size, start);
      link.send_alone(0);
      link.receive();
      link.release();
      link.drain();
    });
    node.leave(channel);
  }
}

}  // namespace bench
