// SPDX-License-Identifier: BSD-2-Clause
// The objects of examples about connections: two connected endpoints of one process, over tcp.
#include "connected_pair.h"
#include "page_objects.h"

struct fi_info* info;
struct fid_fabric* fabric;
struct fid_domain* domain;
struct fid_eq* eq;
struct fid_cq* cq;
struct fid_ep *ep, *peer_ep;
struct fid_pep* pep;

static struct connected_pair pair;

void open_objects(void) {
  open_pair(&pair, FI_MSG);
  info = pair.info;
  fabric = pair.fabric;
  domain = pair.domain;
  eq = pair.eq;
  cq = pair.cq;
  ep = pair.ep[0];
  peer_ep = pair.ep[1];
  pep = pair.listener;
}

void close_objects(void) {
  close_pair(&pair);
}
