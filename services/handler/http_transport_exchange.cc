#include "services/handler/http_transport_exchange.h"

#include <algorithm>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/http_transport_headers.h"

namespace escapement::handler {
namespace {

constexpr size_t kBodyHeadBytesMax = 256;
constexpr int kRequestsMax = 2;  // of one attempt
constexpr char kOutcomeHeader[] = "Escapement-Outcome";

// What a person may read of a body: it becomes part of stored text.
std::string Printable(absl::string_view bytes) {
  std::string text(bytes);
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < 0x20 || c > 0x7e; }, ' ');
  return text;
}

}  // namespace

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
    absl::StatusOr<std::string> made = ContextHeaderLines(context);
    if (!made.ok()) return made.status();
    context_lines_ = *std::move(made);
    context_ = attempt.context;
  }
  lines->clear();
  lines->append(definition_lines_);
  lines->append(context_lines_);
  AppendAttemptHeaderLines(attempt, lines);
  return absl::OkStatus();
}

HttpExchange::HttpExchange(const HttpTransport::Options& options, curl_opensocket_callback open,
                           curl_closesocket_callback close, void* owner)
    : response_bytes_max_(options.response_bytes_max), easy_(curl_easy_init()) {
  curl_easy_setopt(easy_, CURLOPT_PRIVATE, this);
  curl_easy_setopt(easy_, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy_, CURLOPT_NOPROGRESS, 1L);
  // The end of a transfer does not wait for a name server that has not answered.
  curl_easy_setopt(easy_, CURLOPT_QUICK_EXIT, 1L);
  curl_easy_setopt(easy_, CURLOPT_ERRORBUFFER, error_);
  curl_easy_setopt(easy_, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy_, CURLOPT_FOLLOWLOCATION, 0L);
  curl_easy_setopt(easy_, CURLOPT_PROXY, "");
  curl_easy_setopt(easy_, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy_, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(easy_, CURLOPT_SSL_VERIFYHOST, 2L);
  curl_easy_setopt(easy_, CURLOPT_CONNECTTIMEOUT_MS,
                   static_cast<long>(absl::ToInt64Milliseconds(options.connect_timeout)));
  curl_easy_setopt(easy_, CURLOPT_OPENSOCKETFUNCTION, open);
  curl_easy_setopt(easy_, CURLOPT_OPENSOCKETDATA, owner);
  curl_easy_setopt(easy_, CURLOPT_CLOSESOCKETFUNCTION, close);
  curl_easy_setopt(easy_, CURLOPT_CLOSESOCKETDATA, owner);
  curl_easy_setopt(easy_, CURLOPT_WRITEFUNCTION, &HttpExchange::OnBody);
  curl_easy_setopt(easy_, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(easy_, CURLOPT_PREREQFUNCTION, &HttpExchange::BeforeRequest);
  curl_easy_setopt(easy_, CURLOPT_PREREQDATA, this);
  curl_easy_setopt(easy_, CURLOPT_POST, 1L);
}

HttpExchange::~HttpExchange() { curl_easy_cleanup(easy_); }

HttpExchange* HttpExchange::Of(CURL* easy) {
  char* exchange = nullptr;
  curl_easy_getinfo(easy, CURLINFO_PRIVATE, &exchange);
  return reinterpret_cast<HttpExchange*>(exchange);
}

absl::Status HttpExchange::Prepare(DeliveryAttempt attempt, std::shared_ptr<DeliverySink> sink,
                                   HeaderCache* headers, long timeout_millis) {
  attempt_ = std::move(attempt);
  sink_ = std::move(sink);
  requests_ = 0;
  body_bytes_ = 0;
  body_cut_ = false;
  body_head_.clear();
  error_[0] = '\0';
  if (absl::Status status = headers->SetLines(attempt_, &header_lines_); !status.ok())
    return status;
  header_list_.data = header_lines_.data();
  const storage::v1::HttpTargetRecord& target =
      attempt_.context->definition->delivery().target().http();
  if (uri_ != target.uri()) {
    uri_ = target.uri();
    if (curl_easy_setopt(easy_, CURLOPT_URL, uri_.c_str()) != CURLE_OK) {
      uri_.clear();
      return absl::InvalidArgumentError("the target's URI cannot be used");
    }
  }
  if (method_ != target.method()) {
    method_ = target.method();
    curl_easy_setopt(easy_, CURLOPT_CUSTOMREQUEST, method_ == "POST" ? nullptr : method_.c_str());
  }
  const std::string& payload = *attempt_.context->payload;
  curl_easy_setopt(easy_, CURLOPT_POSTFIELDS, payload.data());
  curl_easy_setopt(easy_, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(payload.size()));
  curl_easy_setopt(easy_, CURLOPT_HTTPHEADER, &header_list_);
  curl_easy_setopt(easy_, CURLOPT_TIMEOUT_MS, timeout_millis);
  return absl::OkStatus();
}

// libcurl asks for the request again, up to five times, whenever a kept connection breaks without
// an answer. Once is right for one that the consumer had closed as idle; more would be attempts
// that nobody counts.
int HttpExchange::BeforeRequest(void* self, char*, char*, int, int) {
  auto* exchange = static_cast<HttpExchange*>(self);
  return ++exchange->requests_ > kRequestsMax ? CURL_PREREQFUNC_ABORT : CURL_PREREQFUNC_OK;
}

size_t HttpExchange::OnBody(char* data, size_t size, size_t count, void* self) {
  auto* exchange = static_cast<HttpExchange*>(self);
  const size_t bytes = size * count;
  if (exchange->body_head_.size() < kBodyHeadBytesMax) {
    exchange->body_head_.append(data,
                                std::min(bytes, kBodyHeadBytesMax - exchange->body_head_.size()));
  }
  exchange->body_bytes_ += bytes;
  if (exchange->body_bytes_ <= exchange->response_bytes_max_) return bytes;
  exchange->body_cut_ = true;
  return 0;  // ends the transfer and its connection; the status is known
}

DeliveryResult HttpExchange::ResultOf(CURLcode code) const {
  if (code == CURLE_OK || (code == CURLE_WRITE_ERROR && body_cut_)) {
    long status = 0;
    curl_easy_getinfo(easy_, CURLINFO_RESPONSE_CODE, &status);
    return FromStatus(status);
  }
  DeliveryResult result;
  result.status = code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL
                      ? DeliveryStatus::kRejected
                      : DeliveryStatus::kUnknown;
  if (code == CURLE_ABORTED_BY_CALLBACK) {
    result.message = "the connection broke before an answer, and so did a second one";
    return result;
  }
  result.message = Printable(error_[0] != '\0' ? error_ : curl_easy_strerror(code));
  return result;
}

// Of several lines the last counts; what is neither of the two words says nothing.
DeliveryWork HttpExchange::WorkOf() const {
  curl_header* header = nullptr;
  if (curl_easy_header(easy_, kOutcomeHeader, 0, CURLH_HEADER, -1, &header) != CURLHE_OK)
    return DeliveryWork::kGoesOn;
  if (header->amount > 1 && curl_easy_header(easy_, kOutcomeHeader, header->amount - 1,
                                             CURLH_HEADER, -1, &header) != CURLHE_OK)
    return DeliveryWork::kGoesOn;
  const absl::string_view outcome = absl::StripAsciiWhitespace(header->value);
  if (absl::EqualsIgnoreCase(outcome, "succeeded")) return DeliveryWork::kSucceeded;
  if (absl::EqualsIgnoreCase(outcome, "failed")) return DeliveryWork::kFailed;
  return DeliveryWork::kGoesOn;
}

DeliveryResult HttpExchange::FromStatus(long status) const {
  DeliveryResult result;
  if (status >= 200 && status < 300) {
    result.status = DeliveryStatus::kAccepted;
    if (attempt_.token.empty()) return result;
    result.work = WorkOf();
    if (result.work == DeliveryWork::kFailed) result.message = Printable(body_head_);
    return result;
  }
  result.status = status == 410 ? DeliveryStatus::kRejected : DeliveryStatus::kFailed;
  result.message =
      absl::StrCat("HTTP ", status, body_head_.empty() ? "" : ": ", Printable(body_head_));
  if (status == 429 || status == 503) {
    curl_off_t seconds = 0;
    curl_easy_getinfo(easy_, CURLINFO_RETRY_AFTER, &seconds);
    result.retry_after =
        std::min<absl::Duration>(absl::Seconds(seconds), HttpTransport::kRetryAfterMax);
  }
  return result;
}

void HttpExchange::Answer(DeliveryResult result) {
  if (result.message.size() > kDeliveryMessageBytesMax)
    result.message.resize(kDeliveryMessageBytesMax);
  const uint64_t tag = attempt_.tag;
  attempt_ = DeliveryAttempt();
  std::exchange(sink_, nullptr)->OnResult(tag, std::move(result));
}

}  // namespace escapement::handler
