// SPDX-License-Identifier: BSD-2-Clause
//
// Empty: programs include it for a provider that replaces calls of the headers, and none does.
#ifndef KFI_DIRECT_H
#define KFI_DIRECT_H

#endif  // KFI_DIRECT_H
