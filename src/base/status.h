// SPDX-License-Identifier: BSD-2-Clause
// The only form of errors beneath the C ABI: a negative fabric errno, or 0 (fi_errno(3)). Slot methods return plain
// int/ssize_t; everything below returns Status or Result<T> so that no error can be dropped unseen.
#pragma once

#include <cerrno>
#include <tl/expected.hpp>

namespace weft {

// A negative fi_errno or 0. Values 1..255 of fi_errno equal errno, so errno converts by negation.
class [[nodiscard]] Status {
 public:
  constexpr Status() noexcept = default;
  // `code` is 0 or negative.
  constexpr explicit Status(int code) noexcept : code_(code) {}

  // The only place where an errno becomes an error; 0 (which a failed call must not leave) becomes EIO, never success.
  static Status from_errno(int error) noexcept { return Status(error > 0 ? -error : -EIO); }
  static Status last_errno() noexcept { return from_errno(errno); }

  constexpr bool ok() const noexcept { return code_ == 0; }
  constexpr int code() const noexcept { return code_; }
  // The positive number, as event and completion error entries carry it.
  constexpr int error() const noexcept { return -code_; }
  friend constexpr bool operator==(Status a, Status b) noexcept { return a.code_ == b.code_; }

 private:
  int code_ = 0;
};

template <class T>
using Result = tl::expected<T, Status>;

inline tl::unexpected<Status> failure(int fi_errno) { return tl::unexpected(Status(-fi_errno)); }
inline tl::unexpected<Status> failure(Status status) { return tl::unexpected(status); }

}  // namespace weft
