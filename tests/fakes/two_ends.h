// SPDX-License-Identifier: BSD-2-Clause
// A client and a server on the verbs provider, written so that any call may fail: a part that cannot continue is
// abandoned, and everything is closed at the end. It keeps the accounts that every scenario must balance:
//   posted = completed + failed + cancelled, each operation once;
//   exactly one terminal event for each endpoint that was started and not closed before it;
//   no object of the fakes remains; nothing exceeds its time limit.
#pragma once
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>

#include <array>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace ends {

struct Options {
  bool automatic_progress = false;
  bool shared_receives = false;
  bool two_fabrics = false;  // the server accepts in a domain of another fabric object than its listener's
  int connect_timeout_ms = 400;
  bool server_rejects = false;
  uint8_t dscp = 0;            // the traffic class's; 0: none requested
  bool iwarp = false;          // the device uses iWARP
  bool native = false;         // InfiniBand addresses: FI_SOCKADDR_IB
  size_t queue_entries = 256;  // in each completion queue
  int receives = 4;            // posted at each end before it connects
  uint64_t receive_flags = 0;  // the flags of those receives
  std::function<void(fid_ep*)> before_connect = {}, before_accept = {};
};

class TwoEnds;

// One endpoint with its queues and its accounts.
class End {
 public:
  const char* name = "";
  fid_fabric* fabric = nullptr;
  fid_domain* domain = nullptr;
  fid_eq* eq = nullptr;
  fid_cq* cq = nullptr;
  fid_ep* ep = nullptr;
  fid_mr* mr = nullptr;
  fid_ep* srx = nullptr;

  bool started = false;  // fi_connect or fi_accept returned 0
  bool closed = false;   // by us
  bool injected = false;
  int connected = 0, terminals = 0;
  int error = 0;  // set in an error event
  size_t posted = 0, completed = 0, failed = 0;
  uint64_t failed_flags = 0;         // from the last completion with an error
  int send_error = 0;                // the last failed send's
  size_t shared = 0;                 // receives of the shared context; unused ones are reported in no queue
  std::string data;                  // the peer's, with FI_CONNECTED or its rejection
  std::string sentence;              // set in an error event
  int native_error = 0;              // likewise
  std::vector<std::string> history;  // events so far, for the verdict

  bool established() const { return connected && !terminals && !closed; }
  bool over() const { return !started || terminals || closed; }
  size_t outstanding() const { return posted - completed - failed; }

  bool open_endpoint(fi_info* info);
  void post_receive(uint64_t flags = 0, bool without_buffer = false);
  bool post_send(bool inject = false, size_t length = 64);
  bool post_send_of(size_t buffers, uint64_t flags);  // 4 bytes for each
  bool post_rma(End& target, bool read);
  bool post_read_of(End& target, size_t buffers);  // 16 bytes for each
  void read_completions(TwoEnds& all);
  void close_endpoint(TwoEnds& all);
  char* memory() { return memory_.data(); }  // registered as `mr`

 private:
  void settle(TwoEnds& all, void* context, bool success);
  void* take_context();
  std::array<char, 8192> memory_{};
  std::array<fi_context2, 512> contexts_{};
  std::array<char, 512> open_{};  // by context: 1 while the operation is outstanding
  size_t next_context_ = 0;
  friend class TwoEnds;
};

class TwoEnds {
 public:
  explicit TwoEnds(const Options& options = {}) : options_(options) {}
  ~TwoEnds() { close(); }
  TwoEnds(const TwoEnds&) = delete;
  TwoEnds& operator=(const TwoEnds&) = delete;

  // The parts of a conversation. Each returns whether to continue.
  bool open();                                       // fabric, domain, queues, a listener
  bool connect();                                    // the client's endpoint, receives, fi_connect
  bool connect_to(const char* ipv4, uint16_t port);  // connect() to another address than the listener's
  void transfer();
  void close();  // everything, in order; balances the accounts

  // The whole conversation: connect, transfer, end, close.
  void run();

  void poll();  // reads every queue once; the server answers requests
  bool wait(const std::function<bool()>& done, int milliseconds = 5000);
  bool quiet() const { return client.over() && server.over(); }
  // Waits for the terminal events; complains if one is missing.
  void expect_ended(int milliseconds = 5000);

  // The failures, one per line; empty: none.
  std::string verdict() const;
  void complain(const std::string& what) { complaints_ += what + "\n"; }

  End client, server;
  fid_pep* listener = nullptr;
  fid_eq* listener_eq = nullptr;
  fid_domain* domain = nullptr;
  fid_fabric* fabric = nullptr;
  fi_info* info = nullptr;
  bool request_seen = false;
  std::string request_data;
  bool answer_requests = true;  // false: they wait in `requests`
  std::vector<fi_info*> requests;
  void answer(fi_info* request);
  void close_listener();

 private:
  bool open_end(End& end);
  bool open_domain(End& end);
  bool connect_to(const void* address);
  void read_events(End& end);
  void read_listener();
  void close_end(End& end);
  void close_fid(fid_t fid, const char* what);
  Options options_;
  std::string complaints_;
  std::vector<std::array<char, 256>> addresses_;
};

}  // namespace ends
