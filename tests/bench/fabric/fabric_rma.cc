// SPDX-License-Identifier: BSD-2-Clause
// Governed by fi_rma(3). The server registers a row of slots and answers one message at the end; it drives progress all
// the time, as manual progress requires. The words in the slots show that the data really moved.
#include "process/one_sided.h"

#include <rdma/fi_rma.h>

#include "fabric/connected_node.h"
#include "fabric/messenger.h"
#include "process/message_workloads.h"
#include "process/turns.h"

namespace bench {
namespace {

constexpr std::size_t kEndMessageSize = 8;
constexpr std::uint64_t kReadMark = 0x7ead;  // word of every slot for reads

struct Target {
  std::uint64_t address;
  std::uint64_t key;
};

enum class Operation { kWrite, kRead };

// The client's side: keeps a window of outstanding transfers and counts their completions.
class Transfers {
 public:
  Transfers(const ConnectedNode& node, const Measurement& m, std::uint64_t access, Target target)
      : node_(node), m_(m), target_(target), local_(node, m.size, m.window, access) {}

  // `prepare` gets the number of each transfer before it is posted.
  template <class Prepare>
  void run(Operation operation, Prepare prepare) {
    const std::uint64_t end = deadline_ns(m_);
    do {
      for (unsigned i = 0; i < m_.window; ++i, ++posted_) {
        while (posted_ - completed_ == m_.window) reap();
        prepare(posted_);
        for (;;) {
          const ssize_t result = post(operation, posted_);
          if (result == 0) break;
          if (result != -FI_EAGAIN) node_.check("a transfer", result);
          reap();
        }
      }
    } while (now_ns() < end);
    while (completed_ != posted_) reap();
  }

  std::uint64_t posted() const { return posted_; }

  RegisteredBuffer& local() { return local_; }
  std::size_t slot(std::uint64_t sequence) const { return sequence % m_.window; }

 private:
  // With a completion, unless those of selected transfers stand for all before them.
  ssize_t post(Operation operation, std::uint64_t sequence) {
    fid_ep* const ep = node_.endpoint(0);
    std::byte* const buffer = local_.slot(slot(sequence));
    void* descriptor = local_.descriptor();
    const std::uint64_t remote = target_.address + slot(sequence) * local_.stride();
    if (!node_.selective() || (sequence + 1) % node_.completion_every() != 0) {
      if (operation == Operation::kWrite)
        return fi_write(ep, buffer, m_.size, descriptor, FI_ADDR_UNSPEC, remote, target_.key, nullptr);
      return fi_read(ep, buffer, m_.size, descriptor, FI_ADDR_UNSPEC, remote, target_.key, nullptr);
    }
    const iovec here{buffer, m_.size};
    const fi_rma_iov there{remote, m_.size, target_.key};
    const fi_msg_rma message{&here, &descriptor, 1, FI_ADDR_UNSPEC, &there, 1, nullptr, 0};
    return operation == Operation::kWrite ? fi_writemsg(ep, &message, FI_COMPLETION)
                                          : fi_readmsg(ep, &message, FI_COMPLETION);
  }

  void reap() {
    fi_cq_entry entries[16];
    const ssize_t n = fi_cq_read(node_.cq(), entries, 16);
    if (n == -FI_EAVAIL) node_.fail_with_completion_error();
    if (n == -FI_EAGAIN) yield_if_shared();
    if (n > 0) completed_ += static_cast<std::uint64_t>(n) * node_.completion_every();
  }

  const ConnectedNode& node_;
  const Measurement& m_;
  Target target_;
  RegisteredBuffer local_;
  std::uint64_t posted_ = 0;
  std::uint64_t completed_ = 0;
};

void report_transfers(std::uint64_t transfers, std::size_t size, std::uint64_t start) {
  const auto elapsed_ns = static_cast<double>(now_ns() - start);
  report("bandwidth_gbs", static_cast<double>(transfers * size) / elapsed_ns);
  report("transfer_us", elapsed_ns / 1e3 / static_cast<double>(transfers));
}

void serve(const Measurement& m, Channel& channel, std::uint64_t access) {
  ConnectedNode node(m, Role::kServer, Wait::kSpin, channel);
  node.establish(m.connections);
  {
    RegisteredBuffer region(node, m.size, m.window, access);
    for (std::size_t slot = 0; slot < m.window; ++slot) region.set_word(slot, kReadMark);
    Messenger messenger(node, node.endpoint(0), kEndMessageSize, 2);
    channel.put(region.remote_address());
    channel.put(region.key());
    in_turns(Role::kServer, m, channel, [&] {
      const std::uint64_t writes = messenger.receive();  // number in the last write, or 0 after reads
      if (writes != 0 && region.word((writes - 1) % m.window) != writes) fail("the last write did not arrive");
      messenger.release();
      messenger.send_alone(writes);
      messenger.drain();
    });
    node.leave(channel);
  }
}

}  // namespace

void write_server(const Measurement& m, Channel& channel) {
  serve(m, channel, FI_REMOTE_WRITE);
}
void read_server(const Measurement& m, Channel& channel) {
  serve(m, channel, FI_REMOTE_READ);
}

void write_client(const Measurement& m, Channel& channel) {
  ConnectedNode node(m, Role::kClient, Wait::kSpin, channel);
  node.establish(m.connections);
  const Target target{channel.get(), channel.get()};
  Transfers transfers(node, m, FI_WRITE, target);
  Messenger messenger(node, node.endpoint(0), kEndMessageSize, 2);
  RegisteredBuffer& local = transfers.local();
  in_turns(Role::kClient, m, channel, [&] {
    const std::uint64_t before = transfers.posted();
    const std::uint64_t start = now_ns();
    transfers.run(Operation::kWrite, [&](std::uint64_t i) { local.set_word(transfers.slot(i), i + 1); });
    messenger.send_alone(transfers.posted());  // sent after the writes, so it arrives after them
    messenger.receive();
    report_transfers(transfers.posted() - before, m.size, start);
    messenger.release();
    messenger.drain();
  });
  node.leave(channel);
}

void read_client(const Measurement& m, Channel& channel) {
  ConnectedNode node(m, Role::kClient, Wait::kSpin, channel);
  node.establish(m.connections);
  const Target target{channel.get(), channel.get()};
  Transfers transfers(node, m, FI_READ, target);
  Messenger messenger(node, node.endpoint(0), kEndMessageSize, 2);
  RegisteredBuffer& local = transfers.local();
  in_turns(Role::kClient, m, channel, [&] {
    const std::uint64_t before = transfers.posted();
    const std::uint64_t start = now_ns();
    transfers.run(Operation::kRead, [&](std::uint64_t i) {
      const std::size_t slot = transfers.slot(i);
      if (i >= m.window && local.word(slot) != kReadMark) fail("a read completed without its data");
      local.set_word(slot, 0);
    });
    report_transfers(transfers.posted() - before, m.size, start);
    messenger.send_alone(0);
    messenger.receive();
    messenger.release();
    messenger.drain();
  });
  node.leave(channel);
}

}  // namespace bench
