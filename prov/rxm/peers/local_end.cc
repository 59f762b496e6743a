// SPDX-License-Identifier: BSD-2-Clause
// The part of an endpoint for peers of its host; see local_end.h.
#include "rxm/peers/local_end.h"

#include <rdma/fi_errno.h>
#include <sys/random.h>

namespace weft::rxm {

Status LocalEnd::open() noexcept {
  if (::getrandom(&place_.token, sizeof place_.token, GRND_NONBLOCK) != sizeof place_.token) return Status(-FI_EAGAIN);
  auto queue = side_.open_queue(std::nullopt, static_cast<Driven*>(this));
  if (!queue) return queue.error();
  completions.use(std::move(*queue));
  if (const int error = open_events(side_.fabric, events_); error != 0) return Status(error);
  fid_pep* listener = nullptr;
  InfoPtr info(duplicate_info(side_.info.get()));
  if (info == nullptr) return Status(-FI_ENOMEM);
  if (const int error = fi_passive_ep(side_.fabric, info.get(), &listener, nullptr); error != 0) return Status(error);
  listener_.reset(listener);
  sockaddr_storage name{};
  std::size_t len = sizeof name;
  int error = fi_pep_bind(listener, &events_->fid, 0);
  if (error == 0) error = fi_listen(listener);
  if (error == 0) error = fi_getname(&listener->fid, &name, &len);
  if (error != 0) return Status(error);
  const auto own = Address::from(&name, len);
  if (!own) return own.error();
  place_.port = own->port();
  return {};
}

}  // namespace weft::rxm
