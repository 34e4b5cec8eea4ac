#include "common/rest/answer_writer.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/util/json_util.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "absl/strings/cord.h"
#include "absl/strings/str_cat.h"
#include "common/status/errors.h"
#include "google/rpc/status.pb.h"
#include "nlohmann/json.hpp"

namespace escapement::rest {
namespace {

constexpr const char* kJson = "application/json";

// The details that this program has descriptors of, as JSON.
nlohmann::ordered_json DetailsOf(const absl::Status& status) {
  // By type, since absl gives them in any order.
  std::map<std::string, std::string> payloads;
  status.ForEachPayload([&payloads](absl::string_view url, const absl::Cord& payload) {
    const std::string type(url.substr(url.rfind('/') + 1));
    if (google::protobuf::DescriptorPool::generated_pool()->FindMessageTypeByName(type) != nullptr)
      payloads.emplace(url, payload);
  });
  google::rpc::Status message;
  for (auto& [url, payload] : payloads) {
    auto* detail = message.add_details();
    detail->set_type_url(url);
    detail->set_value(std::move(payload));
  }
  std::string json;
  if (message.details().empty() ||
      !google::protobuf::util::MessageToJsonString(message, &json).ok()) {
    return nlohmann::ordered_json::array();
  }
  return nlohmann::ordered_json::parse(json).value("details", nlohmann::ordered_json::array());
}

}  // namespace

int HttpStatusOf(absl::StatusCode code) {
  switch (code) {
    case absl::StatusCode::kOk:
      return 200;
    case absl::StatusCode::kCancelled:
      return 499;
    case absl::StatusCode::kInvalidArgument:
    case absl::StatusCode::kFailedPrecondition:
    case absl::StatusCode::kOutOfRange:
      return 400;
    case absl::StatusCode::kDeadlineExceeded:
      return 504;
    case absl::StatusCode::kNotFound:
      return 404;
    case absl::StatusCode::kAlreadyExists:
    case absl::StatusCode::kAborted:
      return 409;
    case absl::StatusCode::kPermissionDenied:
      return 403;
    case absl::StatusCode::kUnauthenticated:
      return 401;
    case absl::StatusCode::kResourceExhausted:
      return 429;
    case absl::StatusCode::kUnimplemented:
      return 501;
    case absl::StatusCode::kUnavailable:
      return 503;
    default:  // UNKNOWN, INTERNAL, DATA_LOSS
      return 500;
  }
}

HttpResponse ErrorAnswer(const absl::Status& status, bool condition_failed) {
  const bool stale = condition_failed && ErrorReason(status) == "ETAG_MISMATCH";
  return ErrorAnswerAs(stale ? 412 : HttpStatusOf(status.code()), status);
}

HttpResponse ErrorAnswerAs(int http_status, const absl::Status& status) {
  HttpResponse response;
  response.status = http_status;
  response.content_type = kJson;
  nlohmann::ordered_json error;
  error["code"] = response.status;
  error["message"] = std::string(status.message());
  error["status"] = absl::StatusCodeToString(status.code());
  error["details"] = DetailsOf(status);
  nlohmann::ordered_json body;
  body["error"] = std::move(error);
  response.body = body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
  if (const std::optional<absl::Duration> delay = RetryDelayOf(status);
      delay.has_value() && (response.status == 429 || response.status == 503)) {
    const int64_t seconds =
        std::max<int64_t>(1, absl::ToInt64Seconds(absl::Ceil(*delay, absl::Seconds(1))));
    response.headers.emplace_back("Retry-After", absl::StrCat(seconds));
  }
  if (response.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace escapement::rest
