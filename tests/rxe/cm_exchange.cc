// SPDX-License-Identifier: BSD-2-Clause
// Two libraries exchange private data: with requests, acceptances and rejections, from nothing to the limit; fi_cm(3).
//   cm_exchange serve ADDRESS PORT     answers until somebody asks with "end"
//   cm_exchange ask ADDRESS PORT       asks with each of kQuestions
// The answer to a question is the question in capitals; those that begin with "no" are rejected with it, others are
// accepted with it, exchange a message in each direction, and end. A deviation ends the program with a sentence and 1.
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>

#include <algorithm>
#include <cctype>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

using Clock = std::chrono::steady_clock;
constexpr int kPatienceMs = 60'000;
constexpr size_t kLimit = 55;  // the limit of a request over verbs
const std::string kQuestions[] = {"",
                                  "a",
                                  "no",
                                  "question",
                                  std::string(kLimit, 'q'),
                                  "no" + std::string(kLimit - 2, 'n'),
                                  std::string(kLimit - 1, 'z'),
                                  "end"};
std::string step = "set-up";

void require(bool holds, const std::string& what) {
  if (holds) return;
  std::fprintf(stderr, "%s: %s\n", step.c_str(), what.c_str());
  std::exit(1);
}
void require_ok(ssize_t rc, const char* call) {
  require(rc >= 0, std::string(call) + ": " + fi_strerror(static_cast<int>(-rc)));
}

std::string capitals(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

struct Event {
  uint32_t type = 0;  // 0: an error
  fi_info* info = nullptr;
  std::string data;
  int err = 0;
};

class End {
 public:
  End(const char* address, const char* port, uint64_t flags);
  ~End();
  void serve();
  void ask(const std::string& question);

 private:
  Event next();
  void expect(uint32_t type, const std::string& data);
  void open(fi_info* info);
  void talk(bool first);
  void await_completion(void* context, bool last = false);
  void close();

  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_eq* eq_ = nullptr;
  fid_cq* cq_ = nullptr;
  fid_mr* mr_ = nullptr;
  fid_ep* ep_ = nullptr;
  void* early_ = nullptr;  // the context of a completion that came before it was awaited
  char memory_[128] = {};
};

End::End(const char* address, const char* port, uint64_t flags) {
  fi_info* hints = fi_allocinfo();
  hints->ep_attr->type = FI_EP_MSG;
  hints->caps = FI_MSG;
  hints->fabric_attr->prov_name = strdup("verbs");
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  require_ok(fi_getinfo(FI_VERSION(1, 17), address, port, flags, hints, &info_), "fi_getinfo");
  fi_freeinfo(hints);
  require_ok(fi_fabric(info_->fabric_attr, &fabric_, nullptr), "fi_fabric");
  require_ok(fi_domain(fabric_, info_, &domain_, nullptr), "fi_domain");
  fi_eq_attr eq{};
  eq.wait_obj = FI_WAIT_UNSPEC;
  require_ok(fi_eq_open(fabric_, &eq, &eq_, nullptr), "fi_eq_open");
  fi_cq_attr cq{};
  cq.format = FI_CQ_FORMAT_CONTEXT;
  require_ok(fi_cq_open(domain_, &cq, &cq_, nullptr), "fi_cq_open");
  require_ok(fi_mr_reg(domain_, memory_, sizeof memory_, FI_SEND | FI_RECV, 0, 0, 0, &mr_, nullptr), "fi_mr_reg");
}

End::~End() {
  fi_close(&mr_->fid);
  fi_close(&cq_->fid);
  fi_close(&eq_->fid);
  fi_close(&domain_->fid);
  fi_close(&fabric_->fid);
  fi_freeinfo(info_);
}

Event End::next() {
  alignas(fi_eq_cm_entry) char buffer[sizeof(fi_eq_cm_entry) + 256];
  Event event;
  const ssize_t rc = fi_eq_sread(eq_, &event.type, buffer, sizeof buffer, kPatienceMs, 0);
  if (rc == -FI_EAVAIL) {
    fi_eq_err_entry error{};
    require_ok(fi_eq_readerr(eq_, &error, 0), "fi_eq_readerr");
    event.type = 0;
    event.err = error.err;
    if (error.err_data != nullptr) event.data.assign(static_cast<char*>(error.err_data), error.err_data_size);
    return event;
  }
  require_ok(rc, "fi_eq_sread");
  event.info = reinterpret_cast<fi_eq_cm_entry*>(buffer)->info;
  event.data.assign(buffer + sizeof(fi_eq_cm_entry), buffer + rc);
  return event;
}

void End::expect(uint32_t type, const std::string& data) {
  const Event event = next();
  require(event.type == type, "event " + std::to_string(event.type) + ", error " + std::to_string(event.err) +
                                  " instead of event " + std::to_string(type));
  // "The length of any data returned may include protocol padding."
  require(event.data.substr(0, data.size()) == data, "data is \"" + event.data + "\" instead of \"" + data + "\"");
}

void End::open(fi_info* info) {
  require_ok(fi_endpoint(domain_, info, &ep_, nullptr), "fi_endpoint");
  require_ok(fi_ep_bind(ep_, &eq_->fid, 0), "fi_ep_bind");
  require_ok(fi_ep_bind(ep_, &cq_->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
  require_ok(fi_enable(ep_), "fi_enable");
  require_ok(fi_recv(ep_, memory_, 32, fi_mr_desc(mr_), 0, memory_), "fi_recv");
}

void End::close() {
  require(early_ == nullptr, "a completion that nobody awaited");
  require_ok(fi_close(&ep_->fid), "fi_close");
  fi_cq_entry entry;
  fi_cq_err_entry error{};
  while (fi_cq_read(cq_, &entry, 1) == -FI_EAVAIL) fi_cq_readerr(cq_, &error, 0);  // the receive, canceled
}

// The answer to a message can be reported before the message's own completion: the two directions are not ordered. The
// peer ends the connection when it has the `last` message, which may fail that completion at the sender.
void End::await_completion(void* context, bool last) {
  if (early_ == context) {
    early_ = nullptr;
    return;
  }
  const auto limit = Clock::now() + std::chrono::milliseconds(kPatienceMs);
  for (;;) {
    fi_cq_entry entry{};
    ssize_t rc = -FI_EAGAIN;
    while (rc == -FI_EAGAIN && Clock::now() < limit) rc = fi_cq_read(cq_, &entry, 1);
    if (fi_cq_err_entry error{}; last && rc == -FI_EAVAIL) {
      require_ok(fi_cq_readerr(cq_, &error, 0), "fi_cq_readerr");
      require(error.op_context == context, "the failure of something else");
      return;
    }
    require_ok(rc, "fi_cq_read");
    if (entry.op_context == context) return;
    require(early_ == nullptr && (entry.op_context == memory_ || entry.op_context == memory_ + 64),
            "the completion of something else");
    early_ = entry.op_context;
  }
}

// The active end sends first.
void End::talk(bool first) {
  char* out = memory_ + 64;
  for (const bool sending : {first, !first}) {
    if (!sending) {
      await_completion(memory_);
      require(std::strcmp(memory_, "hello") == 0, "another message than was sent");
      continue;
    }
    std::strcpy(out, "hello");
    require_ok(fi_send(ep_, out, 6, fi_mr_desc(mr_), 0, out), "fi_send");
    await_completion(out, !first);
  }
}

void End::serve() {
  fid_pep* pep = nullptr;
  require_ok(fi_passive_ep(fabric_, info_, &pep, nullptr), "fi_passive_ep");
  require_ok(fi_pep_bind(pep, &eq_->fid, 0), "fi_pep_bind");
  require_ok(fi_listen(pep), "fi_listen");
  std::puts("listening");
  std::fflush(stdout);
  for (const std::string& question : kQuestions) {
    step = "answering \"" + question + "\"";
    const Event request = next();
    require(request.type == FI_CONNREQ, "event " + std::to_string(request.type) + " instead of a request");
    require(request.data.substr(0, question.size()) == question, "the request says \"" + request.data + "\"");
    const std::string answer = capitals(question);
    if (question.starts_with("no")) {
      require_ok(fi_reject(pep, request.info->handle, answer.data(), answer.size()), "fi_reject");
    } else {
      open(request.info);
      require_ok(fi_accept(ep_, answer.data(), answer.size()), "fi_accept");
      expect(FI_CONNECTED, "");
      talk(false);
      expect(FI_SHUTDOWN, "");
      close();
    }
    fi_freeinfo(request.info);
  }
  require_ok(fi_close(&pep->fid), "fi_close");
}

void End::ask(const std::string& question) {
  step = "asking \"" + question + "\"";
  open(info_);
  require_ok(fi_connect(ep_, info_->dest_addr, question.data(), question.size()), "fi_connect");
  const std::string answer = capitals(question);
  if (question.starts_with("no")) {
    const Event event = next();
    require(event.type == 0 && event.err == FI_ECONNREFUSED, "no rejection but " + std::to_string(event.err));
    require(event.data.substr(0, answer.size()) == answer, "the rejection says \"" + event.data + "\"");
  } else {
    expect(FI_CONNECTED, answer);
    talk(true);
    require_ok(fi_shutdown(ep_, 0), "fi_shutdown");
  }
  close();
  // A library may report the local end as well.
  alignas(fi_eq_cm_entry) char buffer[sizeof(fi_eq_cm_entry) + 256];
  uint32_t ignored;
  fi_eq_read(eq_, &ignored, buffer, sizeof buffer, 0);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const bool serves = std::strcmp(argv[1], "serve") == 0;
  End end(argv[2], argv[3], serves ? FI_SOURCE : 0);
  if (serves)
    end.serve();
  else
    for (const std::string& question : kQuestions) end.ask(question);
  return 0;
}
