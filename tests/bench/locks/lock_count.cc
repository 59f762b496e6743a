// SPDX-License-Identifier: BSD-2-Clause
// lock_count PROVIDER MODEL MODE: messages between two endpoints of reliable datagrams, each the only one of its
// domain, whose application promises FI_THREAD_`MODEL`; lock_count.sh counts the library's instructions for them. With
// `rma` as MODE they are remote writes.
#include <rdma/fi_cm.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>

namespace {

constexpr int kRounds = 200;

void check(ssize_t result, const char* what) {
  if (result >= 0) return;
  std::fprintf(stderr, "%s: %s\n", what, fi_strerror(static_cast<int>(-result)));
  std::exit(1);
}

fi_threading threading_of(std::string_view name) {
  if (name == "DOMAIN") return FI_THREAD_DOMAIN;
  if (name == "COMPLETION") return FI_THREAD_COMPLETION;
  return FI_THREAD_SAFE;
}

struct End {
  fid_domain* domain;
  fid_av* av;
  fid_mr* mr;
  fid_ep* ep;
  fid_cq* cq;
  fi_addr_t peer;
};

fi_info* info;
fid_fabric* fabric;
End ends[2];
char memory[4096];

void open_fabric(const char* provider, fi_threading threading, bool rma) {
  fi_info* hints = fi_allocinfo();
  hints->ep_attr->type = FI_EP_RDM;
  hints->caps = FI_MSG | FI_TAGGED | (rma ? FI_RMA : 0);
  hints->domain_attr->threading = threading;
  hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
  hints->fabric_attr->prov_name = strdup(provider);
  check(fi_getinfo(FI_VERSION(1, 20), "127.0.0.1", nullptr, FI_SOURCE, hints, &info), "fi_getinfo");
  fi_freeinfo(hints);
  check(fi_fabric(info->fabric_attr, &fabric, nullptr), "fi_fabric");
}

void open_end(End& end, bool rma) {
  check(fi_domain(fabric, info, &end.domain, nullptr), "fi_domain");
  fi_av_attr vector{};
  check(fi_av_open(end.domain, &vector, &end.av, nullptr), "fi_av_open");
  if (rma) check(fi_mr_reg(end.domain, memory, sizeof memory, FI_REMOTE_WRITE, 0, 7, 0, &end.mr, nullptr), "fi_mr_reg");
  fi_cq_attr attr{};
  attr.format = FI_CQ_FORMAT_TAGGED;
  check(fi_cq_open(end.domain, &attr, &end.cq, nullptr), "fi_cq_open");
  check(fi_endpoint(end.domain, info, &end.ep, nullptr), "fi_endpoint");
  check(fi_ep_bind(end.ep, &end.cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
  check(fi_ep_bind(end.ep, &end.av->fid, 0), "fi_ep_bind");
  check(fi_enable(end.ep), "fi_enable");
}

void read_one(End& mine, End& other) {
  fi_cq_tagged_entry entry;
  for (ssize_t got = 0; got != 1;) {
    got = fi_cq_read(mine.cq, &entry, 1);
    if (got != -FI_EAGAIN) check(got, "fi_cq_read");
    if (got != 1 && fi_cq_read(other.cq, &entry, 0) == -FI_EAVAIL) std::exit(1);
  }
}

// One message, posted, sent and received, with a completion at either end.
void pass(End& from, End& to) {
  static char in[64];
  check(fi_trecv(to.ep, in, sizeof in, nullptr, FI_ADDR_UNSPEC, 5, 0, in), "fi_trecv");
  ssize_t sent;
  while ((sent = fi_tsend(from.ep, memory, 8, nullptr, from.peer, 5, memory)) == -FI_EAGAIN)
    check(fi_cq_read(from.cq, nullptr, 0) == -FI_EAVAIL ? -1 : 0, "fi_cq_read");
  check(sent, "fi_tsend");
  read_one(to, from);
  read_one(from, to);
}

void put(End& from, End& to) {
  const uint64_t at = (info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) ? reinterpret_cast<uint64_t>(memory) : 0;
  check(fi_write(from.ep, memory + 64, 8, nullptr, from.peer, at, fi_mr_key(to.mr), memory), "fi_write");
  read_one(from, to);
}

[[gnu::noinline]] void measured_rounds(bool rma, int rounds) {
  for (int i = 0; i < rounds; ++i) rma ? put(ends[i % 2], ends[1 - i % 2]) : pass(ends[i % 2], ends[1 - i % 2]);
}

}  // namespace

int main(int argc, char** argv) {
  if (argc != 4) return 2;
  const bool rma = std::string_view(argv[3]) == "rma";
  // A process that has ever had two threads: locks are real.
  std::thread([] {}).join();
  open_fabric(argv[1], threading_of(argv[2]), rma);
  for (End& end : ends) open_end(end, rma);
  for (int i = 0; i < 2; ++i) {
    char name[64];
    size_t length = sizeof name;
    check(fi_getname(&ends[i].ep->fid, name, &length), "fi_getname");
    check(fi_av_insert(ends[1 - i].av, name, 1, &ends[1 - i].peer, 0, nullptr) == 1 ? 0 : -FI_EINVAL, "fi_av_insert");
  }
  for (int i = 0; i < 20; ++i) pass(ends[i % 2], ends[1 - i % 2]);
  measured_rounds(rma, kRounds);
  std::printf("%d operations\n", kRounds);
  for (const End& end : ends) {
    fi_close(&end.ep->fid);
    fi_close(&end.cq->fid);
    if (end.mr != nullptr) fi_close(&end.mr->fid);
    fi_close(&end.av->fid);
    fi_close(&end.domain->fid);
  }
  fi_close(&fabric->fid);
  fi_freeinfo(info);
  return 0;
}
