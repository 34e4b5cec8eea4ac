#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/algorithm/container.h"
#include "absl/base/thread_annotations.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "common/base/hash.h"
#include "common/http/header_grammar.h"
#include "common/rest/forwarded_metadata_grpc.h"
#include "common/rest/json_bytes.h"
#include "common/rest/path_template.h"
#include "common/rest/request_reader.h"
#include "common/rest/rest_door.h"
#include "common/rpc/status_conversion.h"
#include "common/status/errors.h"

namespace escapement::rest {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;

constexpr const char* kPrefix = "/v1/";
constexpr const char* kCorsMethods = "GET, POST, PATCH, DELETE";
constexpr const char* kCorsHeaders =
    "Authorization, Content-Type, Content-Encoding, Idempotency-Key, If-Match, If-None-Match, "
    "Request-Timeout, traceparent, x-request-id";
constexpr const char* kCorsExposed = "ETag, Retry-After";

// The etag of an answer; "" if it has none.
std::string EtagOf(const google::protobuf::Descriptor& type, const std::string& bytes) {
  const FieldDescriptor* field = type.FindFieldByName("etag");
  if (field == nullptr || field->is_repeated() || field->type() != FieldDescriptor::TYPE_STRING)
    return {};
  const std::unique_ptr<Message> answer(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(&type)->New());
  if (!answer->ParseFromString(bytes)) return {};
  return answer->GetReflection()->GetString(*answer, field);
}

// The validator of an answer: it changes whenever anything that is shown changes. Weak, because
// gzip has other bytes. The part before the dot is the etag of the API, for If-Match.
std::string ValidatorOf(absl::string_view etag, absl::string_view json) {
  absl::ConsumePrefix(&etag, "\"");
  absl::ConsumeSuffix(&etag, "\"");
  return absl::StrCat("W/\"", etag, ".", absl::Hex(StableHash64(json), absl::kZeroPad16), "\"");
}

// The etags of the API that an If-Match names, as a list; "*" and none: empty.
std::string EtagsOf(absl::string_view if_match) {
  std::vector<std::string> etags;
  for (absl::string_view tag : ListElements(if_match)) {
    if (tag == "*") return {};
    absl::ConsumePrefix(&tag, "W/");
    const size_t dot = tag.find('.');
    etags.push_back(dot == absl::string_view::npos ? std::string(tag)
                                                   : absl::StrCat(tag.substr(0, dot), "\""));
  }
  return absl::StrJoin(etags, ", ");
}

}  // namespace

// One call under way. Lives until gRPC has called back.
struct RestCall {
  grpc::ClientContext context;
  grpc::ByteBuffer request;
  grpc::ByteBuffer answer;
  const RestRoute* route = nullptr;
  std::string if_none_match;
  bool conditional = false;
  absl::Status unreadable;  // why the request could not be read; OK if it could
  HttpResponder respond;
};

// Bytes that no message type can read.
constexpr char kUnreadableMessage[] = "\xff";

class RestDoor::Core {
 public:
  Core(RouteTable routes, std::shared_ptr<grpc::Channel> channel, Options options)
      : routes_(std::move(routes)), stub_(std::move(channel)), options_(std::move(options)) {}

  void AwaitCalls() {
    absl::MutexLock lock(&mutex_);
    mutex_.Await(absl::Condition(
        +[](Core* core)
             ABSL_EXCLUSIVE_LOCKS_REQUIRED(core->mutex_) { return core->under_way_ == 0; },
        this));
  }

  void Handle(HttpRequest request, HttpResponder respond) {
    respond = WithHeaders(request, std::move(respond));
    if (request.method == "OPTIONS") return Preflight(std::move(respond));
    if (options_.admit != nullptr) {
      if (auto status = options_.admit(request); !status.ok()) return respond(ErrorAnswer(status));
    }
    const auto path = RequestPath::Parse(request.path);
    if (!path.ok()) return respond(ErrorAnswer(path.status()));
    RouteTable::Found found = routes_.Find(request.method, *path);
    if (found.route == nullptr) return respond(NoRoute(request, found.allowed));
    if (const auto type = CheckContentType(request); !type.ok()) {
      return respond(ErrorAnswerAs(415, type));
    }
    const absl::StatusOr<absl::Duration> timeout = TimeoutOf(request);
    if (!timeout.ok()) return respond(ErrorAnswer(timeout.status()));
    const absl::StatusOr<bool> gzip = BodyIsGzip(request);
    if (!gzip.ok()) return respond(ErrorAnswerAs(415, gzip.status()));
    if (*gzip) {
      auto plain = Gunzipped(request.body, options_.body_bytes_max);
      if (!plain.ok()) {
        return respond(absl::IsResourceExhausted(plain.status())
                           ? ErrorAnswerAs(413, plain.status())
                           : ErrorAnswer(plain.status()));
      }
      request.body = *std::move(plain);
    }
    const std::string if_match = EtagsOf(request.Header("if-match"));
    const auto bytes =
        ReadRequest(*found.route, {.bindings = std::move(found.bindings),
                                   .query = request.query,
                                   .body = request.body,
                                   .idempotency_key = request.Header("idempotency-key"),
                                   .if_match = if_match});
    auto call = std::make_shared<RestCall>();
    call->route = found.route;
    call->conditional = !if_match.empty();
    call->if_none_match = std::string(request.Header("if-none-match"));
    call->unreadable = bytes.status();
    call->respond = std::move(respond);
    Call(request, *timeout, bytes.ok() ? *bytes : kUnreadableMessage, std::move(call));
  }

 private:
  // A request that could not be read is called, too: the gate decides, and audits, before anything
  // is said about the request.
  void Call(const HttpRequest& request, absl::Duration timeout, const std::string& message,
            std::shared_ptr<RestCall> call) {
    call->context.set_deadline(std::chrono::system_clock::now() +
                               absl::ToChronoMilliseconds(timeout));
    AddForwardedMetadata(request, call->context);
    const grpc::Slice slice(message);
    call->request = grpc::ByteBuffer(&slice, 1);
    {
      absl::MutexLock lock(&mutex_);
      ++under_way_;
    }
    grpc::ClientContext* const context = &call->context;
    const grpc::ByteBuffer* const bytes = &call->request;
    grpc::ByteBuffer* const answer = &call->answer;
    const std::string& path = call->route->grpc_path;
    stub_.UnaryCall(context, path, grpc::StubOptions(), bytes, answer,
                    [this, call = std::move(call)](grpc::Status status) mutable {
                      Answer(*call, status);
                      // The context points at the channel. gRPC 1.51 frees twice if a callback
                      // destroys the last such pointer, so this one goes before the wait ends.
                      call.reset();
                      absl::MutexLock lock(&mutex_);
                      --under_way_;
                    });
  }

  // True for what the gate says of the caller.
  static bool IsRefusal(const grpc::Status& status) {
    return status.error_code() == grpc::StatusCode::UNAUTHENTICATED ||
           status.error_code() == grpc::StatusCode::PERMISSION_DENIED;
  }

  static void Answer(RestCall& call, const grpc::Status& status) {
    if (!call.unreadable.ok() && !IsRefusal(status))
      return call.respond(ErrorAnswer(call.unreadable));
    if (!status.ok()) return call.respond(ErrorAnswer(FromGrpcStatus(status), call.conditional));
    const google::protobuf::Descriptor& type = *call.route->method->output_type();
    grpc::Slice slice;
    if (!call.answer.DumpToSingleSlice(&slice).ok())
      return call.respond(ErrorAnswer(absl::InternalError("an answer that cannot be read")));
    const std::string bytes(reinterpret_cast<const char*>(slice.begin()), slice.size());
    HttpResponse response;
    response.content_type = "application/json";
    response.headers = AnswerHeaders();
    auto json = BytesToJson(type, bytes);
    if (!json.ok()) return call.respond(ErrorAnswer(json.status()));
    if (const std::string etag = EtagOf(type, bytes); !etag.empty()) {
      const std::string validator = ValidatorOf(etag, *json);
      response.headers.emplace_back("ETag", validator);
      if (call.route->http_method == "GET" && NamesEntityTag(call.if_none_match, validator)) {
        response.status = 304;
        return call.respond(std::move(response));
      }
    }
    response.body = *std::move(json) + "\n";
    call.respond(std::move(response));
  }

  static HttpResponse NoRoute(const HttpRequest& request, const std::string& allowed) {
    if (allowed.empty()) {
      return ErrorAnswer(MakeError(absl::StatusCode::kNotFound, "UNKNOWN_PATH", "no such path"));
    }
    HttpResponse response =
        ErrorAnswerAs(405, MakeError(absl::StatusCode::kUnimplemented, "METHOD_NOT_ALLOWED",
                                     absl::StrCat("the path does not take ", request.method)));
    response.headers.emplace_back("Allow", allowed);
    return response;
  }

  // Seconds; at most the door's.
  absl::StatusOr<absl::Duration> TimeoutOf(const HttpRequest& request) const {
    const absl::string_view header = request.Header("request-timeout");
    double seconds = 0;
    if (header.empty()) return options_.call_timeout;
    if (!absl::SimpleAtod(header, &seconds) || !(seconds > 0))
      return InvalidField("Request-Timeout", "must be a number of seconds above 0");
    return std::min(options_.call_timeout, absl::Seconds(seconds));
  }

  // A body is JSON, whether its type says so or is left out.
  static absl::Status CheckContentType(const HttpRequest& request) {
    if (request.body.empty()) return absl::OkStatus();
    absl::string_view type = request.Header("content-type");
    type = absl::StripAsciiWhitespace(type.substr(0, type.find(';')));
    if (type.empty() || absl::EqualsIgnoreCase(type, "application/json") ||
        // curl's -d without a header.
        absl::EqualsIgnoreCase(type, "application/x-www-form-urlencoded")) {
      return absl::OkStatus();
    }
    return MakeError(absl::StatusCode::kInvalidArgument, "UNSUPPORTED_CONTENT_TYPE",
                     "the body must be application/json");
  }

  // The value of Access-Control-Allow-Origin; "" if pages of this origin may not call.
  std::string AllowedOrigin(absl::string_view origin) const {
    if (origin.empty()) return {};
    const auto allows = [this](absl::string_view which) {
      return absl::c_linear_search(options_.cors_origins, which);
    };
    if (allows("*")) return "*";
    return allows(origin) ? std::string(origin) : std::string();
  }

  // Adds CORS headers and gzip to the answer.
  HttpResponder WithHeaders(const HttpRequest& request, HttpResponder respond) {
    std::string origin = AllowedOrigin(request.Header("origin"));
    const bool gzip = AcceptsCoding(request.Header("accept-encoding"), "gzip");
    const bool varies_by_origin =
        !options_.cors_origins.empty() && !absl::c_linear_search(options_.cors_origins, "*");
    return [respond = std::move(respond), origin, gzip, varies_by_origin,
            from = options_.gzip_from_bytes](HttpResponse response) {
      response.headers.emplace_back(
          "Vary", varies_by_origin ? "Accept-Encoding, Origin" : "Accept-Encoding");
      if (!origin.empty()) {
        response.headers.emplace_back("Access-Control-Allow-Origin", origin);
        response.headers.emplace_back("Access-Control-Expose-Headers", kCorsExposed);
      }
      if (gzip && response.body.size() >= from) {
        response.body = Gzipped(response.body);
        response.headers.emplace_back("Content-Encoding", "gzip");
      }
      respond(std::move(response));
    };
  }

  void Preflight(HttpResponder respond) const {
    HttpResponse response;
    response.status = 204;
    response.headers.emplace_back("Access-Control-Allow-Methods", kCorsMethods);
    response.headers.emplace_back("Access-Control-Allow-Headers", kCorsHeaders);
    response.headers.emplace_back("Access-Control-Max-Age", "600");
    respond(std::move(response));
  }

  const RouteTable routes_;
  grpc::GenericStub stub_;
  const Options options_;
  absl::Mutex mutex_;
  int under_way_ ABSL_GUARDED_BY(mutex_) = 0;
};

RestDoor::RestDoor(RouteTable routes, std::shared_ptr<grpc::Channel> in_process, Options options)
    : core_(std::make_shared<Core>(std::move(routes), std::move(in_process), std::move(options))) {}

RestDoor::~RestDoor() { core_->AwaitCalls(); }

void RestDoor::AddTo(HttpServer& http) {
  http.Route("", kPrefix, [core = core_](HttpRequest request, HttpResponder respond) {
    core->Handle(std::move(request), std::move(respond));
  });
  http.RouteErrors(kPrefix, [](int status, absl::string_view text) {
    const bool malformed = status == 400;
    return ErrorAnswerAs(status, MakeError(malformed ? absl::StatusCode::kInvalidArgument
                                                     : absl::StatusCode::kResourceExhausted,
                                           malformed ? "MALFORMED_REQUEST" : "REQUEST_TOO_LARGE",
                                           std::string(text)));
  });
}

void RestDoor::Handle(HttpRequest request, HttpResponder respond) {
  core_->Handle(std::move(request), std::move(respond));
}

}  // namespace escapement::rest
