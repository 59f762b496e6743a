// SPDX-License-Identifier: BSD-2-Clause
// The source of reports about memory whose pages change under a registration: it is unmapped, moved or discarded;
// fi_mr(3), decision 0018.
#pragma once

#include <cstddef>
#include <cstdint>

namespace weft::verbs {

// The addresses from `start` to before `end`.
struct MemoryRange {
  std::uintptr_t start = 0;
  std::uintptr_t end = 0;

  std::size_t size() const noexcept { return end - start; }
  bool overlaps(const MemoryRange& other) const noexcept { return start < other.end && other.start < end; }
  bool contains(const MemoryRange& other) const noexcept { return start <= other.start && other.end <= end; }
};

enum class MemoryChange : std::uint8_t {
  kUnmapped,   // unmapped: the addresses belong to nothing, or to something else, and are not watched
  kAnnounced,  // about to be unmapped; the thread that does it waits until the report has been read
  kDiscarded   // about to be discarded; the thread may wait less long; the addresses will have other pages
};

class ChangeListener {
 public:
  // There are reports: called by a thread of the monitor, which then waits for read().
  virtual void on_reports() noexcept = 0;
  // Called by read().
  virtual void on_change(const MemoryRange& range, MemoryChange change) noexcept = 0;

 protected:
  ~ChangeListener() = default;
};

// A thread that unmaps memory may wait until its report is read, and may hold locks of the allocator meanwhile. So the
// methods that are called with the cache's mutex held neither allocate, nor free, nor unmap, nor log.
class MemoryMonitor {
 public:
  virtual ~MemoryMonitor() = default;

  // Each is called once. The listener lives until stop() returns.
  virtual bool start(ChangeListener& listener) noexcept = 0;
  virtual void stop() noexcept = 0;

  // With the cache's mutex held. From now on changes in the range, whole pages, are reported; false: they cannot be.
  virtual bool watch(const MemoryRange& range) noexcept = 0;
  virtual void unwatch(const MemoryRange& range) noexcept = 0;
  // Passes on the reports that are there; returns whether there were any.
  virtual bool read(ChangeListener& listener) noexcept = 0;
  // No change has happened whose report was not read.
  virtual bool is_settled() noexcept = 0;

  // With the mutex held, about a registration that is to be used again. False: the range has changed.
  virtual bool is_unchanged(const MemoryRange&) noexcept { return true; }

  // Without the mutex. Whether every change of a watched range is reported.
  virtual bool covers(const MemoryRange& range) noexcept = 0;
  // Whether this process gets reports; a child of fork does not.
  virtual bool is_usable() const noexcept = 0;
};

}  // namespace weft::verbs
