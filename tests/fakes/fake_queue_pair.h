// SPDX-License-Identifier: BSD-2-Clause
// Queue pairs and shared receive queues. Rings are allocated once, so posting and polling allocate nothing. Slots of a
// queue become free when the program has polled the completion (as with most devices): a send queue of 4 in which every
// eighth request is signalled is full after 4.
#pragma once
#include "fake_completion_queue.h"

namespace fake {

struct Pd;

constexpr int kMaxSegments = 64;

struct Segment {
  char* data;
  uint64_t length;
};
struct Segments {
  Segment list[kMaxSegments];
  int count = 0;
  uint64_t total = 0;
};

// Ring of work requests with room for their scatter lists.
struct ReceiveRing {
  std::vector<ibv_recv_wr> requests;
  std::vector<ibv_sge> sges;
  uint32_t max_sge = 0;
  uint64_t posted = 0, taken = 0, freed = 0;

  void resize(uint32_t depth, uint32_t sge_limit);
  size_t size() const { return requests.size(); }
  bool full() const { return posted - freed >= requests.size(); }
  bool empty() const { return posted == taken; }
  uint64_t waiting() const { return posted - taken; }
  int push(const ibv_recv_wr& request);  // 0 or an error
  const ibv_recv_wr& take() { return requests[taken++ % requests.size()]; }
};

struct Srq : ibv_srq {
  Tag tag;
  Device* device = nullptr;
  ReceiveRing ring;
  uint32_t limit = 0;  // armed when not 0
};

struct SendSlot {
  ibv_send_wr request;
  uint32_t inline_length;
};

struct Qp : ibv_qp {
  Tag tag;
  Device* device = nullptr;
  ibv_qp_init_attr init = {};
  ibv_qp_attr attr = {};

  std::vector<SendSlot> sends;
  std::vector<ibv_sge> send_sges;
  std::vector<char> inline_data;
  uint64_t posted = 0, done = 0, freed = 0;
  ReceiveRing receives;

  Qp* remote = nullptr;  // the queue pair that the address vector and destination number name, while it exists
  enum class Wait { kNo, kReceiver, kPeer } wait = Wait::kNo;
  uint64_t wait_ticket = 0;
  bool pumping = false;
  bool doomed = false;  // the request at the head, or its acknowledgement, was lost
  std::vector<ibv_gid> groups;
};

inline Qp& qp_of(ibv_qp* qp, const char* call) {
  return checked<Qp>(qp, Kind::kQp, call);
}

// Creates a queue pair without counting the call; rdma_create_qp uses it, too. 0 or an error.
int make_qp(ibv_pd* pd, ibv_qp_init_attr* attr, Qp** result, const char* call);
void unmake_qp(Qp& qp, const char* call);
void establish(Qp& qp, const ibv_qp_attr& attr);       // as the kernel does for iWARP
int apply(Qp& qp, const ibv_qp_attr& attr, int mask);  // a transition; 0 or an error
void enter_error(Qp& qp);
void find_remote(Qp& qp);  // fake_transfer.cc

inline ibv_wc failure(ibv_wc_status status) {
  ibv_wc wc = {};
  wc.status = status;
  return wc;
}

// fake_transfer.cc: executes the requests of the send queue that can be executed.
void pump(Qp& qp);
void pump_senders_to(const ibv_srq* srq);
void push_send_completion(Qp& qp, ibv_wc_status status, uint32_t byte_len);
void push_receive_completion(Qp& qp, const ibv_recv_wr& request, const ibv_wc& wc, bool solicited);
bool gather(const Qp& qp, uint64_t index, unsigned int access, Segments* segments);
bool scatter_list(const ibv_pd* pd, const ibv_recv_wr& request, Segments* segments);
void copy(const Segments& to, const Segments& from, uint64_t skip = 0);
// Takes a posted receive for a message that arrives at the queue pair; null: none is posted.
const ibv_recv_wr* take_receive(Qp& qp);
enum class Step { kDone, kWait, kFailed };
Step send_datagram(Qp& qp, uint64_t index, ibv_wc_status* status);  // fake_datagram.cc
bool join_group(Qp& qp, const ibv_gid& group);
bool leave_group(Qp& qp, const ibv_gid& group);

}  // namespace fake
