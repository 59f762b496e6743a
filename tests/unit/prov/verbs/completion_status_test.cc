// SPDX-License-Identifier: BSD-2-Clause
// Every status of a work completion has an error of its kind and a sentence.
#include "verbs/transfer/completion_status.h"

#include <gtest/gtest.h>
#include <rdma/fi_errno.h>

#include <cerrno>
#include <fstream>
#include <iterator>
#include <set>
#include <string>

namespace weft::verbs {
namespace {

TEST(CompletionStatus, ErrorsTellApartWhatApplicationsHandle) {
  const struct {
    ibv_wc_status status;
    int sent, received;
  } rows[] = {
      {IBV_WC_SUCCESS, 0, 0},
      {IBV_WC_LOC_LEN_ERR, FI_EMSGSIZE, FI_ETRUNC},
      {IBV_WC_LOC_QP_OP_ERR, FI_EINVAL, FI_EINVAL},
      {IBV_WC_LOC_PROT_ERR, FI_EFAULT, FI_EFAULT},
      {IBV_WC_WR_FLUSH_ERR, FI_ECANCELED, FI_ECANCELED},
      {IBV_WC_BAD_RESP_ERR, EPROTO, EPROTO},
      {IBV_WC_LOC_ACCESS_ERR, FI_EACCES, FI_EACCES},
      {IBV_WC_REM_INV_REQ_ERR, FI_EREMOTEIO, FI_EREMOTEIO},
      {IBV_WC_REM_ACCESS_ERR, FI_EACCES, FI_EACCES},
      {IBV_WC_REM_OP_ERR, FI_EREMOTEIO, FI_EREMOTEIO},
      {IBV_WC_RETRY_EXC_ERR, FI_ETIMEDOUT, FI_ETIMEDOUT},
      {IBV_WC_RNR_RETRY_EXC_ERR, FI_ENORX, FI_ENORX},
      {IBV_WC_REM_ABORT_ERR, FI_ECONNABORTED, FI_ECONNABORTED},
      {IBV_WC_FATAL_ERR, FI_EIO, FI_EIO},
      {IBV_WC_RESP_TIMEOUT_ERR, FI_ETIMEDOUT, FI_ETIMEDOUT},
      {IBV_WC_GENERAL_ERR, FI_EIO, FI_EIO},
  };
  for (const auto& row : rows) {
    EXPECT_EQ(from_wc_status(row.status, false), row.sent) << row.status;
    EXPECT_EQ(from_wc_status(row.status, true), row.received) << row.status;
  }
}

TEST(CompletionStatus, EveryFailureHasAnErrorAndASentenceOfItsOwn) {
  std::set<std::string> sentences;
  for (int status = IBV_WC_LOC_LEN_ERR; status <= IBV_WC_GENERAL_ERR; ++status) {
    EXPECT_GT(from_wc_status(static_cast<ibv_wc_status>(status), false), 0) << status;
    EXPECT_TRUE(sentences.insert(wc_status_sentence(status)).second) << status << " is not told apart";
  }
}

TEST(CompletionStatus, TheDocumentHasEverySentence) {
  std::ifstream file(WEFT_VERBS_DOCUMENT);
  const std::string document((std::istreambuf_iterator<char>(file)), std::istreambuf_iterator<char>());
  ASSERT_FALSE(document.empty());
  for (int status = IBV_WC_LOC_LEN_ERR; status <= IBV_WC_GENERAL_ERR; ++status)
    EXPECT_NE(document.find("| " + std::string(wc_status_sentence(status)) + " |"), std::string::npos)
        << wc_status_sentence(status);
}

TEST(CompletionStatus, UnknownStatusIsAnErrorToo) {
  EXPECT_EQ(from_wc_status(static_cast<ibv_wc_status>(9999), true), FI_EIO);
  EXPECT_STRNE(wc_status_sentence(9999), "");
  EXPECT_STRNE(wc_status_sentence(-1), "");
}

TEST(CompletionStatus, TextIsCutToTheCallersBuffer) {
  char room[12];
  const char* text = completion_error_text(IBV_WC_RETRY_EXC_ERR, nullptr, room, sizeof room);
  EXPECT_EQ(text, room);
  EXPECT_EQ(std::string(text), std::string(wc_status_sentence(IBV_WC_RETRY_EXC_ERR)).substr(0, sizeof room - 1));
  EXPECT_EQ(completion_error_text(IBV_WC_RETRY_EXC_ERR, nullptr, nullptr, 0), wc_status_sentence(IBV_WC_RETRY_EXC_ERR));
}

}  // namespace
}  // namespace weft::verbs
