// SPDX-License-Identifier: BSD-2-Clause
// Controls of the fake libibverbs and librdmacm for tests, and queries about them. The library defines the symbols of
// both, so a program linked with it runs on a host without RDMA: both ends of a connection live in one process, and
// data moves by memcpy with the rules of real queue pairs. Every function may be called from any thread.
// Misuse that makes real libraries crash or hang (destroying twice, use after destroy, destroying an object whose
// events are not acknowledged) ends the process with a sentence that names the call.
#pragma once
#include <infiniband/verbs.h>
#include <rdma/rdma_cma.h>

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace fake {

// ---- devices

struct DeviceConfig {
  std::string name = "fake0";
  std::vector<std::string> addresses;    // numeric; empty: every address of this host
  std::vector<std::string> second = {};  // addresses of a second port
  bool behind_a_dead_port = false;       // the second port has the addresses, and the first port is down
  bool infiniband = false;               // instead of Ethernet
  bool iwarp = false;                    // no padding of private data; rejections have status -ECONNREFUSED; the
                                         // kernel moves queue pairs to ready-to-send
  int max_qp = 65536, max_cq = 65536, max_mr = 65536, max_pd = 65536, max_srq = 65536, max_ah = 65536;
  int max_qp_wr = 16384, max_sge = 32, max_cqe = 1 << 20, max_srq_wr = 16384, max_srq_sge = 27;
  int max_sge_rd = 2;           // iWARP: 1
  bool enlarges_queues = true;  // ibv_resize_cq; iWARP: no
  int max_qp_rd_atom = 128, max_qp_init_rd_atom = 128;
  int max_groups = 8192, max_group_members = 56;
  std::vector<uint16_t> pkeys = {0xffff};
  uint32_t max_inline = 512;
  bool accepts_any_inline = false;  // a queue pair for more is created, and has max_inline
  uint32_t max_msg_size = 1U << 31;
  ibv_mtu mtu = IBV_MTU_1024;
  ibv_atomic_cap atomic_cap = IBV_ATOMIC_HCA;
  bool takes_dmabufs = true;
  uint64_t lockable_bytes = UINT64_MAX;  // registering more fails with ENOMEM, as with a low memlock limit
  bool own_transport = false;            // neither InfiniBand's nor iWARP's, as EFA
};
// Without a device, one with every address of this host appears at the first call that needs it; with FAKE_RDMA_PORT=2
// in the environment, behind a dead port.
void add_device(const DeviceConfig& config);
// Every identifier on it gets RDMA_CM_EVENT_DEVICE_REMOVAL, its contexts get IBV_EVENT_DEVICE_FATAL, and calls fail
// with EIO.
void remove_device(const std::string& name);
void restore_device(const std::string& name);  // new calls find it again
void retire_devices();                         // removes all of them
// Also raises the asynchronous event of the change.
void set_port_state(const std::string& name, ibv_port_state state, uint8_t port = 1);

// ---- accounting

// Live objects by kind ("qp", "cm id", ...); kinds without objects are left out. Objects that a scripted failure kept
// the program from destroying are not counted.
std::map<std::string, int> live_objects();
std::string leaks();                                   // "2 qp, 1 cm id", or empty
std::map<const ibv_pd*, uint64_t> registered_bytes();  // by protection domain; only those with memory
uint64_t overruns();                                   // completions lost because their queue was full
// Clears scripts, counts of calls and timing, and delivers held events. Objects and devices stay.
void reset();

// ---- calls that fail

// Numbers of calls by name since the last reset, such as "rdma_connect" or "ibv_post_send". "cm_modify_qp" stands for
// the transitions that librdmacm makes inside rdma_accept, rdma_create_qp and rdma_get_cm_event.
std::map<std::string, uint64_t> calls();
void fail(const std::string& call, uint64_t nth, int error);  // the nth from now on; 1 is the next one
void slow(const std::string& call, int milliseconds);         // each call lasts that long; others continue
bool failure_happened();                                      // the scripted failure was reached
bool is_destruction(const std::string& call);                 // its failure leaves the object alive

// ---- connection management

enum class Role { kNone, kListener, kActive, kPassive };
struct IdState {
  const rdma_cm_id* id;
  uint64_t serial;  // in order of creation
  Role role;
  const char* state;  // "route resolved", "request sent", "established", ...
  uint16_t local_port, peer_port;
};
std::vector<IdState> ids();
struct ConnectionState {
  rdma_conn_param mine = {};  // from rdma_connect or rdma_accept, clamped to the device; without data
  uint8_t type_of_service = 0, ack_timeout = 0;  // from rdma_set_option
};
ConnectionState connection(const rdma_cm_id* id);

// Behaviour of addresses that belong to no device here. The default is kSilent.
enum class Reach {
  kSilent,       // resolves; a request is never answered
  kNoRoute,      // RDMA_CM_EVENT_ADDR_ERROR, -ENETUNREACH
  kNoNeighbour,  // RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT, after the caller's time-out
  kNoPath,       // RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT, after the caller's time-out
};
void set_reach(const std::string& address, Reach reach);

struct Timing {                   // milliseconds
  int request_retry = 50;         // until a request that the listener's backlog refused is sent again
  int request_timeout = 60000;    // then RDMA_CM_EVENT_UNREACHABLE; likewise for replies without an answer
  int disconnect_timeout = 2000;  // then RDMA_CM_EVENT_DISCONNECTED, -ETIMEDOUT
  int timewait = 10;              // then RDMA_CM_EVENT_TIMEWAIT_EXIT
  int retries_exceeded = 200;     // then IBV_WC_RETRY_EXC_ERR
};
void set_timing(const Timing& timing);

enum class Message { kRequest, kReply, kReadyToUse, kReject, kDisconnect, kDisconnectReply };
void lose(Message message, int count = 1);  // drops the next ones and all their retransmissions

// Puts an event in the queue of the identifier, as if the kernel had reported it. A CONNECT_REQUEST gets a new
// identifier without a peer. `data`: the private data of the event.
void inject_cm_event(const rdma_cm_id* id, rdma_cm_event_type event, int status = 0, const std::string& data = {});

// While holding, events except injected ones are kept back instead of becoming readable. `event` -1 and `id` null match
// all.
struct HeldEvent {
  const rdma_cm_id* id;
  rdma_cm_event_type event;
};
void hold(const rdma_cm_id* id = nullptr, int event = -1);
std::vector<HeldEvent> held();
void deliver(size_t index);  // an index of held()
void deliver_all();          // in order, and stops holding

// ---- data

void script_status(uint32_t qp_num, ibv_wc_status status);  // for that queue's next send request (0: for any queue)
// The next messages do not arrive, or arrive with their acknowledgement lost: IBV_WC_RETRY_EXC_ERR in both cases.
void lose_messages(uint32_t qp_num, int count = 1);
void lose_acknowledgements(uint32_t qp_num, int count = 1);
void hold_data();     // posted sends stay outstanding
void deliver_data();  // resumes them, in the order of their queues
// Raises an asynchronous event. QP_FATAL and similar events also move the queue pair to its error state.
void raise(ibv_qp* qp, ibv_event_type event);
void raise(ibv_cq* cq, ibv_event_type event);
void raise_device(const std::string& name, ibv_event_type event);  // in every context of the device
std::vector<ibv_qp*> queue_pairs();                                // live ones, in order of creation

// Whether completions of a destroyed queue pair stay in the completion queue (rxe) or vanish (mlx5, the default here).
void keep_completions_of_destroyed(bool keep);
// The work requests of a broken queue pair stay outstanding until it is reset or destroyed, or until late is false.
void flush_late(bool late);
// Sends to a broken queue pair are flushed, refused as by cxgb4 and erdma, or lost as by siw.
enum class LateSends { kFlushed, kRefused, kLost };
void treat_late_sends(LateSends treatment);
// The next work request that is not the first of its call of ibv_post_send is refused.
void refuse_second_request(int error);
// New queue pairs get the numbers of destroyed ones.
void reuse_numbers(bool reuse);

}  // namespace fake
