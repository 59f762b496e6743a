// SPDX-License-Identifier: BSD-2-Clause
// Objects for the life of the process. A static object is destroyed before those exit handlers of the program that were
// registered earlier, and they may still close objects of the library; atexit(3).
#pragma once

namespace weft {

// Static storage for a T that is never destroyed.
template <class T>
union Kept {
  Kept() noexcept : object() {}
  ~Kept() {}
  T object;
};

}  // namespace weft
