// SPDX-License-Identifier: BSD-2-Clause
// The classes of kfabric's objects. They own the libfabric object beneath until kfi_close; a fabric outlives everything
// opened in it.
#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_set>
#include <vector>

#include "kfabric/bounce.h"
#include "kfabric/dispatcher.h"
#include "kfabric/info.h"

namespace weft::kfabric {

char* lower_provider(char* name);

struct Fabric : Object<kfid_fabric> {
  bool is_1_1 = false;              // the generation of the client
  std::mutex mutex;                 // guards the next five
  std::vector<kfid*> closed_early;  // API 1.1: queues that the client closed before the objects bound to them
  bool closing_early = false;       // a thread closes those that it can
  bool look_again = false;          // ... and another object was closed meanwhile
  std::condition_variable closed;   // that thread is done
  std::unordered_set<std::unique_ptr<ConnectionRequest>> requests;  // not yet accepted or rejected
  Dispatcher dispatcher{fi};

  ConnectionRequest* add_request(struct fid* request);
  void end_request(ConnectionRequest* request);
  // Held while an object opens whose opening is an event: a reader of the event waits until the object has its handle.
  std::mutex opening;
};

struct Domain : Object<kfid_domain> {
  bool local_registration = false;  // FI_MR_LOCAL
  bool virtual_addresses = false;   // FI_MR_VIRT_ADDR
  bool reports = false;             // registrations are events
  BufferPool buffers;
};

// The part that queues, counters and wait sets share: waiting and the handler.
struct Waiting {
  std::atomic<int> bound{0};  // objects
  bool microseconds = false;  // the unit of time-outs
  std::unique_ptr<Watch> watch;
  std::unique_ptr<wait_queue_head> head;  // KFI_WAIT_QUEUE; the watch wakes it
};

struct EventQueue : Object<kfid_eq>, Waiting {
  ~EventQueue();
  std::mutex reading;  // guards the rest
  // A connection request that was read with KFI_PEEK: the next read gives the same info. NULL: none.
  fi_info* peeked = nullptr;
  kfi_info* peeked_info = nullptr;  // in the client's generation
};

struct CompletionQueue : Object<kfid_cq>, Waiting {
  std::unique_ptr<Wakeup> signal;     // ends waits that are not libfabric's; NULL: all are
  std::atomic<uint64_t> signals{0};   // kfi_cq_signal calls that end waits of libfabric's ...
  std::atomic<uint64_t> answered{0};  // ... and those that have ended one
  size_t entry_size = 0;              // bytes
  bool has_flags = false;
  Bounces bounces;
};

struct Counter : Object<kfid_cntr>, Waiting {};
struct WaitSet : Object<kfid_wait>, Waiting {};
struct PollSet : Object<kfid_poll> {};
struct AddressVector : Object<kfid_av> {};
struct MemoryRegion : Object<kfid_mr> {};
struct SharedTransmit : Object<kfid_stx> {};
struct Membership : Object<kfid_mc> {};

struct PassiveEndpoint : Object<kfid_pep> {
  EventQueue* queue = nullptr;
};

// The connection of an endpoint and of its aliases.
struct Connection {
  fid_ep* fi = nullptr;           // the endpoint, not an alias
  std::atomic<uint64_t> shut{0};  // KFI_READ, KFI_WRITE: halves that were shut down
};

struct Endpoint : Object<kfid_ep> {
  std::shared_ptr<Connection> connection = std::make_shared<Connection>();
  Domain* domain = nullptr;
  CompletionQueue* transmit_queue = nullptr;
  CompletionQueue* receive_queue = nullptr;
  bool selects_transmits = false;  // bound with KFI_SELECTIVE_COMPLETION
  bool selects_receives = false;
  size_t transmit_limit = 1;  // pieces of memory in one operation
  size_t receive_limit = 1;
  std::string destination;  // the info's dest_addr
};

template <>
struct Hooks<Domain> : DefaultHooks {
  static int closing(Domain* domain) {
    domain->buffers.clear();
    return 0;
  }
};

// The provider drops the requests of a listener that closes, and a later request may get the address of a peeked one.
template <>
struct Hooks<PassiveEndpoint> : DefaultHooks {
  static void closed(PassiveEndpoint* endpoint) {
    if (endpoint->queue == nullptr) return;
    std::lock_guard lock(endpoint->queue->reading);
    endpoint->queue->peeked = nullptr;
  }
};

// A queue leaves the dispatcher before it closes, and returns if it stays. One that is bound stays.
template <class Queue>
struct QueueHooks {
  static int closing(Queue* queue) {
    if (queue->bound != 0) return -KFI_EBUSY;
    return queue->watch ? queue->fabric->dispatcher.remove(*queue->watch) : 0;
  }
  static void kept(Queue* queue) {
    if (queue->watch) queue->fabric->dispatcher.add_again(*queue->watch);
  }
  static void closed(Queue* queue) {
    if (queue->watch) queue->fabric->dispatcher.removed();
  }
  static constexpr bool kDefers = true;
};
template <>
struct Hooks<EventQueue> : QueueHooks<EventQueue> {};
template <>
struct Hooks<CompletionQueue> : QueueHooks<CompletionQueue> {};
template <>
struct Hooks<Counter> : QueueHooks<Counter> {
  static constexpr bool kDefers = false;
};

int open_event_queue(kfid_fabric* fabric, kfi_eq_attr* attr, kfid_eq** eq, kfi_event_handler handler, void* context);
int open_wait_set(kfid_fabric* fabric, kfi_wait_attr* attr, kfid_wait** set);
int open_completion_queue(kfid_domain* domain, kfi_cq_attr* attr, kfid_cq** cq, kfi_comp_handler handler,
                          void* context);
int open_counter(kfid_domain* domain, kfi_cntr_attr* attr, kfid_cntr** counter, void* context);
int open_passive_endpoint(kfid_fabric* fabric, kfi_info* info, kfid_pep** pep, void* context);
int open_endpoint(kfid_domain* domain, kfi_info* info, kfid_ep** ep, void* context);
int open_scalable_endpoint(kfid_domain* domain, kfi_info* info, kfid_ep** ep, void* context);
int open_shared_transmit(kfid_domain* domain, kfi_tx_attr* attr, kfid_stx** stx, void* context);
int open_shared_receive(kfid_domain* domain, kfi_rx_attr* attr, kfid_ep** ep, void* context);
int control_region(MemoryRegion* region, int command, void* argument);
int open_alias(kfid* handle, struct kfi_alias* alias);
// Gives the flags of a binding in libfabric's form: without a direction they get the one of a context.
int lower_binding(const kfid* handle, const kfid* other, uint64_t& flags);
// After the binding: an endpoint keeps its completion queues.
void note_binding(kfid* handle, kfid* other, uint64_t flags);

}  // namespace weft::kfabric
