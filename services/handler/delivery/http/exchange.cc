#include "services/handler/delivery/http/exchange.h"

#include <utility>

#include "absl/strings/match.h"
#include "common/base/printable_text.h"
#include "escapement/storage/v1/records.pb.h"

namespace escapement::handler {

HttpExchange::HttpExchange(const HttpTransport::Options& options, CurlMulti& multi,
                           const HttpRequestMaker& maker)
    : response_bytes_max_(options.response_bytes_max),
      multi_(multi),
      maker_(maker),
      easy_(
          multi.NewHandle(static_cast<long>(absl::ToInt64Milliseconds(options.connect_timeout)))) {
  curl_easy_setopt(easy_, CURLOPT_PRIVATE, this);
  curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, error_);
  curl_easy_setopt(easy_, CURLOPT_MAXLIFETIME_CONN,
                   static_cast<long>(absl::ToInt64Seconds(options.connection_age_max)));
  curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, &HttpExchange::OnBody);
  curl_easy_setopt(easy_, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(easy_, CURLOPT_PREREQFUNCTION, &HttpExchange::BeforeRequest);
  curl_easy_setopt(easy_, CURLOPT_PREREQDATA, this);
}

HttpExchange::~HttpExchange() { curl_easy_cleanup(easy_); }

HttpExchange* HttpExchange::Of(CURL* easy) {
  char* exchange = nullptr;
  curl_easy_getinfo(easy, CURLINFO_PRIVATE, &exchange);
  return reinterpret_cast<HttpExchange*>(exchange);
}

void HttpExchange::UseTls(const storage::v1::TlsRecord* tls) {
  std::string bytes = tls == nullptr ? std::string() : tls->SerializeAsString();
  if (bytes == tls_) return;
  tls_ = std::move(bytes);
  const auto set = [&](CURLoption option, const std::string& pem) {
    // libcurl does not write to it.
    curl_blob blob = {const_cast<char*>(pem.data()), pem.size(), CURL_BLOB_COPY};
    curl_easy_setopt(easy_, option, pem.empty() ? nullptr : &blob);
  };
  const storage::v1::TlsRecord& used =
      tls == nullptr ? storage::v1::TlsRecord::default_instance() : *tls;
  set(CURLOPT_CAINFO_BLOB, used.ca_certificates());
  set(CURLOPT_SSLCERT_BLOB, used.client_certificate());
  set(CURLOPT_SSLKEY_BLOB, used.client_key());
}

absl::Status HttpExchange::Prepare(HttpAttempt attempt, HttpRequest request, MonotonicMicros now) {
  attempt_ = std::move(attempt);
  attempt_.body = request.body;
  attempt_.body_bytes = std::move(request.body_bytes);
  requests_ = 0;
  on_own_connection_ = false;
  body_ = HttpBody();
  error_[0] = '\0';
  header_lines_ = std::move(request.lines);
  header_list_.data = header_lines_.data();
  if (uri_ != request.uri) {
    uri_ = std::string(request.uri);
    if (curl_easy_setopt(easy_, CURLOPT_URL, uri_.c_str()) != CURLE_OK) {
      uri_.clear();
      return absl::InvalidArgumentError("the target's URI cannot be used");
    }
  }
  const absl::string_view body = attempt_.body;
  if (method_ != request.method) {
    method_ = std::string(request.method);
    curl_easy_setopt(easy_, method_ == "GET" ? CURLOPT_HTTPGET : CURLOPT_POST, 1L);
    const bool named = method_ != "POST" && method_ != "GET";
    curl_easy_setopt(easy_, CURLOPT_CUSTOMREQUEST, named ? method_.c_str() : nullptr);
  }
  if (method_ != "GET") {
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDS, body.data());
    curl_easy_setopt(easy_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body.size()));
  }
  curl_easy_setopt(easy_, CURLOPT_FRESH_CONNECT, 0L);
  UseTls(request.tls);
  header_list_.next = body.empty() ? &no_content_type_entry_ : nullptr;
  curl_easy_setopt(easy_, CURLOPT_HTTPHEADER, &header_list_);
  curl_easy_setopt(easy_, CURLOPT_TIMEOUT_MS, attempt_.MillisLeft(now));
  multi_.UseOwner(easy_, sockets_);
  return absl::OkStatus();
}

// libcurl repeats a request up to five times if a kept connection breaks without an answer. One
// repetition is right if the consumer has closed the connection as idle. More would be attempts
// that are not counted.
int HttpExchange::BeforeRequest(void* self, char*, char*, int, int) {
  auto* exchange = static_cast<HttpExchange*>(self);
  const int requests_max = exchange->on_own_connection_ ? kHttpRequestsMax + 1 : kHttpRequestsMax;
  if (exchange->requests_ >= requests_max) return CURL_PREREQFUNC_ABORT;
  ++exchange->requests_;
  return CURL_PREREQFUNC_OK;
}

size_t HttpExchange::OnBody(char* data, size_t size, size_t count, void* self) {
  auto* exchange = static_cast<HttpExchange*>(self);
  const size_t bytes = size * count;
  exchange->body_.Add({data, bytes});
  if (!exchange->BodyCut()) return bytes;
  return 0;  // ends the transfer and its connection; the status is known already
}

long HttpExchange::Status() const {
  long status = 0;
  curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
  return status;
}

bool HttpExchange::Answered(CURLcode code) const {
  return code == CURLE_OK || (code == CURLE_WRITE_ERROR && BodyCut());
}

bool HttpExchange::PrepareAgain(CURLcode code, MonotonicMicros now) {
  // libcurl's own repetition met another kept connection that had ended.
  if (code != CURLE_ABORTED_BY_CALLBACK || on_own_connection_ ||
      !absl::StartsWithIgnoreCase(uri_, "https:"))
    return false;
  on_own_connection_ = true;
  curl_easy_setopt(easy_, CURLOPT_FRESH_CONNECT, 1L);
  curl_easy_setopt(easy_, CURLOPT_TIMEOUT_MS, attempt_.MillisLeft(now));
  return true;
}

DeliveryResult HttpExchange::ResultOf(CURLcode code) const {
  if (Answered(code)) {
    const bool has_token = !attempt_.attempt.token.empty();
    return maker_.ResultOf(AnswerOf(Status(), has_token), has_token);
  }
  if (sockets_.checked.refused && requests_ == 0) return AddressRefused();
  DeliveryResult result;
  if (code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL)
    result.status = DeliveryStatus::kRejected;
  else if (requests_ == 0)
    result.status = DeliveryStatus::kFailed;
  result.not_sent = result.status != DeliveryStatus::kUnknown;
  if (code == CURLE_ABORTED_BY_CALLBACK) {
    result.message = kBrokenTwice;
    return result;
  }
  // libcurl's word for a header line above its bound of 100 KiB.
  if (code == CURLE_OUT_OF_MEMORY) {
    result.message = "no HTTP answer: a header line is too long";
    return result;
  }
  result.message =
      CleanText(error_[0] != '\0' ? error_ : curl_easy_strerror(code), kDeliveryMessageBytesMax);
  return result;
}

HttpAnswer HttpExchange::AnswerOf(long status, bool with_outcome) const {
  HttpAnswer answer;
  answer.status = static_cast<int>(status);
  answer.body_head = body_.head;
  if (with_outcome) answer.outcome = Outcome();
  if (SaysWhenToRetry(answer.status)) {
    curl_off_t seconds = 0;
    curl_easy_getinfo(easy_, CURLINFO_RETRY_AFTER, &seconds);
    answer.retry_after = absl::Seconds(seconds);
  }
  return answer;
}

// Returns the last of several lines.
std::string HttpExchange::Outcome() const {
  curl_header* header = nullptr;
  if (curl_easy_header(easy_, kHttpOutcomeHeader, 0, CURLH_HEADER, -1, &header) != CURLHE_OK)
    return "";
  if (header->amount > 1 && curl_easy_header(easy_, kHttpOutcomeHeader, header->amount - 1,
                                             CURLH_HEADER, -1, &header) != CURLHE_OK)
    return "";
  return header->value;
}

}  // namespace escapement::handler
