// HttpSession: one connection of an HttpServer. Reads a request, hands it to the handler of its
// route, writes the answer, and goes on to the next request.
//
// Threads: everything runs on the io thread. Responders and streams may be called from any thread;
// they post.

#ifndef COMMON_HTTP_HTTP_SESSION_H_
#define COMMON_HTTP_HTTP_SESSION_H_

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "common/http/http_server.h"

namespace escapement {

class HttpSession;

// The server as its connections see it.
class HttpSessionHost {
 public:
  virtual ~HttpSessionHost() = default;
  virtual boost::asio::io_context& io() = 0;
  virtual const HttpServer::Options& options() const = 0;
  virtual void Dispatch(HttpRequest request, HttpResponder respond) const = 0;
  // The handler that reads this request's body in pieces; null: the body is read as a whole.
  virtual const HttpStreamHandler* StreamHandler(const HttpRequest& head) const = 0;
  virtual HttpResponse ErrorFor(absl::string_view path, int status,
                                absl::string_view text) const = 0;
  virtual void Forget(const std::shared_ptr<HttpSession>& session) = 0;
};

class HttpSession : public std::enable_shared_from_this<HttpSession> {
 public:
  HttpSession(boost::asio::ip::tcp::socket socket, std::shared_ptr<HttpSessionHost> host);

  // Reads the next request.
  void Read();
  void Close();

 private:
  class Stream;
  class Once;

  void ReadHead();
  void OnHead();
  void ReadBody();
  void OnRequest();
  void OnReadError(boost::beast::error_code error);
  HttpRequest TakeHead() const;
  HttpResponder MakeResponder();
  // Ends the connection after the answer.
  void WriteError(int status, absl::string_view text);
  void Write(HttpResponse response);
  void OnAnswered(boost::beast::error_code error);
  void DiscardAndClose();
  void Discard(size_t bytes_max);

  void StreamBody(const HttpStreamHandler& handler);

  boost::beast::tcp_stream stream_;
  const std::shared_ptr<HttpSessionHost> host_;
  boost::beast::flat_buffer buffer_;
  std::optional<boost::beast::http::request_parser<boost::beast::http::string_body>> parser_;
  bool keep_alive_ = true;
  bool head_ = false;     // the request is a HEAD
  bool refused_ = false;  // in the middle of a request
};

}  // namespace escapement

#endif  // COMMON_HTTP_HTTP_SESSION_H_
