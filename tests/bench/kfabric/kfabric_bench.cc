// SPDX-License-Identifier: BSD-2-Clause
// kfabric_bench fi|kfi|both|large|lists ROUNDS [PROVIDER]: sends and reads of their completions, in libfabric's calls,
// in kfabric's, in turns in both, the same with 1 MiB until they have arrived, or in turns of one buffer and of a list
// of more pieces than the provider takes, on an endpoint that sends to itself: of datagrams, over tcp of reliable ones.
// A round has 64, of large ones 8; the time printed is the one of the shortest round. cost.sh counts instructions as
// well, because a system call takes a hundred times longer than kfabric.
#include <kfi_cm.h>
#include <kfi_endpoint.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_endpoint.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <tuple>

namespace {

constexpr size_t kLarge = 1 << 20;  // bytes
int sends = 64;                     // in a round
size_t room = 64, len = 1;          // bytes of a receive and of a message
const char* provider = "udp";
char memory[9 * kLarge];
char* const sent = memory + 8 * kLarge;
char* received(int i) {
  return memory + i * room;
}
bool reliable() {
  return std::strcmp(provider, "tcp") == 0;
}

void check(long result, const char* what) {
  if (result >= 0) return;
  std::fprintf(stderr, "%s: %s\n", what, kfi_strerror(static_cast<int>(-result)));
  std::exit(1);
}
#define CHECK(call) check((call), #call)

// Both ends have a descriptor for waiting, as kfabric's always have.
struct Lower {
  fid_ep* ep;
  fid_cq *transmit, *receive;
  fid_mr* region;
  fi_addr_t self;

  Lower() {
    fi_info *hints = fi_allocinfo(), *info;
    fid_fabric* fabric;
    fid_domain* domain;
    fid_av* av;
    hints->ep_attr->type = reliable() ? FI_EP_RDM : FI_EP_DGRAM;
    hints->fabric_attr->prov_name = strdup(provider);
    hints->domain_attr->control_progress = hints->domain_attr->data_progress = FI_PROGRESS_AUTO;
    hints->domain_attr->threading = FI_THREAD_SAFE;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_PROV_KEY | FI_MR_ALLOCATED;
    CHECK(fi_getinfo(FI_VERSION(1, 17), "127.0.0.1", nullptr, FI_SOURCE, hints, &info));
    CHECK(fi_fabric(info->fabric_attr, &fabric, nullptr));
    CHECK(fi_domain(fabric, info, &domain, nullptr));
    CHECK(fi_mr_reg(domain, memory, sizeof memory, FI_SEND | FI_RECV, 0, 1, 0, &region, nullptr));
    fi_av_attr av_attr{};
    CHECK(fi_av_open(domain, &av_attr, &av, nullptr));
    fi_cq_attr attr{};
    attr.format = FI_CQ_FORMAT_MSG;
    attr.wait_obj = FI_WAIT_FD;
    CHECK(fi_cq_open(domain, &attr, &transmit, nullptr));
    CHECK(fi_cq_open(domain, &attr, &receive, nullptr));
    CHECK(fi_endpoint(domain, info, &ep, nullptr));
    CHECK(fi_ep_bind(ep, &av->fid, 0));
    CHECK(fi_ep_bind(ep, &transmit->fid, FI_TRANSMIT));
    CHECK(fi_ep_bind(ep, &receive->fid, FI_RECV));
    CHECK(fi_enable(ep));
    char name[64];
    size_t size = sizeof name;
    CHECK(fi_getname(&ep->fid, name, &size));
    CHECK(fi_av_insert(av, name, 1, &self, 0, nullptr));
    fi_freeinfo(info);
    fi_freeinfo(hints);
  }
  long post(char* to) { return fi_recv(ep, to, room, fi_mr_desc(region), FI_ADDR_UNSPEC, nullptr); }
  long send() { return fi_send(ep, sent, len, fi_mr_desc(region), self, nullptr); }
  long completed() {
    fi_cq_msg_entry entry;
    return fi_cq_read(transmit, &entry, 1);
  }
  long arrived() {
    fi_cq_msg_entry entry;
    return fi_cq_read(receive, &entry, 1);
  }
};

struct Upper {
  kfid_ep* ep;
  kfid_cq *transmit, *receive;
  kfid_mr* region;
  kfi_addr_t self;

  Upper() {
    kfi_info *hints = kfi_allocinfo(), *info;
    kfid_fabric* fabric;
    kfid_domain* domain;
    kfid_av* av;
    hints->ep_attr->type = reliable() ? KFI_EP_RDM : KFI_EP_DGRAM;
    hints->fabric_attr->prov_name = strdup(provider);
    hints->domain_attr->mr_mode = KFI_MR_LOCAL | KFI_MR_VIRT_ADDR | KFI_MR_PROV_KEY;
    CHECK(kfi_getinfo(0, "127.0.0.1", nullptr, KFI_SOURCE, hints, &info));
    CHECK(kfi_fabric(info->fabric_attr, &fabric, nullptr));
    CHECK(kfi_domain(fabric, info, &domain, nullptr));
    CHECK(kfi_mr_reg(domain, memory, sizeof memory, KFI_SEND | KFI_RECV, 0, 1, 0, &region, nullptr));
    kfi_av_attr av_attr{};
    CHECK(kfi_av_open(domain, &av_attr, &av, nullptr));
    kfi_cq_attr attr{};
    attr.format = KFI_CQ_FORMAT_MSG;
    CHECK(kfi_cq_open(domain, &attr, &transmit, nullptr, nullptr));
    CHECK(kfi_cq_open(domain, &attr, &receive, nullptr, nullptr));
    CHECK(kfi_endpoint(domain, info, &ep, nullptr));
    CHECK(kfi_ep_bind(ep, &av->fid, 0));
    CHECK(kfi_ep_bind(ep, &transmit->fid, KFI_SEND));
    CHECK(kfi_ep_bind(ep, &receive->fid, KFI_RECV));
    CHECK(kfi_enable(ep));
    char name[64];
    size_t size = sizeof name;
    CHECK(kfi_getname(&ep->fid, name, &size));
    CHECK(kfi_av_insert(av, name, 1, &self, 0, nullptr));
    kfi_freeinfo(info);
    kfi_freeinfo(hints);
  }
  long post(char* to) { return kfi_recv(ep, to, room, kfi_mr_desc(region), KFI_ADDR_UNSPEC, nullptr); }
  long send() { return kfi_send(ep, sent, len, kfi_mr_desc(region), self, nullptr); }
  long completed() {
    kfi_cq_msg_entry entry;
    return kfi_cq_read(transmit, &entry, 1);
  }
  long arrived() {
    kfi_cq_msg_entry entry;
    return kfi_cq_read(receive, &entry, 1);
  }
};

// Sends a list through a buffer of kfabric's.
struct Listed : Upper {
  static constexpr size_t kPieces = 20;
  kvec pieces[kPieces];

  Listed() {
    for (size_t i = 0; i < kPieces; i++) pieces[i] = {sent + 2 * i, 1};
  }
  long send() { return kfi_sendv(ep, pieces, nullptr, kPieces, self, nullptr); }
};

// Nanoseconds of a send and the read of its completion.
template <class Level>
double round_of(Level& level) {
  for (int i = 0; i < sends; i++) CHECK(level.post(received(i)));
  const auto started = std::chrono::steady_clock::now();
  for (int i = 0; i < sends; i++) {
    CHECK(level.send());
    while (level.completed() != 1) continue;
    if (len == kLarge) {
      while (level.arrived() != 1) continue;
    }
  }
  const std::chrono::duration<double, std::nano> took = std::chrono::steady_clock::now() - started;
  for (int i = 0; i < sends && len != kLarge; i++) {
    while (level.arrived() != 1) continue;
  }
  return took.count() / sends;
}

template <class... Level>
void shortest(int rounds, double (&results)[sizeof...(Level)]) {
  std::fill(std::begin(results), std::end(results), 1e9);
  std::tuple<Level...> levels;
  for (int i = 0; i < rounds; i++) {
    double* result = results;
    ((*result = std::min(*result, round_of(std::get<Level>(levels))), result++), ...);
  }
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) return 2;
  const int rounds = std::atoi(argv[2]);
  if (argc > 3) provider = argv[3];
  const char* const what = argv[1];
  if (std::strcmp(what, "both") == 0) {
    double times[2];
    shortest<Lower, Upper>(rounds, times);
    std::printf("send and read of its completion, %s: fi %.1f ns, kfi %.1f ns, kfabric adds %.1f ns\n", provider,
                times[0], times[1], times[1] - times[0]);
    return 0;
  }
  if (std::strcmp(what, "large") == 0) {
    double times[2];
    sends = 8;
    room = len = kLarge;
    shortest<Lower, Upper>(rounds, times);
    std::printf("1 MiB, %s: fi %.0f MB/s, kfi %.0f MB/s, of libfabric's bandwidth kfabric has %.1f %%\n", provider,
                1e3 * kLarge / times[0], 1e3 * kLarge / times[1], 100 * times[0] / times[1]);
    return 0;
  }
  if (std::strcmp(what, "lists") == 0) {
    double times[2];
    shortest<Upper, Listed>(rounds, times);
    std::printf("send and read of its completion, %s: %.1f ns, a list through a buffer adds %.1f ns\n", provider,
                times[0], times[1] - times[0]);
    return 0;
  }
  double time[1];
  std::strcmp(what, "kfi") == 0 ? shortest<Upper>(rounds, time) : shortest<Lower>(rounds, time);
  std::printf("%s, send and read of its completion, %s: %.0f ns\n", what, provider, time[0]);
  return 0;
}
