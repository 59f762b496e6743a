// SPDX-License-Identifier: BSD-2-Clause
// WEFT_THREAD_SANITIZER is defined in builds with ThreadSanitizer, of either compiler.
#pragma once

#if defined(__SANITIZE_THREAD__)
#define WEFT_THREAD_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define WEFT_THREAD_SANITIZER 1
#endif
#endif
