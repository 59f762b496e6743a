// SPDX-License-Identifier: BSD-2-Clause
// The objects around the examples of the manual pages, as fi_setup(7) opens them. An example uses those that it needs.
#pragma once

#include "page.h"

extern struct fi_info* info;
extern struct fid_fabric* fabric;
extern struct fid_domain* domain;
extern struct fid_eq* eq;
extern struct fid_cq* cq;
extern struct fid_av* av;       // page_objects_reliable.c
extern struct fid_ep* ep;       // reliable datagrams: sends to itself; connected: the end that called fi_connect
extern fi_addr_t self;          // page_objects_reliable.c: the address of `ep`
extern struct fid_ep* peer_ep;  // page_objects_connected.c: the end that called fi_accept
extern struct fid_pep* pep;     // page_objects_connected.c: the listener

void open_objects(void);
void close_objects(void);
