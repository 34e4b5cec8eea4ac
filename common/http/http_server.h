// HttpServer: a small HTTP/1.1 server for /metrics, health and REST. All sizes and times are
// bounded.
//
// Routes are exact paths, or prefixes that end with '/'; the longest match wins. A handler gets the
// whole request and a responder, or (RouteStream) its head and a stream. It calls the responder
// once, at once or later, on any thread. A responder that is destroyed without a call answers 500.
// Requests of one connection are handled one after the other; pipelined ones wait.
//
// Threads: handlers run on the server's one thread and must not block. Add routes only before
// Start.

#ifndef COMMON_HTTP_HTTP_SERVER_H_
#define COMMON_HTTP_HTTP_SERVER_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "common/tls/tls_files.h"

namespace escapement {

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // still percent-encoded, without the query
  std::string query;   // after '?', still encoded
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
  std::string peer = {};  // "ip:port" of the client, IPv6 in brackets
  // The subject alternative names of the verified client certificate, with their kinds
  // ("DNS:operator"; see common/tls/credentials_grpc.h). Empty without one.
  std::vector<std::string> client_names = {};
  bool encrypted = false;  // the connection uses TLS

  // The first header with that name in any case, or "".
  absl::string_view Header(absl::string_view name) const;
};

struct HttpResponse {
  int status = 200;
  std::string content_type = "text/plain; charset=utf-8";
  std::vector<std::pair<std::string, std::string>> headers = {};
  std::string body = {};
};

// Copyable; only the first call counts.
using HttpResponder = std::function<void(HttpResponse)>;
using HttpHandler = std::function<void(HttpRequest, HttpResponder)>;

// One request whose body is read, and whose answer is written, in pieces and at the same time.
//
// Threads: any; calls do not block. Callbacks run on the server's thread; after Shutdown they no
// longer come. Destroying the last pointer before End or Refuse closes the connection.
class HttpStream {
 public:
  virtual ~HttpStream() = default;

  // Calls `done` with the next bytes of the body, or "" at its end. CANCELLED: the client has gone,
  // or has sent nothing for read_timeout. DEADLINE_EXCEEDED: it sends too slowly
  // (stream_bytes_min); the stream can still be answered. One read at a time.
  virtual void Read(std::function<void(absl::StatusOr<std::string>)> done) = 0;

  // Status and headers of the answer; the body is ignored. Once, before the first Write.
  virtual void Begin(HttpResponse head) = 0;
  // Calls `done` when the bytes have been given to the system. CANCELLED: the client has gone, or
  // has read nothing for write_timeout.
  virtual void Write(std::string bytes, std::function<void(absl::Status)> done) = 0;
  // Ends the answer. If the body has not been read to its end, the connection ends, too.
  virtual void End() = 0;
  // Instead of Begin: answers at once, and ends the connection.
  virtual void Refuse(HttpResponse response) = 0;
};
// The request has an empty body.
using HttpStreamHandler = std::function<void(HttpRequest head, std::shared_ptr<HttpStream> stream)>;

class HttpServer {
 public:
  struct Options {
    std::string listen = "127.0.0.1:0";       // host:port; port 0 = any
    std::shared_ptr<TlsFiles> tls = nullptr;  // null: no TLS
    // True if each request must prove who sends it. common/rpc/host_port.h says which addresses
    // are accepted.
    bool credentials = false;
    bool insecure = false;  // accepts every address
    // Names in Host headers that are this server's, beside IP addresses and "localhost". Other
    // names are refused with 421 if this is not empty, and on a loopback address without
    // credentials: else a page of any website could reach the server by a name of its own that
    // resolves to 127.0.0.1.
    std::vector<std::string> host_names = {};
    size_t header_bytes_max = 16 << 10;  // above this: 431
    size_t body_bytes_max = 12 << 20;    // above this: 413
    // A further connection takes the place of another: of the client address with most connections,
    // the one that has waited longest for bytes of a handshake or request, else the stream whose
    // client has sent nothing for longest. If there is none, of another address the one that has
    // waited longest. If none waits so, the new one is closed at once.
    size_t connections_max = 1000;
    // The time limit of a request from its first byte to its last one, and of the TLS handshake.
    absl::Duration read_timeout = absl::Seconds(15);
    absl::Duration idle_timeout = absl::Seconds(60);   // between two requests
    absl::Duration write_timeout = absl::Seconds(15);  // to write a response, or a piece of it
    // A stream must have got so many bytes whenever its reads have waited for this time in all.
    // Else a client could keep a connection with one byte in each read_timeout.
    size_t stream_bytes_min = 600;
    absl::Duration stream_bytes_within = absl::Seconds(60);
  };

  explicit HttpServer(Options options);
  ~HttpServer();  // as Shutdown
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  // `method` "" means any; another method on the path answers 405. A path without a handler answers
  // 404.
  void Route(std::string method, std::string path, HttpHandler handler);
  // For handlers that answer at once.
  void RouteSync(std::string method, std::string path,
                 std::function<HttpResponse(const HttpRequest&)> handler);

  // Paths that begin with `prefix` and end with `suffix`. They come before all other routes, and
  // their bodies have no bound.
  void RouteStream(std::string method, std::string prefix, std::string suffix,
                   HttpStreamHandler handler);
  // Answers the errors that the server itself finds in a request whose path begins with `prefix`:
  // 400 malformed, 413 body too large, 417, 421 and 501 (header_grammar.h), 431 header too large
  // (if the path could be read).
  void RouteErrors(std::string prefix,
                   std::function<HttpResponse(int status, absl::string_view text)> answer);

  // Listens and serves. INVALID_ARGUMENT: bad address, or one that the rule refuses. UNAVAILABLE:
  // the port cannot be bound.
  absl::Status Start();

  // "host:port" with the real port; valid after Start.
  const std::string& address() const;
  int port() const;

  // Closes all connections and joins the thread. Idempotent. Later calls of responders do nothing.
  void Shutdown();

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace escapement

#endif  // COMMON_HTTP_HTTP_SERVER_H_
