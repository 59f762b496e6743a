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
struct TransferStates;
class KeptReceives;
class SendChain;
struct AtomicWork;
struct ReceiveWork;
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

  // Where completions go. Not changed once the endpoint is enabled.
  CompletionRoutes routes;

 protected:
  TransferEndpoint(Domain& domain, const fi_info& info, void* context) noexcept;
  // IBV_QPT_UD: receives are the derived class's, and it is what `states` call.
  TransferEndpoint(Domain& domain, const fi_info& info, void* context, const TransferStates& states,
                   ibv_qp_type type) noexcept;
  virtual ~TransferEndpoint();

  // Everything below is called with the engine's mutex held.

  // -FI_EINVAL for flags that name no direction; -FI_EOPBADSTATE once enabled.
  Status bind_cq(CompletionQueue& queue, uint64_t flags) noexcept;
  Status bind_counter(Counter& counter, uint64_t flags) noexcept;
  Status bind_shared_receive(SharedReceive& shared) noexcept;
  // -FI_ENOCQ when a direction that the endpoint is capable of has neither queue nor counter; -FI_ENOMEM.
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
  // are cancelled. `error` is for the log (positive; 0: an orderly end). Idempotent.
  void stop(int error) noexcept;
  // Nothing of this endpoint's own is with the device. After stop().
  bool idle() noexcept;
  // Polls; true once every posted operation has completed. After stop(). Call again until true or out of patience.
  bool drain() noexcept;
  // The queue pair, if there was one, has been destroyed: completes what is left as FI_ECANCELED, and lets go of
  // queues. After stop(), and before this object is destroyed. Idempotent.
  void abandon() noexcept;

  // From time to time while it is connected: if nothing was transmitted since the last call, a write of no bytes asks
  // the peer's device whether it is there. The application sees nothing of it; if there is no answer,
  // on_transfer_failed() is called. true: it is under way, call again soon.
  bool probe() noexcept;

  // A work completion said that the queue pair broke (ibv_wc_status; not called for flushed work requests). With a
  // channel's lock held, from any thread that reads a queue: note it and wake whoever acts on it.
  virtual void on_transfer_failed(int wc_status) noexcept = 0;

  // FI_GETOPSFLAG and FI_SETOPSFLAG of fi_control: `flags` names FI_TRANSMIT or FI_RECV, not both.
  int control_flags(int command, uint64_t* flags) noexcept;
  // -FI_ENOPROTOOPT for options that are not about transfers. These two take no lock of the engine.
  int getopt_transfer(int option, void* value, size_t* len) noexcept;
  int setopt_transfer(int option, const void* value, size_t len) noexcept;

  // send_path.h: any transmission. check: what can be said against it without looking at the queue. post_locked: with
  // send_lock_ held, after check.
  ssize_t check(const SendWork& work) const noexcept;
  ssize_t post_locked(const SendWork& work) noexcept;
  // The same for one buffer that may go straight: check() in short, for what travels inside the work request or has a
  // descriptor; and the post itself.
  bool may_be_long(size_t len, const void* desc) const noexcept;
  bool may_go(size_t len, const void* desc) const noexcept;
  ssize_t post_straight(const void* buf, size_t len, const void* desc, ibv_wr_opcode opcode, uint32_t kind,
                        void* context, bool silent) noexcept;
  // No work completion can come any more. With send_lock_ held, or when nobody posts.
  void cancel_left_sends() noexcept;

  Domain& domain_;
  std::uint32_t qp_number_ = 0;
  uint64_t transmit_flags_;  // what calls without flags use (tx_attr->op_flags)
  uint64_t receive_flags_;

  // Calls without flags for one buffer go straight to the device while sends_.is_clear(), which is only ever so where
  // `allowed`: nothing is counted, and the endpoint's flags ask for nothing special. The work request is prepared.
  struct StraightSend {
    ibv_send_wr request{};
    ibv_sge piece{};
    std::uint32_t report = 0;  // in Posted::flags, where a completion is wanted
    bool allowed = false;
  };

  LightLock send_lock_;
  ibv_qp* qp_ = nullptr;  // written under both locks
  SendRing sends_;
  StraightSend straight_;
  int sends_refusal_ = -FI_EAGAIN;  // while it is closed
  LightLock receive_lock_;

  struct Sizes {
    std::uint32_t transmits;
    std::uint32_t receives;
    std::uint32_t transmit_iov;
    std::uint32_t receive_iov;
    std::uint32_t receive_sges;  // with one for spill, if the device has room for it
    std::uint32_t inline_bytes;
  };
  const Sizes& sizes() const noexcept { return sizes_; }
  uint64_t caps() const noexcept { return caps_; }
  uint64_t longest_message() const noexcept { return max_message_; }

 private:
  friend class CompletionChannel;
  friend class SharedReceive;

  static Sizes sizes_for(const Domain& domain, const fi_info& info) noexcept;

  Status open_queues() noexcept;
  // Room for what the endpoint may have outstanding, here and in the device's completion queues. It is made when the
  // first operation of a direction is posted, since most connections of a busy server wait. -FI_ENOMEM; -FI_ENOSPC when
  // the completion queue cannot hold it. Sends: with send_lock_ held. Receives: without locks; without error if they
  // have ended meanwhile.
  Status prepare_sends() noexcept;
  Status prepare_receives() noexcept;
  // The record of the next work request. Null: on_no_room() says why.
  Posted* next_send() noexcept {
    Posted* const slot = sends_.next();
    return slot != nullptr ? slot : first_send();
  }
  Posted* first_send() noexcept;
  // With both locks held.
  void note_routes_locked() noexcept;
  void choose_ways_locked() noexcept;  // which calls may go straight follows from what is bound and the default flags
  void post_marker() noexcept;
  bool post_own(Posted::Role role, ibv_wr_opcode opcode) noexcept;  // own_, with nothing in it
  void on_probed(int wc_status) noexcept;                           // with a channel's lock held
  void post_kept_locked() noexcept;
  void cancel_kept() noexcept;
  void cancel_left() noexcept;
  void report_cancelled(CompletionQueueCore* queue, CounterCore* counter, void* context, uint64_t flags) noexcept;

  // transfer_calls.cc, rma_calls.cc, atomics.cc
  // What calls do that may not go straight; `locked`: the lock is held already.
  ssize_t send_slowly(const void* buf, size_t len, void* desc, void* context, bool locked) noexcept;
  ssize_t inject_slowly(const void* buf, size_t len, bool locked) noexcept;
  template <ibv_wr_opcode Opcode>
  ssize_t access(const void* buf, size_t len, void* desc, uint64_t addr, uint64_t key, void* context) noexcept;
  ssize_t access_slowly(ibv_wr_opcode opcode, const void* buf, size_t len, void* desc, uint64_t addr, uint64_t key,
                        void* context) noexcept;
  ssize_t post_send(const SendWork& work) noexcept;
  ssize_t post_in_chain(const SendWork& work) noexcept;
  ssize_t post_delivered_write(const SendWork& work) noexcept;
  ssize_t on_no_room() noexcept;
  unsigned fill(Posted& slot, const SendWork& work) const noexcept;
  void flush_chain() noexcept;
  bool try_flush_chain() noexcept;
  ssize_t message(const fi_msg* msg, uint64_t flags) noexcept;
  ssize_t rma_vector(ibv_wr_opcode opcode, const iovec* iov, void** desc, size_t count, uint64_t addr, uint64_t key,
                     void* context) noexcept;
  ssize_t rma_message(ibv_wr_opcode opcode, const fi_msg_rma* msg, uint64_t flags) noexcept;
  ssize_t post_write(SendWork& work) noexcept;
  ssize_t post_access(SendWork& work) noexcept;
  ssize_t post_atomic(const AtomicWork& work) noexcept;

  // receive_calls.cc
  ssize_t receive_refused(int error) noexcept;
  ssize_t recv_slowly(void* buf, size_t len, void* desc, void* context, bool locked) noexcept;
  ssize_t post_receives(const iovec* iov, void* const* desc, size_t count, void* context, uint64_t flags) noexcept;
  uint32_t receive_flags_of(uint64_t flags) const noexcept;
  ssize_t post_receive(ReceiveWork& work) noexcept;
  ssize_t post_receive_locked(const ReceiveWork& work) noexcept;
  ssize_t keep_receive(const ReceiveWork& work) noexcept;
  // With a channel's lock held: what is left of a multi-receive buffer, under its old record.
  bool post_again(Posted& slot, const MultiReceive& multi) noexcept;

  const TransferStates& states_;
  const bool datagrams_;
  Sizes sizes_;
  const uint64_t caps_;
  const uint64_t max_message_;  // bytes
  const bool takes_cq_data_;    // writes may carry data: the peer promised receives for them (FI_RX_CQ_DATA)
  // What follows from `routes`, as flags of Posted: reported without being asked, reported if asked, and the kinds of
  // operations that are counted.
  std::uint32_t always_report_ = 0;
  std::uint32_t may_report_ = 0;
  std::uint32_t counted_kinds_ = 0;
  bool enabled_ = false;
  bool stopped_ = false;
  bool abandoned_ = false;
  bool marker_tried_ = false;
  bool marker_posted_ = false;
  unsigned reserved_transmit_ = 0;  // in the channels' device queues
  unsigned reserved_receive_ = 0;
  std::atomic<size_t> min_multi_receive_;
  Ref<SharedReceive> shared_receive_;
  // Our own work request, the marker or before it probes, has room of its own in the queue pair.
  Posted own_;
  std::atomic<bool> marker_seen_{false};
  std::atomic<bool> probing_{false};
  bool probe_reserved_ = false;       // its entry in the channel's device queue
  std::uint32_t sends_at_probe_ = 0;  // sends_.now() when probe() was called last

  std::unique_ptr<SendChain> chain_;  // under send_lock_
  ReceiveSlots receives_;             // the rest under receive_lock_
  std::unique_ptr<KeptReceives> kept_;
  // Receives of one buffer go straight to the device where `allowed`. The work request is prepared.
  struct StraightReceive {
    ibv_recv_wr request{};
    ibv_sge pieces[2]{};      // the application's, and spill
    std::uint32_t flags = 0;  // of Posted
    bool allowed = false;
  };
  StraightReceive straight_receive_;
};

}  // namespace weft::verbs
