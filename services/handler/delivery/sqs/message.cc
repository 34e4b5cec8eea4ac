#include "services/handler/delivery/sqs/message.h"

#include <openssl/sha.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "common/base/printable_text.h"
#include "common/base/status_macros.h"
#include "escapement/storage/v1/records.pb.h"
#include "services/handler/delivery/facts.h"

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

namespace {

constexpr absl::string_view kType = "String";
constexpr absl::string_view kBlank = " ";

// Appends `,"name":{...}`. Returns the bytes that count, or INVALID_ARGUMENT.
absl::StatusOr<size_t> AppendAttribute(absl::string_view name, absl::string_view value,
                                       std::string* json) {
  if (!IsXmlText(value)) {
    return absl::InvalidArgumentError(
        absl::StrCat("the event's ", name, " has characters that SQS does not take"));
  }
  absl::StrAppend(json, ",\"", name, "\":{\"DataType\":\"", kType, "\",\"StringValue\":");
  AppendJsonString(value, json);
  json->push_back('}');
  return name.size() + kType.size() + value.size();
}

bool IsSpare(absl::string_view name) {
  return name == "count" || name == "launchtime" || name == "traceparent";
}

}  // namespace

bool IsFifoQueue(absl::string_view queue_url) { return absl::EndsWith(queue_url, ".fifo"); }

std::string MessageGroupOf(const DeliveryContext& context) {
  const std::string& group = context.definition->delivery().target().sqs().message_group_id();
  return SqsIdOf(group.empty() ? context.Source() : group);
}

absl::Status SqsMessageWriter::AddShared(absl::string_view name, absl::string_view value) {
  ASSIGN_OR_RETURN(const size_t bytes, AppendAttribute(name, value, &shared_.json));
  shared_.bytes += bytes;
  ++shared_count_;
  return absl::OkStatus();
}

absl::Status SqsMessageWriter::SetContext(const std::shared_ptr<const DeliveryContext>& context) {
  if (context_ == context) return absl::OkStatus();
  context_.reset();
  body_.clear();
  shared_ = Attribute();
  shared_count_ = 0;
  spare_.clear();
  group_.clear();
  const absl::string_view payload = context->payload;
  const bool text = IsXmlText(payload);
  const std::string encoded = text ? std::string() : absl::Base64Escape(payload);
  const absl::string_view body = payload.empty() ? kBlank : text ? payload : encoded;
  AppendJsonString(body, &body_);
  body_bytes_ = body.size();
  for (const Fact& fact : ContextFactsOf(*context)) {
    if (IsSpare(fact.name)) {
      Attribute spare;
      ASSIGN_OR_RETURN(const size_t bytes,
                       AppendAttribute(fact.attribute, fact.value, &spare.json));
      spare.bytes = bytes;
      spare_.push_back(std::move(spare));
    } else if (absl::Status added = AddShared(fact.attribute, fact.value); !added.ok()) {
      return added;
    }
  }
  if (!text) {
    RETURN_IF_ERROR(AddShared("ce_datacontentencoding", "base64"));
  }
  if (IsFifoQueue(context->definition->delivery().target().sqs().queue_url()))
    AppendJsonString(MessageGroupOf(*context), &group_);
  context_ = context;
  return absl::OkStatus();
}

absl::StatusOr<size_t> SqsMessageWriter::Append(const DeliveryAttempt& attempt, size_t entry_id,
                                                std::string* json) {
  RETURN_IF_ERROR(SetContext(attempt.context));
  absl::StrAppend(json, "{\"Id\":\"", entry_id, "\",\"MessageBody\":", body_);
  if (!group_.empty()) {
    absl::StrAppend(json, ",\"MessageGroupId\":", group_, ",\"MessageDeduplicationId\":");
    AppendJsonString(SqsIdOf(attempt.event_id), json);
  }
  absl::StrAppend(json, ",\"MessageAttributes\":{",
                  absl::string_view(shared_.json).substr(1));  // without its comma
  size_t bytes = body_bytes_ + shared_.bytes;
  size_t count = shared_count_;
  absl::Status status;
  VisitAttemptFacts(attempt,
                    [&](absl::string_view, absl::string_view attribute, absl::string_view value) {
                      if (count == kSqsAttributesMax || !status.ok()) return;
                      const absl::StatusOr<size_t> more = AppendAttribute(attribute, value, json);
                      status = more.status();
                      bytes += more.value_or(0);
                      ++count;
                    });
  if (!status.ok()) return status;
  for (const Attribute& spare : spare_) {
    if (count++ >= kSqsAttributesMax) break;
    json->append(spare.json);
    bytes += spare.bytes;
  }
  json->append("}}");
  return bytes;
}

namespace {

constexpr size_t kSqsIdBytesMax = 128;

// True for those characters that JSON escapes and SQS takes.
constexpr bool NeedsEscape(char c) {
  return c == '"' || c == '\\' || c == '\t' || c == '\n' || c == '\r';
}

}  // namespace

void AppendJsonString(absl::string_view text, std::string* json) {
  json->push_back('"');
  while (!text.empty()) {
    const auto* const plain_end = std::find_if(text.begin(), text.end(), &NeedsEscape);
    const auto plain = static_cast<size_t>(plain_end - text.begin());
    json->append(text.data(), plain);
    text.remove_prefix(plain);
    if (text.empty()) break;
    json->push_back('\\');
    const char c = text.front();
    json->push_back(c == '\t' ? 't' : c == '\n' ? 'n' : c == '\r' ? 'r' : c);
    text.remove_prefix(1);
  }
  json->push_back('"');
}

std::string SqsIdOf(absl::string_view text) {
  if (!text.empty() && text.size() <= kSqsIdBytesMax &&
      std::all_of(text.begin(), text.end(),
                  [](char c) { return absl::ascii_isgraph(static_cast<unsigned char>(c)); })) {
    return std::string(text);
  }
  unsigned char digest[SHA256_DIGEST_LENGTH];
  SHA256(reinterpret_cast<const unsigned char*>(text.data()), text.size(), digest);
  return absl::BytesToHexString({reinterpret_cast<const char*>(digest), sizeof(digest)});
}

}  // namespace escapement::handler
