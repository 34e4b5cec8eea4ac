// CurlMulti: a libcurl multi handle whose sockets are watched by the caller's epoll descriptor.
//
// Threads: one, the caller's.

#ifndef SERVICES_HANDLER_DELIVERY_HTTP_CURL_MULTI_H_
#define SERVICES_HANDLER_DELIVERY_HTTP_CURL_MULTI_H_

#include <curl/curl.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "absl/time/time.h"
#include "common/net/address_rule.h"
#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

class CurlMulti;

// For all transports that use libcurl: those of SetCommonCurlOptions, and connections end at
// kConnectionAgeMax.
void SetCommonOptions(CURL* easy, const char* protocols);

// libcurl is started before the first one is made. Any thread.
CURLM* NewCurlMulti();

// Opens sockets only to addresses that a rule allows. The address that is checked is the one that
// is connected to.
struct CheckedSocket {
  const AddressRule* addresses = nullptr;  // null: all are allowed
  bool refused = false;                    // the last address that was tried is not allowed
  bool allowed = false;                    // one was, and may have been written to

  // For CURLOPT_OPENSOCKETFUNCTION, with the CheckedSocket as its data.
  static curl_socket_t Open(void* self, curlsocktype purpose, curl_sockaddr* address);
};

// Belongs to one handle, and lives while the handle connects.
struct CurlSocketOwner {
  CurlMulti* multi = nullptr;
  CheckedSocket checked;
};

class CurlMulti {
 public:
  // `epoll` must outlive it. Its events carry the socket's number as data.fd. At most
  // `connections_max` idle connections are kept. Connects only to what `addresses` allows.
  CurlMulti(int epoll, int connections_max, std::shared_ptr<const AddressRule> addresses);
  ~CurlMulti();
  CurlMulti(const CurlMulti&) = delete;
  CurlMulti& operator=(const CurlMulti&) = delete;

  // Returns a new handle with the common options. The caller ends it with curl_easy_cleanup, and
  // calls UseOwner before each Add.
  CURL* NewHandle(long connect_timeout_millis);
  void UseOwner(CURL* easy, CurlSocketOwner& owner);
  void Add(CURL* easy) { curl_multi_add_handle(multi_, easy); }
  void Remove(CURL* easy) { curl_multi_remove_handle(multi_, easy); }
  // Removes a handle that has connected (CURLOPT_CONNECT_ONLY). Returns its socket, which the
  // caller now owns and which is no longer watched; -1 if it has none.
  int TakeSocket(CURL* easy);

  void OnEvent(int fd, uint32_t events);
  // When OnTimer must be called.
  MonotonicMicros timer_at() const { return timer_at_; }
  void OnTimer();

  // Calls `ended`(CURL*, CURLcode) for each transfer that has ended. The callee must remove it.
  template <typename Ended>
  void Reap(Ended ended) {
    int left = 0;
    while (CURLMsg* message = curl_multi_info_read(multi_, &left)) {
      if (message->msg != CURLMSG_DONE) continue;
      const CURLcode code = message->data.result;
      ended(message->easy_handle, code);
    }
  }

 private:
  // The state of a socket in epoll and libcurl.
  struct Socket {
    bool ours = false;   // opened by OnOpen, closed by OnClose
    bool taken = false;  // TakeSocket has taken it: OnClose leaves it open
    uint32_t registered = 0;
    uint32_t wanted = 0;
  };
  static curl_socket_t OnOpen(void* owner, curlsocktype purpose, curl_sockaddr* address);
  static int OnClose(void* self, curl_socket_t fd);
  static int OnTimerSet(CURLM* multi, long millis, void* self);
  static int OnSocket(CURL* easy, curl_socket_t fd, int what, void* self, void* socket);
  Socket& SocketOf(int fd);

  const int epoll_;
  const std::shared_ptr<const AddressRule> addresses_;
  CURLM* const multi_;
  std::vector<Socket> sockets_;
  MonotonicMicros timer_at_ = kNeverMicros;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_HTTP_CURL_MULTI_H_
