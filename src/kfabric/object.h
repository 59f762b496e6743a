// SPDX-License-Identifier: BSD-2-Clause
// The objects of kfabric: each begins with the structure that clients see and has the libfabric object beneath. Slots
// of the tables are made from libfabric's calls. Any thread may use an object; a client closes it once.
#pragma once

#include <kfi/kfi_atomic.h>
#include <kfi/kfi_cm.h>
#include <kfi/kfi_tagged.h>

#include <atomic>
#include <map>
#include <memory>
#include <new>
#include <system_error>
#include <type_traits>
#include <utility>
#include <vector>

#include "kfabric/libfabric_calls.h"

// A call of the library.
#define KFI_EXPORT __attribute__((visibility("default")))

namespace weft::kfabric {

// The libfabric type for each handle, and for each structure with an equal layout.
template <class K>
struct Below;
#define WEFT_BELOW(kfi, fi) \
  template <>               \
  struct Below<kfi> {       \
    using Type = fi;        \
  }
WEFT_BELOW(kfid_fabric, fid_fabric);
WEFT_BELOW(kfid_domain, fid_domain);
WEFT_BELOW(kfid_av, fid_av);
WEFT_BELOW(kfid_mr, fid_mr);
WEFT_BELOW(kfid_eq, fid_eq);
WEFT_BELOW(kfid_cq, fid_cq);
WEFT_BELOW(kfid_cntr, fid_cntr);
WEFT_BELOW(kfid_wait, fid_wait);
WEFT_BELOW(kfid_poll, fid_poll);
WEFT_BELOW(kfid_ep, fid_ep);
WEFT_BELOW(kfid_pep, fid_pep);
WEFT_BELOW(kfid_stx, fid_stx);
WEFT_BELOW(kfid_mc, fid_mc);

template <class K>
struct Counterpart;
#define WEFT_COUNTERPART(kfi, fi)                                          \
  template <>                                                              \
  struct Counterpart<kfi> {                                                \
    static_assert(sizeof(kfi) == sizeof(fi), "the layouts have to agree"); \
    using Type = fi;                                                       \
  }
WEFT_COUNTERPART(kvec, iovec);
WEFT_COUNTERPART(kfi_ioc, fi_ioc);
WEFT_COUNTERPART(kfi_rma_iov, fi_rma_iov);
WEFT_COUNTERPART(kfi_msg_atomic, fi_msg_atomic);
WEFT_COUNTERPART(kfi_atomic_attr, fi_atomic_attr);
WEFT_COUNTERPART(kfi_av_attr, fi_av_attr);
WEFT_COUNTERPART(kfi_poll_attr, fi_poll_attr);
WEFT_COUNTERPART(kfi_eq_err_entry, fi_eq_err_entry);
WEFT_COUNTERPART(kfi_datatype, fi_datatype);
WEFT_COUNTERPART(kfi_op, fi_op);

struct Fabric;

// The bridge to C: an exception of the standard library becomes an error number.
template <class R, class Call>
R guarded(Call call) noexcept {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return -KFI_ENOMEM;
  } catch (const std::system_error& error) {
    return -error.code().value();
  } catch (...) {
    return -KFI_EOTHER;
  }
}

// The queues and counters that an object is bound to. They stay open until it closes: that is checked here, because
// libfabric before 2.0 takes parts of a bound queue down when it refuses to close it.
class Bindings {
 public:
  Bindings() = default;
  Bindings(const Bindings&) = delete;
  Bindings& operator=(const Bindings&) = delete;
  ~Bindings() {
    for (std::atomic<int>* count : counts_) --*count;
  }
  // Memory for one more.
  void reserve() { counts_.reserve(counts_.size() + 1); }
  void add(std::atomic<int>& count) noexcept {
    counts_.push_back(&count);
    ++count;
  }

 private:
  std::vector<std::atomic<int>*> counts_;
};

template <class K>
struct Object : K {
  typename Below<K>::Type* fi = nullptr;
  Fabric* fabric = nullptr;
  Bindings bindings;
};

// A kfid's table also leads to libfabric's fid.
struct Ops : kfi_ops {
  fid* (*below)(kfid*);
};

inline kfid* fid_of(void* object) {
  return static_cast<kfid*>(object);
}

// The object behind a handle: both have one address.
template <class T>
T* of(kfid* handle) {
  return static_cast<T*>(static_cast<void*>(handle));
}
template <class T>
const T* of(const kfid* handle) {
  return static_cast<const T*>(static_cast<const void*>(handle));
}

template <class K>
auto* fi_of(K* handle) {
  return static_cast<Object<K>*>(handle)->fi;
}
inline fid* fi_of(kfid* handle) {
  return handle == nullptr ? nullptr : static_cast<Ops*>(handle->ops)->below(handle);
}

// An argument as libfabric takes it.
template <class T>
auto down(T argument) {
  using Bare = std::remove_cv_t<std::remove_pointer_t<T>>;
  if constexpr (std::is_pointer_v<T> && requires { typename Counterpart<Bare>::Type; }) {
    using To = typename Counterpart<Bare>::Type;
    return reinterpret_cast<std::conditional_t<std::is_const_v<std::remove_pointer_t<T>>, const To, To>*>(argument);
  } else if constexpr (requires { typename Counterpart<T>::Type; }) {
    return static_cast<typename Counterpart<T>::Type>(argument);
  } else if constexpr (std::is_same_v<T, kfid*>) {
    return fi_of(argument);
  } else {
    return argument;
  }
}

template <class R, class K, class... A>
using Slot = R (*)(K*, A...);

// A slot that is a call of libfabric.
template <auto Call>
struct Forward {
  template <class R, class K, class... A>
  constexpr operator Slot<R, K, A...>() const {
    return [](K* handle, A... arguments) -> R { return Call(fi_of(handle), down(arguments)...); };
  }
};

// A slot that is a function of this library, which may throw.
template <auto Call>
struct Guarded {
  template <class R, class K, class... A>
  constexpr operator Slot<R, K, A...>() const {
    return [](K* handle, A... arguments) -> R { return guarded<R>([&] { return Call(handle, arguments...); }); };
  }
};

// A slot that answers -KFI_ENOSYS: the object lacks the call.
struct Refuse {
  template <class R, class K, class... A>
  constexpr operator Slot<R, K, A...>() const {
    return [](K*, A...) -> R { return static_cast<R>(-KFI_ENOSYS); };
  }
};

template <class Table, size_t... I>
constexpr Table refusing(std::index_sequence<I...>) {
  return Table{sizeof(Table), (static_cast<void>(I), Refuse{})...};
}
template <class Table>
constexpr Table refused = refusing<Table>(std::make_index_sequence<sizeof(Table) / sizeof(void*) - 1>{});

// Handles contain pointers to tables that are not const, in C's style.
template <class Table>
Table* mutable_table(const Table& table) {
  return const_cast<Table*>(&table);
}

// The live objects, by the fid beneath: events name those. A place is made before the object, so that an open object
// can always be entered.
using Handles = std::map<fid*, kfid*>;
Handles::node_type make_place();
void remember(Handles::node_type place, fid* below, kfid* handle) noexcept;
Handles::node_type forget(fid* below) noexcept;
kfid* handle_of(fid* below) noexcept;  // NULL: none
// Whether it is an open object's: the handle of an info may be that of one that has closed.
bool is_open(const kfid* handle) noexcept;

// Whether the client uses API 1.1 and not 1.7.
bool is_1_1(const Fabric* fabric);

// close() of an object that is busy until the last object bound to it goes: 0 at once in API 1.1.
void close_later(Fabric* fabric, kfid* handle);
void close_waiting(Fabric* fabric);

// Hooks around the close of an object. These are the defaults; some objects have their own (fabric.h).
struct DefaultHooks {
  static int closing(void*) { return 0; }  // not 0: refused
  static void kept(void*) {}               // libfabric refused to close it
  static void closed(void*) {}             // libfabric closed it
  static constexpr bool kDefers = false;
};
template <class T>
struct Hooks : DefaultHooks {};

template <class T>
int close_now(kfid* handle) {
  T* object = of<T>(handle);
  if (int result = Hooks<T>::closing(object)) return result;
  fid* below = &object->fi->fid;
  Handles::node_type place = forget(below);
  if (int result = fi_close(below)) {
    remember(std::move(place), below, handle);
    Hooks<T>::kept(object);
    return result;
  }
  Hooks<T>::closed(object);
  delete object;
  return 0;
}

template <class T>
int close(kfid* handle) {
  Fabric* fabric = of<T>(handle)->fabric;
  int result = close_now<T>(handle);
  if (result == -KFI_EBUSY && Hooks<T>::kDefers && is_1_1(fabric)) {
    close_later(fabric, handle);
    return 0;
  }
  if (result == 0 && !std::is_same_v<T, Fabric>) close_waiting(fabric);
  return result;
}

int bind_below(kfid* handle, kfid* other, uint64_t flags);
struct Waiting;
Waiting* waiting_of(kfid* queue);            // NULL: neither a queue nor a counter
std::atomic<int>* bound_count(kfid* queue);  // NULL: neither a queue nor a counter

template <class T>
int bind(kfid* handle, kfid* other, uint64_t flags) {
  of<T>(handle)->bindings.reserve();
  const int result = bind_below(handle, other, flags);
  std::atomic<int>* count = result == 0 ? bound_count(other) : nullptr;
  if (count != nullptr) of<T>(handle)->bindings.add(*count);
  return result;
}

int control(kfid* handle, int command, void* argument);
int no_ops(kfid* handle, const char* name, uint64_t flags, void** ops, void* context);

template <class T>
fid* below(kfid* handle) {
  return &of<T>(handle)->fi->fid;
}

template <class T>
constexpr Ops ops_of = {{sizeof(kfi_ops), Guarded<close<T>>{}, Guarded<bind<T>>{}, Guarded<control>{}, no_ops},
                        below<T>};

// Opens what `call(T&)` opens beneath, and gives the client its handle. Out-parameters stay untouched on failure.
template <class T, class K, class Call>
int open(Fabric* fabric, size_t fclass, K** out, void* context, Call call) {
  auto object = std::make_unique<T>();
  Handles::node_type place = make_place();
  if (int result = call(*object)) return result;
  kfid* handle = fid_of(static_cast<K*>(object.get()));
  handle->fclass = fclass;
  handle->context = context;
  handle->ops = mutable_table<kfi_ops>(ops_of<T>);
  if constexpr (std::is_same_v<T, Fabric>) {
    object->fabric = object.get();
  } else {
    object->fabric = fabric;
  }
  remember(std::move(place), &object->fi->fid, handle);
  *out = object.release();
  return 0;
}

}  // namespace weft::kfabric
