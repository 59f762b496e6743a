// SPDX-License-Identifier: BSD-2-Clause
// Every public header of either library, for the layout tests. 1.17 has no fi_profile.h and keeps the peer structures
// in fi_ext.h.
#include <rdma/fabric.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_collective.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_ext.h>
#include <rdma/fi_rma.h>
#include <rdma/fi_tagged.h>
#include <rdma/fi_trigger.h>
#include <rdma/providers/fi_log.h>
#include <rdma/providers/fi_prov.h>
#if __has_include(<rdma/fi_profile.h>)
#include <rdma/fi_profile.h>
#endif
#if __has_include(<rdma/fi_xpu.h>)
#include <rdma/fi_xpu.h>
#include <rdma/fi_xpu_device.h>
#endif
#if __has_include(<rdma/providers/fi_peer.h>)
#include <rdma/providers/fi_peer.h>
#endif
