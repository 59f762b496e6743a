// SPDX-License-Identifier: BSD-2-Clause
// Structures as indented text, as `fi_info -v` prints them; fi_fabric(3) fi_tostr. Each function appends whole lines at
// a depth (4 blanks each). Absent structures appear as "(null)".
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_eq.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace weft::core {

void append_info(std::string& text, const fi_info& info);
void append(std::string& text, const fi_tx_attr* attr, int depth);
void append(std::string& text, const fi_rx_attr* attr, int depth);
void append(std::string& text, const fi_ep_attr* attr, int depth);
void append(std::string& text, const fi_domain_attr* attr, int depth);
void append(std::string& text, const fi_fabric_attr* attr, int depth);
void append(std::string& text, const fid_nic* nic, int depth);

void append_fid(std::string& text, const fid& fid);
void append(std::string& text, const fi_av_attr& attr);
void append(std::string& text, const fi_cq_attr& attr);
void append(std::string& text, const fi_mr_attr& attr);
void append(std::string& text, const fi_cntr_attr& attr);
void append(std::string& text, const fi_cq_err_entry& entry);

// The text of an address in `format`; "(null)" for NULL, empty for a format without a text. Reads at most `size` bytes
// and returns "(truncated)" if the format needs more.
std::string address_text(uint32_t format, const void* address, std::size_t size);

}  // namespace weft::core
