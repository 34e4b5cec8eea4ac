#include "common/http/http_server.h"

#include <algorithm>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/beast/core.hpp>
#include <map>
#include <set>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/status_macros.h"
#include "common/http/http_session.h"
#include "common/rpc/host_port.h"

namespace escapement {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
using asio::ip::tcp;

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

struct StreamRoute {
  std::string method;
  std::string prefix;
  std::string suffix;
  HttpStreamHandler handler;
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

class HttpServer::Core final : public HttpSessionHost,
                               public std::enable_shared_from_this<HttpServer::Core> {
 public:
  explicit Core(Options options) : options_(std::move(options)), acceptor_(io_) {}

  absl::Status Start();
  void Shutdown();

  asio::io_context& io() override { return io_; }
  const Options& options() const override { return options_; }
  bool checks_host() const override { return checks_host_; }
  void Dispatch(HttpRequest request, HttpResponder respond) const override;
  const HttpStreamHandler* StreamHandler(absl::string_view method,
                                         absl::string_view path) const override;
  HttpResponse ErrorFor(absl::string_view path, int status, absl::string_view text) const override;
  uint64_t NextTurn() override { return ++turns_; }
  void Forget(const std::shared_ptr<HttpSession>& session) override { sessions_.erase(session); }

  const Options options_;
  std::vector<RouteEntry> routes_;
  std::vector<StreamRoute> stream_routes_;
  std::vector<ErrorRoute> error_routes_;
  std::string address_;
  int port_ = 0;
  asio::io_context io_{1};

 private:
  void Accept();
  void MakeRoom();

  tcp::acceptor acceptor_;
  std::set<std::shared_ptr<HttpSession>> sessions_;  // only on the io thread
  uint64_t turns_ = 0;
  bool checks_host_ = false;
  bool stopping_ = false;  // only on the io thread
  std::thread thread_;
};

absl::Status HttpServer::Core::Start() {
  ASSIGN_OR_RETURN(auto listen, ParseHostPort(options_.listen));
  RETURN_IF_ERROR(
      CheckListen(listen, options_.tls != nullptr, options_.credentials, options_.insecure));
  checks_host_ = !options_.host_names.empty() || (listen.IsLoopback() && !options_.credentials);
  beast::error_code error;
  const auto resolved = tcp::resolver(io_).resolve(listen.host, absl::StrCat(listen.port), error);
  if (error || resolved.empty())
    return absl::UnavailableError(absl::StrCat("cannot resolve ", listen.host));
  const tcp::endpoint endpoint = resolved.begin()->endpoint();
  acceptor_.open(endpoint.protocol(), error);
  if (!error) acceptor_.set_option(asio::socket_base::reuse_address(true), error);
  if (!error) acceptor_.bind(endpoint, error);
  if (!error) acceptor_.listen(asio::socket_base::max_listen_connections, error);
  if (error)
    return absl::UnavailableError(
        absl::StrCat("cannot listen on ", listen.ToString(), ": ", error.message()));
  port_ = acceptor_.local_endpoint().port();
  listen.port = static_cast<uint16_t>(port_);
  address_ = listen.ToString();
  Accept();
  thread_ = std::thread([self = this] { self->io_.run(); });
  return absl::OkStatus();
}

void HttpServer::Core::Accept() {
  acceptor_.async_accept([this](beast::error_code error, tcp::socket socket) {
    if (stopping_ || error == asio::error::operation_aborted) return;
    if (!error && sessions_.size() >= options_.connections_max) MakeRoom();
    if (!error && sessions_.size() < options_.connections_max) {
      beast::error_code ignored;
      socket.set_option(tcp::no_delay(true), ignored);
      const bool ipv6 = socket.local_endpoint(ignored).protocol() == tcp::v6();
      auto session = NewHttpSession(socket.release(), ipv6, shared_from_this());
      sessions_.insert(session);
      session->Begin();
    }
    Accept();
  });
}

// So that slow, idle or greedy clients do not keep others out.
void HttpServer::Core::MakeRoom() {
  std::map<absl::string_view, size_t> of_address;
  for (const auto& session : sessions_) ++of_address[session->address()];
  const auto most =
      std::max_element(of_address.begin(), of_address.end(),
                       [](const auto& a, const auto& b) { return a.second < b.second; });
  if (most == of_address.end()) return;
  std::shared_ptr<HttpSession> victim;
  std::pair<int, uint64_t> first;  // the victim's place
  for (const auto& session : sessions_) {
    const uint64_t waiting = session->waiting_since();
    const bool greedy = session->address() == most->first;
    std::pair<int, uint64_t> place;
    if (waiting != 0) {
      place = {greedy ? 0 : 2, waiting};
    } else if (greedy && session->streamed() != 0) {
      place = {1, session->streamed()};
    } else {
      continue;
    }
    if (victim != nullptr && first <= place) continue;
    victim = session;
    first = place;
  }
  if (victim != nullptr) victim->Close();
}

void HttpServer::Core::Shutdown() {
  if (!thread_.joinable()) return;
  asio::post(io_, [this] {
    stopping_ = true;
    beast::error_code ignored;
    acceptor_.close(ignored);
    for (const auto& session : std::set<std::shared_ptr<HttpSession>>(sessions_)) session->Close();
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

const HttpStreamHandler* HttpServer::Core::StreamHandler(absl::string_view method,
                                                         absl::string_view path) const {
  for (const StreamRoute& route : stream_routes_) {
    if (method == route.method && absl::StartsWith(path, route.prefix) &&
        absl::EndsWith(path, route.suffix))
      return &route.handler;
  }
  return nullptr;
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

void HttpServer::RouteStream(std::string method, std::string prefix, std::string suffix,
                             HttpStreamHandler handler) {
  core_->stream_routes_.push_back(
      {std::move(method), std::move(prefix), std::move(suffix), std::move(handler)});
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
