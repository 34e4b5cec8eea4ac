#include "services/handler/delivery/http/request.h"

#include <curl/curl.h>

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"

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
  body.reset();
  std::exchange(sink, nullptr)->OnResult(tag, std::move(result));
}

const HttpPlace& PlaceCache::Of(absl::string_view uri) {
  if (place_.uri != uri) place_ = PlaceOf(std::string(uri));
  return place_;
}

std::string RequestHead(absl::string_view method, const HttpPlace& place, absl::string_view lines,
                        size_t body_bytes) {
  std::string head = absl::StrCat(method, " ", place.target, " HTTP/1.1\r\nHost: ", place.host,
                                  "\r\nAccept: */*\r\n", lines);
  if (method != "GET") absl::StrAppend(&head, "\r\nContent-Length: ", body_bytes);
  return head.append("\r\n\r\n");
}

}  // namespace escapement::handler
