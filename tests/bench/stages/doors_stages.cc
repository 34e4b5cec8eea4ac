#include "tests/bench/stages/doors_stages.h"

#include <google/protobuf/util/json_util.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <functional>
#include <iterator>
#include <memory>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/synchronization/blocking_counter.h"
#include "absl/time/clock.h"
#include "common/base/status_macros.h"
#include "common/rpc/status_conversion.h"
#include "escapement/v1/event_service.grpc.pb.h"
#include "escapement/v1/schedule_service.grpc.pb.h"
#include "tests/bench/beds/ingest_client.h"
#include "tests/integration/probes.h"

namespace escapement::bench {
namespace {

namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

constexpr const char* kName = "tenants/default/schedules/doors";
constexpr size_t kPayloadBytes = 100;
// No event falls due while it is measured.
constexpr int64_t kDueSeconds = 3'786'912'000;  // 2090

v1::Target Nowhere() {
  v1::Target target;
  target.mutable_grpc()->set_uri("127.0.0.1:9");
  return target;
}

v1::BatchCreateEventsRequest Batch(int events) {
  v1::BatchCreateEventsRequest request;
  request.set_parent("tenants/default");
  for (int i = 0; i < events; ++i) {
    v1::Event& event = *request.add_requests()->mutable_event();
    event.mutable_due_time()->set_seconds(kDueSeconds);
    event.set_payload(std::string(kPayloadBytes, 'p'));
    *event.mutable_target() = Nowhere();
  }
  return request;
}

v1::BatchCreateSchedulesRequest ScheduleBatch(int schedules) {
  v1::BatchCreateSchedulesRequest request;
  request.set_parent("tenants/default");
  for (int i = 0; i < schedules; ++i) {
    v1::Schedule& schedule = *request.add_requests()->mutable_schedule();
    schedule.set_cron(absl::StrCat(i % 60, " ", i / 60 % 24, " * * *"));
    schedule.set_payload(std::string(kPayloadBytes, 'p'));
    *schedule.mutable_target() = Nowhere();
  }
  return request;
}

// Keeps `outstanding` calls under way for the time of the load. `call` begins one and calls back.
using Call = std::function<void(std::function<void(bool ok)>)>;
absl::StatusOr<double> Rate(const DoorsLoad& load, const Call& call) {
  std::atomic<uint64_t> answered{0};
  std::atomic<uint64_t> failed{0};
  std::atomic<bool> over{false};
  absl::BlockingCounter ended(load.outstanding);
  std::function<void()> next = [&] {
    call([&](bool ok) {
      ++(ok ? answered : failed);
      if (over.load() || !ok) {
        ended.DecrementCount();
      } else {
        next();
      }
    });
  };
  const absl::Time begin = absl::Now();
  for (int i = 0; i < load.outstanding; ++i) next();
  absl::SleepFor(load.time);
  const uint64_t count = answered.load();
  const absl::Duration time = absl::Now() - begin;
  over = true;
  ended.Wait();
  if (failed.load() > 0) return absl::InternalError(absl::StrCat(failed.load(), " calls failed"));
  return static_cast<double>(count) / absl::ToDoubleSeconds(time);
}

// A connection that sends the same request again and again until `over`.
class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(asio::io_context& io, const std::string& request, const std::atomic<bool>& over,
             uint64_t& answered, uint64_t& failed)
      : socket_(io), request_(request), over_(over), answered_(answered), failed_(failed) {}

  void Start(const tcp::endpoint& endpoint) {
    beast::error_code error;
    socket_.connect(endpoint, error);
    if (!error) socket_.set_option(tcp::no_delay(true), error);
    if (error) return void(++failed_);
    Send();
  }

 private:
  void Send() {
    if (over_.load()) return;
    asio::async_write(socket_, asio::buffer(request_),
                      [self = shared_from_this()](beast::error_code error, size_t) {
                        if (error) return void(++self->failed_);
                        self->Receive();
                      });
  }
  void Receive() {
    parser_.emplace();
    parser_->body_limit(64 << 20);
    http::async_read(socket_, buffer_, *parser_,
                     [self = shared_from_this()](beast::error_code error, size_t) {
                       if (error || self->parser_->get().result_int() != 200)
                         return void(++self->failed_);
                       ++self->answered_;
                       self->Send();
                     });
  }

  tcp::socket socket_;
  const std::string& request_;
  const std::atomic<bool>& over_;
  uint64_t& answered_;
  uint64_t& failed_;
  beast::flat_buffer buffer_;
  std::optional<http::response_parser<http::string_body>> parser_;
};

absl::StatusOr<tcp::endpoint> EndpointOf(const std::string& address) {
  const std::pair<std::string, std::string> parts = absl::StrSplit(address, ':');
  int port = 0;
  if (!absl::SimpleAtoi(parts.second, &port)) return absl::InvalidArgumentError(address);
  return tcp::endpoint(asio::ip::make_address(parts.first), static_cast<uint16_t>(port));
}

absl::StatusOr<double> HttpRate(const std::string& address, const DoorsLoad& load,
                                const std::string& request) {
  ASSIGN_OR_RETURN(const auto endpoint, EndpointOf(address));
  asio::io_context io(1);
  std::atomic<bool> over{false};
  uint64_t answered = 0;
  uint64_t failed = 0;
  for (int i = 0; i < load.outstanding; ++i)
    std::make_shared<Connection>(io, request, over, answered, failed)->Start(endpoint);
  const absl::Time begin = absl::Now();
  std::thread client([&] { io.run(); });
  absl::SleepFor(load.time);
  over = true;
  client.join();
  const absl::Duration time = absl::Now() - begin;
  if (failed > 0) return absl::InternalError(absl::StrCat(failed, " requests failed"));
  return static_cast<double>(answered) / absl::ToDoubleSeconds(time);
}

std::string Request(absl::string_view method, absl::string_view path, absl::string_view body) {
  return absl::StrCat(method, " ", path,
                      " HTTP/1.1\r\nHost: localhost\r\nContent-Length: ", body.size(), "\r\n\r\n",
                      body);
}

std::string Json(const google::protobuf::Message& message) {
  std::string json;
  return google::protobuf::util::MessageToJsonString(message, &json).ok() ? json : "";
}

std::string InQuery(absl::string_view text) {
  return absl::StrReplaceAll(text, {{" ", "%20"}, {"=", "%3D"}, {"\"", "%22"}, {">", "%3E"}});
}

// Reads the list 20 times. Each page must have 10 items, which have `field` each. Milliseconds.
absl::StatusOr<double> SlowestList(const std::string& http, const std::string& path,
                                   absl::string_view field) {
  constexpr int kLists = 20;
  absl::Duration slowest;
  for (int i = 0; i < kLists; ++i) {
    const absl::Time begin = absl::Now();
    const auto answer = integration::HttpGet(http, path);
    slowest = std::max(slowest, absl::Now() - begin);
    if (!answer.ok()) return answer.status();
    const auto listed = absl::StrSplit(answer->body, field);
    if (answer->status != 200 || std::distance(listed.begin(), listed.end()) != 11)
      return absl::InternalError(answer->body);
  }
  return absl::ToDoubleMilliseconds(slowest);
}

}  // namespace

DoorsStages::DoorsStages(std::string grpc, std::string http, Caller caller)
    : grpc_(std::move(grpc)),
      http_(std::move(http)),
      caller_(std::move(caller)),
      channel_(NewChannelOf(caller_, grpc_)) {}

absl::Status DoorsStages::Prepare() {
  v1::CreateScheduleRequest request;
  request.set_parent("tenants/default");
  request.set_schedule_id("doors");
  v1::Schedule& schedule = *request.mutable_schedule();
  schedule.set_cron("0 3 1 1 *");
  *schedule.mutable_target() = Nowhere();
  schedule.set_payload(std::string(kPayloadBytes, 'p'));
  grpc::ClientContext context;
  context.set_wait_for_ready(true);
  context.set_deadline(absl::ToChronoTime(absl::Now() + absl::Seconds(20)));
  AddCredentials(caller_, context);
  v1::Schedule created;
  const auto stub = v1::ScheduleService::NewStub(channel_);
  return FromGrpcStatus(stub->CreateSchedule(&context, request, &created));
}

absl::StatusOr<std::string> DoorsStages::GetBytes() const {
  grpc::ClientContext context;
  AddCredentials(caller_, context);
  v1::GetScheduleRequest request;
  request.set_name(kName);
  v1::Schedule schedule;
  const auto stub = v1::ScheduleService::NewStub(channel_);
  RETURN_IF_ERROR(FromGrpcStatus(stub->GetSchedule(&context, request, &schedule)));
  return schedule.SerializeAsString();
}

absl::StatusOr<double> DoorsStages::GetByGrpc(const DoorsLoad& load) const {
  const auto stub = v1::ScheduleService::NewStub(channel_);
  struct Get {
    grpc::ClientContext context;
    v1::GetScheduleRequest request;
    v1::Schedule answer;
  };
  return Rate(load, [&](std::function<void(bool)> done) {
    auto get = std::make_shared<Get>();
    AddCredentials(caller_, get->context);
    get->request.set_name(kName);
    stub->async()->GetSchedule(
        &get->context, &get->request, &get->answer,
        [get, done = std::move(done)](const grpc::Status& status) { done(status.ok()); });
  });
}

absl::StatusOr<double> DoorsStages::GetByRest(const DoorsLoad& load) const {
  return HttpRate(http_, load, Request("GET", absl::StrCat("/v1/", kName), ""));
}

absl::StatusOr<double> DoorsStages::BatchByGrpc(const DoorsLoad& load, int events) const {
  const auto stub = v1::EventService::NewStub(channel_);
  const v1::BatchCreateEventsRequest request = Batch(events);
  struct Create {
    grpc::ClientContext context;
    v1::BatchCreateEventsResponse answer;
  };
  ASSIGN_OR_RETURN(
      const auto rate, Rate(load, [&](std::function<void(bool)> done) {
        auto create = std::make_shared<Create>();
        AddCredentials(caller_, create->context);
        stub->async()->BatchCreateEvents(
            &create->context, &request, &create->answer,
            [create, done = std::move(done)](const grpc::Status& status) { done(status.ok()); });
      }));
  return rate * events;
}

absl::StatusOr<double> DoorsStages::BatchByRest(const DoorsLoad& load, int events) const {
  ASSIGN_OR_RETURN(
      const auto rate,
      HttpRate(http_, load,
               Request("POST", "/v1/tenants/default/events:batchCreate", Json(Batch(events)))));
  return rate * events;
}

absl::StatusOr<double> DoorsStages::SchedulesByGrpc(const DoorsLoad& load, int schedules) const {
  const auto stub = v1::ScheduleService::NewStub(channel_);
  const v1::BatchCreateSchedulesRequest request = ScheduleBatch(schedules);
  struct Create {
    grpc::ClientContext context;
    v1::BatchCreateSchedulesResponse answer;

    bool AllCreated() const {
      return std::all_of(answer.results().begin(), answer.results().end(),
                         [](const v1::ScheduleResult& result) { return result.has_schedule(); });
    }
  };
  ASSIGN_OR_RETURN(const auto rate, Rate(load, [&](std::function<void(bool)> done) {
                     auto create = std::make_shared<Create>();
                     AddCredentials(caller_, create->context);
                     stub->async()->BatchCreateSchedules(
                         &create->context, &request, &create->answer,
                         [create, done = std::move(done)](const grpc::Status& status) {
                           done(status.ok() && create->AllCreated());
                         });
                   }));
  return rate * schedules;
}

absl::Status DoorsStages::PrepareEvents(uint64_t events) const {
  constexpr absl::Duration kSpread = absl::Hours(24 * 30);
  const absl::Duration gap = kSpread / static_cast<int64_t>(events);
  return Ingest({.master = grpc_,
                 .caller = caller_,
                 .target = Nowhere(),
                 .events = events,
                 .payload_bytes = kPayloadBytes,
                 .due_time =
                     [gap](uint64_t i) {
                       return absl::FromUnixSeconds(kDueSeconds) + gap * static_cast<int64_t>(i);
                     }})
      .status();
}

absl::StatusOr<double> DoorsStages::ListByRest(const std::string& filter) const {
  return SlowestList(
      http_, absl::StrCat("/v1/tenants/default/schedules?pageSize=10&filter=", InQuery(filter)),
      "\"createTime\"");
}

absl::StatusOr<double> DoorsStages::ListEventsByRest(const std::string& filter,
                                                     const std::string& order_by) const {
  return SlowestList(http_,
                     absl::StrCat("/v1/tenants/default/events?pageSize=10&filter=", InQuery(filter),
                                  "&orderBy=", InQuery(order_by)),
                     "\"eventId\"");
}

absl::StatusOr<double> DoorsStages::IngestByGrpc(uint64_t events) const {
  ASSIGN_OR_RETURN(
      const auto time,
      Ingest({.master = grpc_,
              .caller = caller_,
              .target = Nowhere(),
              .events = events,
              .payload_bytes = kPayloadBytes,
              .due_time = [](uint64_t) { return absl::FromUnixSeconds(kDueSeconds); }}));
  return static_cast<double>(events) / absl::ToDoubleSeconds(time);
}

absl::StatusOr<double> DoorsStages::IngestByNdjson(uint64_t events) const {
  ASSIGN_OR_RETURN(const auto endpoint, EndpointOf(http_));
  const std::string line = absl::StrCat(Json(Batch(1).requests(0).event()), "\n");
  std::string piece;
  constexpr uint64_t kPieceLines = 100;
  for (uint64_t i = 0; i < kPieceLines; ++i) piece += line;
  const std::string chunk = absl::StrCat(absl::Hex(piece.size()), "\r\n", piece, "\r\n");
  asio::io_context io;
  tcp::socket socket(io);
  beast::error_code error;
  socket.connect(endpoint, error);
  if (error) return absl::UnavailableError(error.message());
  const absl::Time begin = absl::Now();
  std::thread sender([&] {
    beast::error_code broken;
    asio::write(socket,
                asio::buffer(absl::StrCat("POST /v1/tenants/default/events:ingest HTTP/1.1\r\n"
                                          "Host: localhost\r\nTransfer-Encoding: chunked\r\n\r\n")),
                broken);
    for (uint64_t i = 0; i < events / kPieceLines && !broken; ++i)
      asio::write(socket, asio::buffer(chunk), broken);
    asio::write(socket, asio::buffer(std::string("0\r\n\r\n")), broken);
  });
  beast::flat_buffer buffer;
  http::response_parser<http::string_body> parser;
  parser.body_limit(boost::none);
  http::read(socket, buffer, parser, error);
  const absl::Duration time = absl::Now() - begin;
  sender.join();
  if (error) return absl::UnavailableError(error.message());
  uint64_t created = 0;
  for (absl::string_view answer : absl::StrSplit(parser.get().body(), '\n'))
    created += absl::StrContains(answer, "\"name\":") ? 1 : 0;
  if (created != events) return absl::InternalError(absl::StrCat(created, " events were created"));
  return static_cast<double>(events) / absl::ToDoubleSeconds(time);
}

}  // namespace escapement::bench
