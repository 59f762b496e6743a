// SPDX-License-Identifier: BSD-2-Clause
// memory_bench: the workloads of fabric_bench over shared memory, as the floor that processes of one host can reach.
#include "memory/memory_link.h"
#include "process/message_workloads.h"
#include "process/process_pair.h"
#include "process/turns.h"

namespace {

using namespace bench;

template <Role role, void (*body)(MemoryLink&, const Measurement&)>
void run(const Measurement& m, Channel& channel) {
  MemoryLink link(role, m.size, m.window, channel);
  in_turns(role, m, channel, [&] { body(link, m); });
  channel.put(0);
  channel.get();
}

template <void (*server)(MemoryLink&, const Measurement&), void (*client)(MemoryLink&, const Measurement&)>
constexpr Workload messages(const char* name) {
  return {name, run<Role::kServer, server>, run<Role::kClient, client>};
}

constexpr Workload kWorkloads[] = {
    messages<answer_pings<MemoryLink>, send_pings<MemoryLink>>("pingpong"),
    messages<take_stream<MemoryLink>, send_stream<MemoryLink>>("stream"),
};

}  // namespace

int main(int argc, char** argv) {
  MemoryLink::share_memory();
  return bench_main(argc, argv, kWorkloads);
}
