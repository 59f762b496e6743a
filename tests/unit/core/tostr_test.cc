// SPDX-License-Identifier: BSD-2-Clause
// fi_tostr: the texts that scripts parse from `fi_info -v`; fi_fabric(3).
#include <arpa/inet.h>
#include <rdma/fi_atomic.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_trigger.h>

#include <thread>

#include "fake_provider.h"

namespace weft::core {
namespace {

template <class T>
std::string text(const T& value, fi_type type) {
  return fi_tostr(&value, type);
}

std::string lines_from(const std::string& whole, const std::string& start, std::size_t count) {
  std::size_t begin = whole.find(start);
  if (begin == std::string::npos) return "(no " + start + ")";
  begin = whole.rfind('\n', begin) + 1;
  std::size_t end = begin;
  while (count-- > 0) end = whole.find('\n', end) + 1;
  return whole.substr(begin, end - begin);
}

TEST(ToStr, EnumeratorsPrintTheirNames) {
  EXPECT_EQ(text(FI_EP_MSG, FI_TYPE_EP_TYPE), "FI_EP_MSG");
  EXPECT_EQ(text(FI_EP_SOCK_STREAM, FI_TYPE_EP_TYPE), "FI_EP_UNSPEC");
  EXPECT_EQ(text(uint32_t{FI_SOCKADDR_IN6}, FI_TYPE_ADDR_FORMAT), "FI_SOCKADDR_IN6");
  EXPECT_EQ(text(FI_THREAD_COMPLETION, FI_TYPE_THREADING), "FI_THREAD_COMPLETION");
  EXPECT_EQ(text(FI_PROGRESS_MANUAL, FI_TYPE_PROGRESS), "FI_PROGRESS_MANUAL");
  EXPECT_EQ(text(uint32_t{FI_PROTO_SOCK_TCP}, FI_TYPE_PROTOCOL), "FI_PROTO_SOCK_TCP");
  EXPECT_EQ(text(FI_AV_TABLE, FI_TYPE_AV_TYPE), "FI_AV_TABLE");
  EXPECT_EQ(text(FI_UINT128, FI_TYPE_ATOMIC_TYPE), "FI_UINT128");
  EXPECT_EQ(text(FI_BFLOAT16, FI_TYPE_ATOMIC_TYPE), "FI_BFLOAT16");
  EXPECT_EQ(text(FI_CSWAP_LE, FI_TYPE_ATOMIC_OP), "FI_CSWAP_LE");
  EXPECT_EQ(text(FI_DIFF, FI_TYPE_ATOMIC_OP), "FI_DIFF");
  EXPECT_EQ(text(uint32_t{FI_CONNREQ}, FI_TYPE_EQ_EVENT), "FI_CONNREQ");
  EXPECT_EQ(text(FI_OP_CNTR_ADD, FI_TYPE_OP_TYPE), "FI_OP_CNTR_ADD");
  EXPECT_EQ(text(FI_REDUCE_SCATTER, FI_TYPE_COLLECTIVE_OP), "FI_REDUCE_SCATTER");
  EXPECT_EQ(text(FI_HMEM_SYNAPSEAI, FI_TYPE_HMEM_IFACE), "FI_HMEM_SYNAPSEAI");
  EXPECT_EQ(text(FI_CQ_FORMAT_TAGGED, FI_TYPE_CQ_FORMAT), "FI_CQ_FORMAT_TAGGED");
  EXPECT_EQ(text(FI_CQ_COND_THRESHOLD, FI_TYPE_CQ_WAIT_COND), "FI_CQ_COND_THRESHOLD");
  EXPECT_EQ(text(FI_WAIT_POLLFD, FI_TYPE_WAIT_OBJ), "FI_WAIT_POLLFD");
  EXPECT_EQ(text(FI_LOG_TRACE, FI_TYPE_LOG_LEVEL), "trace");
  EXPECT_EQ(text(FI_LOG_EP_CTRL, FI_TYPE_LOG_SUBSYS), "ep_ctrl");
}

TEST(ToStr, ValuesWithoutANamePrintAsUnknown) {
  EXPECT_EQ(text(99, FI_TYPE_THREADING), "Unknown");
  EXPECT_EQ(text(uint32_t{FI_PROV_SPECIFIC | 1}, FI_TYPE_PROTOCOL), "Provider specific");
  EXPECT_EQ(text(uint32_t{FI_PROV_SPECIFIC | 1}, FI_TYPE_ADDR_FORMAT), "Provider specific");
  EXPECT_EQ(text(uint32_t{FI_PROV_SPECIFIC | 1}, FI_TYPE_EP_TYPE), "Unknown");
  EXPECT_EQ(text(0, static_cast<fi_type>(1000)), "Unknown type");
}

TEST(ToStr, BitsPrintTheirNames) {
  EXPECT_EQ(text(uint64_t{0}, FI_TYPE_CAPS), "");
  EXPECT_EQ(text(uint64_t{FI_HMEM | FI_MSG | FI_DIRECTED_RECV}, FI_TYPE_CAPS), "FI_MSG, FI_DIRECTED_RECV, FI_HMEM");
  EXPECT_EQ(text(uint64_t{FI_XPU | FI_HMEM | FI_PEER | FI_AV_USER_ID}, FI_TYPE_CAPS),
            "FI_AV_USER_ID, FI_PEER, FI_HMEM, FI_XPU");
  EXPECT_EQ(text(int{FI_MR_XPU_DESC | FI_MR_COLLECTIVE}, FI_TYPE_MR_MODE), "FI_MR_COLLECTIVE, FI_MR_XPU_DESC");
  EXPECT_EQ(text(uint64_t{FI_COMPLETION | FI_AFFINITY | FI_MATCH_COMPLETE}, FI_TYPE_OP_FLAGS),
            "FI_COMPLETION, FI_MATCH_COMPLETE, FI_AFFINITY");
  EXPECT_EQ(text(uint64_t{FI_ORDER_SAS | FI_ORDER_RMA_RAR}, FI_TYPE_MSG_ORDER), "FI_ORDER_SAS, FI_ORDER_RMA_RAR");
  EXPECT_EQ(text(uint64_t{FI_CONTEXT | FI_CONTEXT2}, FI_TYPE_MODE), "FI_CONTEXT, FI_CONTEXT2");
  EXPECT_EQ(text(uint64_t{3} << 53, FI_TYPE_MODE), "") << "modes retired in 2.0";
  EXPECT_EQ(text(uint64_t{FI_MSG | FI_RECV}, FI_TYPE_CQ_EVENT_FLAGS), "FI_RECV, FI_MSG");
  EXPECT_EQ(text(int{FI_MR_LOCAL | FI_MR_VIRT_ADDR}, FI_TYPE_MR_MODE), "FI_MR_LOCAL, FI_MR_VIRT_ADDR");
}

TEST(ToStr, VersionPrintsThreeNumbers) {
  EXPECT_STREQ(fi_tostr(nullptr, FI_TYPE_VERSION), "2.7.0");
}

TEST(ToStr, TransmitAttributesPrintAsInLibfabric) {
  fi_tx_attr attr{};
  attr.caps = FI_MSG | FI_SEND;
  attr.comp_order = FI_ORDER_STRICT | FI_ORDER_DATA;  // 2.x prints no line for it
  attr.inject_size = 64;
  attr.tclass = FI_TC_LOW_LATENCY;
  EXPECT_EQ(text(attr, FI_TYPE_TX_ATTR),
            "fi_tx_attr:\n"
            "    caps: [ FI_MSG, FI_SEND ]\n"
            "    mode: [  ]\n"
            "    op_flags: [  ]\n"
            "    msg_order: [  ]\n"
            "    inject_size: 64\n"
            "    size: 0\n"
            "    iov_limit: 0\n"
            "    rma_iov_limit: 0\n"
            "    tclass: 0x201\n");
}

TEST(ToStr, EmptyInfoPrintsAbsentStructures) {
  const fi_info empty{};
  EXPECT_EQ(text(empty, FI_TYPE_INFO),
            "fi_info:\n"
            "    caps: [  ]\n"
            "    mode: [  ]\n"
            "    addr_format: FI_FORMAT_UNSPEC\n"
            "    src_addrlen: 0\n"
            "    dest_addrlen: 0\n"
            "    src_addr: (null)\n"
            "    dest_addr: (null)\n"
            "    handle: (nil)\n"
            "    fi_tx_attr: (null)\n"
            "    fi_rx_attr: (null)\n"
            "    fi_ep_attr: (null)\n"
            "    fi_domain_attr: (null)\n"
            "    fi_fabric_attr: (null)\n"
            "    nic: (nil)\n");
}

TEST(ToStr, InfoPrintsNestedAttributes) {
  const InfoPtr info(allocate_info());
  info->ep_attr->type = FI_EP_MSG;
  info->ep_attr->protocol = FI_PROTO_SOCK_TCP;
  info->ep_attr->max_msg_size = SIZE_MAX;
  info->ep_attr->mem_tag_format = 0xaaaaaaaaaaaaaaaa;
  info->ep_attr->rx_ctx_cnt = FI_SHARED_CONTEXT;
  info->domain_attr->mr_mode = FI_MR_BASIC;
  info->domain_attr->control_progress = FI_PROGRESS_MANUAL;  // 2.x prints no line for it
  info->domain_attr->progress = FI_PROGRESS_AUTO;
  info->rx_attr->total_buffered_recv = 9;  // nor for this
  info->fabric_attr->prov_name = ::strdup("tcp;ofi_rxm");
  info->fabric_attr->prov_version = FI_VERSION(117, 0);
  info->fabric_attr->api_version = FI_VERSION(1, 17);
  const std::string whole = text(*info, FI_TYPE_INFO);
  EXPECT_EQ(lines_from(whole, "fi_rx_attr", 7),
            "    fi_rx_attr:\n"
            "        caps: [  ]\n"
            "        mode: [  ]\n"
            "        op_flags: [  ]\n"
            "        msg_order: [  ]\n"
            "        size: 0\n"
            "        iov_limit: 0\n");
  EXPECT_EQ(lines_from(whole, "fi_ep_attr", 14),
            "    fi_ep_attr:\n"
            "        type: FI_EP_MSG\n"
            "        protocol: FI_PROTO_SOCK_TCP\n"
            "        protocol_version: 0\n"
            "        max_msg_size: 18446744073709551615\n"
            "        msg_prefix_size: 0\n"
            "        max_order_raw_size: 0\n"
            "        max_order_war_size: 0\n"
            "        max_order_waw_size: 0\n"
            "        mem_tag_format: 0xaaaaaaaaaaaaaaaa\n"
            "        tx_ctx_cnt: 0\n"
            "        rx_ctx_cnt: FI_SHARED_CONTEXT\n"
            "        auth_key_size: 0\n"
            "        xpu_ctx: (nil)\n");
  EXPECT_EQ(lines_from(whole, "fi_domain_attr", 10),
            "    fi_domain_attr:\n"
            "        domain: (nil)\n"
            "        name: (null)\n"
            "        threading: FI_THREAD_UNSPEC\n"
            "        progress: FI_PROGRESS_AUTO\n"
            "        resource_mgmt: FI_RM_UNSPEC\n"
            "        av_type: FI_AV_UNSPEC\n"
            "        mr_mode: [ FI_MR_BASIC ]\n"
            "        mr_key_size: 0\n"
            "        cq_data_size: 0\n");
  EXPECT_EQ(lines_from(whole, "fi_fabric_attr", 6),
            "    fi_fabric_attr:\n"
            "        name: (null)\n"
            "        prov_name: tcp;ofi_rxm\n"
            "        prov_version: 117.0\n"
            "        api_version: 1.17\n"
            "    nic: (nil)\n");
}

std::string address(uint32_t format, const void* bytes, std::size_t size) {
  fi_info info{};
  info.addr_format = format;
  info.src_addr = const_cast<void*>(bytes);
  info.src_addrlen = size;
  std::string line = lines_from(text(info, FI_TYPE_INFO), "src_addr: ", 1);
  line.erase(0, line.find(": ") + 2);
  line.pop_back();
  return line;
}

TEST(ToStr, AddressesPrintAsUris) {
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_port = htons(55);
  in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  EXPECT_EQ(address(FI_SOCKADDR_IN, &in, sizeof in), "fi_sockaddr_in://127.0.0.1:55");
  EXPECT_EQ(address(FI_SOCKADDR, &in, sizeof in), "fi_sockaddr_in://127.0.0.1:55");
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(56);
  in6.sin6_addr = in6addr_loopback;
  EXPECT_EQ(address(FI_SOCKADDR_IN6, &in6, sizeof in6), "fi_sockaddr_in6://[::1]:56");
  EXPECT_EQ(address(FI_ADDR_STR, "fi_sockaddr://1.2.3.4:5", 24), "fi_sockaddr://1.2.3.4:5");

  char bytes[48];
  std::memset(bytes, 0x61, sizeof bytes);
  EXPECT_EQ(address(FI_ADDR_PSMX, bytes, sizeof bytes), "fi_addr_psmx://6161616161616161");
  EXPECT_EQ(address(FI_ADDR_PSMX2, bytes, sizeof bytes), "fi_addr_psmx2://6161616161616161:6161616161616161");
  EXPECT_EQ(address(FI_ADDR_GNI, bytes, sizeof bytes), "fi_addr_gni://6161616161616161");
  EXPECT_EQ(address(FI_ADDR_OPX, bytes, sizeof bytes), "fi_addr_opx://6161616161616161");
  EXPECT_EQ(address(FI_ADDR_CXI, bytes, sizeof bytes), "fi_addr_cxi://0x61616161");
  EXPECT_EQ(address(FI_ADDR_IB_UD, bytes, sizeof bytes),
            "fi_addr_ib_ud://6161:6161:6161:6161:6161:6161:6161:6161:61616161/6161/6161/61");
  EXPECT_EQ(address(FI_ADDR_EFA, bytes, sizeof bytes),
            "fi_addr_efa://[6161:6161:6161:6161:6161:6161:6161:6161]:24929:1633771873");
  bytes[0] = AF_IB;
  bytes[1] = 0;
  EXPECT_EQ(address(FI_SOCKADDR_IB, bytes, sizeof bytes),
            "fi_sockaddr_ib://[6161:6161:6161:6161:6161:6161:6161:6161]:0x6161:0x161:0x61");
}

TEST(ToStr, ShortAddressesPrintAsTruncated) {
  for (uint32_t format = 0; format <= FI_SOCKADDR_IP; ++format) {
    const std::unique_ptr<char[]> one(new char[1]{'x'});
    const std::string result = address(format, one.get(), 1);
    if (format == FI_ADDR_STR) {
      EXPECT_EQ(result, "x");
    }
  }
}

fid_nic make_nic() {
  static char name[] = "mlx5_0", id[] = "0x1017", vendor[] = "0x15b3", mac[] = "02:00", type[] = "Ethernet";
  static fi_device_attr device{name, id, nullptr, vendor, nullptr, nullptr};
  static fi_bus_attr bus{FI_BUS_PCI, {{1, 2, 3, 4}}};
  static fi_link_attr link{mac, 1500, 100, FI_LINK_UP, type};
  fid_nic nic{};
  nic.fid.fclass = FI_CLASS_NIC;
  nic.device_attr = &device;
  nic.bus_attr = &bus;
  nic.link_attr = &link;
  return nic;
}

TEST(ToStr, NicPrintsDeviceBusAndLink) {
  const fid_nic nic = make_nic();
  EXPECT_EQ(text(nic.fid, FI_TYPE_FID),
            "nic:\n"
            "    fi_device_attr:\n"
            "        name: mlx5_0\n"
            "        device_id: 0x1017\n"
            "        device_version: (null)\n"
            "        vendor_id: 0x15b3\n"
            "        driver: (null)\n"
            "        firmware: (null)\n"
            "    fi_bus_attr:\n"
            "        bus_type: FI_BUS_PCI\n"
            "        fi_pci_attr:\n"
            "            domain_id: 1\n"
            "            bus_id: 2\n"
            "            device_id: 3\n"
            "            function_id: 4\n"
            "    fi_link_attr:\n"
            "        address: 02:00\n"
            "        mtu: 1500\n"
            "        speed: 100\n"
            "        state: FI_LINK_UP\n"
            "        network_type: Ethernet\n");
}

TEST(ToStr, ObjectMayProvideItsOwnText) {
  fi_ops ops{};
  ops.size = sizeof ops;
  ops.tostr = [](const fid*, char* buf, size_t len) {
    std::strncat(buf, "a fine object", len - 1);
    return 0;
  };
  fid object{FI_CLASS_EP, nullptr, &ops};
  EXPECT_EQ(text(object, FI_TYPE_FID), "a fine object");
  ops.tostr = [](const fid*, char*, size_t) { return -FI_ENOSYS; };
  EXPECT_EQ(text(object, FI_TYPE_FID).substr(0, 7), "fid: 0x");
}

TEST(ToStr, AttributesOfObjectsPrintAsInLibfabric) {
  fi_av_attr av{};
  av.type = FI_AV_TABLE;
  av.flags = FI_SYMMETRIC | FI_EVENT;
  EXPECT_EQ(text(av, FI_TYPE_AV_ATTR),
            "fi_av_attr:\n    type: FI_AV_TABLE\n    count: 0\n    ep_per_node: 0\n    name: (null)\n"
            "    flags: [ FI_EVENT, FI_SYMMETRIC ]\n");
  fi_cq_attr cq{};
  cq.format = FI_CQ_FORMAT_DATA;
  cq.flags = FI_AFFINITY | FI_COMPLETION;
  EXPECT_EQ(
      text(cq, FI_TYPE_CQ_ATTR),
      "fi_cq_attr:\n    size: 0\n    flags: [ FI_AFFINITY ]\n    format: FI_CQ_FORMAT_DATA\n"
      "    wait_obj: FI_WAIT_NONE\n    signaling_vector: 0\n    wait_cond: FI_CQ_COND_NONE\n    xpu_ctx: (nil)\n");
  fi_cntr_attr counter{};
  counter.wait_obj = FI_WAIT_FD;
  counter.flags = 16;
  EXPECT_EQ(text(counter, FI_TYPE_CNTR_ATTR),
            "fi_cntr_attr:\n    events: FI_CNTR_EVENTS_COMP\n    wait_obj: FI_WAIT_FD\n    flags: 0x10\n"
            "    xpu_ctx: (nil)\n");
  fi_mr_attr mr{};
  mr.access = FI_REMOTE_READ | FI_SEND | FI_MSG;
  mr.offset = 10;
  EXPECT_EQ(text(mr, FI_TYPE_MR_ATTR),
            "fi_mr_attr:\n    mr_iov: (nil)\n    iov_count: 0\n    access: [ FI_SEND, FI_REMOTE_READ ]\n"
            "    offset: 0xa\n    requested_key: 0x0\n    context: (nil)\n    auth_key_size: 0\n"
            "    iface: FI_HMEM_SYSTEM\n");
  fi_cq_err_entry entry{};
  entry.flags = FI_RECV | FI_TAGGED;
  entry.data = 10;
  entry.tag = 10;
  entry.err = FI_ETRUNC;
  entry.prov_errno = 5;
  EXPECT_EQ(text(entry, FI_TYPE_CQ_ERR_ENTRY),
            "fi_cq_err_entry:\n    op_context: (nil)\n    flags: 0x408\n    len: 0\n    buf: (nil)\n    data: 10\n"
            "    tag: 0xa\n    olen: 0\n    err: 265\n    prov_errno: 5\n    err_data: (nil)\n    err_data_size: 0\n");
}

TEST(ToStr, ReentrantFormCutsToFit) {
  const fi_tx_attr attr{};
  char buf[16];
  std::memset(buf, 'z', sizeof buf);
  EXPECT_EQ(fi_tostr_r(buf, 5, &attr, FI_TYPE_TX_ATTR), buf);
  EXPECT_STREQ(buf, "fi_t");
  EXPECT_EQ(buf[5], 'z');
  EXPECT_EQ(fi_tostr_r(buf, 1, &attr, FI_TYPE_TX_ATTR), buf);
  EXPECT_STREQ(buf, "");
  EXPECT_EQ(fi_tostr_r(buf, 0, &attr, FI_TYPE_TX_ATTR), nullptr);
  EXPECT_EQ(fi_tostr_r(nullptr, 9, &attr, FI_TYPE_TX_ATTR), nullptr);
  EXPECT_EQ(fi_tostr_r(buf, 9, nullptr, FI_TYPE_TX_ATTR), nullptr);
  EXPECT_EQ(fi_tostr(nullptr, FI_TYPE_TX_ATTR), nullptr);
}

// One call of printf with two of fi_tostr.
TEST(ToStr, AnEarlierResultRemainsReadable) {
  const InfoPtr info(allocate_info());
  const fi_ep_type type = FI_EP_MSG;
  const char* const first = fi_tostr(&type, FI_TYPE_EP_TYPE);
  const char* const second = fi_tostr(info.get(), FI_TYPE_INFO);
  EXPECT_EQ(first, second);
  EXPECT_EQ(std::string(first).find("fi_info:"), 0u);
}

TEST(ToStr, LongTextIsCut) {
  const std::string name(20'000, 'n');
  fi_fabric_attr attr{};
  attr.name = const_cast<char*>(name.c_str());
  const std::string cut = text(attr, FI_TYPE_FABRIC_ATTR);
  EXPECT_EQ(cut.size(), 8191u);
  EXPECT_EQ(cut.find("fi_fabric_attr:\n    name: nnn"), 0u);
}

TEST(ToStr, ThreadsDoNotOverwriteEachOther) {
  const fi_ep_type mine = FI_EP_MSG;
  const char* kept = fi_tostr(&mine, FI_TYPE_EP_TYPE);
  std::thread([] {
    const fi_ep_type theirs = FI_EP_RDM;
    fi_tostr(&theirs, FI_TYPE_EP_TYPE);
  }).join();
  EXPECT_STREQ(kept, "FI_EP_MSG");
}

}  // namespace
}  // namespace weft::core
