#include "services/handler/delivery/sqs/batch_request.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "services/handler/delivery/sqs/message.h"

namespace escapement::handler {
void SqsBatchRequest::BeginBody(absl::string_view queue_url) {
  body_ = "{\"QueueUrl\":";
  AppendJsonString(queue_url, &body_);
  body_.append(",\"Entries\":[");
}

void SqsBatchRequest::EndBody() { body_.append("]}"); }

void SqsBatchRequest::Prepare(const std::string& endpoint,
                              const std::vector<std::string>& header_lines, CURL* easy) {
  url_ = absl::StrCat(endpoint, "/");
  // Without this line libcurl asks before it sends a body of more than 1 MiB.
  curl_slist* headers = curl_slist_append(nullptr, "Expect:");
  for (const std::string& line : header_lines) headers = curl_slist_append(headers, line.c_str());
  headers_.reset(headers);
  curl_easy_setopt(easy, CURLOPT_URL, url_.c_str());
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers_.get());
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, body_.data());
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(body_.size()));
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &SqsBatchRequest::OnBody);
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, this);
  curl_easy_setopt(easy, CURLOPT_PREREQFUNCTION, &SqsBatchRequest::BeforeRequest);
  curl_easy_setopt(easy, CURLOPT_PREREQDATA, this);
}

size_t SqsBatchRequest::OnBody(char* data, size_t size, size_t count, void* self) {
  auto* request = static_cast<SqsBatchRequest*>(self);
  const size_t bytes = size * count;
  SqsAnswer& answer = request->answer_;
  if (answer.body.size() + bytes > request->answer_bytes_max_) {
    answer.cut = true;
    return 0;  // ends the transfer and its connection
  }
  answer.body.append(data, bytes);
  return bytes;
}

// libcurl repeats a request up to five times if a kept connection breaks without an answer. One
// repetition is right, because SQS may have closed the connection as idle. More would be attempts
// that are not counted.
int SqsBatchRequest::BeforeRequest(void* self, char*, char*, int, int) {
  return ++static_cast<SqsBatchRequest*>(self)->requests_ > kRequestsMax ? CURL_PREREQFUNC_ABORT
                                                                         : CURL_PREREQFUNC_OK;
}

SqsAnswer SqsBatchRequest::TakeAnswer(CURL* easy) {
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &answer_.status);
  curl_off_t seconds = 0;
  curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &seconds);
  answer_.retry_after = absl::Seconds(seconds);
  return std::move(answer_);
}

}  // namespace escapement::handler
