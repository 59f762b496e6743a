// SPDX-License-Identifier: BSD-2-Clause
// The messages between the server of the slides and its clients.
#ifndef KFI_TESTS_TEXTS_H
#define KFI_TESTS_TEXTS_H

static const char kHello[] = "hello, server";
static const char kWelcome[] = "welcome";
static const char kRequest[] = "what is the answer?";
static const char kAnswer[] = "forty-two";
static const char kThanks[] = "thanks";

#endif  // KFI_TESTS_TEXTS_H
