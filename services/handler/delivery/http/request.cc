#include "services/handler/delivery/http/request.h"

#include <curl/curl.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/delivery/http/headers.h"

namespace escapement::handler {
namespace {

constexpr char kHttpPort[] = "80";

std::optional<std::string> Part(CURLU* url, CURLUPart part) {
  char* text = nullptr;
  if (curl_url_get(url, part, &text, 0) != CURLUE_OK) return std::nullopt;
  std::string copy = text;
  curl_free(text);
  return copy;
}

bool IsPlain(absl::string_view text) {
  return std::all_of(text.begin(), text.end(),
                     [](char c) { return absl::ascii_isgraph(static_cast<unsigned char>(c)); });
}

HttpPlace PlaceOf(const std::string& uri) {
  HttpPlace place;
  place.uri = uri;
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> url(curl_url(), &curl_url_cleanup);
  if (curl_url_set(url.get(), CURLUPART_URL, uri.c_str(), 0) != CURLUE_OK) return place;
  const auto host = Part(url.get(), CURLUPART_HOST);
  const auto path = Part(url.get(), CURLUPART_PATH);
  if (Part(url.get(), CURLUPART_SCHEME) != "http" || Part(url.get(), CURLUPART_USER).has_value() ||
      Part(url.get(), CURLUPART_ZONEID).has_value() || !host.has_value() || !path.has_value())
    return place;
  const std::string port = Part(url.get(), CURLUPART_PORT).value_or(kHttpPort);
  const auto query = Part(url.get(), CURLUPART_QUERY);
  std::string target = query.has_value() ? absl::StrCat(*path, "?", *query) : *path;
  if (!IsPlain(*host) || !IsPlain(target)) return place;
  place.plain = true;
  place.connect = absl::StrCat("http://", *host, ":", port, "/");
  place.host = port == kHttpPort ? *host : absl::StrCat(*host, ":", port);
  place.target = std::move(target);
  return place;
}

}  // namespace

long HttpAttempt::MillisLeft(HttpMicros now) const {
  return static_cast<long>(std::max<HttpMicros>((deadline - now + 999) / 1000, 1));
}

void HttpAttempt::Answer(DeliveryResult result) {
  if (result.message.size() > kDeliveryMessageBytesMax)
    result.message.resize(kDeliveryMessageBytesMax);
  const uint64_t tag = attempt.tag;
  attempt = DeliveryAttempt();
  std::exchange(sink, nullptr)->OnResult(tag, std::move(result));
}

absl::Status HeaderCache::SetLines(const DeliveryAttempt& attempt, std::string* lines) {
  const DeliveryContext& context = *attempt.context;
  if (definition_ != context.definition) {
    definition_.reset();
    absl::StatusOr<std::string> made = DefinitionHeaderLines(*context.definition);
    if (!made.ok()) return made.status();
    definition_lines_ = *std::move(made);
    definition_ = context.definition;
  }
  if (context_ != attempt.context) {
    context_.reset();
    absl::StatusOr<std::string> type = ContentTypeLine(context);
    if (!type.ok()) return type.status();
    content_type_line_ = *std::move(type);
    absl::StatusOr<std::string> made = ContextHeaderLines(context);
    if (!made.ok()) return made.status();
    context_lines_ = *std::move(made);
    context_ = attempt.context;
  }
  *lines = content_type_line_;
  lines->append(definition_lines_);
  lines->append(context_lines_);
  AppendAttemptHeaderLines(attempt, lines);
  return absl::OkStatus();
}

const HttpPlace& PlaceCache::Of(const std::string& uri) {
  if (place_.uri != uri) place_ = PlaceOf(uri);
  return place_;
}

std::string RequestHead(const std::string& method, const HttpPlace& place, const std::string& lines,
                        size_t body_bytes) {
  return absl::StrCat(method, " ", place.target, " HTTP/1.1\r\nHost: ", place.host,
                      "\r\nAccept: */*\r\n", lines, "\r\nContent-Length: ", body_bytes, "\r\n\r\n");
}

}  // namespace escapement::handler
