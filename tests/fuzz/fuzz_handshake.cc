// SPDX-License-Identifier: BSD-2-Clause
// Connection messages with arbitrary bytes, to a listener and to an endpoint that is connecting; spec:
// prov/tcp/connection/cm_message.h. No input may crash, leak a descriptor or prevent a close.
#include "wire_target.h"

using namespace weft;
using namespace weft::fuzz;

namespace {

// The application connects, the peer answers with the input.
void answer(Input& input, Application& application) {
  UniqueFd listener(tcp::net::open_stream(AF_INET));
  sockaddr_in name{};
  name.sin_family = AF_INET;
  socklen_t len = sizeof name;
  (void)tcp::net::bind(listener.get(), reinterpret_cast<sockaddr*>(&name), len);
  (void)tcp::net::listen(listener.get(), 1);
  (void)tcp::net::getsockname(listener.get(), reinterpret_cast<sockaddr*>(&name), &len);
  application.open_endpoint(application.info.get());
  WEFT_FUZZ_CHECK(fi_connect(application.ep, &name, "hello", 5) == 0);
  UniqueFd peer(tcp::net::accept(listener.get(), nullptr, nullptr));
  InfoPtr none;
  int reports = 0;
  while (!input.empty()) {
    say(input, peer.get());
    const int event = application.next_event(none);
    reports += event == -1 || event == FI_CONNECTED;
  }
  peer.reset();
  for (int i = 0; i < 20; ++i) {
    const int event = application.next_event(none);
    reports += event == -1 || event == FI_CONNECTED;
  }
  WEFT_FUZZ_CHECK(reports == 1);
}

// The peer connects with the input; a valid request is accepted or rejected.
void ask(Input& input, Application& application) {
  const bool accept = input.take_flag();
  UniqueFd peer = application.connected_socket();
  InfoPtr request;
  while (!input.empty()) {
    say(input, peer.get());
    if (application.next_event(request) != FI_CONNREQ) continue;
    if (accept && application.ep == nullptr) {
      application.open_endpoint(request.get());
      WEFT_FUZZ_CHECK(fi_accept(application.ep, "yes", 3) == 0);
    } else {
      WEFT_FUZZ_CHECK(fi_reject(application.pep, request->handle, "no", 2) == 0);
    }
  }
  peer.reset();
  for (int i = 0; i < 20; ++i) application.next_event(request);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  Input input(data, size);
  tcp::sim::reset({});
  {
    Application application;
    if (input.take_flag())
      answer(input, application);
    else
      ask(input, application);
  }
  WEFT_FUZZ_CHECK(tcp::sim::open_sockets() == 0);
  return 0;
}
