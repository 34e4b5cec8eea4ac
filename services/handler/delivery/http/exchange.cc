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
  curl_easy_setopt(easy_, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_2TLS));
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
  attempt_.body = std::move(request.body);
  requests_ = 0;
  on_own_connection_ = false;
  body_ = HttpBody();
  error_[0] = '\0';
  header_lines_ = std::move(request.lines);
  header_list_.data = header_lines_.data();
  if (uri_ != request.uri) {
    uri_ = std::string(request.uri);
    // Over https, a request waits until it is known whether a connection takes several at once.
    curl_easy_setopt(easy_, CURLOPT_PIPEWAIT, absl::StartsWithIgnoreCase(uri_, "https:") ? 1L : 0L);
    if (curl_easy_setopt(easy_, CURLOPT_URL, uri_.c_str()) != CURLE_OK) {
      uri_.clear();
      return absl::InvalidArgumentError("the target's URI cannot be used");
    }
  }
  const std::string& body = *attempt_.body;
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

// If the server has announced the end of an HTTP/2 connection (GOAWAY), libcurl 7.88 reports errors
// of streams whose answers are there.
bool HttpExchange::Answered(CURLcode code) const {
  if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && BodyCut())) return true;
  long version = 0;
  curl_easy_getinfo(easy_, CURLINFO_HTTP_VERSION, &version);
  return version == CURL_HTTP_VERSION_2_0 && Status() >= 200 &&
         (code == CURLE_HTTP2_STREAM || code == CURLE_PARTIAL_FILE);
}

bool HttpExchange::PrepareAgain(CURLcode code) {
  // Without a status, CURLE_PARTIAL_FILE says that the server ended the connection before it took
  // the request.
  const bool refused =
      code == CURLE_HTTP2 || code == CURLE_HTTP2_STREAM || code == CURLE_PARTIAL_FILE;
  // libcurl's own repetition met another connection that ended.
  const bool again =
      code == CURLE_ABORTED_BY_CALLBACK && absl::StartsWithIgnoreCase(uri_, "https:");
  if (on_own_connection_ || Status() != 0 || !(refused || again)) return false;
  on_own_connection_ = true;
  curl_easy_setopt(easy_, CURLOPT_FRESH_CONNECT, 1L);
  return true;
}

DeliveryResult HttpExchange::ResultOf(CURLcode code) const {
  if (Answered(code)) {
    const bool has_token = !attempt_.attempt.token.empty();
    return maker_.ResultOf(AnswerOf(Status(), has_token), has_token);
  }
  if (sockets_.checked.refused) return AddressRefused();
  DeliveryResult result;
  result.status = code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL
                      ? DeliveryStatus::kRejected
                      : DeliveryStatus::kUnknown;
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
