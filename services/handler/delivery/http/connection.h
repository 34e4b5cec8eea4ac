// HttpConnection: a connected socket that carries one HTTP/1.1 request at a time. Boost.Beast
// parses the answers.
//
// Threads: one at a time (the transport's). Nothing blocks.

#ifndef SERVICES_HANDLER_DELIVERY_HTTP_CONNECTION_H_
#define SERVICES_HANDLER_DELIVERY_HTTP_CONNECTION_H_

#include <cstddef>
#include <memory>
#include <string>

#include "absl/strings/string_view.h"
#include "services/handler/delivery/http/answer.h"

namespace escapement::handler {

class HttpConnection {
 public:
  enum class Progress {
    kGoesOn,
    kAnswered,
    kBroken,  // see why()
  };

  // Owns the socket, which must not block. An answer is complete after body_bytes_max of its body;
  // the rest is not read.
  HttpConnection(int fd, size_t body_bytes_max);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  int fd() const { return fd_; }

  // Begins a request. `head`: its lines, including the empty one. Both strings must stay valid
  // until kAnswered or kBroken. No other request may be under way.
  Progress Begin(absl::string_view head, absl::string_view body);
  // Writes as many of the remaining bytes as possible now.
  Progress Write();
  // Reads the bytes that have arrived.
  Progress Read();

  // True if Write must be called once the socket is writable.
  bool writing() const { return written_ < head_.size() + body_.size(); }
  // True if a byte of this request's answer has arrived.
  bool heard() const { return heard_; }
  // After kAnswered: true if the connection may carry another request.
  bool reusable() const { return reusable_; }
  // Only after kAnswered. `with_outcome`: include the Escapement-Outcome header.
  HttpAnswer TakeAnswer(bool with_outcome);
  const std::string& why() const { return why_; }

 private:
  class Parser;
  Progress Parse();
  Progress Ended();  // the peer has closed the connection
  Progress Answered(bool reusable);
  Progress Broken(std::string why);

  const int fd_;
  const size_t body_bytes_max_;
  absl::string_view head_;
  absl::string_view body_;
  size_t written_ = 0;  // bytes of head and body
  std::unique_ptr<Parser> parser_;
  bool header_whole_ = false;  // the header section of the answer is complete
  int informational_ = 0;      // answers with status 100 to 199
  std::string unparsed_;
  bool heard_ = false;
  bool reusable_ = false;
  std::string why_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_HTTP_CONNECTION_H_
