#include "tests/integration/probes.h"

#include <boost/asio/io_context.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <chrono>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/rpc/channel.h"
#include "grpcpp/generic/generic_stub.h"
#include "grpcpp/grpcpp.h"

namespace escapement::integration {

namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;

// Runs the operation that `start` begins with a completion token, until it ends or the stream's own
// timeout has passed.
template <typename Start>
beast::error_code Await(asio::io_context& io, Start start) {
  beast::error_code result;
  start([&result](beast::error_code error, auto&&...) { result = error; });
  io.restart();
  io.run();
  return result;
}

}  // namespace

std::string HttpAnswer::Header(absl::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (absl::EqualsIgnoreCase(key, name)) return value;
  }
  return {};
}

absl::StatusOr<HttpAnswer> HttpSend(absl::string_view address, const HttpCall& call,
                                    absl::Duration timeout) {
  const size_t colon = address.rfind(':');
  uint32_t port = 0;
  beast::error_code error;
  const auto ip = asio::ip::make_address(std::string(address.substr(0, colon)), error);
  if (colon == absl::string_view::npos || error ||
      !absl::SimpleAtoi(address.substr(colon + 1), &port)) {
    return absl::InvalidArgumentError(absl::StrCat("'", address, "' is no address"));
  }
  const auto failed = [&](const beast::error_code& why) {
    const std::string words =
        absl::StrCat(call.method, " ", address, call.path, ": ", why.message());
    return why == beast::error::timeout ? absl::DeadlineExceededError(words)
                                        : absl::UnavailableError(words);
  };
  asio::io_context io;
  beast::tcp_stream stream(io);
  stream.expires_after(absl::ToChronoNanoseconds(timeout));
  error = Await(io, [&](auto done) {
    stream.async_connect({ip, static_cast<uint16_t>(port)}, done);
  });
  if (error) return failed(error);
  http::request<http::string_body> request;
  request.version(11);
  request.method_string(call.method);
  request.target(call.path);
  request.set(http::field::host, std::string(address));
  for (const auto& [name, value] : call.headers) request.insert(name, value);
  request.body() = call.body;
  request.prepare_payload();
  request.keep_alive(false);
  error = Await(io, [&](auto done) { http::async_write(stream, request, done); });
  if (error) return failed(error);
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(uint64_t{1} << 30);
  error = Await(io, [&](auto done) { http::async_read(stream, buffer, parser, done); });
  if (error) return failed(error);
  HttpAnswer answer{static_cast<int>(parser.get().result_int()), std::move(parser.get().body())};
  for (const auto& field : parser.get())
    answer.headers.emplace_back(std::string(field.name_string()), std::string(field.value()));
  return answer;
}

absl::StatusOr<HttpAnswer> HttpGet(absl::string_view address, absl::string_view path,
                                   absl::Duration timeout) {
  return HttpSend(address, {.path = std::string(path)}, timeout);
}

Health CheckHealth(const std::string& address, std::optional<PeerTls> tls) {
  ChannelOptions options;
  options.tls = std::move(tls);
  grpc::GenericStub stub(NewChannel(address, options));
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() + std::chrono::seconds(5));
  grpc::CompletionQueue queue;
  // HealthCheckRequest{service: ""} is empty. HealthCheckResponse has field 1: 1 = SERVING, 2 =
  // NOT_SERVING.
  const grpc::Slice empty;
  auto call = stub.PrepareUnaryCall(&context, "/grpc.health.v1.Health/Check",
                                    grpc::ByteBuffer(&empty, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  std::vector<grpc::Slice> slices;
  if (!status.ok() || !answer.Dump(&slices).ok() || slices.empty() || slices[0].size() != 2)
    return Health::kUnreachable;
  return slices[0].begin()[1] == 1 ? Health::kServing : Health::kNotServing;
}

double MetricOf(absl::string_view address, absl::string_view metric) {
  const auto answer = HttpGet(address, "/metrics");
  if (!answer.ok()) return -1;
  for (absl::string_view line : absl::StrSplit(answer->body, '\n')) {
    double value = -1;
    if (absl::ConsumePrefix(&line, absl::StrCat(metric, " ")) && absl::SimpleAtod(line, &value))
      return value;
  }
  return -1;
}

}  // namespace escapement::integration
