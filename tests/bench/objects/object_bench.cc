// SPDX-License-Identifier: BSD-2-Clause
// The cost of objects: opens many of each kind of one provider and prints time, memory and descriptors of one; then the
// time of fi_getinfo with hints. Each kind has a process of its own, because memory that another one left would be used
// first, and not be counted. Linked with the distribution's library, which LD_LIBRARY_PATH replaces. With --check
// it fails unless the cost stays flat: the last objects take no longer than the first, and the memory and the
// descriptors of one are bounded.
//   object_bench [--check] PROVIDER TYPE COUNT [ADDRESS]        e.g. object_bench tcp msg 5000; 0: fi_getinfo only
#include <dirent.h>
#include <ifaddrs.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <functional>
#include <string>
#include <vector>

namespace {

using Clock = std::chrono::steady_clock;

// The status of a row's process.
constexpr int kFailed = 1, kLast = 2, kSkip = 77;

bool failed = false;

struct Refused {
  const char* what;
  int error;  // positive
};
void require(int result, const char* what) {
  if (result != 0) throw Refused{what, -result};
}

// Written memory of the process. Clean pages, those of files, become private whenever another process that maps the
// file ends.
std::size_t private_bytes() {
  std::ifstream file("/proc/self/smaps_rollup");
  std::string word;
  std::size_t kib = 0, sum = 0;
  while (file >> word)
    if (word == "Private_Dirty:") {
      file >> kib;
      sum += kib * 1024;
    }
  return sum;
}

int descriptors() {
  DIR* folder = opendir("/proc/self/fd");
  int count = 0;
  while (readdir(folder) != nullptr) ++count;
  closedir(folder);
  return count;
}

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + static_cast<long>(values.size() / 2), values.end());
  return values[values.size() / 2];
}

double microseconds_since(Clock::time_point start) {
  return std::chrono::duration<double, std::micro>(Clock::now() - start).count();
}

// One kind of object. `open` opens what one of them needs too, if that is not shared, and returns all handles in the
// order of their opening.
struct Kind {
  const char* name;
  std::size_t most_bytes;  // one takes
  std::function<std::vector<fid*>()> open;
  double most_growth = 4;  // median time of the last tenth by that of the first
  double most_descriptors = 16;
};

class Bench {
 public:
  Bench(const char* provider, const char* type, const char* address) {
    fi_info* hints = fi_allocinfo();
    hints->fabric_attr->prov_name = strdup(provider);
    connected_ = std::strcmp(type, "msg") == 0;
    reliable_ = std::strcmp(type, "rdm") == 0;
    hints->ep_attr->type = connected_ ? FI_EP_MSG : reliable_ ? FI_EP_RDM : FI_EP_DGRAM;
    hints->mode = ~0ul;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->addr_format = FI_SOCKADDR_IN;
    hints_ = hints;
    device_ = std::strcmp(provider, "verbs") == 0;
    address_ = address;
    if (int result = query(&info_); result != 0) {
      std::printf("SKIP: no %s %s: %s\n", provider, type, fi_strerror(-result));
      std::exit(kSkip);
    }
    require(fi_fabric(info_->fabric_attr, &fabric_, nullptr), "fi_fabric");
    require(fi_domain(fabric_, info_, &domain_, nullptr), "fi_domain");
    fi_eq_attr eq{};
    eq.wait_obj = FI_WAIT_FD;
    require(fi_eq_open(fabric_, &eq, &eq_, nullptr), "fi_eq_open");
  }
  ~Bench() {
    for (fid* each : {&eq_->fid, &domain_->fid, &fabric_->fid}) fi_close(each);
    fi_freeinfo(info_);
    fi_freeinfo(hints_);
  }
  Bench(const Bench&) = delete;
  Bench& operator=(const Bench&) = delete;

  std::vector<Kind> kinds();
  void run(const Kind& kind, std::size_t count, bool check);
  void time_getinfo(bool check);

 private:
  int query(fi_info** info) { return fi_getinfo(FI_VERSION(1, 17), address_, nullptr, FI_SOURCE, hints_, info); }
  fid* domain_of_its_own() {
    fid_domain* domain;
    require(fi_domain(fabric_, info_, &domain, nullptr), "fi_domain");
    return &domain->fid;
  }
  fid* endpoint(fid_domain* domain) {
    fid_ep* ep;
    require(fi_endpoint(domain, info_, &ep, nullptr), "fi_endpoint");
    return &ep->fid;
  }
  fid* queue(fi_wait_obj wait) {
    fi_cq_attr attr{};
    attr.wait_obj = wait;
    fid_cq* cq;
    require(fi_cq_open(domain_, &attr, &cq, nullptr), "fi_cq_open");
    return &cq->fid;
  }
  fid* counter(fi_wait_obj wait) {
    fi_cntr_attr attr{};
    attr.wait_obj = wait;
    fid_cntr* cntr;
    require(fi_cntr_open(domain_, &attr, &cntr, nullptr), "fi_cntr_open");
    return &cntr->fid;
  }
  fid* events() {
    fi_eq_attr attr{};
    attr.wait_obj = FI_WAIT_FD;
    fid_eq* eq;
    require(fi_eq_open(fabric_, &attr, &eq, nullptr), "fi_eq_open");
    return &eq->fid;
  }
  fid* passive(fid_eq* eq) {
    fid_pep* pep;
    require(fi_passive_ep(fabric_, info_, &pep, nullptr), "fi_passive_ep");
    if (eq == nullptr) return &pep->fid;
    require(fi_pep_bind(pep, &eq->fid, 0), "fi_pep_bind");
    require(fi_listen(pep), "fi_listen");
    return &pep->fid;
  }
  fid* region() {
    fid_mr* mr;
    require(fi_mr_reg(domain_, memory_, sizeof memory_, FI_SEND | FI_RECV, 0, ++key_, 0, &mr, nullptr), "fi_mr_reg");
    return &mr->fid;
  }

  const char* address_;
  bool connected_ = false, reliable_ = false, device_ = false;
  fi_info* hints_ = nullptr;
  fi_info* info_ = nullptr;
  fid_fabric* fabric_ = nullptr;
  fid_domain* domain_ = nullptr;
  fid_eq* eq_ = nullptr;
  uint64_t key_ = 0;
  char memory_[64]{};
};

// The fakes of a device store its queues in this process, and search a list for a port. Without them no limit is above
// what libfabric 1.17 takes: a fabric 175 bytes (ofi_rxm 383), a domain 367 (991), an event queue 543, a counter 176,
// an address vector 383; a listener with an event queue 4 descriptors.
std::vector<Kind> Bench::kinds() {
  const std::size_t queue_bytes = device_ ? 32768 : 640, vector_bytes = device_ ? 2048 : 376;
  const bool layered = std::strchr(hints_->fabric_attr->prov_name, ';') != nullptr;
  const std::size_t fabric_bytes = device_ ? 2048 : layered ? 352 : 175;
  const std::size_t domain_bytes = device_ ? 4096 : layered ? 448 : 176;
  const double domain_descriptors = device_ ? 6 : 0;
  const double used_descriptors = device_ ? 16 : layered ? 6 : 1;  // with an endpoint; libfabric 1.17: 10, 1
  const std::size_t counter_bytes = device_ ? 1024 : 176, sleeper_bytes = device_ ? 1024 : 416;
  const double listener_growth = device_ ? 200 : 4;
  const std::size_t listener_bytes = device_ ? 2304 : 640;  // libfabric 2.1: 680
  // A connection over verbs allocates its work requests and records with the first of each.
  const std::size_t endpoint_bytes = layered ? 5120 : device_ && connected_ ? 960 : 2048;
  std::vector<Kind> all = {
      {"fabric", fabric_bytes,
       [this] {
         fid_fabric* fabric;
         require(fi_fabric(info_->fabric_attr, &fabric, nullptr), "fi_fabric");
         return std::vector{&fabric->fid};
       }},
      {"domain", domain_bytes, [this] { return std::vector{domain_of_its_own()}; }, 4, domain_descriptors},
      {"event queue", 512, [this] { return std::vector{events()}; }, 4, 0},
      {"completion queue", queue_bytes, [this] { return std::vector{queue(FI_WAIT_NONE)}; }},
      {"the same with a descriptor", queue_bytes, [this] { return std::vector{queue(FI_WAIT_FD)}; }},
      {"counter", counter_bytes, [this] { return std::vector{counter(FI_WAIT_NONE)}; }},
      {"the same with a descriptor", sleeper_bytes, [this] { return std::vector{counter(FI_WAIT_FD)}; }},
      {"address vector", vector_bytes,
       [this] {
         fi_av_attr attr{};
         attr.type = FI_AV_TABLE;
         fid_av* av;
         require(fi_av_open(domain_, &attr, &av, nullptr), "fi_av_open");
         return std::vector{&av->fid};
       }},
      {"memory region", 1024, [this] { return std::vector{region()}; }},
      {"endpoint", endpoint_bytes, [this] { return std::vector{endpoint(domain_)}; }},
      {"domain with an endpoint", 16384,
       [this] {
         fid* const domain = domain_of_its_own();
         return std::vector{domain, endpoint(reinterpret_cast<fid_domain*>(domain))};
       },
       4, used_descriptors},
  };
  if (connected_) {
    all.push_back({"passive endpoint", listener_bytes, [this] { return std::vector{passive(nullptr)}; }});
    all.push_back({"listener, all on one event queue", listener_bytes, [this] { return std::vector{passive(eq_)}; },
                   listener_growth});
    all.push_back({"endpoint with an event queue", 4096, [this] {
                     fid* const eq = events();
                     fid* const ep = endpoint(domain_);
                     int fd = -1;
                     require(fi_ep_bind(reinterpret_cast<fid_ep*>(ep), eq, 0), "fi_ep_bind");
                     require(fi_control(eq, FI_GETWAIT, &fd), "FI_GETWAIT");
                     return std::vector{eq, ep};
                   }});
    all.push_back({"listener with an event queue", 4096,
                   [this] {
                     fid* const eq = events();
                     return std::vector{eq, passive(reinterpret_cast<fid_eq*>(eq))};
                   },
                   listener_growth, device_ ? 16.0 : 3.0});
  }
  return all;
}

void Bench::run(const Kind& kind, std::size_t count, bool check) {
  std::vector<fid*> open;
  std::vector<double> times;
  open.resize(2 * count);  // so that their memory does not count
  times.resize(count);
  open.clear();
  times.clear();
  try {  // costs that come once do not count
    const std::vector<fid*> first = kind.open();
    for (auto handle = first.rbegin(); handle != first.rend(); ++handle) require(fi_close(*handle), "fi_close");
  } catch (const Refused&) {  // reported below
  }
  const std::size_t bytes_before = private_bytes();
  const int descriptors_before = descriptors();
  const int spare = dup(0);  // for counting when none is left
  bool complete = true;
  try {
    while (times.size() < count) {
      const auto start = Clock::now();
      const std::vector<fid*> handles = kind.open();
      times.push_back(microseconds_since(start));
      open.insert(open.end(), handles.begin(), handles.end());
    }
  } catch (const Refused& refused) {
    std::printf("%-34s %zu, then %s: %s\n", kind.name, times.size(), refused.what, fi_strerror(refused.error));
    complete = false;
  }
  close(spare);
  constexpr rlim_t kFew = 16;
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  failed |= !complete && static_cast<rlim_t>(descriptors()) + kFew < limit.rlim_cur;  // else none is left
  if (times.size() < 10) return;
  const double each = static_cast<double>(times.size());
  const double bytes = (static_cast<double>(private_bytes()) - static_cast<double>(bytes_before)) / each;
  const double fds = (descriptors() - descriptors_before) / each;
  const auto part = static_cast<long>(times.size() / 10);
  const double first = median({times.begin(), times.begin() + part});
  const double last = median({times.end() - part, times.end()});
  const auto start = Clock::now();
  for (auto handle = open.rbegin(); handle != open.rend(); ++handle) require(fi_close(*handle), "fi_close");
  std::printf("%-34s %9.1f %9.1f %9.1f %9.0f %6.1f\n", kind.name, first, last, microseconds_since(start) / each, bytes,
              fds);
  if (!check) return;
  if (last > kind.most_growth * first + 5) {
    std::printf("FAILED: the last ones take longer than the first\n");
    failed = true;
  }
  if (bytes > static_cast<double>(kind.most_bytes)) {
    std::printf("FAILED: more than %zu bytes\n", kind.most_bytes);
    failed = true;
  }
  if (fds > kind.most_descriptors + 0.5) {
    std::printf("FAILED: more than %.0f descriptors\n", kind.most_descriptors);
    failed = true;
  }
}

// Other implementations call getifaddrs(3) each time: that is their floor. The ratio depends on the machine's system
// calls, so the limit is above the usual 0.8 to 1.3.
void Bench::time_getinfo(bool check) {
  std::vector<double> times, floor, ratios;  // each in turn: the machine's speed may change
  for (int i = 0; i < 1000; ++i) {
    fi_info* info = nullptr;
    auto start = Clock::now();
    require(query(&info), "fi_getinfo");
    times.push_back(microseconds_since(start));
    fi_freeinfo(info);
    ifaddrs* list = nullptr;
    start = Clock::now();
    require(getifaddrs(&list), "getifaddrs");
    floor.push_back(microseconds_since(start));
    ratios.push_back(times.back() / floor.back());
    freeifaddrs(list);
  }
  std::printf("%-34s %9.1f, getifaddrs %.1f\n", "fi_getinfo with hints, us", median(times), median(floor));
  const bool two_answer = reliable_ && std::strcmp(hints_->fabric_attr->prov_name, "tcp") == 0;  // tcp and ofi_rxm
  const double most = two_answer ? 2.8 : 1.4;
  if (!check || device_ || median(ratios) <= most) return;
  std::printf("FAILED: more than %.1f of getifaddrs\n", most);
  failed = true;
}

int run_row(char** argv, int argc, std::size_t row, std::size_t count, bool check) {
  Bench bench(argv[1], argv[2], argc > 4 ? argv[4] : "127.0.0.1");
  const std::vector<Kind> kinds = bench.kinds();
  const bool last = count == 0 || row == kinds.size();
  if (last)
    bench.time_getinfo(check);
  else
    bench.run(kinds[row], count, check);
  return (check && failed ? kFailed : 0) + (last ? kLast : 0);
}

}  // namespace

int main(int argc, char** argv) try {
  const bool check = argc > 1 && std::strcmp(argv[1], "--check") == 0;
  if (check) ++argv, --argc;
  if (argc < 4) {
    std::printf("usage: object_bench [--check] PROVIDER TYPE COUNT [ADDRESS]\n");
    return 2;
  }
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
  const std::size_t asked = std::strtoul(argv[3], nullptr, 10),
                    count = asked == 0 ? 0 : std::max<std::size_t>(asked, 10);
  std::printf("%zu of each; %s\n%-34s %9s %9s %9s %9s %6s\n", count, argv[1], "", "first us", "last us", "close us",
              "bytes", "fds");
  constexpr std::size_t kMostRows = 64;
  for (std::size_t row = 0; row < kMostRows; ++row) {
    std::fflush(stdout);
    const pid_t child = fork();
    if (child == 0) return run_row(argv, argc, row, count, check);
    int status = 0;
    require(waitpid(child, &status, 0) == child ? 0 : -errno, "waitpid");
    const int result = WIFEXITED(status) ? WEXITSTATUS(status) : kFailed;
    if (WIFSIGNALED(status)) std::printf("row %zu ended with signal %d\n", row, WTERMSIG(status));
    failed |= (result & kFailed) != 0;
    if (result == kSkip) return kSkip;
    if ((result & kLast) != 0) break;
  }
  return failed ? kFailed : 0;
} catch (const Refused& refused) {
  std::printf("%s: %s\n", refused.what, fi_strerror(refused.error));
  return kFailed + kLast;
}
