// PlainRequests: attempts to http:// targets, each on a connection of its own. libcurl resolves
// names and connects. Then HttpConnection carries the request, at about half of libcurl's cost (ADR
// 10).
//
// Threads: one, the transport's.

#ifndef SERVICES_HANDLER_DELIVERY_HTTP_PLAIN_REQUESTS_H_
#define SERVICES_HANDLER_DELIVERY_HTTP_PLAIN_REQUESTS_H_

#include <cstdint>
#include <functional>
#include <list>
#include <memory>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "services/handler/delivery/http/connection.h"
#include "services/handler/delivery/http/curl_multi.h"
#include "services/handler/delivery/http/http_transport.h"
#include "services/handler/delivery/http/request_maker.h"

namespace escapement::handler {

enum class HttpEnd { kAnswered, kTimedOut, kOther };

class PlainRequests {
 public:
  // `epoll`, `multi` and `maker` must outlive it. Calls `ended` for each attempt before its result.
  PlainRequests(const HttpTransport::Options& options, int epoll, CurlMulti& multi,
                const HttpRequestMaker& maker,
                std::function<void(const HttpAttempt& attempt, HttpEnd end)> ended);
  ~PlainRequests();
  PlainRequests(const PlainRequests&) = delete;
  PlainRequests& operator=(const PlainRequests&) = delete;

  void Start(HttpAttempt attempt, const HttpPlace& place, const HttpRequest& request,
             MonotonicMicros now);

  // True if the socket belongs to a plain request. Its epoll events then go to OnEvent.
  bool Has(int fd) const;
  void OnEvent(int fd, uint32_t events);
  // Returns false if the handle does not belong to a plain request.
  bool OnConnected(CURL* easy, CURLcode code);

  // When Expire must be called.
  MonotonicMicros expire_at() const { return expire_at_; }
  void Expire(MonotonicMicros now);

  // Answers all attempts with this result.
  void AnswerAll(const DeliveryResult& result);

 private:
  struct Outgoing {
    HttpAttempt attempt;
    std::string head;
    int requests = 1;
  };
  struct Link;
  // The connections to one host and port. It exists while there are any.
  struct Pool {
    std::string url;
    std::vector<Link*> idle;  // in the order of their last use
    size_t links = 0;         // including those being opened or looked up
  };
  struct Link {
    Link(int fd, size_t body_bytes_max) : connection(fd, body_bytes_max) {}
    HttpConnection connection;
    Pool* pool = nullptr;
    std::unique_ptr<Outgoing> outgoing;  // while it is not idle
    bool idle = false;
    bool reused = false;
    bool watches_room = false;  // waits for EPOLLOUT too
    MonotonicMicros idle_since = 0;
    const MonotonicMicros opened = MonotonicNow();
    std::list<Link*>::iterator place = {};  // in idle_, while it is idle
  };
  struct Connecting {
    Pool* pool = nullptr;
    CurlSocketOwner sockets;
    std::unique_ptr<Outgoing> outgoing;
    char error[CURL_ERROR_SIZE] = {};
  };

  Pool* PoolOf(const std::string& url);
  void LeavePool(Pool* pool);
  // Returns null if there is none.
  Link* TakeIdle(Pool* pool, MonotonicMicros now);
  // Opens a connection that the pool counts already.
  void Connect(Pool* pool, std::unique_ptr<Outgoing> outgoing, MonotonicMicros now);
  void Send(Link* link, std::unique_ptr<Outgoing> outgoing);
  void OnProgress(Link* link, HttpConnection::Progress progress);
  void OnAnswered(Link* link);
  void OnBroken(Link* link);
  void KeepIdle(Link* link);
  void Close(Link* link);
  void End(HttpAttempt attempt, DeliveryResult result, HttpEnd end);

  const HttpTransport::Options options_;
  const int epoll_;
  CurlMulti& multi_;
  const HttpRequestMaker& maker_;
  const std::function<void(const HttpAttempt&, HttpEnd)> on_ended_;
  absl::flat_hash_map<std::string, std::unique_ptr<Pool>> pools_;
  std::vector<std::unique_ptr<Link>> links_;  // by socket
  std::list<Link*> idle_;                     // in the order of their last use
  absl::flat_hash_map<CURL*, std::unique_ptr<Connecting>> connecting_;
  std::vector<CURL*> free_;
  // A lower bound for the deadlines of attempts on links.
  MonotonicMicros expire_at_ = kNeverMicros;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_HTTP_PLAIN_REQUESTS_H_
