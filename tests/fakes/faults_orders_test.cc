// SPDX-License-Identifier: BSD-2-Clause
// Concurrent actions in every order: the calls of two applications and the events of their identifiers, each sequence
// in its own order. The orders are enumerated by running the scenario again with other choices.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <thread>

#include "fake_rdma.h"
#include "two_ends.h"

namespace faults_orders_test {

namespace {

// The choices of one run; next() advances to the following run.
class Choices {
 public:
  size_t pick(size_t options) {
    if (at_ == taken_.size()) taken_.push_back({0, options});
    taken_[at_].second = options;  // timers may have changed the options
    taken_[at_].first = std::min(taken_[at_].first, options - 1);
    return taken_[at_++].first;
  }
  bool next() {
    taken_.resize(at_);
    at_ = 0;
    while (!taken_.empty() && taken_.back().first + 1 >= taken_.back().second) taken_.pop_back();
    if (taken_.empty()) return false;
    ++taken_.back().first;
    return true;
  }
  std::string text() const {
    std::string result;
    for (const auto& [choice, options] : taken_) result += std::to_string(choice) + "/" + std::to_string(options) + " ";
    return result;
  }

 private:
  std::vector<std::pair<size_t, size_t>> taken_;
  size_t at_ = 0;
};

constexpr int kShortTimeoutMs = 20;

using Action = std::function<void(ends::TwoEnds&)>;
struct Race {
  const char* name;
  bool connected;                            // true: starts connected; false: with a pending request
  std::vector<std::vector<Action>> threads;  // each a sequence
  int connect_timeout_ms = 5000;
};

// The first held event of each identifier: these are the candidates for delivery.
std::vector<size_t> deliverable() {
  std::vector<size_t> first;
  const auto held = fake::held();
  for (size_t i = 0; i < held.size(); ++i) {
    const auto same = [&](size_t other) { return held[other].id == held[i].id; };
    if (std::none_of(first.begin(), first.end(), same)) first.push_back(i);
  }
  return first;
}

std::string run(const Race& race, Choices& choices) {
  fake::reset();
  fake::set_timing(
      {.request_timeout = 100000, .disconnect_timeout = 100000, .timewait = 100000, .retries_exceeded = 30});
  ends::TwoEnds both({.connect_timeout_ms = race.connect_timeout_ms});
  if (!both.open()) return "not opened";
  const auto established = [&] { return both.client.established() && both.server.established(); };
  both.answer_requests = race.connected;
  if (!race.connected) fake::hold();
  if (!both.connect()) return "not connected";
  if (race.connected) {
    if (!both.wait(established)) return "not established";
    fake::hold();
  }
  std::vector<size_t> done(race.threads.size());
  for (;;) {
    std::vector<size_t> runnable;
    for (size_t i = 0; i < done.size(); ++i)
      if (done[i] < race.threads[i].size()) runnable.push_back(i);
    const std::vector<size_t> events = deliverable();
    if (runnable.empty() && events.empty()) break;
    const size_t choice = choices.pick(runnable.size() + events.size());
    if (choice < runnable.size())
      race.threads[runnable[choice]][done[runnable[choice]]++](both);
    else
      fake::deliver(events[choice - runnable.size()]);
    for (int i = 0; i < 3; ++i) both.poll();
  }
  fake::deliver_all();
  both.answer_requests = true;
  if (!both.wait([&] { return both.quiet() || established(); }, 700)) both.client.close_endpoint(both);
  if (both.client.established() && !both.client.closed) both.client.close_endpoint(both);
  both.expect_ended();
  both.close();
  return both.verdict();
}

void client_shutdown(ends::TwoEnds& both) {
  if (both.client.established()) fi_shutdown(both.client.ep, 0);
}
void server_shutdown(ends::TwoEnds& both) {
  if (both.server.established()) fi_shutdown(both.server.ep, 0);
}
void client_close(ends::TwoEnds& both) {
  both.client.close_endpoint(both);
}
void server_close(ends::TwoEnds& both) {
  both.server.close_endpoint(both);
}
void client_send(ends::TwoEnds& both) {
  if (both.client.established()) both.client.post_send();
}
void server_send(ends::TwoEnds& both) {
  if (both.server.established()) both.server.post_send();
}
void accept_request(ends::TwoEnds& both) {
  both.answer_requests = true;
}
void reject_request(ends::TwoEnds& both) {
  if (both.requests.empty()) return;
  fi_reject(both.listener, both.requests.front()->handle, "no", 2);
  fi_freeinfo(both.requests.front());
  both.requests.clear();
}
void deadline_pass(ends::TwoEnds& both) {
  std::this_thread::sleep_for(std::chrono::milliseconds(kShortTimeoutMs));
  both.poll();
}
void listener_close(ends::TwoEnds& both) {
  both.close_listener();
}

}  // namespace

class FaultsOrders : public testing::TestWithParam<Race> {};

TEST_P(FaultsOrders, AllOrders) {
  constexpr int kMost = 4000;
  Choices choices;
  int runs = 0;
  do {
    const std::string verdict = run(GetParam(), choices);
    EXPECT_EQ(verdict, "") << "choices " << choices.text();
    if (HasFailure()) break;
  } while (++runs < kMost && choices.next());
  fake::reset();
  EXPECT_GT(runs, 1);
  std::printf("%d orders\n", runs);
}

INSTANTIATE_TEST_SUITE_P(
    , FaultsOrders,
    testing::Values(Race{"both_shut_down", true, {{client_send, client_shutdown}, {server_send, server_shutdown}}},
                    Race{"both_close", true, {{client_send, client_close}, {server_send, server_close}}},
                    Race{"shutdown_and_close", true, {{client_shutdown, client_close}, {server_send, server_close}}},
                    Race{"accept_and_close", false, {{client_close}, {accept_request}}},
                    Race{"accept_and_close_both", false, {{client_close}, {accept_request, server_close}}},
                    Race{"reject_and_close", false, {{client_close}, {reject_request}}},
                    Race{"accept_and_deadline", false, {{deadline_pass}, {accept_request}}, kShortTimeoutMs},
                    Race{"reject_and_deadline", false, {{deadline_pass}, {reject_request}}, kShortTimeoutMs},
                    Race{"listener_closes", false, {{listener_close}, {client_close}}},
                    Race{"accept_and_listener_closes", false, {{accept_request, server_shutdown}, {listener_close}}}),
    [](const auto& param) { return std::string(param.param.name); });

}  // namespace faults_orders_test
