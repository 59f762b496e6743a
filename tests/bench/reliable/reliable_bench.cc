// SPDX-License-Identifier: BSD-2-Clause
// The costs of reliable datagrams over tcp: memory and descriptors for each idle peer, and time for each message
// while many receives are posted or many messages wait. LD_LIBRARY_PATH decides whose library it is, RELIABLE_PROVIDER
// which provider ("tcp;ofi_rxm" if it is not set).
//   reliable_bench peers N           bytes and descriptors for each of N peers
//   reliable_bench posted N          microseconds a message with N receives for other tags posted
//   reliable_bench unexpected N      ... with N messages of other tags waiting
//   reliable_bench put N             microseconds an RMA write of N bytes to another process, each waited for
//   reliable_bench put_delivered N   ... with FI_DELIVERY_COMPLETE
//   reliable_bench get N             ... an RMA read
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>

#include <dirent.h>
#include <malloc.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string_view>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

constexpr int kMessages = 20'000;

void ok(ssize_t rc, const char* call) {
  if (rc >= 0) return;
  std::fprintf(stderr, "%s: %s\n", call, fi_strerror(static_cast<int>(-rc)));
  std::exit(1);
}

struct Domain {
  Domain() {
    fi_info* hints = fi_allocinfo();
    hints->caps = FI_TAGGED | FI_RMA;
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->ep_attr->type = FI_EP_RDM;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    const char* provider = std::getenv("RELIABLE_PROVIDER");
    hints->fabric_attr->prov_name = strdup(provider != nullptr ? provider : "tcp;ofi_rxm");
    ok(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", nullptr, FI_SOURCE, hints, &info), "fi_getinfo");
    fi_freeinfo(hints);
    fid_fabric* fabric = nullptr;
    ok(fi_fabric(info->fabric_attr, &fabric, nullptr), "fi_fabric");
    ok(fi_domain(fabric, info, &domain, nullptr), "fi_domain");
    fi_cq_attr attr{};
    attr.format = FI_CQ_FORMAT_TAGGED;
    attr.size = 1 << 18;
    ok(fi_cq_open(domain, &attr, &cq, nullptr), "fi_cq_open");
    fi_av_attr av_attr{};
    ok(fi_av_open(domain, &av_attr, &av, nullptr), "fi_av_open");
  }
  // Until `count` completions have arrived.
  void wait(size_t count) {
    fi_cq_tagged_entry entries[32];
    while (count > 0) {
      const ssize_t rc = fi_cq_read(cq, entries, 32);
      if (rc != -FI_EAGAIN) ok(rc, "fi_cq_read");
      if (rc > 0) count -= std::min<size_t>(count, static_cast<size_t>(rc));
    }
  }
  fi_info* info = nullptr;
  fid_domain* domain = nullptr;
  fid_cq* cq = nullptr;
  fid_av* av = nullptr;
};

struct Name {
  char bytes[32];
};

struct End {
  explicit End(Domain& owner) : domain(owner) {
    ok(fi_endpoint(domain.domain, domain.info, &ep, nullptr), "fi_endpoint");
    ok(fi_ep_bind(ep, &domain.cq->fid, FI_TRANSMIT | FI_RECV), "fi_ep_bind");
    ok(fi_ep_bind(ep, &domain.av->fid, 0), "fi_ep_bind");
    ok(fi_enable(ep), "fi_enable");
  }
  Name name() const {
    Name own{};
    size_t len = sizeof own;
    ok(fi_getname(&ep->fid, &own, &len), "fi_getname");
    return own;
  }
  fi_addr_t insert(const Name& peer) const {
    fi_addr_t handle = FI_ADDR_UNSPEC;
    if (fi_av_insert(domain.av, &peer, 1, &handle, 0, nullptr) != 1) ok(-FI_EINVAL, "fi_av_insert");
    return handle;
  }
  void send(fi_addr_t to, uint64_t tag, fi_context2* context) const {
    ssize_t rc;
    while ((rc = fi_tsend(ep, word, sizeof word, nullptr, to, tag, context)) == -FI_EAGAIN)
      fi_cq_read(domain.cq, nullptr, 0);
    ok(rc, "fi_tsend");
  }
  void receive(uint64_t tag, fi_context2* context) {
    ok(fi_trecv(ep, word, sizeof word, nullptr, FI_ADDR_UNSPEC, tag, 0, context), "fi_trecv");
  }
  Domain& domain;
  fid_ep* ep = nullptr;
  char word[8] = {};
};

long resident_bytes() {
  long pages = 0, resident = 0;
  if (FILE* file = std::fopen("/proc/self/statm", "r")) {
    if (std::fscanf(file, "%ld %ld", &pages, &resident) != 2) resident = 0;
    std::fclose(file);
  }
  return resident * sysconf(_SC_PAGESIZE);
}

long descriptors() {
  long count = 0;
  DIR* folder = opendir("/proc/self/fd");
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

// The other process: so many ends, each with a receive.
[[noreturn]] void be_peers(size_t count, int names) {
  Domain domain;
  std::vector<std::unique_ptr<End>> ends;
  std::vector<fi_context2> contexts(2 * count);
  for (size_t i = 0; i < count; ++i) {
    ends.push_back(std::make_unique<End>(domain));
    const Name own = ends.back()->name();
    ends.back()->receive(1, &contexts[2 * i]);
    if (write(names, &own, sizeof own) != sizeof own) std::exit(1);
  }
  for (;;) domain.wait(1);
}

int measure_peers(size_t count) {
  int names[2];
  if (pipe(names) != 0) return 1;
  const pid_t other = fork();
  if (other == 0) be_peers(count, names[1]);
  Domain domain;
  End hub(domain);
  std::vector<Name> peers(count);
  for (Name& peer : peers)
    for (size_t got = 0; got < sizeof peer;) {
      const ssize_t rc = read(names[0], peer.bytes + got, sizeof peer - got);
      if (rc <= 0) return 1;
      got += static_cast<size_t>(rc);
    }
  std::vector<fi_addr_t> handles;
  std::vector<fi_context2> contexts(count);
  for (const Name& peer : peers) handles.push_back(hub.insert(peer));
  malloc_trim(0);
  const long memory = resident_bytes(), open = descriptors();
  for (size_t i = 0; i < count; ++i) hub.send(handles[i], 1, &contexts[i]);
  domain.wait(count);
  const auto n = static_cast<long>(count);
  std::printf("%ld %.1f\n", (resident_bytes() - memory) / n,
              static_cast<double>(descriptors() - open) / static_cast<double>(n));
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  return 0;
}

int measure_matching(bool unexpected, size_t count) {
  Domain domain;
  End from(domain), to(domain);
  const fi_addr_t handle = from.insert(to.name());
  std::vector<fi_context2> contexts(count + 2);
  fi_context2 *const sent = &contexts[count], *const received = &contexts[count + 1];
  const auto exchange = [&] {
    to.receive(7, received);
    from.send(handle, 7, sent);
    domain.wait(2);
  };
  exchange();  // connects the two
  for (size_t i = 0; i < count; ++i) {
    if (!unexpected) {
      to.receive(1000 + i, &contexts[i]);
    } else {
      from.send(handle, 1000 + i, &contexts[i]);
      domain.wait(1);
    }
  }
  for (int i = 0; i < 100; ++i) exchange();
  const auto start = Clock::now();
  int done = 0;
  while (done < kMessages && Clock::now() - start < std::chrono::seconds(5)) {
    for (int i = 0; i < 100; ++i) exchange();
    done += 100;
  }
  const std::chrono::duration<double, std::micro> took = Clock::now() - start;
  std::printf("%.2f\n", took.count() / done);
  std::fflush(stdout);
  _exit(0);  // posted receives and stored messages do not matter any more
}

// A region of one process that another one reads and writes.
struct Target {
  Name name;
  uint64_t address;
  uint64_t key;
};

fid_mr* registered(Domain& domain, std::vector<char>& bytes, uint64_t access) {
  fid_mr* region = nullptr;
  ok(fi_mr_reg(domain.domain, bytes.data(), bytes.size(), access, 0, 1, 0, &region, nullptr), "fi_mr_reg");
  return region;
}

[[noreturn]] void be_target(size_t length, int out) {
  Domain domain;
  End end(domain);
  std::vector<char> bytes(length);
  fid_mr* const region = registered(domain, bytes, FI_REMOTE_READ | FI_REMOTE_WRITE);
  const bool by_address = (domain.info->domain_attr->mr_mode & FI_MR_VIRT_ADDR) != 0;
  const Target target{end.name(), by_address ? reinterpret_cast<uint64_t>(bytes.data()) : 0, fi_mr_key(region)};
  if (write(out, &target, sizeof target) != sizeof target) std::exit(1);
  for (;;) domain.wait(1);
}

int measure_access(bool writes, uint64_t flags, size_t length) {
  int targets[2];
  if (pipe(targets) != 0) return 1;
  const pid_t other = fork();
  if (other == 0) be_target(length, targets[1]);
  Domain domain;
  End end(domain);
  Target target{};
  if (read(targets[0], &target, sizeof target) != sizeof target) return 1;
  std::vector<char> bytes(length);
  fid_mr* const region = registered(domain, bytes, FI_READ | FI_WRITE);
  void* descriptor = fi_mr_desc(region);
  const iovec here{bytes.data(), length};
  const fi_rma_iov there{target.address, length, target.key};
  fi_context2 context;
  const fi_msg_rma message{&here, &descriptor, 1, end.insert(target.name), &there, 1, &context, 0};
  const auto access = [&] {
    ssize_t rc;
    while ((rc = writes ? fi_writemsg(end.ep, &message, flags) : fi_readmsg(end.ep, &message, flags)) == -FI_EAGAIN)
      fi_cq_read(domain.cq, nullptr, 0);
    ok(rc, "an access");
    domain.wait(1);
  };
  for (int i = 0; i < 100; ++i) access();
  const auto start = Clock::now();
  int done = 0;
  for (; done < kMessages && Clock::now() - start < std::chrono::seconds(5); ++done) access();
  const std::chrono::duration<double, std::micro> took = Clock::now() - start;
  std::printf("%.2f\n", took.count() / done);
  kill(other, SIGKILL);
  waitpid(other, nullptr, 0);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  const size_t count = argc == 3 ? std::strtoul(argv[2], nullptr, 10) : 0;
  const std::string_view mode = count != 0 ? argv[1] : "";
  if (mode == "peers") return measure_peers(count);
  if (mode == "posted") return measure_matching(false, count);
  if (mode == "unexpected") return measure_matching(true, count);
  if (mode == "put") return measure_access(true, FI_COMPLETION, count);
  if (mode == "put_delivered") return measure_access(true, FI_COMPLETION | FI_DELIVERY_COMPLETE, count);
  if (mode == "get") return measure_access(false, FI_COMPLETION, count);
  std::fprintf(stderr, "usage: reliable_bench peers | posted | unexpected | put | put_delivered | get COUNT\n");
  return 2;
}
