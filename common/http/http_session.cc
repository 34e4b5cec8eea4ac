#include "common/http/http_session.h"

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <deque>
#include <functional>
#include <optional>
#include <sstream>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "common/http/connection_stream.h"
#include "common/http/header_grammar.h"

namespace escapement {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

// After a request that was refused half way: how long, and how much of its rest is read.
constexpr absl::Duration kDiscardTimeout = absl::Seconds(2);
constexpr size_t kDiscardBytesMax = 64 << 20;
constexpr size_t kPieceBytes = 64 << 10;  // room for one read of a body

std::chrono::nanoseconds Chrono(absl::Duration d) { return absl::ToChronoNanoseconds(d); }

absl::string_view View(beast::string_view text) { return {text.data(), text.size()}; }

template <typename Message>
void SetHead(const HttpResponse& response, bool keep_alive, Message& message) {
  message.version(11);
  message.result(static_cast<unsigned>(response.status));
  message.set(http::field::server, "escapement");
  message.set(http::field::content_type, response.content_type);
  for (const auto& [name, value] : response.headers) message.insert(name, value);
  message.keep_alive(keep_alive);
}

class Session final : public HttpSession, public std::enable_shared_from_this<Session> {
 public:
  Session(tcp::socket socket, std::shared_ptr<HttpSessionHost> host);

  void Begin() override;
  void Close() override;
  uint64_t waiting_since() const override { return waiting_since_; }
  uint64_t streamed() const override { return streamed_; }
  absl::string_view address() const override {
    const absl::string_view peer = stream_.peer();
    return peer.substr(0, peer.rfind(':'));
  }

 private:
  class Stream;
  class Once;

  void Read();  // the next request
  void ReadHead();
  void OnHead();
  std::optional<HeadFault> FaultOfHead() const;
  void ReadBody();
  void OnRequest();
  void OnReadError(beast::error_code error);
  HttpRequest CopiedHead() const;
  HttpResponder MakeResponder();
  // Ends the connection after the answer.
  void WriteError(int status, absl::string_view text);
  void Write(HttpResponse response);
  void OnAnswered(beast::error_code error);
  void EndAndClose();
  void DiscardAndClose();

  void StreamBody(const HttpStreamHandler& handler);

  ConnectionStream stream_;
  const std::shared_ptr<HttpSessionHost> host_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  uint64_t waiting_since_ = 0;
  uint64_t streamed_ = 0;
  bool keep_alive_ = true;
  bool head_ = false;     // the request is a HEAD
  bool refused_ = false;  // in the middle of a request
};

Session::Session(tcp::socket socket, std::shared_ptr<HttpSessionHost> host)
    : stream_(std::move(socket), host->options().tls.get()), host_(std::move(host)) {}

void Session::Begin() {
  waiting_since_ = host_->NextTurn();
  stream_.expires_after(Chrono(host_->options().read_timeout));
  stream_.Handshake([self = shared_from_this()](beast::error_code error) {
    if (error) return self->Close();
    self->Read();
  });
}

void Session::Read() {
  waiting_since_ = host_->NextTurn();
  streamed_ = 0;
  parser_.emplace();
  parser_->header_limit(static_cast<uint32_t>(host_->options().header_bytes_max));
  // A body that is read in pieces has no bound.
  parser_->body_limit(boost::none);
  if (buffer_.size() > 0) return ReadHead();
  stream_.expires_after(Chrono(host_->options().idle_timeout));
  // Waits for the first byte with the idle timeout. From then on the request must arrive within
  // read_timeout.
  stream_.async_read_some(buffer_.prepare(4096),
                          [self = shared_from_this()](beast::error_code error, size_t bytes) {
                            if (error) return self->Close();
                            self->buffer_.commit(bytes);
                            self->ReadHead();
                          });
}

void Session::Close() {
  stream_.Close();
  host_->Forget(shared_from_this());
}

void Session::ReadHead() {
  stream_.expires_after(Chrono(host_->options().read_timeout));
  http::async_read_header(stream_, buffer_, *parser_,
                          [self = shared_from_this()](beast::error_code error, size_t) {
                            if (error) return self->OnReadError(error);
                            self->OnHead();
                          });
}

void Session::OnHead() {
  const auto& message = parser_->get();
  keep_alive_ = parser_->keep_alive();
  head_ = message.method() == http::verb::head;
  if (const auto fault = FaultOfHead(); fault.has_value())
    return WriteError(fault->status, fault->text);
  const absl::string_view target = View(message.target());
  const HttpStreamHandler* handler =
      host_->StreamHandler(View(message.method_string()), target.substr(0, target.find('?')));
  if (handler == nullptr) {
    const size_t bytes_max = host_->options().body_bytes_max;
    if (parser_->content_length().value_or(0) > bytes_max)
      return WriteError(413, "request body too large");
    parser_->body_limit(bytes_max);
  }
  const auto begin = [self = shared_from_this(), handler] {
    if (handler != nullptr) return self->StreamBody(*handler);
    self->ReadBody();
  };
  if (!absl::EqualsIgnoreCase(View(message[http::field::expect]), "100-continue")) return begin();
  static constexpr absl::string_view kContinue = "HTTP/1.1 100 Continue\r\n\r\n";
  asio::async_write(stream_, asio::buffer(kContinue.data(), kContinue.size()),
                    [self = shared_from_this(), begin](beast::error_code error, size_t) {
                      if (error) return self->Close();
                      begin();
                    });
}

std::optional<HeadFault> Session::FaultOfHead() const {
  const auto& message = parser_->get();
  HttpHead head;
  head.version = static_cast<int>(message.version());
  head.target = View(message.target());
  for (const auto& field : message)
    head.headers.emplace_back(View(field.name_string()), View(field.value()));
  if (const auto fault = FindHeadFault(head); fault.has_value()) return fault;
  const std::vector<absl::string_view> host = head.Values("host");
  if (!host.empty() && host_->checks_host() && !IsOwnHost(host[0], host_->options().host_names))
    return HeadFault{421, "the Host header names another host (--http_host_names)"};
  return std::nullopt;
}

void Session::ReadBody() {
  buffer_.reserve(std::min<size_t>(parser_->content_length().value_or(0), kPieceBytes));
  http::async_read(stream_, buffer_, *parser_,
                   [self = shared_from_this()](beast::error_code error, size_t) {
                     if (error) return self->OnReadError(error);
                     self->OnRequest();
                   });
}

void Session::OnReadError(beast::error_code error) {
  if (error == http::error::header_limit) return WriteError(431, "request header too large");
  if (error == http::error::body_limit) return WriteError(413, "request body too large");
  if (error.category() == http::make_error_code(http::error::bad_method).category() &&
      error != http::error::end_of_stream && error != http::error::partial_message) {
    return WriteError(400, "malformed request");
  }
  Close();
}

HttpRequest Session::CopiedHead() const {
  const auto& message = parser_->get();
  HttpRequest request;
  request.method = head_ ? "GET" : std::string(message.method_string());
  const absl::string_view target = View(message.target());
  const size_t question = target.find('?');
  request.path = std::string(target.substr(0, question));
  if (question != absl::string_view::npos) request.query = std::string(target.substr(question + 1));
  for (const auto& field : message)
    request.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  request.peer = stream_.peer();
  request.client_names = stream_.client_names();
  request.encrypted = host_->options().tls != nullptr;
  return request;
}

void Session::OnRequest() {
  HttpRequest request = CopiedHead();
  request.body = std::move(parser_->get().body());
  waiting_since_ = 0;
  stream_.expires_never();  // a handler may take any time; it has its own deadline
  host_->Dispatch(std::move(request), MakeResponder());
}

// Answers 500 if its last copy is destroyed without a call.
class Session::Once {
 public:
  Once(std::weak_ptr<Session> session, std::weak_ptr<HttpSessionHost> host)
      : session_(std::move(session)), host_(std::move(host)) {}
  ~Once() { Answer({.status = 500, .body = "no answer\n"}); }

  void Answer(HttpResponse response) {
    if (used_.exchange(true)) return;
    const auto host = host_.lock();
    if (host == nullptr) return;
    asio::post(host->io(), [session = session_, response = std::move(response)]() mutable {
      if (const auto alive = session.lock()) alive->Write(std::move(response));
    });
  }

 private:
  const std::weak_ptr<Session> session_;
  const std::weak_ptr<HttpSessionHost> host_;
  std::atomic<bool> used_{false};
};

HttpResponder Session::MakeResponder() {
  auto once = std::make_shared<Once>(weak_from_this(), host_);
  return [once](HttpResponse response) { once->Answer(std::move(response)); };
}

void Session::WriteError(int status, absl::string_view text) {
  waiting_since_ = 0;
  keep_alive_ = false;
  refused_ = true;
  Write(host_->ErrorFor(View(parser_->get().target()), status, text));
}

void Session::Write(HttpResponse response) {
  auto message = std::make_shared<http::response<http::string_body>>();
  SetHead(response, keep_alive_, *message);
  message->content_length(response.body.size());
  if (!head_) message->body() = std::move(response.body);
  stream_.expires_after(Chrono(host_->options().write_timeout));
  const auto done = [self = shared_from_this(), message](auto error, size_t) {
    self->OnAnswered(error);
  };
  if (!head_) return http::async_write(stream_, *message, done);
  auto serializer = std::make_shared<http::response_serializer<http::string_body>>(*message);
  http::async_write_header(stream_, *serializer,
                           [serializer, done](auto error, size_t bytes) { done(error, bytes); });
}

void Session::OnAnswered(beast::error_code error) {
  // A close with unread bytes would destroy the answer on its way.
  if (!error && refused_) return DiscardAndClose();
  if (error) return Close();
  if (!keep_alive_) return EndAndClose();
  Read();
}

void Session::EndAndClose() {
  waiting_since_ = host_->NextTurn();
  stream_.expires_after(Chrono(kDiscardTimeout));
  stream_.End([self = shared_from_this()] { self->Close(); });
}

void Session::DiscardAndClose() {
  stream_.expires_after(Chrono(kDiscardTimeout));
  stream_.End([self = shared_from_this()] {
    self->stream_.Discard(kDiscardBytesMax, [self] { self->Close(); });
  });
}

// A request's body and its answer in pieces. Everything but the public methods runs on the io
// thread. The server owns the session; the stream only points at it, so that a handler may keep a
// stream longer than the server lives.
class Session::Stream final : public HttpStream,
                              public std::enable_shared_from_this<Session::Stream> {
 public:
  explicit Stream(const std::shared_ptr<Session>& session)
      : session_(session),
        host_(session->host_),
        parser_(std::move(*session->parser_)),
        chunked_(parser_.get().version() >= 11) {
    session->parser_.reset();
  }
  ~Stream() override {
    const auto host = host_.lock();
    if (host == nullptr || over_) return;
    asio::post(host->io(), [session = session_] {
      if (const auto alive = session.lock()) alive->Close();
    });
  }

  void Read(std::function<void(absl::StatusOr<std::string>)> done) override {
    Post([done = std::move(done)](Stream& self) mutable { self.ReadPiece(std::move(done)); });
  }
  void Begin(HttpResponse head) override {
    Post([head = std::move(head)](Stream& self) { self.BeginAnswer(head); });
  }
  void Write(std::string bytes, std::function<void(absl::Status)> done) override {
    Post([bytes = std::move(bytes), done = std::move(done)](Stream& self) mutable {
      self.writes_.push_back({self.Chunk(std::move(bytes)), std::move(done)});
      self.WriteNext();
    });
  }
  void End() override {
    Post([](Stream& self) {
      self.ended_ = true;
      if (self.chunked_) self.writes_.push_back({"0\r\n\r\n", nullptr});
      self.WriteNext();
      self.FinishIfWritten();
    });
  }
  void Refuse(HttpResponse response) override {
    Post([response = std::move(response)](Stream& self) mutable {
      const auto session = self.Alive();
      self.over_ = true;
      if (session == nullptr) return;
      session->keep_alive_ = false;
      session->refused_ = true;
      session->Write(std::move(response));
    });
  }

 private:
  struct Pending {
    std::string bytes;
    std::function<void(absl::Status)> done;
  };

  template <typename Step>
  void Post(Step step) {
    const auto host = host_.lock();
    if (host == nullptr) return;
    asio::post(host->io(),
               [self = shared_from_this(), step = std::move(step)]() mutable { step(*self); });
  }

  // Null: the answer is complete, or the connection is broken.
  std::shared_ptr<Session> Alive() const { return over_ ? nullptr : session_.lock(); }

  static absl::Status Gone() { return absl::CancelledError("the connection has ended"); }

  void ReadPiece(std::function<void(absl::StatusOr<std::string>)> done) {
    const auto session = Alive();
    if (session == nullptr) return done(Gone());
    if (parser_.is_done()) return done(std::string());
    if (too_slow_) return done(TooSlow());
    auto piece = std::make_shared<std::string>(kPieceBytes, '\0');
    parser_.get().body().data = piece->data();
    parser_.get().body().size = piece->size();
    session->stream_.expires_after(Chrono(session->host_->options().read_timeout));
    const auto began = std::chrono::steady_clock::now();
    http::async_read_some(session->stream_, session->buffer_, parser_,
                          [self = shared_from_this(), session, piece, began,
                           done = std::move(done)](beast::error_code error, size_t) mutable {
                            if (error && error != http::error::need_buffer) {
                              self->Break();
                              return done(absl::CancelledError(error.message()));
                            }
                            piece->resize(piece->size() - self->parser_.get().body().size);
                            session->streamed_ = session->host_->NextTurn();
                            self->CountProgress(session->host_->options(), piece->size(),
                                                std::chrono::steady_clock::now() - began);
                            if (piece->empty()) return self->ReadPiece(std::move(done));
                            done(std::move(*piece));
                          });
  }

  void CountProgress(const HttpServer::Options& options, size_t bytes,
                     std::chrono::steady_clock::duration waited) {
    bytes_ += bytes;
    waited_ += absl::FromChrono(waited);
    if (bytes == 0 || waited_ < options.stream_bytes_within) return;
    too_slow_ = bytes_ < options.stream_bytes_min;
    bytes_ = 0;
    waited_ = absl::ZeroDuration();
  }

  static absl::Status TooSlow() {
    return absl::DeadlineExceededError("the client sends too slowly");
  }

  void BeginAnswer(const HttpResponse& head) {
    const auto session = Alive();
    if (session == nullptr) return;
    if (!chunked_) session->keep_alive_ = false;
    http::response<http::empty_body> message;
    SetHead(head, session->keep_alive_, message);
    if (chunked_) message.chunked(true);
    std::ostringstream text;
    text << message.base();
    writes_.push_back({text.str(), nullptr});
    WriteNext();
  }

  std::string Chunk(std::string bytes) const {
    if (!chunked_ || bytes.empty()) return bytes;
    return absl::StrCat(absl::Hex(bytes.size()), "\r\n", bytes, "\r\n");
  }

  void WriteNext() {
    if (writing_ || writes_.empty()) return;
    const auto session = Alive();
    if (session == nullptr) {
      for (Pending& pending : std::exchange(writes_, {})) {
        if (pending.done) pending.done(Gone());
      }
      return;
    }
    writing_ = true;
    session->stream_.expires_after(Chrono(session->host_->options().write_timeout));
    asio::async_write(session->stream_, asio::buffer(writes_.front().bytes),
                      [self = shared_from_this(), session](beast::error_code error, size_t) {
                        self->OnWritten(error);
                      });
  }

  void OnWritten(beast::error_code error) {
    writing_ = false;
    const Pending pending = std::move(writes_.front());
    writes_.pop_front();
    if (error) Break();
    if (pending.done)
      pending.done(error ? absl::CancelledError(error.message()) : absl::OkStatus());
    WriteNext();
    FinishIfWritten();
  }

  // Goes on to the connection's next request, once the answer is out.
  void FinishIfWritten() {
    if (!ended_ || writing_ || !writes_.empty()) return;
    const auto session = Alive();
    over_ = true;
    if (session == nullptr) return;
    if (!parser_.is_done()) return session->DiscardAndClose();
    if (!session->keep_alive_) return session->EndAndClose();
    session->Read();
  }

  void Break() {
    const auto session = Alive();
    over_ = true;
    if (session != nullptr) session->Close();
  }

  const std::weak_ptr<Session> session_;
  const std::weak_ptr<HttpSessionHost> host_;
  http::request_parser<http::buffer_body> parser_;
  const bool chunked_;
  std::deque<Pending> writes_;
  bool writing_ = false;
  bool ended_ = false;
  // Bytes of the body since the last look at the progress.
  size_t bytes_ = 0;
  absl::Duration waited_;  // in reads
  bool too_slow_ = false;
  std::atomic<bool> over_{false};  // written on the io thread; the destructor runs on any
};

void Session::StreamBody(const HttpStreamHandler& handler) {
  waiting_since_ = 0;
  streamed_ = host_->NextTurn();
  HttpRequest head = CopiedHead();
  handler(std::move(head), std::make_shared<Stream>(shared_from_this()));
}

}  // namespace

std::shared_ptr<HttpSession> NewHttpSession(int socket, bool ipv6,
                                            std::shared_ptr<HttpSessionHost> host) {
  tcp::socket owned(host->io(), ipv6 ? tcp::v6() : tcp::v4(), socket);
  return std::make_shared<Session>(std::move(owned), std::move(host));
}

}  // namespace escapement
