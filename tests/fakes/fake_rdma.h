// SPDX-License-Identifier: BSD-2-Clause
// What a test tells the fake libibverbs and librdmacm, and what it asks them. The library defines the symbols of both,
// so a program linked with it runs on a host without RDMA: both ends of a connection live in one process, data moves by
// memcpy with the rules of real queue pairs. Every function may be called from any thread.
// Wrong use that real libraries answer with a crash or a hang (destroying twice, use after destroy, destroying an
// object whose events are not acknowledged) ends the process with a sentence that names the call.
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
  std::vector<std::string> second = {};  // those of a second port
  bool behind_a_dead_port = false;       // the addresses are those of the second port, and the first one is down
  bool infiniband = false;               // and not Ethernet
  bool iwarp = false;                    // then private data is not padded, a rejection's status is -ECONNREFUSED, and
                                         // the kernel readies queue pairs
  int max_qp = 65536, max_cq = 65536, max_mr = 65536, max_pd = 65536, max_srq = 65536, max_ah = 65536;
  int max_qp_wr = 16384, max_sge = 32, max_cqe = 1 << 20, max_srq_wr = 16384, max_srq_sge = 27;
  int max_qp_rd_atom = 128, max_qp_init_rd_atom = 128;
  int max_groups = 8192, max_group_members = 56;
  std::vector<uint16_t> pkeys = {0xffff};
  uint32_t max_inline = 512;
  uint32_t max_msg_size = 1U << 31;
  ibv_mtu mtu = IBV_MTU_1024;
  ibv_atomic_cap atomic_cap = IBV_ATOMIC_HCA;
  uint64_t lockable_bytes = UINT64_MAX;  // registering more fails with ENOMEM, as with a low memlock limit
};
// Without any, one device with every address of this host appears when the first call asks for it; with
// FAKE_RDMA_PORT=2 in the environment, behind a dead port.
void add_device(const DeviceConfig& config);
// Every identifier on it gets RDMA_CM_EVENT_DEVICE_REMOVAL, its contexts IBV_EVENT_DEVICE_FATAL, calls fail with EIO.
void remove_device(const std::string& name);
void restore_device(const std::string& name);  // new calls find it again
void retire_devices();                         // forgets all of them
// With the asynchronous event that belongs to it.
void set_port_state(const std::string& name, ibv_port_state state, uint8_t port = 1);

// ---- accounting

// Live objects by kind ("qp", "cm id", ...), without those of kinds that have none. What a scripted failure kept the
// program from destroying is not counted.
std::map<std::string, int> live_objects();
std::string leaks();                                   // "2 qp, 1 cm id", or empty
std::map<const ibv_pd*, uint64_t> registered_bytes();  // of the protection domains that have memory
uint64_t overruns();                                   // completions lost because a completion queue was full
// Forgets scripts, counts of calls and timing, and delivers what is held. Objects and devices stay.
void reset();

// ---- calls that fail

// Calls by name since the last reset, such as "rdma_connect" or "ibv_post_send". "cm_modify_qp" stands for the
// transitions that librdmacm makes by itself inside rdma_accept, rdma_create_qp and rdma_get_cm_event.
std::map<std::string, uint64_t> calls();
void fail(const std::string& call, uint64_t nth, int error);  // the nth from now on; 1 is the next one
void slow(const std::string& call, int milliseconds);         // each takes that long; other calls go on meanwhile
bool failure_happened();                                      // the scripted failure was reached
bool is_destruction(const std::string& call);                 // failing it leaves its object alive

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
  rdma_conn_param mine = {};  // what rdma_connect or rdma_accept was given, as far as the device has it; without data
  uint8_t type_of_service = 0, ack_timeout = 0;  // of rdma_set_option
};
ConnectionState connection(const rdma_cm_id* id);

// How addresses behave that no device here has. Unknown ones are kSilent.
enum class Reach {
  kSilent,       // resolves; a request is never answered
  kNoRoute,      // RDMA_CM_EVENT_ADDR_ERROR, -ENETUNREACH
  kNoNeighbour,  // RDMA_CM_EVENT_ADDR_ERROR, -ETIMEDOUT, after the caller's limit
  kNoPath,       // RDMA_CM_EVENT_ROUTE_ERROR, -ETIMEDOUT, after the caller's limit
};
void set_reach(const std::string& address, Reach reach);

struct Timing {                   // milliseconds
  int request_retry = 50;         // a request that the listener's backlog refused is sent again
  int request_timeout = 60000;    // then RDMA_CM_EVENT_UNREACHABLE; likewise for replies without an answer
  int disconnect_timeout = 2000;  // then RDMA_CM_EVENT_DISCONNECTED, -ETIMEDOUT
  int timewait = 10;              // then RDMA_CM_EVENT_TIMEWAIT_EXIT
  int retries_exceeded = 200;     // then IBV_WC_RETRY_EXC_ERR
};
void set_timing(const Timing& timing);

enum class Message { kRequest, kReply, kReadyToUse, kReject, kDisconnect, kDisconnectReply };
void lose(Message message, int count = 1);  // the next ones vanish, with all their retransmissions

// Puts an event in the queue of the identifier, as if the kernel had reported it. A CONNECT_REQUEST gets a new
// identifier without a peer. `data` is what the event carries.
void inject_cm_event(const rdma_cm_id* id, rdma_cm_event_type event, int status = 0, const std::string& data = {});

// While holding, events except injected ones are kept back instead of becoming readable. `event` -1 and `id` null mean
// any.
struct HeldEvent {
  const rdma_cm_id* id;
  rdma_cm_event_type event;
};
void hold(const rdma_cm_id* id = nullptr, int event = -1);
std::vector<HeldEvent> held();
void deliver(size_t index);  // of held()
void deliver_all();          // in order, and stops holding

// ---- data

void script_status(uint32_t qp_num, ibv_wc_status status);  // of that queue's next send request (0: of any queue)
// The next messages never arrive, or arrive with their acknowledgement lost: IBV_WC_RETRY_EXC_ERR either way.
void lose_messages(uint32_t qp_num, int count = 1);
void lose_acknowledgements(uint32_t qp_num, int count = 1);
void hold_data();     // posted sends stay outstanding
void deliver_data();  // and go on, in the order of their queues
// An asynchronous event. QP_FATAL and the like also move the queue to its error state.
void raise(ibv_qp* qp, ibv_event_type event);
void raise(ibv_cq* cq, ibv_event_type event);
void raise_device(const std::string& name, ibv_event_type event);  // in every context of the device
std::vector<ibv_qp*> queue_pairs();                                // live ones, in order of creation

// Real devices differ: completions of a destroyed queue pair stay in the completion queue (rxe) or vanish (mlx5, the
// default here).
void keep_completions_of_destroyed(bool keep);

}  // namespace fake
