// SPDX-License-Identifier: BSD-2-Clause
// The bridge between a slot of a C ops table and a C++ member function. The ABI's tables are the virtual functions: a
// class that has a method named like a slot fills that slot, at no cost per call; there is no other dispatch.
//
//   struct Endpoint : Object<fid_ep> { ssize_t send(const void*, size_t, void*, fi_addr_t, void*) noexcept; ... };
//   endpoint.abi.msg = ops_of<Endpoint>;  // src/abi/ops.h
//
// Beware: a slot method that is misspelt, private or overloaded silently counts as absent; static_assert beside the
// class on the slots that it needs.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_errno.h>

#include <cxxabi.h>

#include <new>
#include <type_traits>

#include "base/cancellation.h"
#include "base/status.h"

namespace weft {

// Gives an endpoint tables whose calls all answer -FI_ENOSYS; its class then sets its own. (src/abi/refused_calls.cc)
void refuse_calls(fid_ep& endpoint) noexcept;

// Base of every object behind a handle. Its only member is the C struct, so handle and object share one address;
// deriving from fid_ep itself would hide struct fid behind its member named fid.
template <class Fid>
struct Object {
  using Abi = Fid;
  Fid abi{};

  Object() noexcept {
    if constexpr (std::is_same_v<Fid, fid_ep>) refuse_calls(abi);
  }
  Object(const Object&) = delete;
  Object& operator=(const Object&) = delete;
};

// A table for the member of a C struct that points to it. The structs declare pointers to mutable tables, but
// applications only call through them: tables are constants, and this is the only place that drops `const`.
template <class Ops>
constexpr Ops* slots(const Ops& table) noexcept {
  return const_cast<Ops*>(&table);
}

template <class T>
T& object(const void* handle) noexcept {
  static_assert(std::is_standard_layout_v<Object<typename T::Abi>>);
  return static_cast<T&>(*static_cast<Object<typename T::Abi>*>(const_cast<void*>(handle)));
}

// The error code for an exception of the standard library that left a control-path method. Called in a catch block.
inline int error_from_current_exception() noexcept {
  try {
    throw;
  } catch (const std::bad_alloc&) {
    return -FI_ENOMEM;
  } catch (...) {
    return -FI_EOTHER;
  }
}

// Calls `body`; an exception becomes the matching error code. The thread is not cancelled meanwhile.
template <class Body>
auto guarded(Body&& body) noexcept -> decltype(body()) {
  const Uncancellable through;
  try {
    return body();
  } catch (...) {
    return static_cast<decltype(body())>(error_from_current_exception());
  }
}

// guarded() for a body that blocks with an Uncancellable::Window.
template <class Body>
auto guarded_but_cancellable(Body&& body) -> decltype(body()) {
  try {
    return body();
  } catch (const abi::__forced_unwind&) {
    throw;
  } catch (...) {
    return static_cast<decltype(body())>(error_from_current_exception());
  }
}

// Passes a newly opened object to the application; `handle` stays untouched when it could not be opened.
template <class T, class Handle>
int release_to(Result<T*> opened, Handle** handle) noexcept {
  if (!opened) return opened.error().code();
  *handle = &(*opened)->abi;
  return 0;
}

// op<&T::send> converts to the C function type of its table slot. noexcept methods are inlined away; the others are
// guarded, so that no exception crosses the ABI. In a call of the control path the thread is not cancelled; on the data
// path, methods that are not noexcept may block.
template <auto Method, bool Control>
struct op;

template <class T, class R, class... A, bool NoThrow, R (T::*Method)(A...) noexcept(NoThrow), bool Control>
struct op<Method, Control> {
  template <class Handle>
  static R call(Handle* handle, A... args) noexcept(NoThrow || Control) {
    const auto body = [&]() noexcept(NoThrow) -> R { return (object<T>(handle).*Method)(args...); };
    if constexpr (Control && NoThrow) {
      const Uncancellable through;
      return body();
    } else if constexpr (Control) {
      return guarded(body);
    } else if constexpr (NoThrow) {
      return body();
    } else {
      return guarded_but_cancellable(body);
    }
  }
  template <class Handle>
  using Function = R (*)(Handle*, A...);
  template <class Handle>
  requires std::is_same_v<std::remove_const_t<Handle>, ::fid> || std::is_same_v<Handle, typename T::Abi>
  constexpr operator Function<Handle>() const noexcept { return &call<Handle>; }
};

// always<FI_ENOSYS>: fills any slot with a function that returns a constant.
template <int Error>
struct always {
  template <class R, class... A>
  using Function = R (*)(A...);
  template <class R, class... A>
  constexpr operator Function<R, A...>() const noexcept {
    return [](A...) noexcept -> R {
      if constexpr (std::is_signed_v<R>) return static_cast<R>(-Error);
      return R{};  // a pointer or an unsigned count cannot carry an error
    };
  }
};

}  // namespace weft
