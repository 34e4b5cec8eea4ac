// HttpConnection: a connected socket that carries one HTTP/1.1 request at a time. Answers are read
// by Boost.Beast's parser.
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

  // Owns the socket, which does not block. After body_bytes_max of a body the answer counts, and
  // the rest of it is not read.
  HttpConnection(int fd, size_t body_bytes_max);
  ~HttpConnection();
  HttpConnection(const HttpConnection&) = delete;
  HttpConnection& operator=(const HttpConnection&) = delete;

  int fd() const { return fd_; }

  // Begins a request: its lines up to and with the empty one, and its body, which stay until it is
  // answered or broken. Not while another one goes on.
  Progress Begin(absl::string_view head, absl::string_view body);
  // Writes what is left, as far as that is possible now.
  Progress Write();
  // Reads what has come.
  Progress Read();

  // Whether Write is to be called when the socket can be written to.
  bool writing() const { return written_ < head_.size() + body_.size(); }
  // Of this request: something of its answer has come.
  bool heard() const { return heard_; }
  // After kAnswered: whether it may carry a further request.
  bool reusable() const { return reusable_; }
  // After kAnswered. `with_outcome`: the outcome's header is wanted.
  HttpAnswer TakeAnswer(bool with_outcome);
  const std::string& why() const { return why_; }

 private:
  class Parser;
  Progress Parse();
  Progress Ended();  // by the peer
  Progress Answered(bool reusable);
  Progress Broken(std::string why);

  const int fd_;
  const size_t body_bytes_max_;
  absl::string_view head_;
  absl::string_view body_;
  size_t written_ = 0;  // of both
  std::unique_ptr<Parser> parser_;
  bool header_whole_ = false;  // the header section of the answer has come to its end
  int informational_ = 0;      // answers of 100 to 199 to the request
  std::string unparsed_;
  bool heard_ = false;
  bool reusable_ = false;
  std::string why_;
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_HTTP_CONNECTION_H_
