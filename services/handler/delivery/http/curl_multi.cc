#include "services/handler/delivery/http/curl_multi.h"

#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "common/net/curl_options.h"

namespace escapement::handler {

void SetCommonOptions(CURL* easy, const char* protocols) {
  SetCommonCurlOptions(easy, protocols);
  curl_easy_setopt(easy, CURLOPT_MAXLIFETIME_CONN,
                   static_cast<long>(absl::ToInt64Seconds(kConnectionAgeMax)));
}

CURLM* NewCurlMulti() {
  StartCurl();
  return curl_multi_init();
}

curl_socket_t CheckedSocket::Open(void* self, curlsocktype, curl_sockaddr* address) {
  auto* const checked = static_cast<CheckedSocket*>(self);
  checked->refused = checked->addresses != nullptr && !checked->addresses->Allows(address->addr);
  if (checked->refused) return CURL_SOCKET_BAD;
  checked->allowed = true;
  return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

CurlMulti::CurlMulti(int epoll, int connections_max, std::shared_ptr<const AddressRule> addresses)
    : epoll_(epoll), addresses_(std::move(addresses)), multi_(NewCurlMulti()) {
  curl_multi_setopt(multi_, CURLMOPT_SOCKETFUNCTION, &CurlMulti::OnSocket);
  curl_multi_setopt(multi_, CURLMOPT_SOCKETDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_TIMERFUNCTION, &CurlMulti::OnTimerSet);
  curl_multi_setopt(multi_, CURLMOPT_TIMERDATA, this);
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, static_cast<long>(connections_max));
}

CurlMulti::~CurlMulti() { curl_multi_cleanup(multi_); }

CURL* CurlMulti::NewHandle(long connect_timeout_millis) {
  CURL* const easy = curl_easy_init();
  SetCommonOptions(easy, "http,https");
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, connect_timeout_millis);
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETFUNCTION, &CurlMulti::OnOpen);
  curl_easy_setopt(easy, CURLOPT_CLOSESOCKETFUNCTION, &CurlMulti::OnClose);
  curl_easy_setopt(easy, CURLOPT_CLOSESOCKETDATA, this);
  return easy;
}

void CurlMulti::UseOwner(CURL* easy, CurlSocketOwner& owner) {
  owner = {.multi = this, .checked = {.addresses = addresses_.get()}};
  curl_easy_setopt(easy, CURLOPT_OPENSOCKETDATA, &owner);
}

int CurlMulti::TakeSocket(CURL* easy) {
  curl_socket_t fd = CURL_SOCKET_BAD;
  if (curl_easy_getinfo(easy, CURLINFO_ACTIVESOCKET, &fd) != CURLE_OK) fd = CURL_SOCKET_BAD;
  if (fd != CURL_SOCKET_BAD) {
    Socket& socket = SocketOf(fd);
    if (socket.registered != 0) epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
    socket = Socket{.ours = true, .taken = true};
  }
  // libcurl closes the connection together with its handle, by OnClose.
  Remove(easy);
  return fd == CURL_SOCKET_BAD ? -1 : fd;
}

void CurlMulti::OnEvent(int fd, uint32_t events) {
  Socket& socket = SocketOf(fd);
  if (socket.wanted == 0) {
    // The peer has closed an idle connection. libcurl notices this before the next use.
    if (socket.registered != 0) epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
    socket.registered = 0;
    return;
  }
  int bits = 0;
  if (events & EPOLLIN) bits |= CURL_CSELECT_IN;
  if (events & EPOLLOUT) bits |= CURL_CSELECT_OUT;
  if (events & (EPOLLERR | EPOLLHUP)) bits |= CURL_CSELECT_ERR;
  int running = 0;
  curl_multi_socket_action(multi_, fd, bits, &running);
}

void CurlMulti::OnTimer() {
  timer_at_ = kNeverMicros;
  int running = 0;
  curl_multi_socket_action(multi_, CURL_SOCKET_TIMEOUT, 0, &running);
}

curl_socket_t CurlMulti::OnOpen(void* data, curlsocktype purpose, curl_sockaddr* address) {
  auto* const owner = static_cast<CurlSocketOwner*>(data);
  const int fd = CheckedSocket::Open(&owner->checked, purpose, address);
  if (fd >= 0) owner->multi->SocketOf(fd) = Socket{.ours = true};
  return fd;
}

int CurlMulti::OnClose(void* self, curl_socket_t fd) {
  const Socket closed = std::exchange(static_cast<CurlMulti*>(self)->SocketOf(fd), Socket{});
  return closed.taken ? 0 : close(fd);
}

int CurlMulti::OnTimerSet(CURLM*, long millis, void* self) {
  static_cast<CurlMulti*>(self)->timer_at_ =
      millis < 0 ? kNeverMicros : MonotonicNow() + MonotonicMicros{millis} * 1000;
  return 0;
}

int CurlMulti::OnSocket(CURL*, curl_socket_t fd, int what, void* self, void*) {
  auto* multi = static_cast<CurlMulti*>(self);
  Socket& socket = multi->SocketOf(fd);
  socket.wanted = 0;
  if (what == CURL_POLL_REMOVE) {
    // libcurl unregisters a connection's socket after every request. A socket that we close
    // ourselves stays registered until then, which saves two system calls per request.
    if (!socket.ours && socket.registered != 0) {
      epoll_ctl(multi->epoll_, EPOLL_CTL_DEL, fd, nullptr);
      socket.registered = 0;
    }
    return 0;
  }
  if (what & CURL_POLL_IN) socket.wanted |= EPOLLIN;
  if (what & CURL_POLL_OUT) socket.wanted |= EPOLLOUT;
  if (socket.wanted == socket.registered) return 0;
  epoll_event event = {};
  event.events = socket.wanted;
  event.data.fd = fd;
  epoll_ctl(multi->epoll_, socket.registered == 0 ? EPOLL_CTL_ADD : EPOLL_CTL_MOD, fd, &event);
  socket.registered = socket.wanted;
  return 0;
}

CurlMulti::Socket& CurlMulti::SocketOf(int fd) {
  if (static_cast<size_t>(fd) >= sockets_.size()) sockets_.resize(static_cast<size_t>(fd) + 64);
  return sockets_[static_cast<size_t>(fd)];
}

}  // namespace escapement::handler
