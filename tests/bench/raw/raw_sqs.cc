#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/bench/raw/raw_limits.h"

namespace escapement::bench {
namespace {

constexpr uint64_t kEntries = 10;
constexpr std::pair<const char*, const char*> kAttributes[] = {
    {"ce_specversion", "1.0"},
    {"ce_source", "/tenants/default/schedules/bench-1"},
    {"ce_type", "escapement.trigger.v1"},
    {"ce_time", "2026-03-01T00:00:00Z"},
    {"ce_datacontenttype", "application/json"},
    {"ce_id", "0123456789abcdef0123456789abcdef"},
    {"ce_subject", "2026-03-01T00:00:00Z/1234"},
    {"escapement_attempt", "1"},
    {"traceparent", "00-0123456789abcdef0123456789abcdef-0123456789abcdef-00"},
    {"escapement_index", "1234"},
};

std::string BodyOf(const std::string& queue_url, size_t payload_bytes) {
  std::string body = absl::StrCat("{\"QueueUrl\":\"", queue_url, "\",\"Entries\":[");
  for (uint64_t i = 0; i < kEntries; ++i) {
    absl::StrAppend(&body, i == 0 ? "" : ",", "{\"Id\":\"", i, "\",\"MessageBody\":\"",
                    std::string(payload_bytes, 'r'), "\",\"MessageAttributes\":{");
    const char* comma = "";
    for (const auto& [name, value] : kAttributes) {
      absl::StrAppend(&body, comma, "\"", name, "\":{\"DataType\":\"String\",\"StringValue\":\"",
                      value, "\"}");
      comma = ",";
    }
    body.append("}}");
  }
  return body.append("]}");
}

}  // namespace

double RawSqs(const std::string& origin, const std::string& queue_url,
              const std::string& credentials, uint64_t messages, size_t payload_bytes,
              int in_flight) {
  const std::string body = BodyOf(queue_url, payload_bytes);
  const std::string url = origin + "/";
  curl_slist* headers = curl_slist_append(nullptr, "Content-Type: application/x-amz-json-1.0");
  headers = curl_slist_append(headers, "X-Amz-Target: AmazonSQS.SendMessageBatch");
  std::vector<CurlHandle> handles;
  for (int i = 0; i < in_flight; ++i) {
    CurlHandle easy = NewCurlHandle();
    curl_easy_setopt(easy.get(), CURLOPT_URL, url.c_str());
    curl_easy_setopt(easy.get(), CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
    curl_easy_setopt(easy.get(), CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(easy.get(), CURLOPT_POSTFIELDS, body.data());
    curl_easy_setopt(easy.get(), CURLOPT_POSTFIELDSIZE, static_cast<long>(body.size()));
    curl_easy_setopt(easy.get(), CURLOPT_AWS_SIGV4, "aws:amz:eu-central-1:sqs");
    curl_easy_setopt(easy.get(), CURLOPT_USERPWD, credentials.c_str());
    handles.push_back(std::move(easy));
  }
  const double rate = CurlRate(handles, messages / kEntries) * static_cast<double>(kEntries);
  handles.clear();
  curl_slist_free_all(headers);
  return rate;
}

}  // namespace escapement::bench
