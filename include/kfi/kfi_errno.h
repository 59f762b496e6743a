// SPDX-License-Identifier: BSD-2-Clause
//
// Error codes of kfabric. Calls return them negated; error entries have the positive code. Codes below 256 are errno's,
// and all are equal to those of <rdma/fi_errno.h>.
#ifndef KFI_ERRNO_H
#define KFI_ERRNO_H

#include <errno.h>

#ifdef __cplusplus
extern "C" {
#endif

#define KFI_SUCCESS 0

#define KFI_ENOENT ENOENT
#define KFI_EIO EIO
#define KFI_E2BIG E2BIG
#define KFI_EBADF EBADF
#define KFI_EAGAIN EAGAIN
#define KFI_ENOMEM ENOMEM
#define KFI_EACCES EACCES
#define KFI_EBUSY EBUSY
#define KFI_ENODEV ENODEV
#define KFI_EINVAL EINVAL
#define KFI_EMFILE EMFILE
#define KFI_ENOSPC ENOSPC
#define KFI_ENOSYS ENOSYS
#define KFI_ENOMSG ENOMSG
#define KFI_ENODATA ENODATA
#define KFI_EMSGSIZE EMSGSIZE
#define KFI_ENOPROTOOPT ENOPROTOOPT
#define KFI_EOPNOTSUPP EOPNOTSUPP
#define KFI_EADDRINUSE EADDRINUSE
#define KFI_EADDRNOTAVAIL EADDRNOTAVAIL
#define KFI_ENETDOWN ENETDOWN
#define KFI_ENETUNREACH ENETUNREACH
#define KFI_ECONNABORTED ECONNABORTED
#define KFI_ECONNRESET ECONNRESET
#define KFI_EISCONN EISCONN
#define KFI_ENOTCONN ENOTCONN
#define KFI_ESHUTDOWN ESHUTDOWN
#define KFI_ETIMEDOUT ETIMEDOUT
#define KFI_ECONNREFUSED ECONNREFUSED
#define KFI_EHOSTUNREACH EHOSTUNREACH
#define KFI_EALREADY EALREADY
#define KFI_EINPROGRESS EINPROGRESS
#define KFI_EREMOTEIO EREMOTEIO
#define KFI_ECANCELED ECANCELED
#define KFI_EKEYREJECTED EKEYREJECTED

#define KFI_ERRNO_OFFSET 256
enum {
  KFI_EOTHER = KFI_ERRNO_OFFSET,
  KFI_ETOOSMALL = 257,
  KFI_EOPBADSTATE = 258,
  KFI_EAVAIL = 259,
  KFI_EBADFLAGS = 260,
  KFI_ENOEQ = 261,
  KFI_EDOMAIN = 262,
  KFI_ENOCQ = 263,
  KFI_ECRC = 264,
  KFI_ETRUNC = 265,
  KFI_ENOKEY = 266,
  KFI_ENOAV = 267,
  KFI_EOVERRUN = 268
};

// kfi_strerror: text of a positive or negative code. The kernel gives a number for codes below 256.
const char* kfi_strerror(int errnum);

#ifdef __cplusplus
}
#endif

#endif  // KFI_ERRNO_H
