// SPDX-License-Identifier: BSD-2-Clause
// The server's parts; see parts.h. two_hosts.cc has the client's.
#include "two_hosts/parts.h"

#include <sys/types.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <map>

namespace two_hosts {

const HintsEditor kRma = [](fi_info& hints) { hints.caps = FI_MSG | FI_RMA; };
const HintsEditor kTagged = [](fi_info& hints) { hints.caps = FI_MSG | FI_TAGGED; };
const HintsEditor kPlain = [](fi_info& hints) { hints.caps = FI_MSG; };

size_t message_length(int index) {
  return size_t{1} + static_cast<size_t>(index) * static_cast<size_t>(index) * 3;
}

std::string to_line(const Address& address) {
  std::string text = address.text();
  text[text.find('|')] = ' ';
  return text;
}

Address from_line(const std::string& line) {
  const size_t space = line.find(' ');
  require(space != std::string::npos, "not an address: " + line);
  return Address::numeric(line.substr(0, space), static_cast<uint16_t>(std::stoi(line.substr(space + 1))));
}

End::End(const Target& target, Control& control, Side side, const HintsEditor& edit) : fabric_(target, edit) {
  if (!target.connected()) {
    datagrams_.emplace(fabric_);
    control.say(to_line(datagrams_->address()));
    (*datagrams_)->peer = datagrams_->insert(from_line(control.hear()));
    return;
  }
  if (side == Side::kClient) {
    node_ = std::make_unique<Node>(fabric_);
    require_ok(node_->connect(from_line(control.hear())), "fi_connect");
  } else {
    listener_.emplace(fabric_);
    control.say(to_line(listener_->address()));
    const InfoPtr request = listener_->next_request();
    node_ = std::make_unique<Node>(fabric_, NodeOptions{}, request.get());
    require_ok(node_->accept(), "fi_accept");
  }
  node_->eq().expect(FI_CONNECTED, node_->fid());
}

void End::expect_sent() {
  const Completion sent = node().tx().wait();
  require(sent.ok(), "the completion of a send");
}

void End::send_pattern(Buffer& buffer, size_t length, unsigned seed) {
  buffer.fill_pattern(seed);
  Context context;
  require_ok(node().send(buffer, length, &context), "fi_send");
  expect_sent();
}

void End::expect_pattern(Buffer& buffer, size_t length, unsigned seed) {
  const Completion arrival = node().rx().wait();
  require(arrival.ok(), "message " + std::to_string(seed));
  require(arrival.entry.len == length, "message " + std::to_string(seed) + " has " + std::to_string(arrival.entry.len) +
                                           " bytes instead of " + std::to_string(length));
  require(buffer.holds_pattern(seed, length), "other bytes in message " + std::to_string(seed));
}

namespace {

using Part = void (*)(const Target&, Control&);

void private_data(const Target& target, Control& control) {
  const Fabric fabric(target);
  Listener listener(fabric);
  control.say(to_line(listener.address()));
  std::vector<char> data;
  const InfoPtr request = listener.next_request(&data);
  // A transport may fill data up to its fixed length.
  require(std::string(data.begin(), data.end()).starts_with("question"), "private data of the request");
  Node node(fabric, {}, request.get());
  require_ok(node.accept("answer"), "fi_accept");
  node.eq().expect(FI_CONNECTED, node.fid());
  control.expect("seen");
}

void reject(const Target& target, Control& control) {
  const Fabric fabric(target);
  Listener listener(fabric);
  control.say(to_line(listener.address()));
  const InfoPtr request = listener.next_request();
  require_ok(fi_reject(listener.pep(), request->handle, "busy", 4), "fi_reject");
  control.expect("seen");
}

void refuse(const Target& target, Control& control) {
  const Fabric fabric(target);
  Address address;
  {
    const Listener listener(fabric);
    address = listener.address();
  }
  control.say(to_line(address));
  control.expect("seen");
}

void messages(const Target& target, Control& control) {
  End end(target, control, End::Side::kServer, kPlain);
  for (int i = 0; i < kMessages; ++i) {
    const size_t length = end.fabric().length_up_to(message_length(i));
    Buffer in(end.fabric(), length), out(end.fabric(), length);
    Context context;
    require_ok(end.node().recv(in, length, &context), "fi_recv");
    if (i == 0) control.say("posted");
    end.expect_pattern(in, length, static_cast<unsigned>(i));
    end.send_pattern(out, length, static_cast<unsigned>(i) + kMessages);
  }
  control.expect("seen");
}

void stream(const Target& target, Control& control) {
  End end(target, control, End::Side::kServer, kPlain);
  std::vector<std::unique_ptr<Buffer>> buffers;
  std::vector<Context> contexts(kAtOnce);
  for (int i = 0; i < kAtOnce; ++i) {
    buffers.push_back(std::make_unique<Buffer>(end.fabric(), kSize));
    require_ok(end.node().recv(*buffers.back(), kSize, &contexts[static_cast<size_t>(i)]), "fi_recv");
  }
  control.say("posted");
  for (int i = 0; i < kAtOnce; ++i)
    end.expect_pattern(*buffers[static_cast<size_t>(i)], kSize, static_cast<unsigned>(i));
}

void tags(const Target& target, Control& control) {
  End end(target, control, End::Side::kServer, kTagged);
  Buffer first(end.fabric(), kSize), second(end.fabric(), kSize);
  Context contexts[2];
  require_ok(end.node().trecv(second, kSize, kSecondTag, 0, &contexts[1]), "fi_trecv");
  require_ok(end.node().trecv(first, kSize, kFirstTag, 0, &contexts[0]), "fi_trecv");
  control.say("posted");
  for (int i = 0; i < 2; ++i) require(end.node().rx().wait().ok(), "a tagged message");
  require(first.holds_pattern(kFirstTag, kSize), "the first tag's message is not in its buffer");
  require(second.holds_pattern(kSecondTag, kSize), "the second tag's message is not in its buffer");
}

void data(const Target& target, Control& control) {
  End end(target, control, End::Side::kServer, with_remote_data);
  Buffer in(end.fabric(), kSize);
  Context context;
  require_ok(end.node().recv(in, kSize, &context), "fi_recv");
  control.say("posted");
  const Completion arrival = end.node().rx().wait();
  require(arrival.ok() && (arrival.entry.flags & FI_REMOTE_CQ_DATA) != 0, "FI_REMOTE_CQ_DATA");
  require(arrival.entry.data == kData, "the data is " + std::to_string(arrival.entry.data));
  control.expect("seen");
}

// Offers memory to the client, and checks what the client has written when it says so, without a call in between.
void memory(const Target& target, Control& control) {
  End end(target, control, End::Side::kServer, kRma);
  Buffer region(end.fabric(), kRegion, 0, FI_REMOTE_READ | FI_REMOTE_WRITE);
  region.fill_pattern(1);
  control.say(std::to_string(region.remote_address()) + " " + std::to_string(region.key()));
  control.expect("written");
  require(region.holds_pattern(2, kRegion), "the memory does not have the bytes that were written");
}

void shut_down(const Target& target, Control& control) {
  End end(target, control, End::Side::kServer, kPlain);
  control.expect("ready");
  require_ok(fi_shutdown(end.node().ep(), 0), "fi_shutdown");
  control.expect("seen");
}

void see_shutdown(const Target& target, Control& control) {
  End end(target, control, End::Side::kServer, kPlain);
  control.say("ready");
  end.node().eq().expect(FI_SHUTDOWN, end.node().fid());
}

void die(const Target& target, Control& control) {
  const End end(target, control, End::Side::kServer, kPlain);
  control.expect("ready");
  kill(getpid(), SIGKILL);
}

// Counts datagrams until the client has seen one; some may be lost.
void datagrams(const Target& target, Control& control) {
  End end(target, control, End::Side::kServer, kPlain);
  Buffer in(end.fabric(), kSize);
  Context context;
  require_ok(end.node().recv(in, kSize, &context), "fi_recv");
  control.say("posted");
  end.expect_pattern(in, kSize, 5);
}

}  // namespace

void play(const std::string& part, const Target& target, Control& control) {
  static const std::map<std::string, Part> parts{{"private_data", private_data},
                                                 {"reject", reject},
                                                 {"refuse", refuse},
                                                 {"messages", messages},
                                                 {"stream", stream},
                                                 {"tags", tags},
                                                 {"data", data},
                                                 {"memory", memory},
                                                 {"shut_down", shut_down},
                                                 {"see_shutdown", see_shutdown},
                                                 {"die", die},
                                                 {"datagrams", datagrams}};
  const auto found = parts.find(part);
  require(found != parts.end(), "no part " + part);
  found->second(target, control);
}

}  // namespace two_hosts
