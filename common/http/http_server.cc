#include "common/http/http_server.h"

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <optional>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/rpc/host_port.h"

namespace escapement {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

// After a request that was refused half way: how long, and how much of its rest is read.
constexpr absl::Duration kDiscardTimeout = absl::Seconds(2);
constexpr size_t kDiscardBytesMax = 64 << 20;

absl::string_view View(beast::string_view text) { return {text.data(), text.size()}; }

HttpResponse Words(int status, absl::string_view text) {
  HttpResponse response;
  response.status = status;
  response.body = absl::StrCat(text, "\n");
  return response;
}

struct RouteEntry {
  std::string method;
  std::string path;
  HttpHandler handler;
};

struct ErrorRoute {
  std::string prefix;
  std::function<HttpResponse(int status, absl::string_view text)> answer;
};

}  // namespace

absl::string_view HttpRequest::Header(absl::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (absl::EqualsIgnoreCase(key, name)) return value;
  }
  return {};
}

class HttpServer::Core : public std::enable_shared_from_this<HttpServer::Core> {
 public:
  explicit Core(Options options) : options_(std::move(options)), acceptor_(io_) {}

  absl::Status Start();
  void Shutdown();
  void Dispatch(HttpRequest request, HttpResponder respond) const;
  HttpResponse ErrorFor(absl::string_view path, int status, absl::string_view text) const;
  void Forget(const std::shared_ptr<Session>& session) { sessions_.erase(session); }

  const Options options_;
  std::vector<RouteEntry> routes_;
  std::vector<ErrorRoute> error_routes_;
  std::string address_;
  int port_ = 0;
  asio::io_context io_{1};

 private:
  void Accept();

  tcp::acceptor acceptor_;
  std::set<std::shared_ptr<Session>> sessions_;  // only on the io thread
  bool stopping_ = false;                        // only on the io thread
  std::thread thread_;
};

// One connection. Everything runs on the io thread. Only the responder may be called from other
// threads; it posts.
class HttpServer::Session : public std::enable_shared_from_this<HttpServer::Session> {
 public:
  Session(tcp::socket socket, std::shared_ptr<Core> core)
      : stream_(std::move(socket)), core_(core) {}

  void Read() {
    parser_.emplace();
    parser_->header_limit(static_cast<uint32_t>(core_->options_.header_bytes_max));
    parser_->body_limit(core_->options_.body_bytes_max);
    if (buffer_.size() > 0) return ReadRequest();
    stream_.expires_after(Chrono(core_->options_.idle_timeout));
    // Waits for the first byte with the idle timeout. From then on the request must arrive within
    // read_timeout.
    stream_.async_read_some(buffer_.prepare(4096),
                            [self = shared_from_this()](beast::error_code error, size_t bytes) {
                              if (error) return self->Close();
                              self->buffer_.commit(bytes);
                              self->ReadRequest();
                            });
  }

  void Close() {
    beast::error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_both, ignored);
    stream_.close();
    core_->Forget(shared_from_this());
  }

 private:
  static std::chrono::nanoseconds Chrono(absl::Duration d) { return absl::ToChronoNanoseconds(d); }

  void ReadRequest() {
    stream_.expires_after(Chrono(core_->options_.read_timeout));
    http::async_read(
        stream_, buffer_, *parser_,
        [self = shared_from_this()](beast::error_code error, size_t) { self->OnRead(error); });
  }

  void OnRead(beast::error_code error) {
    if (error) {
      keep_alive_ = false;
      if (error == http::error::header_limit) return WriteError(431, "request header too large");
      if (error == http::error::body_limit) return WriteError(413, "request body too large");
      if (error.category() == http::make_error_code(http::error::bad_method).category() &&
          error != http::error::end_of_stream && error != http::error::partial_message) {
        return WriteError(400, "malformed request");
      }
      return Close();
    }
    auto message = parser_->release();
    keep_alive_ = message.keep_alive();
    head_ = message.method() == http::verb::head;
    HttpRequest request;
    request.method = head_ ? "GET" : std::string(message.method_string());
    const absl::string_view target = View(message.target());
    const size_t question = target.find('?');
    request.path = std::string(target.substr(0, question));
    if (question != absl::string_view::npos)
      request.query = std::string(target.substr(question + 1));
    for (const auto& field : message) {
      request.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
    }
    request.body = std::move(message.body());
    // A handler may take any time; it has its own deadline.
    stream_.expires_never();
    core_->Dispatch(std::move(request), MakeResponder());
  }

  // The connection ends after this answer, but first the server reads what the client is still
  // sending: a close with unread bytes would destroy the answer on its way.
  void WriteError(int status, absl::string_view text) {
    refused_ = true;
    Write(core_->ErrorFor(View(parser_->get().target()), status, text));
  }

  void DiscardAndClose() {
    beast::error_code ignored;
    stream_.socket().shutdown(tcp::socket::shutdown_send, ignored);
    stream_.expires_after(Chrono(kDiscardTimeout));
    Discard(kDiscardBytesMax);
  }

  void Discard(size_t bytes_max) {
    buffer_.clear();
    stream_.async_read_some(buffer_.prepare(64 << 10), [self = shared_from_this(), bytes_max](
                                                           beast::error_code error, size_t bytes) {
      if (error || bytes >= bytes_max) return self->Close();
      self->Discard(bytes_max - bytes);
    });
  }

  // The responder's shared state answers 500 if the last copy is destroyed without a call.
  HttpResponder MakeResponder() {
    struct Once {
      std::weak_ptr<Session> session;
      std::weak_ptr<Core> core;
      std::atomic<bool> used{false};
      void Answer(HttpResponse response) {
        if (used.exchange(true)) return;
        const auto core_alive = core.lock();
        if (core_alive == nullptr) return;
        asio::post(core_alive->io_, [session = session, response = std::move(response)]() mutable {
          if (const auto alive = session.lock()) alive->Write(std::move(response));
        });
      }
      ~Once() { Answer(Words(500, "no answer")); }
    };
    auto once = std::make_shared<Once>();
    once->session = shared_from_this();
    once->core = core_;
    return [once](HttpResponse response) { once->Answer(std::move(response)); };
  }

  void Write(HttpResponse response) {
    auto message = std::make_shared<http::response<http::string_body>>();
    message->version(11);
    message->result(static_cast<unsigned>(response.status));
    message->set(http::field::server, "escapement");
    message->set(http::field::content_type, response.content_type);
    for (const auto& [name, value] : response.headers) message->set(name, value);
    message->keep_alive(keep_alive_);
    message->content_length(response.body.size());
    if (!head_) message->body() = std::move(response.body);
    stream_.expires_after(Chrono(core_->options_.write_timeout));
    const auto done = [self = shared_from_this(), message](beast::error_code error, size_t) {
      if (!error && self->refused_) return self->DiscardAndClose();
      if (error || !self->keep_alive_) return self->Close();
      self->Read();
    };
    if (!head_) return http::async_write(stream_, *message, done);
    auto serializer = std::make_shared<http::response_serializer<http::string_body>>(*message);
    http::async_write_header(
        stream_, *serializer,
        [serializer, done](beast::error_code error, size_t bytes) { done(error, bytes); });
  }

  beast::tcp_stream stream_;
  const std::shared_ptr<Core> core_;
  beast::flat_buffer buffer_;
  std::optional<http::request_parser<http::string_body>> parser_;
  bool keep_alive_ = true;
  bool head_ = false;
  bool refused_ = false;  // in the middle of a request
};

absl::Status HttpServer::Core::Start() {
  auto listen = ParseHostPort(options_.listen);
  if (!listen.ok()) return listen.status();
  if (!listen->IsLoopback() && !options_.insecure) {
    return absl::InvalidArgumentError(
        absl::StrCat("refusing to listen on ", listen->ToString(),
                     ": without TLS only loopback addresses are allowed; use one, or "
                     "--insecure"));
  }
  beast::error_code error;
  const auto resolved = tcp::resolver(io_).resolve(listen->host, absl::StrCat(listen->port), error);
  if (error || resolved.empty())
    return absl::UnavailableError(absl::StrCat("cannot resolve ", listen->host));
  const tcp::endpoint endpoint = resolved.begin()->endpoint();
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error)
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", listen->ToString(), ": ", error.message()));
  port_ = acceptor_.local_endpoint().port();
  listen->port = static_cast<uint16_t>(port_);
  address_ = listen->ToString();
  Accept();
  thread_ = std::thread([self = this] { self->io_.run(); });
  return absl::OkStatus();
}

void HttpServer::Core::Accept() {
  acceptor_.async_accept([this](beast::error_code error, tcp::socket socket) {
    if (stopping_ || error == asio::error::operation_aborted) return;
    if (!error && sessions_.size() < options_.connections_max) {
      beast::error_code ignored;
      socket.set_option(tcp::no_delay(true), ignored);
      auto session = std::make_shared<Session>(std::move(socket), shared_from_this());
      sessions_.insert(session);
      session->Read();
    }
    Accept();
  });
}

void HttpServer::Core::Shutdown() {
  if (!thread_.joinable()) return;
  asio::post(io_, [this] {
    stopping_ = true;
    beast::error_code ignored;
    acceptor_.close(ignored);
    for (const auto& session : std::set<std::shared_ptr<Session>>(sessions_)) session->Close();
    io_.stop();
  });
  thread_.join();
  // Cancelled operations hold their connection, which holds this object with its queue. Run them
  // now, so that they release it.
  io_.restart();
  io_.poll();
}

void HttpServer::Core::Dispatch(HttpRequest request, HttpResponder respond) const {
  const RouteEntry* best = nullptr;
  bool path_known = false;
  for (const RouteEntry& route : routes_) {
    const bool fits = route.path.back() == '/' && route.path.size() > 1
                          ? absl::StartsWith(request.path, route.path)
                          : request.path == route.path;
    if (!fits) continue;
    path_known = true;
    if (!route.method.empty() && route.method != request.method) continue;
    if (best == nullptr || route.path.size() > best->path.size()) best = &route;
  }
  if (best != nullptr) return best->handler(std::move(request), std::move(respond));
  respond(path_known ? Words(405, "method not allowed") : Words(404, "not found"));
}

HttpResponse HttpServer::Core::ErrorFor(absl::string_view path, int status,
                                        absl::string_view text) const {
  for (const ErrorRoute& route : error_routes_) {
    if (absl::StartsWith(path, route.prefix)) return route.answer(status, text);
  }
  return Words(status, text);
}

HttpServer::HttpServer(Options options) : core_(std::make_shared<Core>(std::move(options))) {}
HttpServer::~HttpServer() { Shutdown(); }

void HttpServer::Route(std::string method, std::string path, HttpHandler handler) {
  core_->routes_.push_back({std::move(method), std::move(path), std::move(handler)});
}

void HttpServer::RouteSync(std::string method, std::string path,
                           std::function<HttpResponse(const HttpRequest&)> handler) {
  Route(std::move(method), std::move(path),
        [handler = std::move(handler)](HttpRequest request, HttpResponder respond) {
          respond(handler(request));
        });
}

void HttpServer::RouteErrors(
    std::string prefix, std::function<HttpResponse(int status, absl::string_view text)> answer) {
  core_->error_routes_.push_back({std::move(prefix), std::move(answer)});
}

absl::Status HttpServer::Start() { return core_->Start(); }
const std::string& HttpServer::address() const { return core_->address_; }
int HttpServer::port() const { return core_->port_; }
void HttpServer::Shutdown() { core_->Shutdown(); }

}  // namespace escapement
