// SqsMessageWriter: writes attempts as entries of a batch. SqsBatchRequest: the HTTP request of the
// batch. AppendJsonString and SqsIdOf: text as SQS takes it.

#ifndef SERVICES_HANDLER_DELIVERY_SQS_MESSAGE_H_
#define SERVICES_HANDLER_DELIVERY_SQS_MESSAGE_H_

#include <curl/curl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "services/handler/delivery/delivery_transport.h"
#include "services/handler/delivery/sqs/answer.h"

namespace escapement::handler {

// SqsBatchRequest: the HTTP request of one batch, and its answer.
//
// Threads: one at a time.
class SqsBatchRequest {
 public:
  explicit SqsBatchRequest(size_t answer_bytes_max) : answer_bytes_max_(answer_bytes_max) {}

  // The body: SqsMessageWriter appends entries to it, between Begin and End and divided by commas.
  std::string& body() { return body_; }
  void BeginBody(absl::string_view queue_url);
  void EndBody();

  // Sets up a handle. `header_lines`: all that the signature needs (SqsRequestSigner). This object
  // must outlive the transfer.
  void Prepare(const std::string& endpoint, const std::vector<std::string>& header_lines,
               CURL* easy);

  // After the transfer.
  SqsAnswer TakeAnswer(CURL* easy);
  bool answer_cut() const { return answer_.cut; }
  // True once a connection was there for it.
  bool started() const { return requests_ > 0; }
  // True if the kept connection broke, and so did the one of the repetition.
  bool broken_twice() const { return requests_ > kRequestsMax; }

 private:
  static constexpr int kRequestsMax = 2;
  struct FreeList {
    void operator()(curl_slist* list) const { curl_slist_free_all(list); }
  };
  static size_t OnBody(char* data, size_t size, size_t count, void* self);
  static int BeforeRequest(void* self, char*, char*, int, int);

  const size_t answer_bytes_max_;
  std::string body_;
  std::string url_;
  std::unique_ptr<curl_slist, FreeList> headers_;
  int requests_ = 0;
  SqsAnswer answer_;
};

inline constexpr size_t kSqsAttributesMax = 10;

// True if the queue is a FIFO queue.
bool IsFifoQueue(absl::string_view queue_url);

// The message group of the attempts of a context, for a FIFO queue: SqsIdOf the target's message
// group or, if it has none, of the source.
std::string MessageGroupOf(const DeliveryContext& context);

// SqsMessageWriter: writes attempts as entries of a SendMessageBatch request.
//
// Body: the payload. A payload that is not IsXmlText is sent as base64. An empty payload is sent as
// one blank, because SQS needs a body.
//
// Attributes: at most 10, all of type String, the first of these that the attempt has:
//
//   ce_specversion, ce_source, ce_type, ce_time, ce_id
//   ce_datacontenttype          if there is a payload
//   ce_datacontentencoding      "base64", if the body is
//   ce_subject                  not for one-off events
//   escapement_token            if the consumer must give a token back
//   escapement_attempt, escapement_index, escapement_count, escapement_launchtime
//   traceparent                 if the call that created the event had one
//
// So every attempt has all attributes up to escapement_attempt.
//
// Threads: one at a time.
class SqsMessageWriter {
 public:
  // Appends the entry as a JSON object. Returns the bytes that count for the limits of SQS: those
  // of the body, and the names, types and values of the attributes. INVALID_ARGUMENT if a fact has
  // characters that SQS does not take; `json` may then have a part of an entry.
  absl::StatusOr<size_t> Append(const DeliveryAttempt& attempt, size_t entry_id, std::string* json);

 private:
  struct Attribute {
    std::string json;
    size_t bytes = 0;
  };
  absl::Status SetContext(const std::shared_ptr<const DeliveryContext>& context);
  absl::Status AddShared(absl::string_view name, absl::string_view value);

  // For the context of the last attempt, which the next one often has too.
  std::shared_ptr<const DeliveryContext> context_;
  std::string body_;              // a JSON string
  Attribute shared_;              // those that all attempts of the context have
  size_t shared_count_ = 0;       // the number of attributes in `shared_`
  size_t body_bytes_ = 0;         // before the escapes of JSON
  std::vector<Attribute> spare_;  // only sent if there is room
  std::string group_;             // a JSON string; empty unless the queue is a FIFO queue
};

// Text as SQS and its JSON protocol take it. Pure functions.

// Appends a JSON string with its quotes. `text` must be IsXmlText.
void AppendJsonString(absl::string_view text, std::string* json);

// The text itself if it can be the id of a message group or for deduplication: 1 to 128 printable
// ASCII characters without blanks. Otherwise its SHA-256, as 64 hex digits.
std::string SqsIdOf(absl::string_view text);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_SQS_MESSAGE_H_
