// HttpSession: one connection of an HttpServer. Shakes hands if there is TLS, reads a request,
// hands it to the handler of its route, writes the answer, and goes on to the next request.
//
// Threads: everything runs on the io thread. Responders and streams may be called from any thread;
// they post.

#ifndef COMMON_HTTP_HTTP_SESSION_H_
#define COMMON_HTTP_HTTP_SESSION_H_

#include <cstdint>
#include <memory>

#include "absl/strings/string_view.h"
#include "common/http/http_server.h"

namespace boost::asio {
class io_context;
}  // namespace boost::asio

namespace escapement {

class HttpSession;

// The server as its connections see it.
class HttpSessionHost {
 public:
  virtual ~HttpSessionHost() = default;
  virtual boost::asio::io_context& io() = 0;
  virtual const HttpServer::Options& options() const = 0;
  // True if requests whose Host header has a foreign name are refused.
  virtual bool checks_host() const = 0;
  virtual void Dispatch(HttpRequest request, HttpResponder respond) const = 0;
  // The handler that reads the request's body in pieces; null: the body is read as a whole.
  virtual const HttpStreamHandler* StreamHandler(absl::string_view method,
                                                 absl::string_view path) const = 0;
  virtual HttpResponse ErrorFor(absl::string_view path, int status,
                                absl::string_view text) const = 0;
  // Greater with each call.
  virtual uint64_t NextTurn() = 0;
  virtual void Forget(const std::shared_ptr<HttpSession>& session) = 0;
};

class HttpSession {
 public:
  virtual ~HttpSession() = default;
  // Reads the first request, after the TLS handshake if there is one.
  virtual void Begin() = 0;
  virtual void Close() = 0;
  // Greater for a session that began later to wait for bytes of its client; 0 if it does not wait.
  virtual uint64_t waiting_since() const = 0;
  // Greater for a session whose stream has got bytes later; 0 if it has no stream.
  virtual uint64_t streamed() const = 0;
  // The address of the client, without the port.
  virtual absl::string_view address() const = 0;
};

// `socket` is an open TCP socket over IPv6 or IPv4; the session closes it.
std::shared_ptr<HttpSession> NewHttpSession(int socket, bool ipv6,
                                            std::shared_ptr<HttpSessionHost> host);

}  // namespace escapement

#endif  // COMMON_HTTP_HTTP_SESSION_H_
