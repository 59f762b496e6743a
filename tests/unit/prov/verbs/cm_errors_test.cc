// SPDX-License-Identifier: BSD-2-Clause
// Every row of the table of connection failures has its error, its sentence and its retry rule, and is in
// docs/providers/verbs-errors.md.
#include "verbs/cm/cm_errors.h"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <fstream>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "cm_error_rows.h"

namespace weft::verbs {
namespace {

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

TEST(CmErrors, EveryRowHasItsErrorAndSentence) {
  for (const Row& row : kRows) {
    SCOPED_TRACE(std::string(rdma_event_str(row.event)) + " " + std::to_string(row.status));
    const CmFailure failure = failure_of(row);
    EXPECT_EQ(failure.error, row.error);
    EXPECT_EQ(failure.native, -row.status);
    EXPECT_EQ(failure.retryable, row.retryable);
    EXPECT_STRNE(failure.reason, "");
  }
}

TEST(CmErrors, SentencesOfAnEventDiffer) {
  std::set<std::pair<int, std::string>> seen;
  for (const Row& row : kRows) {
    const CmFailure failure = failure_of(row);
    if (row.event == kUnreachable) continue;  // one sentence serves both statuses
    EXPECT_TRUE(seen.emplace(row.event, failure.reason).second) << failure.reason;
  }
}

// No status yields success, a negative error or an empty sentence.
TEST(CmErrors, EveryStatusHasAnErrorAndASentence) {
  for (rdma_cm_event_type event : {kAddress, kRoute, kConnect, kUnreachable, kRejected, RDMA_CM_EVENT_DEVICE_REMOVAL,
                                   RDMA_CM_EVENT_ADDR_CHANGE, RDMA_CM_EVENT_DISCONNECTED})
    for (int status = -200; status <= 100; ++status) {
      const CmFailure failure = explain(CmPhase::kRequest, event, status);
      EXPECT_GT(failure.error, 0) << rdma_event_str(event) << " " << status;
      EXPECT_STRNE(failure.reason, "");
    }
}

TEST(CmErrors, FailedCallsKeepTheirErrno) {
  for (int error : kCalls) {
    const CmFailure failure = explain_errno(CmPhase::kAddress, error);
    EXPECT_EQ(failure.native, error);
    EXPECT_EQ(failure.error, error == EPERM ? EPERM : error);
    EXPECT_STRNE(failure.reason, "");
  }
}

TEST(CmErrors, HandshakeEndedByThePeerIsConnectionAborted) {
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
