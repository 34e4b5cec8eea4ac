// SqsBatchRequest: the HTTP request of one batch, and its answer.
//
// Threads: one at a time.

#ifndef SERVICES_HANDLER_DELIVERY_SQS_BATCH_REQUEST_H_
#define SERVICES_HANDLER_DELIVERY_SQS_BATCH_REQUEST_H_

#include <curl/curl.h>

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "services/handler/delivery/sqs/answer.h"

namespace escapement::handler {

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

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_SQS_BATCH_REQUEST_H_
