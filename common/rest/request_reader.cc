#include "common/rest/request_reader.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/io/coded_stream.h>
#include <google/protobuf/message.h>
#include <google/protobuf/util/field_mask_util.h>
#include <google/protobuf/util/json_util.h>
#include <google/protobuf/wire_format_lite.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/cord.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "common/rest/json_bytes.h"
#include "common/rest/path_template.h"
#include "common/rest/strict_json.h"
#include "common/status/errors.h"
#include "google/rpc/status.pb.h"
#include "nlohmann/json.hpp"

namespace escapement::rest {

namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::internal::WireFormatLite;

constexpr const char* kUnreadable = "has a control character or invalid UTF-8";

// True for "*" and for names of fields as protos spell them, joined by dots.
bool IsMaskPath(absl::string_view path) {
  if (path == "*") return true;
  char before = '.';
  for (const char c : path) {
    const bool lower = absl::ascii_islower(static_cast<unsigned char>(c));
    const bool inside = c == '_' || c == '.' || absl::ascii_isdigit(static_cast<unsigned char>(c));
    // Each field name, and each word after a '_', begins with a lower-case letter.
    if (!lower && (!inside || before == '.' || before == '_')) return false;
    before = c;
  }
  return before != '.' && before != '_';
}

bool ParsesFromText(const Descriptor* type) {
  return type->full_name() == "google.protobuf.Timestamp" ||
         type->full_name() == "google.protobuf.Duration";
}

// absl takes blanks and a plus, too.
template <typename Number>
bool ParsedInteger(absl::string_view text, Number& value) {
  return text.find_first_of("+ \t\r\n\v\f") == absl::string_view::npos &&
         absl::SimpleAtoi(text, &value);
}

// Reads one value given as text into `field`; appends if it is repeated. Returns what is wrong with
// it, "" if nothing.
std::string SetFromText(Message& message, const FieldDescriptor* field, absl::string_view text) {
  const Reflection& reflection = *message.GetReflection();
  const bool repeated = field->is_repeated();
  switch (field->cpp_type()) {
    case FieldDescriptor::CPPTYPE_STRING: {
      std::string value(text);
      if (field->type() == FieldDescriptor::TYPE_BYTES) return "cannot be given in the query";
      if (HasControlCharacters(text)) return kUnreadable;
      repeated ? reflection.AddString(&message, field, value)
               : reflection.SetString(&message, field, value);
      return {};
    }
    case FieldDescriptor::CPPTYPE_INT32: {
      int32_t value = 0;
      if (!ParsedInteger(text, value)) return "must be a 32-bit integer";
      repeated ? reflection.AddInt32(&message, field, value)
               : reflection.SetInt32(&message, field, value);
      return {};
    }
    case FieldDescriptor::CPPTYPE_INT64: {
      int64_t value = 0;
      if (!ParsedInteger(text, value)) return "must be a 64-bit integer";
      repeated ? reflection.AddInt64(&message, field, value)
               : reflection.SetInt64(&message, field, value);
      return {};
    }
    case FieldDescriptor::CPPTYPE_UINT32: {
      uint32_t value = 0;
      if (!ParsedInteger(text, value)) return "must be a 32-bit integer that is not negative";
      repeated ? reflection.AddUInt32(&message, field, value)
               : reflection.SetUInt32(&message, field, value);
      return {};
    }
    case FieldDescriptor::CPPTYPE_UINT64: {
      uint64_t value = 0;
      if (!ParsedInteger(text, value)) return "must be a 64-bit integer that is not negative";
      repeated ? reflection.AddUInt64(&message, field, value)
               : reflection.SetUInt64(&message, field, value);
      return {};
    }
    case FieldDescriptor::CPPTYPE_BOOL: {
      if (text != "true" && text != "false") return "must be true or false";
      repeated ? reflection.AddBool(&message, field, text == "true")
               : reflection.SetBool(&message, field, text == "true");
      return {};
    }
    case FieldDescriptor::CPPTYPE_DOUBLE:
    case FieldDescriptor::CPPTYPE_FLOAT: {
      double value = 0;
      if (!absl::SimpleAtod(text, &value) || !std::isfinite(value)) return "must be a number";
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE) {
        repeated ? reflection.AddDouble(&message, field, value)
                 : reflection.SetDouble(&message, field, value);
      } else {
        repeated ? reflection.AddFloat(&message, field, static_cast<float>(value))
                 : reflection.SetFloat(&message, field, static_cast<float>(value));
      }
      return {};
    }
    case FieldDescriptor::CPPTYPE_ENUM: {
      const EnumValueDescriptor* value = field->enum_type()->FindValueByName(std::string(text));
      if (value == nullptr) return "is not a value of this enum";
      repeated ? reflection.AddEnum(&message, field, value)
               : reflection.SetEnum(&message, field, value);
      return {};
    }
    case FieldDescriptor::CPPTYPE_MESSAGE:
      break;
  }
  Message* value = repeated ? reflection.AddMessage(&message, field)
                            : reflection.MutableMessage(&message, field);
  if (HasControlCharacters(text)) return kUnreadable;
  if (auto* mask = dynamic_cast<google::protobuf::FieldMask*>(value)) {
    for (const absl::string_view path : absl::StrSplit(text, ',', absl::SkipEmpty())) {
      // "displayName" and "display_name" are both understood; "*" too.
      std::string snake;
      for (const char c : path) {
        if (c >= 'A' && c <= 'Z') snake.push_back('_');
        snake.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
      }
      if (!IsMaskPath(snake)) return "is malformed";
      mask->add_paths(snake);
    }
    return {};
  }
  if (!ParsesFromText(field->message_type())) return "cannot be given in the query";
  if (std::string fault = TimeTextFault(*field->message_type(), text); !fault.empty()) return fault;
  const auto status =
      google::protobuf::util::JsonStringToMessage(absl::StrCat("\"", text, "\""), value);
  return status.ok() ? std::string() : std::string("is malformed");
}

// Sets the field that `path` ("schedule.name", "pageSize") names.
absl::Status SetPath(Message& request, absl::string_view path, absl::string_view text) {
  Message* message = &request;
  const std::vector<absl::string_view> names = absl::StrSplit(path, '.');
  for (size_t i = 0; i + 1 < names.size(); ++i) {
    const FieldDescriptor* field = FindField(message->GetDescriptor(), names[i]);
    if (field == nullptr || field->is_repeated() ||
        field->cpp_type() != FieldDescriptor::CPPTYPE_MESSAGE) {
      return InvalidField(path, "is not a field of this request");
    }
    message = message->GetReflection()->MutableMessage(message, field);
  }
  const FieldDescriptor* field = FindField(message->GetDescriptor(), names.back());
  if (field == nullptr) return InvalidField(path, "is not a field of this request");
  const std::string wrong = SetFromText(*message, field, text);
  return wrong.empty() ? absl::OkStatus() : InvalidField(path, wrong);
}

// The proto name of the first field of a path in either spelling.
std::string FirstField(const Descriptor* message, absl::string_view path) {
  const FieldDescriptor* field = FindField(message, path.substr(0, path.find('.')));
  return field == nullptr ? std::string() : field->name();
}

absl::Status ReadQuery(const RestRoute& route, absl::string_view query, Message& request) {
  std::set<std::string> taken;
  for (const std::string& field : route.path.Variables()) taken.insert(field);
  std::set<std::string> given;
  for (const absl::string_view pair : absl::StrSplit(query, '&', absl::SkipEmpty())) {
    const size_t equals = pair.find('=');
    const auto key = PercentDecoded(pair.substr(0, equals), true);
    const auto value = equals == absl::string_view::npos
                           ? std::optional<std::string>(std::string())
                           : PercentDecoded(pair.substr(equals + 1), true);
    if (!key.has_value() || !value.has_value()) {
      return InvalidField("query", "has a '%' that is not followed by two hexadecimal digits");
    }
    const std::string first = FirstField(request.GetDescriptor(), *key);
    if (taken.contains(first)) return InvalidField(*key, "is given by the path");
    if (route.body == "*" || (!first.empty() && first == route.body))
      return InvalidField(*key, "belongs in the body");
    const FieldDescriptor* field =
        first.empty() ? nullptr : request.GetDescriptor()->FindFieldByName(first);
    if (!given.insert(*key).second && field != nullptr && !field->is_repeated())
      return InvalidField(*key, "is given twice");
    RETURN_IF_ERROR(SetPath(request, *key, *value));
  }
  return absl::OkStatus();
}

// The bytes of the body, of the request's type or of the field that is the body. `type`: null if
// the request has no body.
absl::StatusOr<std::string> ReadBody(const Descriptor* type, absl::string_view body) {
  // A POST without a body is one with all fields unset.
  if (body.empty()) return std::string();
  if (type == nullptr) return InvalidField("body", "this request has no body");
  absl::StatusOr<std::string> bytes = JsonToBytes(*type, body);
  if (!bytes.ok()) return InvalidField("body", bytes.status().message());
  return bytes;
}

// Fills a string field that a header gives. `owner` is the message that has it.
absl::Status SetFromHeader(Message& owner, absl::string_view name, absl::string_view header,
                           absl::string_view value) {
  if (HasControlCharacters(value))
    return InvalidField(name, absl::StrCat("(header ", header, ") ", kUnreadable));
  const FieldDescriptor* field = owner.GetDescriptor()->FindFieldByName(std::string(name));
  const std::string present = owner.GetReflection()->GetString(owner, field);
  if (!present.empty() && present != value)
    return InvalidField(name, absl::StrCat("differs from the header ", header));
  owner.GetReflection()->SetString(&owner, field, std::string(value));
  return absl::OkStatus();
}

// Sets the field of a variable of the path, unless the body has given it another value.
absl::Status SetFromPath(Message& request, const std::string& path, const std::string& value) {
  const Message* owner = &request;
  const std::vector<std::string> names = absl::StrSplit(path, '.');
  for (size_t i = 0; i + 1 < names.size(); ++i) {
    owner = &owner->GetReflection()->GetMessage(*owner,
                                                owner->GetDescriptor()->FindFieldByName(names[i]));
  }
  const FieldDescriptor* field = owner->GetDescriptor()->FindFieldByName(names.back());
  const std::string given = owner->GetReflection()->GetString(*owner, field);
  if (!given.empty() && given != value)
    return InvalidField(path, absl::StrCat("differs from the path, which says ", value));
  return SetPath(request, path, value);
}

// True if the bytes of a message of the type have one of the variables' fields.
bool HasFieldOf(const Descriptor& type, const RestRequest& rest, const std::string& bytes) {
  google::protobuf::io::CodedInputStream input(reinterpret_cast<const uint8_t*>(bytes.data()),
                                               static_cast<int>(bytes.size()));
  for (uint32_t tag = input.ReadTag(); tag != 0; tag = input.ReadTag()) {
    const FieldDescriptor* field = type.FindFieldByNumber(WireFormatLite::GetTagFieldNumber(tag));
    for (const auto& [path, value] : rest.bindings) {
      if (field != nullptr && field->name() == path.substr(0, path.find('.'))) return true;
    }
    if (!WireFormatLite::SkipField(&input, tag)) return true;
  }
  return false;
}

bool HasStringField(const Descriptor* message, const std::string& name) {
  const FieldDescriptor* field = message->FindFieldByName(name);
  return field != nullptr && field->type() == FieldDescriptor::TYPE_STRING && !field->is_repeated();
}

absl::Status ReadHeaders(const RestRoute& route, const RestRequest& rest, Message& request) {
  if (!rest.idempotency_key.empty() && HasStringField(request.GetDescriptor(), "request_id")) {
    RETURN_IF_ERROR(SetFromHeader(request, "request_id", "Idempotency-Key", rest.idempotency_key));
  }
  if (rest.if_match.empty()) return absl::OkStatus();
  if (HasStringField(request.GetDescriptor(), "etag"))
    return SetFromHeader(request, "etag", "If-Match", rest.if_match);
  if (!route.body.empty() && route.body != "*") {
    const FieldDescriptor* field = request.GetDescriptor()->FindFieldByName(route.body);
    if (HasStringField(field->message_type(), "etag")) {
      return SetFromHeader(*request.GetReflection()->MutableMessage(&request, field), "etag",
                           "If-Match", rest.if_match);
    }
  }
  return InvalidField("If-Match", "this method has no etag");
}

}  // namespace

absl::StatusOr<std::string> ReadRequest(const RestRoute& route, const RestRequest& rest) {
  const Descriptor& type = *route.method->input_type();
  const std::unique_ptr<Message> request(
      google::protobuf::MessageFactory::generated_factory()->GetPrototype(&type)->New());
  const bool whole = route.body == "*";
  const FieldDescriptor* field =
      whole || route.body.empty() ? nullptr : type.FindFieldByName(route.body);
  ASSIGN_OR_RETURN(
      std::string body,
      ReadBody(whole ? &type : (field == nullptr ? nullptr : field->message_type()), rest.body));
  // A whole body goes on as it is, with the rest behind it, unless a header or the path must be
  // compared with it.
  const bool compared = !rest.idempotency_key.empty() || !rest.if_match.empty() ||
                        (whole && HasFieldOf(type, rest, body));
  if (!whole || compared) {
    Message* owner = request.get();
    if (field != nullptr) owner = request->GetReflection()->MutableMessage(owner, field);
    if (!owner->ParseFromString(body)) return InvalidField("body", kUnreadable);
    body.clear();
  }
  RETURN_IF_ERROR(ReadQuery(route, rest.query, *request));
  RETURN_IF_ERROR(ReadHeaders(route, rest, *request));
  for (const auto& [path, value] : rest.bindings)
    RETURN_IF_ERROR(SetFromPath(*request, path, value));
  // On the wire, a later value of a field replaces an earlier one.
  if (!request->AppendToString(&body)) return absl::InternalError("the request is too large");
  return body;
}

namespace {

constexpr const char* kUnknownCoding = "UNSUPPORTED_ENCODING";

}  // namespace

absl::StatusOr<bool> BodyIsGzip(const HttpRequest& request) {
  const absl::string_view coding = request.Header("content-encoding");
  if (absl::EqualsIgnoreCase(coding, "gzip")) return true;
  if (coding.empty() || absl::EqualsIgnoreCase(coding, "identity")) return false;
  return MakeError(absl::StatusCode::kInvalidArgument, kUnknownCoding,
                   "the only Content-Encoding is gzip");
}

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

std::vector<std::pair<std::string, std::string>> AnswerHeaders() {
  return {{"Cache-Control", "no-store"}, {"X-Content-Type-Options", "nosniff"}};
}

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

HttpResponse ErrorAnswerAs(int http_status, const absl::Status& given) {
  absl::Status status = given;
  // An error of gRPC itself, such as a passed deadline, has no reason of its own.
  if (ErrorReason(status).empty()) {
    const std::string code = absl::StatusCodeToString(status.code());
    status = MakeError(status.code(), code, status.message());
    given.ForEachPayload([&status](absl::string_view url, const absl::Cord& payload) {
      status.SetPayload(url, payload);
    });
  }
  HttpResponse response;
  response.status = http_status;
  response.content_type = kJson;
  response.headers = AnswerHeaders();
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
  if (ErrorReason(status) == kUnknownCoding)
    response.headers.emplace_back("Accept-Encoding", "gzip");
  if (response.status == 401) response.headers.emplace_back("WWW-Authenticate", "Bearer");
  return response;
}

}  // namespace escapement::rest
