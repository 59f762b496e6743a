// SPDX-License-Identifier: BSD-2-Clause
// Completion queues and their channels; see fake_completion_queue.h.
#include "fake_completion_queue.h"

#include <algorithm>

namespace fake {

namespace {

bool pop(Cq& cq, ibv_wc* wc) {
  if (!cq.count) return false;
  const Completion& first = cq.ring[cq.head];
  *wc = first.wc;
  release_slots(first);
  cq.head = cq.head + 1 == cq.ring.size() ? 0 : cq.head + 1;
  --cq.count;
  return true;
}

int poll_cq(ibv_cq* cq, int max, ibv_wc* wc) {
  Entry entry(Call::ibv_poll_cq);
  Cq& own = cq_of(cq, entry.name());
  if (entry.error()) return -entry.error();
  int done = 0;
  while (done < max && pop(own, &wc[done])) ++done;
  return done;
}

int req_notify_cq(ibv_cq* cq, int solicited_only) {
  Entry entry(Call::ibv_req_notify_cq);
  Cq& own = cq_of(cq, entry.name());
  if (entry.error()) return entry.error();
  if (!solicited_only)
    own.notify = Cq::Notify::kAny;
  else if (own.notify == Cq::Notify::kNo)
    own.notify = Cq::Notify::kSolicited;
  return 0;
}

int next_poll(ibv_cq_ex* cq) {
  Entry entry(Call::ibv_poll_cq);
  Cq& own = *static_cast<Cq*>(cq);
  if (entry.error()) return entry.error();
  if (!pop(own, &own.current)) return ENOENT;
  own.wr_id = own.current.wr_id;
  own.status = own.current.status;
  return 0;
}
int start_poll(ibv_cq_ex* cq, ibv_poll_cq_attr* attr) {
  return attr && attr->comp_mask ? EINVAL : next_poll(cq);
}
void end_poll(ibv_cq_ex*) {}

const ibv_wc& current(ibv_cq_ex* cq) {
  return static_cast<Cq*>(cq)->current;
}

void set_readers(Cq& cq) {
  cq.start_poll = start_poll;
  cq.next_poll = next_poll;
  cq.end_poll = end_poll;
  cq.read_opcode = [](ibv_cq_ex* q) { return current(q).opcode; };
  cq.read_vendor_err = [](ibv_cq_ex* q) { return current(q).vendor_err; };
  cq.read_byte_len = [](ibv_cq_ex* q) { return current(q).byte_len; };
  cq.read_imm_data = [](ibv_cq_ex* q) { return current(q).imm_data; };
  cq.read_qp_num = [](ibv_cq_ex* q) { return current(q).qp_num; };
  cq.read_src_qp = [](ibv_cq_ex* q) { return current(q).src_qp; };
  cq.read_wc_flags = [](ibv_cq_ex* q) { return current(q).wc_flags; };
}

ibv_cq* create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel, int vector) {
  Entry entry(Call::ibv_create_cq);
  Context& own = context_of(context, entry.name());
  Device& device = *own.device_of;
  if (channel) ++checked<CompChannel>(channel, Kind::kCompChannel, entry.name()).tag.users;
  const auto refuse = [&](int error) {
    if (channel) --static_cast<CompChannel*>(channel)->tag.users;
    return null_error(error);
  };
  if (entry.error()) return refuse(entry.error());
  if (device.removed) return refuse(EIO);
  if (cqe < 1 || cqe > device.config.max_cqe || vector < 0 || vector >= context->num_comp_vectors)
    return refuse(EINVAL);
  if (!take(device, Kind::kCq, device.config.max_cq)) return refuse(ENOMEM);
  auto* cq = new Cq{};
  register_object(cq->tag, Kind::kCq);
  cq->context = context;
  cq->channel = channel;
  cq->cq_context = cq_context;
  cq->handle = static_cast<uint32_t>(cq->tag.serial);
  cq->cqe = cqe;
  pthread_mutex_init(&cq->mutex, nullptr);
  pthread_cond_init(&cq->cond, nullptr);
  cq->device = &device;
  cq->ring.resize(static_cast<size_t>(cqe));
  set_readers(*cq);
  ++own.tag.users;
  return reinterpret_cast<ibv_cq*>(static_cast<ibv_cq_ex*>(cq));
}

ibv_cq_ex* create_cq_ex(ibv_context* context, ibv_cq_init_attr_ex* attr) {
  return reinterpret_cast<ibv_cq_ex*>(create_cq(context, static_cast<int>(attr->cqe), attr->cq_context, attr->channel,
                                                static_cast<int>(attr->comp_vector)));
}

void raise_overrun(Cq& cq) {
  ++World::get().overruns;
  if (cq.overrun) return;
  cq.overrun = true;
  ibv_async_event event = {};
  event.element.cq = reinterpret_cast<ibv_cq*>(static_cast<ibv_cq_ex*>(&cq));
  event.event_type = IBV_EVENT_CQ_ERR;
  push_async_event(context_of(cq.context, "completion"), event, &cq.tag);
  fail_queues_with(cq);
}

}  // namespace

void set_completion_ops(Context& context) {
  context.context.ops.poll_cq = poll_cq;
  context.context.ops.req_notify_cq = req_notify_cq;
  context.create_cq_ex = create_cq_ex;
}

void push_completion(ibv_cq* queue, const Completion& completion) {
  Cq& cq = cq_of(queue, "completion");
  if (cq.count == cq.ring.size()) return raise_overrun(cq);
  const size_t at = cq.head + cq.count++;
  cq.ring[at < cq.ring.size() ? at : at - cq.ring.size()] = completion;
  if (cq.notify == Cq::Notify::kNo || !cq.channel) return;
  if (cq.notify == Cq::Notify::kSolicited && !completion.solicited && completion.wc.status == IBV_WC_SUCCESS) return;
  cq.notify = Cq::Notify::kNo;
  auto& channel = *static_cast<CompChannel*>(cq.channel);
  channel.events.push_back(&cq);
  channel.ready.set(true);
  World::get().changed.notify_all();
}

void forget_completions_of(ibv_cq* queue, const Qp* qp) {
  Cq& cq = cq_of(queue, "destroy");
  const bool keep = World::get().keep_completions;
  size_t kept = 0;
  for (size_t i = 0; i < cq.count; ++i) {
    Completion completion = cq.ring[(cq.head + i) % cq.ring.size()];
    if (completion.qp == qp) {
      if (!keep) {
        release_slots(completion);
        continue;
      }
      completion.qp = nullptr;
    }
    cq.ring[(cq.head + kept++) % cq.ring.size()] = completion;
  }
  cq.count = kept;
}

void raise(ibv_cq* cq, ibv_event_type event) {
  World& world = World::get();
  Guard guard(world.mutex);
  Cq& own = cq_of(cq, "fake::raise");
  push_async_event(context_of(cq->context, "fake::raise"), {.element = {.cq = cq}, .event_type = event}, &own.tag);
}

}  // namespace fake

using namespace fake;

extern "C" {

ibv_comp_channel* ibv_create_comp_channel(ibv_context* context) {
  Entry entry(Call::ibv_create_comp_channel);
  Context& own = context_of(context, entry.name());
  if (entry.error()) return null_error(entry.error());
  auto* channel = new CompChannel{};
  register_object(channel->tag, Kind::kCompChannel);
  channel->context = context;
  channel->fd = channel->ready.fd();
  ++own.tag.users;
  return channel;
}

int ibv_destroy_comp_channel(ibv_comp_channel* channel) {
  Entry entry(Call::ibv_destroy_comp_channel);
  CompChannel& own = checked<CompChannel>(channel, Kind::kCompChannel, entry.name());
  if (entry.error()) {
    excuse(own.tag);
    return entry.error();
  }
  if (own.tag.users) return busy(own.tag);
  --context_of(channel->context, entry.name()).tag.users;
  own.ready.close();
  destroy_object(&own);
  return 0;
}

ibv_cq* ibv_create_cq(ibv_context* context, int cqe, void* cq_context, ibv_comp_channel* channel, int vector) {
  return create_cq(context, cqe, cq_context, channel, vector);
}

int ibv_resize_cq(ibv_cq* cq, int cqe) {
  Entry entry(Call::ibv_resize_cq);
  Cq& own = cq_of(cq, entry.name());
  if (entry.error()) return entry.error();
  if (own.device->config.iwarp || !own.device->config.enlarges_queues) return EOPNOTSUPP;
  if (cqe < 1 || cqe > own.device->config.max_cqe || static_cast<size_t>(cqe) < own.count) return EINVAL;
  std::vector<Completion> ring(static_cast<size_t>(cqe));
  for (size_t i = 0; i < own.count; ++i) ring[i] = own.ring[(own.head + i) % own.ring.size()];
  own.ring = std::move(ring);
  own.head = 0;
  own.cqe = cqe;
  return 0;
}

int ibv_destroy_cq(ibv_cq* cq) {
  Entry entry(Call::ibv_destroy_cq);
  Cq& own = cq_of(cq, entry.name());
  auto* channel = static_cast<CompChannel*>(own.channel);
  if (entry.error()) {
    excuse(own.tag);
    return entry.error();
  }
  if (own.tag.users) return busy(own.tag);
  if (own.unacked)
    fatal(entry.name(), "would block: " + std::to_string(own.unacked) + " completion events are not acknowledged");
  entry.world.await_acknowledgements(entry.lock, own.tag, entry.name());
  drop_async_events(context_of(cq->context, entry.name()), &own.tag);
  if (channel) {
    channel->events.erase(std::remove(channel->events.begin(), channel->events.end(), &own), channel->events.end());
    channel->ready.set(!channel->events.empty());
    --channel->tag.users;
  }
  --context_of(cq->context, entry.name()).tag.users;
  give_back(*own.device, Kind::kCq);
  own.ring = {};
  destroy_object(&own);
  return 0;
}

int ibv_get_cq_event(ibv_comp_channel* channel, ibv_cq** cq, void** cq_context) {
  Entry entry(Call::ibv_get_cq_event);
  CompChannel& own = checked<CompChannel>(channel, Kind::kCompChannel, entry.name());
  if (entry.error()) return cm_error(entry.error());
  while (own.events.empty()) {
    if (own.ready.nonblocking()) return cm_error(EAGAIN);
    entry.world.changed.wait(entry.lock);
  }
  Cq* first = own.events.front();
  own.events.pop_front();
  own.ready.set(!own.events.empty());
  ++first->unacked;
  *cq = reinterpret_cast<ibv_cq*>(static_cast<ibv_cq_ex*>(first));
  *cq_context = first->cq_context;
  return 0;
}

void ibv_ack_cq_events(ibv_cq* cq, unsigned int count) {
  World& world = World::get();
  Guard guard(world.mutex);
  Cq& own = cq_of(cq, "ibv_ack_cq_events");
  if (count > static_cast<unsigned int>(own.unacked)) fatal("ibv_ack_cq_events", "acknowledged more often than got");
  own.unacked -= static_cast<int>(count);
}

}  // extern "C"
