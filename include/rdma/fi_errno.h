// SPDX-License-Identifier: BSD-2-Clause
//
// Error codes of the fabric interfaces: fi_errno(3).
//
// A call reports failure by returning the negated code (-FI_EAGAIN). Error entries read with
// fi_eq_readerr and fi_cq_readerr carry the positive code in `err`. Codes below FI_ERRNO_OFFSET are
// the platform's errno values, which strerror(3) supports, too; the rest are fabric-specific and
// need fi_strerror.

#ifndef FI_ERRNO_H
#define FI_ERRNO_H

#include <errno.h>

#ifdef __cplusplus
extern "C" {
#endif

#define FI_SUCCESS 0

// Codes shared with errno(3).
#define FI_EPERM EPERM                  // not permitted
#define FI_ENOENT ENOENT                // no such file, name or entry
#define FI_EINTR EINTR                  // interrupted by a signal
#define FI_EIO EIO                      // input/output failure
#define FI_E2BIG E2BIG                  // argument list too long
#define FI_EBADF EBADF                  // bad descriptor or handle
#define FI_EAGAIN EAGAIN                // back-pressure or nothing to read: progress, then retry
#define FI_ENOMEM ENOMEM                // out of memory
#define FI_EACCES EACCES                // permission denied
#define FI_EFAULT EFAULT                // bad address
#define FI_EBUSY EBUSY                  // object still in use by its children
#define FI_ENODEV ENODEV                // no such device or provider
#define FI_EINVAL EINVAL                // invalid argument
#define FI_EMFILE EMFILE                // too many open files
#define FI_ENOSPC ENOSPC                // no space left
#define FI_ENOSYS ENOSYS                // call not implemented by this object
#define FI_EWOULDBLOCK EWOULDBLOCK      // same value as FI_EAGAIN on Linux
#define FI_ENOMSG ENOMSG                // no message matches (FI_PEEK, FI_CLAIM)
#define FI_ENODATA ENODATA              // nothing matches, or value not set
#define FI_EPROTO EPROTO                // protocol violation
#define FI_EOVERFLOW EOVERFLOW          // value too large for its type
#define FI_EMSGSIZE EMSGSIZE            // message longer than the limit
#define FI_ENOPROTOOPT ENOPROTOOPT      // option unknown to this object
#define FI_EOPNOTSUPP EOPNOTSUPP        // operation or attribute not supported
#define FI_EADDRINUSE EADDRINUSE        // address taken
#define FI_EADDRNOTAVAIL EADDRNOTAVAIL  // address not usable here
#define FI_ENETDOWN ENETDOWN            // network is down
#define FI_ENETUNREACH ENETUNREACH      // no route to the network
#define FI_ECONNABORTED ECONNABORTED    // connection aborted locally
#define FI_ECONNRESET ECONNRESET        // connection reset by the peer
#define FI_ENOBUFS ENOBUFS              // no buffer space
#define FI_EISCONN EISCONN              // already connected
#define FI_ENOTCONN ENOTCONN            // not connected
#define FI_ESHUTDOWN ESHUTDOWN          // endpoint has been shut down
#define FI_ETIMEDOUT ETIMEDOUT          // deadline passed
#define FI_ECONNREFUSED ECONNREFUSED    // peer refused or rejected
#define FI_EHOSTDOWN EHOSTDOWN          // host is down
#define FI_EHOSTUNREACH EHOSTUNREACH    // no route to the host
#define FI_EALREADY EALREADY            // already under way
#define FI_EINPROGRESS EINPROGRESS      // now under way
#define FI_EREMOTEIO EREMOTEIO          // failure at the remote side
#define FI_ECANCELED ECANCELED          // cancelled (fi_cancel, close, shutdown)
#define FI_EKEYREJECTED EKEYREJECTED    // remote key refused

// First fabric-specific code.
#define FI_ERRNO_OFFSET 256

enum {
  FI_EOTHER = FI_ERRNO_OFFSET,  // unspecified
  FI_ETOOSMALL = 257,           // caller's buffer too small; the size needed is reported
  FI_EOPBADSTATE = 258,         // not allowed in the object's present state
  FI_EAVAIL = 259,              // an error entry is next: call fi_eq_readerr / fi_cq_readerr
  FI_EBADFLAGS = 260,           // unsupported or reserved flags
  FI_ENOEQ = 261,               // no event queue bound
  FI_EDOMAIN = 262,             // object belongs to another domain
  FI_ENOCQ = 263,               // no completion queue or counter bound
  FI_ECRC = 264,                // checksum mismatch
  FI_ETRUNC = 265,              // message cut to the receive buffer
  FI_ENOKEY = 266,              // required authorisation or memory key missing
  FI_ENOAV = 267,               // no address vector bound
  FI_EOVERRUN = 268,            // queue overran, entries were lost
  FI_ENORX = 269,               // receiver had no buffer posted
  FI_ENOMR = 270,               // no memory registration left or bound
  FI_EFIREWALLADDR = 271,       // no connection to a peer that a firewall hides (FI_FIREWALL_ADDR)
  FI_ERRNO_MAX                  // one past the last code
};

// fi_strerror: text of an error code; fi_errno(3).
//   errnum  positive or negative code.
// Returns a constant string owned by the library, never NULL; unknown codes get a general text.
// Thread-safe. Codes in `prov_errno` belong to fi_eq_strerror / fi_cq_strerror instead.
const char* fi_strerror(int errnum);

#ifdef __cplusplus
}
#endif

#endif  // FI_ERRNO_H
