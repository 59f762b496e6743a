// SPDX-License-Identifier: BSD-2-Clause
// Every contestant's report of connections: the time to make one, and the memory of one.
#pragma once

#include <cstdint>

#include "process/process_cost.h"
#include "process/process_pair.h"

namespace bench {

inline void report_connect_rate(unsigned connections, std::uint64_t start_ns) {
  const auto elapsed_ns = static_cast<double>(now_ns() - start_ns);
  report("connects_per_s", connections / elapsed_ns * 1e9);
  report("connect_ms", elapsed_ns / 1e6 / connections);
}

// Memory of this process per connection, from construction to report().
class MemoryPerConnection {
 public:
  void report(const char* private_metric, const char* heap_metric, unsigned connections) const {
    bench::report(private_metric, kib_of_one(private_bytes(), private_, connections));
    bench::report(heap_metric, kib_of_one(heap_bytes(), heap_, connections));
  }
  // Once both ends have all connections: the machine's memory for one end of one, the kernel's part included.
  void report_machine(const char* metric, unsigned connections) const {
    bench::report(metric, kib_of_one(available_, available_bytes(), 2 * connections));
  }

 private:
  static double kib_of_one(std::uint64_t more, std::uint64_t less, unsigned count) {
    return (static_cast<double>(more) - static_cast<double>(less)) / 1024 / count;
  }

  std::uint64_t private_ = private_bytes();
  std::uint64_t heap_ = heap_bytes();
  std::uint64_t available_ = available_bytes();
};

}  // namespace bench
