// SPDX-License-Identifier: BSD-2-Clause
// The network in memory; see network.h. Implements the seam of prov/tcp/socket.h, base/socket.h and
// base/readiness.h.
#include "sim/network.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <deque>
#include <map>
#include <utility>
#include <vector>

#include "tcp/socket.h"

namespace weft::tcp {
namespace sim {
namespace {

struct Pipe {  // bytes on their way to a socket
  std::deque<std::byte> bytes;
  std::size_t sent = 0;
  std::size_t received = 0;
  bool sender_paused = false;  // at the boundary
  bool receiver_paused = false;
};

struct Socket {
  sockaddr_in local{};
  sockaddr_in remote{};
  bool listening = false;
  std::deque<int> waiting;  // connections to accept
  bool connecting = false;
  bool connected = false;
  int peer = -1;
  Direction outgoing = kToServer;
  Pipe in;
  bool ended = false;     // the peer sends no more
  bool finished = false;  // we send no more
  int error = 0;
  // Registration.
  int epoll = -1;
  void* data = nullptr;
  bool changed = false;
};

struct Timer {
  Clock::time_point at = Clock::time_point::max();
};

Script script;
Clock::time_point clock_now{std::chrono::hours(1)};
std::map<int, Socket> sockets;
std::map<int, Timer> timers;
std::map<int, bool> events;
std::map<int, std::map<int, void*>> epolls;  // epoll descriptor -> timers and events in it
std::size_t sent_bytes[2];
std::size_t moves;
std::size_t misses;
std::uint16_t next_port;

int fresh() {
  return ::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
}

Socket* find(int fd) {
  auto it = sockets.find(fd);
  return it != sockets.end() ? &it->second : nullptr;
}

void change(Socket* socket) {
  if (socket != nullptr) socket->changed = true;
}

void break_connection(Socket& one, int error) {
  for (Socket* side : {&one, find(one.peer)}) {
    if (side == nullptr) continue;
    side->ended = side->finished = true;
    side->error = error;
    side->changed = true;
  }
}

// Carries out the script's cut if this direction has reached it.
bool cut_if_due(Socket& sender) {
  const Pipe& pipe = find(sender.peer)->in;
  if (script.cut == Cut::kNone || sender.outgoing != script.cut_direction || pipe.sent < script.cut_at) return false;
  break_connection(sender, script.cut == Cut::kReset ? ECONNRESET : 0);
  return true;
}

std::uint32_t readiness(Socket& socket) {
  std::uint32_t what = 0;
  if (!socket.in.bytes.empty() || !socket.waiting.empty() || socket.ended || socket.error != 0) what |= EPOLLIN;
  const Socket* peer = find(socket.peer);
  if (socket.connected && (peer == nullptr || peer->in.bytes.size() < script.capacity)) what |= EPOLLOUT;
  if (socket.ended) what |= EPOLLRDHUP;
  if (socket.error != 0) what |= EPOLLERR | EPOLLHUP;
  return what;
}

// How many bytes of `len` one call may move; 0: it has to come back (EAGAIN).
std::size_t allowed(Direction direction, std::size_t offset, bool& paused, std::size_t len) {
  const std::size_t boundary = script.boundary[direction];
  if (offset == boundary && !paused) {
    paused = true;
    return 0;
  }
  if (offset < boundary) len = std::min(len, boundary - offset);
  return std::min(len, script.chunk);
}

void establish(int client_fd) {
  Socket& client = sockets[client_fd];
  client.connecting = false;
  client.changed = true;
  for (auto& [fd, socket] : sockets) {
    if (!socket.listening || socket.local.sin_port != client.remote.sin_port) continue;
    const int server_fd = fresh();
    Socket& server = sockets[server_fd];
    server.local = client.remote;
    server.remote = client.local;
    server.connected = client.connected = true;
    server.peer = client_fd;
    client.peer = server_fd;
    server.outgoing = kToClient;
    socket.waiting.push_back(server_fd);
    socket.changed = true;
    return;
  }
  client.error = ECONNREFUSED;
}

void forget(int fd) {
  timers.erase(fd);
  events.erase(fd);
  epolls.erase(fd);
  for (auto& [epoll, members] : epolls) members.erase(fd);
  Socket* socket = find(fd);
  if (socket == nullptr) return;
  if (Socket* peer = find(socket->peer)) {
    // As on Linux, unread input turns the close into a reset.
    if (!socket->in.bytes.empty()) peer->error = ECONNRESET;
    peer->ended = true;
    peer->changed = true;
    peer->peer = -1;
  }
  const std::deque<int> unaccepted = std::move(socket->waiting);
  sockets.erase(fd);
  for (int waiting : unaccepted) ::close(waiting);
}

void fill(const sockaddr_in& from, sockaddr* to, socklen_t* len) {
  if (to == nullptr) return;
  std::memcpy(to, &from, std::min<std::size_t>(*len, sizeof from));
  *len = sizeof from;
}

}  // namespace

void reset(const Script& next) {
  script = next;
  timers.clear();
  sent_bytes[0] = sent_bytes[1] = 0;
  next_port = 40000;
}

void finish_connects() {
  std::vector<int> waiting;
  for (auto& [fd, socket] : sockets)
    if (socket.connecting) waiting.push_back(fd);
  for (int fd : waiting) establish(fd);
}

std::size_t open_sockets() {
  return sockets.size();
}
std::size_t bytes_sent(Direction direction) {
  return sent_bytes[direction];
}
std::size_t transfers() {
  return moves;
}
std::size_t empty_reads() {
  return misses;
}
void advance(Clock::duration by) {
  clock_now += by;
}

bool advance_to_timer() {
  Clock::time_point earliest = Clock::time_point::max();
  for (const auto& [fd, timer] : timers)
    if (timer.at > clock_now) earliest = std::min(earliest, timer.at);
  if (earliest == Clock::time_point::max()) return false;
  clock_now = earliest;
  return true;
}

}  // namespace sim

namespace net {

using namespace sim;

ssize_t send(int fd, const void* data, std::size_t len) noexcept {
  const iovec piece{const_cast<void*>(data), len};
  return sendv(fd, &piece, 1);
}

ssize_t sendv(int fd, const iovec* iov, int count) noexcept {
  Socket& socket = sockets.at(fd);
  if (socket.error != 0) return -std::exchange(socket.error, 0);
  if (socket.connecting) return -EAGAIN;
  Socket* peer = find(socket.peer);
  if (!socket.connected || socket.finished || peer == nullptr) return -EPIPE;
  if (cut_if_due(socket)) return script.cut == Cut::kReset ? -ECONNRESET : -EPIPE;
  Pipe& pipe = peer->in;
  std::size_t len = 0;
  for (int i = 0; i < count; ++i) len += iov[i].iov_len;
  if (script.cut != Cut::kNone && socket.outgoing == script.cut_direction)
    len = std::min(len, script.cut_at - pipe.sent);
  len = std::min(len, script.capacity - pipe.bytes.size());
  const std::size_t wanted = len;
  len = allowed(socket.outgoing, pipe.sent, pipe.sender_paused, len);
  if (len == 0) {
    socket.changed = true;
    return -EAGAIN;
  }
  std::size_t left = len;
  for (int i = 0; left != 0; ++i) {
    const auto* from = static_cast<const std::byte*>(iov[i].iov_base);
    const std::size_t part = std::min(left, iov[i].iov_len);
    pipe.bytes.insert(pipe.bytes.end(), from, from + part);
    left -= part;
  }
  // A short write or read leaves a full or an empty pipe, so a readiness event follows.
  if (len < wanted) socket.changed = true;
  pipe.sent += len;
  sent_bytes[socket.outgoing] += len;
  ++moves;
  peer->changed = true;
  cut_if_due(socket);
  return static_cast<ssize_t>(len);
}

ssize_t recv(int fd, void* data, std::size_t len) noexcept {
  const iovec piece{data, len};
  return recvv(fd, &piece, 1);
}

ssize_t recvv(int fd, const iovec* iov, int count) noexcept {
  Socket& socket = sockets.at(fd);
  Pipe& pipe = socket.in;
  if (pipe.bytes.empty()) {
    if (socket.error != 0) return -std::exchange(socket.error, 0);
    if (socket.ended) return 0;
    ++misses;
    return -EAGAIN;
  }
  std::size_t len = 0;
  for (int i = 0; i < count; ++i) len += iov[i].iov_len;
  const Direction incoming = socket.outgoing == kToServer ? kToClient : kToServer;
  const std::size_t wanted = std::min(len, pipe.bytes.size());
  len = allowed(incoming, pipe.received, pipe.receiver_paused, wanted);
  if (len == 0) {
    socket.changed = true;
    return -EAGAIN;
  }
  std::size_t left = len;
  for (int i = 0; left != 0; ++i) {
    const auto part = static_cast<std::ptrdiff_t>(std::min(left, iov[i].iov_len));
    std::copy_n(pipe.bytes.begin(), part, static_cast<std::byte*>(iov[i].iov_base));
    pipe.bytes.erase(pipe.bytes.begin(), pipe.bytes.begin() + part);
    left -= static_cast<std::size_t>(part);
  }
  if (len < wanted) socket.changed = true;
  pipe.received += len;
  ++moves;
  change(find(socket.peer));
  return static_cast<ssize_t>(len);
}

int open_stream(int) noexcept {
  const int fd = fresh();
  sockets[fd];
  return fd;
}

int connect(int fd, const sockaddr* address, socklen_t) noexcept {
  Socket& socket = sockets.at(fd);
  std::memcpy(&socket.remote, address, sizeof socket.remote);
  if (socket.local.sin_port == 0) {
    socket.local = socket.remote;
    socket.local.sin_port = htons(next_port++);
  }
  socket.connecting = true;
  if (!script.slow_connect) establish(fd);
  return -EINPROGRESS;
}

int connect_result(int fd) noexcept {
  return -std::exchange(sockets.at(fd).error, 0);
}

int listen(int fd, int) noexcept {
  sockets.at(fd).listening = true;
  return 0;
}

int accept(int fd, sockaddr* address, socklen_t* len) noexcept {
  Socket& socket = sockets.at(fd);
  if (socket.waiting.empty()) return -EAGAIN;
  if (script.failing_accepts > 0) {
    --script.failing_accepts;
    return -script.accept_error;
  }
  const int accepted = socket.waiting.front();
  socket.waiting.pop_front();
  fill(sockets.at(accepted).remote, address, len);
  return accepted;
}

// Memory is no part of this network.
int open_mailbox() noexcept {
  return -EOPNOTSUPP;
}

bool acceptable(int fd) noexcept {
  return !sockets.at(fd).waiting.empty();
}

bool is_read_empty(int fd) noexcept {
  const Socket& socket = sockets.at(fd);
  return socket.in.bytes.empty() && !socket.ended;
}

bool is_unanswered(int, std::chrono::seconds) noexcept {
  return false;
}
bool is_delivered(int) noexcept {
  return true;
}
bool has_unsent(int) noexcept {
  return false;
}

int shutdown(int fd, int how) noexcept {
  Socket& socket = sockets.at(fd);
  if (how == SHUT_RD) return 0;
  socket.finished = true;
  if (Socket* peer = find(socket.peer)) {
    peer->ended = true;
    peer->changed = true;
  }
  return 0;
}

}  // namespace net
}  // namespace weft::tcp

namespace weft::net {

using namespace tcp::sim;

int bind(int fd, const sockaddr* address, socklen_t) noexcept {
  Socket& socket = sockets.at(fd);
  std::memcpy(&socket.local, address, sizeof socket.local);
  if (socket.local.sin_port == 0) socket.local.sin_port = htons(next_port++);
  return 0;
}

int getsockname(int fd, sockaddr* address, socklen_t* len) noexcept {
  fill(sockets.at(fd).local, address, len);
  return 0;
}

int getpeername(int fd, sockaddr* address, socklen_t* len) noexcept {
  fill(sockets.at(fd).remote, address, len);
  return 0;
}

int route(const sockaddr* peer, socklen_t peer_len, sockaddr* local, socklen_t* local_len) noexcept {
  std::memcpy(local, peer, peer_len);
  *local_len = peer_len;
  return 0;
}

int set_option(int, int, int, int) noexcept {
  return 0;
}

int epoll_create() noexcept {
  const int fd = fresh();
  epolls[fd];
  return fd;
}

int epoll_add(int epoll_fd, int fd, std::uint32_t, void* data) noexcept {
  if (Socket* socket = find(fd)) {
    socket->epoll = epoll_fd;
    socket->data = data;
    socket->changed = true;
  } else {
    epolls.at(epoll_fd)[fd] = data;
  }
  return 0;
}

int epoll_modify(int epoll_fd, int fd, std::uint32_t events, void* data) noexcept {
  return epoll_add(epoll_fd, fd, events, data);
}

int epoll_remove(int, int fd) noexcept {
  if (Socket* socket = find(fd)) socket->epoll = -1;
  return 0;
}

int epoll_wait(int epoll_fd, epoll_event* out, int max) noexcept {
  int count = 0;
  for (const auto& [fd, data] : epolls.at(epoll_fd)) {
    const auto timer = timers.find(fd);
    const auto event = tcp::sim::events.find(fd);
    const bool due =
        (timer != timers.end() && timer->second.at <= clock_now) || (event != tcp::sim::events.end() && event->second);
    if (due && count < max) out[count++] = {.events = EPOLLIN, .data = {.ptr = data}};
  }
  for (auto& [fd, socket] : sockets) {
    if (socket.epoll != epoll_fd || !socket.changed || count == max) continue;
    const std::uint32_t what = readiness(socket);
    if (what == 0) continue;
    socket.changed = false;
    out[count++] = {.events = what, .data = {.ptr = socket.data}};
  }
  return count;
}

int timer_open() noexcept {
  const int fd = fresh();
  timers[fd];
  return fd;
}

int timer_arm(int fd, Clock::time_point at) noexcept {
  timers[fd].at = at;
  return 0;
}

void timer_drain(int fd) noexcept {
  if (timers[fd].at <= clock_now) timers[fd].at = Clock::time_point::max();
}

int event_open() noexcept {
  const int fd = fresh();
  tcp::sim::events[fd] = false;
  return fd;
}

void event_signal(int fd) noexcept {
  tcp::sim::events[fd] = true;
}

void event_drain(int fd) noexcept {
  tcp::sim::events[fd] = false;
}

Clock::time_point now() noexcept {
  return clock_now;
}

std::int64_t tick() noexcept {
  return std::chrono::nanoseconds(now().time_since_epoch()).count();
}

}  // namespace weft::net

// Replaces libc's close() in the whole test program, so that the network notices closed sockets.
extern "C" int close(int fd) {
  weft::tcp::sim::forget(fd);
  return static_cast<int>(::syscall(SYS_close, fd));
}
