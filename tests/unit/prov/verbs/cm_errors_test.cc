// SPDX-License-Identifier: BSD-2-Clause
// Every row of the table of connection failures: its number, its sentence, whether another try is worth it, and that
// docs/providers/verbs.md has it.
#include "verbs/cm_errors.h"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>

namespace weft::verbs {
namespace {

struct Row {
  rdma_cm_event_type event;
  int status;
  int error;
  bool again;
};
constexpr auto kAddress = RDMA_CM_EVENT_ADDR_ERROR;
constexpr auto kRoute = RDMA_CM_EVENT_ROUTE_ERROR;
constexpr auto kConnect = RDMA_CM_EVENT_CONNECT_ERROR;
constexpr auto kUnreachable = RDMA_CM_EVENT_UNREACHABLE;
constexpr auto kRejected = RDMA_CM_EVENT_REJECTED;
constexpr Row kRows[] = {
    {kAddress, -ETIMEDOUT, FI_EHOSTUNREACH, true},
    {kAddress, -EHOSTUNREACH, FI_EHOSTUNREACH, true},
    {kAddress, -ENETUNREACH, FI_ENETUNREACH, false},
    {kAddress, -ENODEV, FI_ENODEV, false},
    {kAddress, -EADDRNOTAVAIL, FI_EADDRNOTAVAIL, false},
    {kAddress, -EINVAL, FI_EINVAL, false},
    {kAddress, -ENOBUFS, FI_ENOBUFS, false},
    {kRoute, -ETIMEDOUT, FI_ETIMEDOUT, true},
    {kRoute, -EHOSTUNREACH, FI_EHOSTUNREACH, true},
    {kRoute, -EINVAL, FI_EHOSTUNREACH, false},
    {kRoute, -ENODEV, FI_ENODEV, true},
    {kRoute, -ENOMEM, FI_ENOMEM, false},
    {kUnreachable, -ETIMEDOUT, FI_EHOSTUNREACH, true},
    {kUnreachable, -ECONNRESET, FI_EHOSTUNREACH, true},
    {kConnect, -ETIMEDOUT, FI_ETIMEDOUT, true},
    {kConnect, -ECONNREFUSED, FI_ECONNREFUSED, false},
    {kConnect, -ECONNRESET, FI_ECONNRESET, false},
    {kConnect, -EINVAL, FI_EOTHER, false},
    {kConnect, -ENOMEM, FI_ENOMEM, false},
    {kRejected, 1, FI_EREMOTEIO, true},
    {kRejected, 2, FI_EREMOTEIO, false},
    {kRejected, 3, FI_ENOBUFS, true},
    {kRejected, 4, FI_ECONNABORTED, true},
    {kRejected, 5, FI_EOPNOTSUPP, false},
    {kRejected, 6, FI_EREMOTEIO, true},
    {kRejected, 7, FI_EREMOTEIO, true},
    {kRejected, 8, FI_ECONNREFUSED, false},
    {kRejected, 9, FI_ENOPROTOOPT, false},
    {kRejected, 10, FI_EADDRINUSE, true},
    {kRejected, 11, FI_EREMOTEIO, false},
    {kRejected, 12, FI_EADDRNOTAVAIL, false},
    {kRejected, 13, FI_EADDRNOTAVAIL, false},
    {kRejected, 14, FI_EINVAL, false},
    {kRejected, 15, FI_EINVAL, false},
    {kRejected, 16, FI_EINVAL, false},
    {kRejected, 17, FI_EINVAL, false},
    {kRejected, 24, FI_EHOSTUNREACH, false},
    {kRejected, 25, FI_EHOSTUNREACH, false},
    {kRejected, 26, FI_EMSGSIZE, false},
    {kRejected, 27, FI_ENOSPC, false},
    {kRejected, 28, FI_ECONNREFUSED, false},
    {kRejected, 29, FI_EINVAL, false},
    {kRejected, 30, FI_EALREADY, true},
    {kRejected, 31, FI_ENOPROTOOPT, false},
    {kRejected, 32, FI_EINVAL, false},
    {kRejected, 99, FI_ECONNREFUSED, false},
    {kRejected, -ECONNREFUSED, FI_ECONNREFUSED, false},
    {kRejected, -ECONNRESET, FI_ECONNRESET, false},
    {kRejected, -ETIMEDOUT, FI_ETIMEDOUT, true},
    {kRejected, -EPROTO, FI_EREMOTEIO, false},
    {RDMA_CM_EVENT_DEVICE_REMOVAL, 0, FI_ENODEV, false},
    {RDMA_CM_EVENT_ADDR_CHANGE, 0, FI_EADDRNOTAVAIL, true},
    {RDMA_CM_EVENT_DISCONNECTED, 0, FI_ECONNRESET, false},
};
constexpr int kCalls[] = {ENOMEM,       ENOSPC, EADDRINUSE, EADDRNOTAVAIL, ENODEV, ENETUNREACH,
                          EHOSTUNREACH, EACCES, EPERM,      EMFILE,        EINVAL};

CmFailure failure_of(const Row& row) {
  return explain(CmPhase::kRequest, row.event, row.status);
}

std::string document() {
  std::ifstream file(WEFT_VERBS_DOCUMENT);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

TEST(CmErrors, EveryRow) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(std::string(rdma_event_str(row.event)) + " " + std::to_string(row.status));
    const CmFailure failure = failure_of(row);
    EXPECT_EQ(failure.error, row.error);
    EXPECT_EQ(failure.native, -row.status);
    EXPECT_EQ(failure.again, row.again);
    EXPECT_STRNE(failure.reason, "");
  }
}

TEST(CmErrors, SentencesTellTheRowsOfAnEventApart) {
  std::set<std::pair<int, std::string>> seen;
  for (const Row& row : kRows) {
    const CmFailure failure = failure_of(row);
    if (row.event == kUnreachable) continue;  // the kernel has but one reason there
    EXPECT_TRUE(seen.emplace(row.event, failure.reason).second) << failure.reason;
  }
}

// No status leads to success, to a negative number or to no sentence.
TEST(CmErrors, EveryStatusHasAnAnswer) {
  for (rdma_cm_event_type event : {kAddress, kRoute, kConnect, kUnreachable, kRejected, RDMA_CM_EVENT_DEVICE_REMOVAL,
                                   RDMA_CM_EVENT_ADDR_CHANGE, RDMA_CM_EVENT_DISCONNECTED})
    for (int status = -200; status <= 100; ++status) {
      const CmFailure failure = explain(CmPhase::kRequest, event, status);
      EXPECT_GT(failure.error, 0) << rdma_event_str(event) << " " << status;
      EXPECT_STRNE(failure.reason, "");
    }
}

TEST(CmErrors, FailedCallsKeepTheirNumber) {
  for (int error : kCalls) {
    const CmFailure failure = explain_errno(CmPhase::kAddress, error);
    EXPECT_EQ(failure.native, error);
    EXPECT_EQ(failure.error, error == EPERM ? EPERM : error);
    EXPECT_STRNE(failure.reason, "");
  }
}

TEST(CmErrors, HandshakeThatThePeerEndedIsNoWrongArgument) {
  for (CmPhase phase : {CmPhase::kRequest, CmPhase::kAnswer}) {
    EXPECT_EQ(explain_errno(phase, EINVAL).error, FI_ECONNABORTED);
    EXPECT_NE(document().find(explain_errno(phase, EINVAL).reason), std::string::npos);
  }
  EXPECT_EQ(explain_errno(CmPhase::kAddress, EINVAL).error, FI_EINVAL);
}

TEST(CmErrors, EveryRowIsInTheDocument) {
  const std::string text = document();
  ASSERT_FALSE(text.empty()) << WEFT_VERBS_DOCUMENT;
  const auto has = [&](const char* sentence) { return text.find(sentence) != std::string::npos; };
  for (const Row& row : kRows) EXPECT_TRUE(has(failure_of(row).reason)) << failure_of(row).reason;
  for (int error : kCalls) {
    const char* reason = explain_errno(CmPhase::kAddress, error).reason;
    EXPECT_TRUE(has(reason)) << reason;
  }
  for (int phase = 0; phase <= static_cast<int>(CmPhase::kListen); ++phase)
    EXPECT_TRUE(has(phase_name(static_cast<CmPhase>(phase)))) << phase_name(static_cast<CmPhase>(phase));
}

}  // namespace
}  // namespace weft::verbs
