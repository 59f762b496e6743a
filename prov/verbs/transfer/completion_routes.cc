// SPDX-License-Identifier: BSD-2-Clause
// Bindings of endpoints; see completion_routes.h.
#include "verbs/transfer/completion_routes.h"

namespace weft::verbs {

Status CompletionRoutes::bind_queue(const DomainServices& domain, CompletionQueue& queue, uint64_t flags,
                                    bool enabled) noexcept {
  Status status = check_binding(
      provider(), {.object = queue.abi.fid, .same_domain = &queue.engine().domain() == &domain, .enabled = enabled});
  if (status.ok()) status = bind(queue, flags);
  if (!status.ok()) return status;
  if (flags & FI_TRANSMIT) transmit_channel = &queue.engine();
  if (flags & FI_RECV) receive_channel = &queue.engine();
  return {};
}

Status CompletionRoutes::open_channels(DomainServices& domain) noexcept {
  for (CompletionChannel** channel : {&transmit_channel, &receive_channel}) {
    if (*channel != nullptr) continue;
    auto silent = domain.channel_without_queue();
    if (!silent) return silent.error();
    *channel = *silent;
  }
  return {};
}

void CompletionRoutes::poll_all() noexcept {
  transmit_channel->poll_all();
  if (receive_channel != transmit_channel) receive_channel->poll_all();
}

}  // namespace weft::verbs
