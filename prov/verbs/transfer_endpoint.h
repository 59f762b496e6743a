// SPDX-License-Identifier: BSD-2-Clause
// The data side of a connected endpoint: fi_msg(3), fi_rma(3), fi_atomic(3), and what fi_endpoint(3) says of bindings,
// queue sizes and cancellation. Connection management is the derived class's.
//
// Until enable_transfers() every slot answers -FI_EOPBADSTATE, then receives may be posted, and from start() on
// messages may be sent: the tables change, so the calls themselves check no state. Receives that are posted before
// there is a queue pair are kept.
//
// Locks, in this order: the engine's mutex (control), send_lock_, a channel's lock, receive_lock_, queues and counters.
#pragma once

#include <infiniband/verbs.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_rma.h>

#include <atomic>
#include <memory>

#include "abi/bridge.h"
#include "base/light_lock.h"
#include "base/list.h"
#include "base/ref.h"
#include "base/status.h"
#include "verbs/completion_routes.h"
#include "verbs/queues.h"
#include "verbs/work_queue.h"

namespace weft::verbs {

class Domain;
class SharedReceive;
class KeptReceives;
class SendChain;
struct SendWork;

class TransferEndpoint : public Object<fid_ep>, public ListHook<CompletionChannel> {
 public:
  // fi_msg(3)
  ssize_t recv(void* buf, size_t len, void* desc, fi_addr_t src, void* context) noexcept;
  ssize_t recvv(const iovec* iov, void** desc, size_t count, fi_addr_t src, void* context) noexcept;
  ssize_t recvmsg(const fi_msg* msg, uint64_t flags) noexcept;
  ssize_t send(const void* buf, size_t len, void* desc, fi_addr_t dest, void* context) noexcept;
  ssize_t sendv(const iovec* iov, void** desc, size_t count, fi_addr_t dest, void* context) noexcept;
  ssize_t sendmsg(const fi_msg* msg, uint64_t flags) noexcept;
  ssize_t inject(const void* buf, size_t len, fi_addr_t dest) noexcept;
  ssize_t senddata(const void* buf, size_t len, void* desc, uint64_t data, fi_addr_t dest, void* context) noexcept;
  ssize_t injectdata(const void* buf, size_t len, uint64_t data, fi_addr_t dest) noexcept;

  // fi_rma(3)
  ssize_t read(void* buf, size_t len, void* desc, fi_addr_t src, uint64_t addr, uint64_t key, void* context) noexcept;
  ssize_t readv(const iovec* iov, void** desc, size_t count, fi_addr_t src, uint64_t addr, uint64_t key,
                void* context) noexcept;
  ssize_t readmsg(const fi_msg_rma* msg, uint64_t flags) noexcept;
  ssize_t write(const void* buf, size_t len, void* desc, fi_addr_t dest, uint64_t addr, uint64_t key,
                void* context) noexcept;
  ssize_t writev(const iovec* iov, void** desc, size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
                 void* context) noexcept;
  ssize_t writemsg(const fi_msg_rma* msg, uint64_t flags) noexcept;
  ssize_t rma_inject(const void* buf, size_t len, fi_addr_t dest, uint64_t addr, uint64_t key) noexcept;
  ssize_t writedata(const void* buf, size_t len, void* desc, uint64_t data, fi_addr_t dest, uint64_t addr, uint64_t key,
                    void* context) noexcept;
  ssize_t rma_injectdata(const void* buf, size_t len, uint64_t data, fi_addr_t dest, uint64_t addr,
                         uint64_t key) noexcept;

  // fi_atomic(3); the names are those of the public calls.
  ssize_t atomic(const void* buf, size_t count, void* desc, fi_addr_t dest, uint64_t addr, uint64_t key,
                 fi_datatype datatype, fi_op op, void* context) noexcept;
  ssize_t atomicv(const fi_ioc* iov, void** desc, size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
                  fi_datatype datatype, fi_op op, void* context) noexcept;
  ssize_t atomicmsg(const fi_msg_atomic* msg, uint64_t flags) noexcept;
  ssize_t inject_atomic(const void* buf, size_t count, fi_addr_t dest, uint64_t addr, uint64_t key,
                        fi_datatype datatype, fi_op op) noexcept;
  ssize_t fetch_atomic(const void* buf, size_t count, void* desc, void* result, void* result_desc, fi_addr_t dest,
                       uint64_t addr, uint64_t key, fi_datatype datatype, fi_op op, void* context) noexcept;
  ssize_t fetch_atomicv(const fi_ioc* iov, void** desc, size_t count, fi_ioc* resultv, void** result_desc,
                        size_t result_count, fi_addr_t dest, uint64_t addr, uint64_t key, fi_datatype datatype,
                        fi_op op, void* context) noexcept;
  ssize_t fetch_atomicmsg(const fi_msg_atomic* msg, fi_ioc* resultv, void** result_desc, size_t result_count,
                          uint64_t flags) noexcept;
  ssize_t compare_atomic(const void* buf, size_t count, void* desc, const void* compare, void* compare_desc,
                         void* result, void* result_desc, fi_addr_t dest, uint64_t addr, uint64_t key,
                         fi_datatype datatype, fi_op op, void* context) noexcept;
  ssize_t compare_atomicv(const fi_ioc* iov, void** desc, size_t count, const fi_ioc* comparev, void** compare_desc,
                          size_t compare_count, fi_ioc* resultv, void** result_desc, size_t result_count,
                          fi_addr_t dest, uint64_t addr, uint64_t key, fi_datatype datatype, fi_op op,
                          void* context) noexcept;
  ssize_t compare_atomicmsg(const fi_msg_atomic* msg, const fi_ioc* comparev, void** compare_desc, size_t compare_count,
                            fi_ioc* resultv, void** result_desc, size_t result_count, uint64_t flags) noexcept;
  int atomicvalid(fi_datatype datatype, fi_op op, size_t* count) noexcept;
  int fetch_atomicvalid(fi_datatype datatype, fi_op op, size_t* count) noexcept;
  int compare_atomicvalid(fi_datatype datatype, fi_op op, size_t* count) noexcept;

  // fi_endpoint(3). cancel: -FI_ENOENT without such a receive, -FI_EBUSY when the device has it already.
  ssize_t cancel(void* context) noexcept;
  ssize_t rx_size_left() noexcept;
  ssize_t tx_size_left() noexcept;

  // For the channels, with the lock of the one concerned held.
  CompletionRoutes routes;

 protected:
  TransferEndpoint(Domain& domain, const fi_info& info, void* context) noexcept;
  virtual ~TransferEndpoint();

  // Everything below is called with the engine's mutex held.

  // -FI_EINVAL for flags that name no direction; -FI_EOPBADSTATE once enabled.
  Status bind_cq(CompletionQueue& queue, uint64_t flags) noexcept;
  Status bind_counter(Counter& counter, uint64_t flags) noexcept;
  Status bind_shared_receive(SharedReceive& shared) noexcept;
  // -FI_ENOCQ when a direction that the endpoint is capable of has neither queue nor counter; -FI_ENOMEM; -FI_ENOSPC
  // when the device's completion queues cannot hold what this endpoint may have outstanding.
  Status enable_transfers() noexcept;
  bool transfers_enabled() const noexcept { return enabled_; }

  // For rdma_create_qp, sizes clamped to the device. After enable_transfers().
  ibv_qp_init_attr qp_attributes() const noexcept;
  bool has_shared_receive() const noexcept { return static_cast<bool>(shared_receive_); }
  // The queue pair exists and accepts receives (INIT or later): posts the kept ones. The caller stays its owner.
  Status adopt_qp(ibv_qp* qp) noexcept;
  // Connected: sends are allowed.
  void start() noexcept;
  // The queue pair, if there is one, is or goes in error: nothing more is accepted, receives that the device never got
  // are cancelled. `error` (positive, 0 for an orderly end) becomes their prov_errno. Idempotent.
  void stop(int error) noexcept;
  // Polls; true once every posted operation has completed. After stop(). Call again until true or out of patience.
  bool drain() noexcept;
  // The queue pair is gone, or is not going to complete any more: completes what is left as FI_ECANCELED. After stop();
  // when the caller has destroyed the queue pair. Idempotent.
  void abandon() noexcept;

  // A work completion said that the queue pair broke (ibv_wc_status; not called for flushed work requests). With a
  // channel's lock held, from any thread that reads a queue: note it and wake whoever acts on it.
  virtual void on_transfer_failed(int wc_status) noexcept = 0;

  // FI_GETOPSFLAG and FI_SETOPSFLAG of fi_control: `flags` names FI_TRANSMIT or FI_RECV, not both.
  int control_flags(int command, uint64_t* flags) noexcept;
  // -FI_ENOPROTOOPT for options that are not about transfers. These two take no lock of the engine.
  int getopt_transfer(int option, void* value, size_t* len) noexcept;
  int setopt_transfer(int option, const void* value, size_t len) noexcept;

  Domain& domain_;

 private:
  friend class CompletionChannel;
  friend class SharedReceive;
  friend struct WorkCompletion;

  struct Sizes {
    std::uint32_t transmits;
    std::uint32_t receives;
    std::uint32_t transmit_iov;
    std::uint32_t receive_iov;
    std::uint32_t inline_bytes;
  };

  // transfer_calls.cc
  ssize_t post_send(const SendWork& work) noexcept;
  ssize_t post_in_chain(const SendWork& work) noexcept;
  ssize_t on_no_room() noexcept;
  ssize_t flush_chain() noexcept;
  bool try_flush_chain() noexcept;
  ssize_t rma_message(ibv_wr_opcode opcode, const fi_msg_rma* msg, uint64_t flags) noexcept;
  ssize_t post_atomic(ibv_wr_opcode opcode, const struct AtomicWork& work) noexcept;
  // receive_calls.cc
  ssize_t post_receive(const iovec* iov, void** desc, size_t count, void* context, uint64_t flags) noexcept;

  Sizes sizes_;
  const uint64_t caps_;
  const uint64_t max_message_;
  uint64_t transmit_flags_;  // what calls without flags use (tx_attr->op_flags)
  uint64_t receive_flags_;
  bool enabled_ = false;
  bool stopped_ = false;
  bool marker_posted_ = false;
  std::atomic<bool> marker_seen_{false};
  unsigned reserved_transmit_ = 0;  // in the channels' device queues
  unsigned reserved_receive_ = 0;
  size_t min_multi_receive_;
  Ref<SharedReceive> shared_receive_;

  LightLock send_lock_;
  ibv_qp* qp_ = nullptr;  // written under both locks
  SendRing sends_;
  std::unique_ptr<SendChain> chain_;

  LightLock receive_lock_;
  ReceiveSlots receives_;
  std::unique_ptr<KeptReceives> kept_;
};

}  // namespace weft::verbs
