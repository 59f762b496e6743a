// SPDX-License-Identifier: BSD-2-Clause
// A device as iWARP adapters are: no immediate data, atomics and datagrams, one buffer for a read, no larger completion
// queues; a message without a receive ends the connection. FAKE_RDMA_DEVICE=iwarp in the environment makes it the
// device that appears without add_device().
#pragma once

#include "fake_rdma.h"

namespace fake {

DeviceConfig iwarp_device();

}  // namespace fake
