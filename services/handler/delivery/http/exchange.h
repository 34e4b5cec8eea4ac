// HttpExchange: one reusable libcurl handle that carries one attempt at a time. It serves requests
// that are not plain (HttpPlace::plain), mostly https.
//
// Threads: one at a time, the transport's.

#ifndef SERVICES_HANDLER_DELIVERY_HTTP_EXCHANGE_H_
#define SERVICES_HANDLER_DELIVERY_HTTP_EXCHANGE_H_

#include <curl/curl.h>

#include <cstddef>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "services/handler/delivery/http/answer.h"
#include "services/handler/delivery/http/curl_multi.h"
#include "services/handler/delivery/http/http_transport.h"
#include "services/handler/delivery/http/request_maker.h"

namespace escapement::handler {

class HttpExchange {
 public:
  // `multi` and `maker` must outlive it.
  HttpExchange(const HttpTransport::Options& options, CurlMulti& multi,
               const HttpRequestMaker& maker);
  ~HttpExchange();
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;

  // Returns the exchange of a handle (its private pointer), or null.
  static HttpExchange* Of(CURL* easy);
  CURL* easy() const { return easy_; }

  // Takes the attempt and prepares the handle for a multi handle. After an error the exchange still
  // has the attempt, and the caller must answer it.
  absl::Status Prepare(HttpAttempt attempt, HttpRequest request, MonotonicMicros now);

  // True if the attempt's request must be sent again, on a new connection: libcurl's own repetition
  // over https met another kept connection that had ended (once). The handle is then prepared.
  bool PrepareAgain(CURLcode code, MonotonicMicros now);
  // True if a transfer that has ended with `code` has an answer.
  bool Answered(CURLcode code) const;
  // The result of a transfer that has ended with `code`.
  DeliveryResult ResultOf(CURLcode code) const;

  // Answers and releases the attempt.
  void Answer(DeliveryResult result) { attempt_.Answer(std::move(result)); }
  const HttpAttempt& attempt() const { return attempt_; }

 private:
  void UseTls(const storage::v1::TlsRecord* tls);
  long Status() const;
  bool BodyCut() const { return body_.bytes > response_bytes_max_; }
  static int BeforeRequest(void* exchange, char*, char*, int, int);
  static size_t OnBody(char* data, size_t size, size_t count, void* exchange);
  HttpAnswer AnswerOf(long status, bool with_outcome) const;
  std::string Outcome() const;

  const size_t response_bytes_max_;
  CurlMulti& multi_;
  const HttpRequestMaker& maker_;
  CURL* const easy_;
  CurlSocketOwner sockets_;
  HttpAttempt attempt_;

  // The options set last, so that equal ones are not set again.
  std::string uri_;
  std::string method_;
  std::string tls_;  // the serialized record

  // All header lines as one list entry. libcurl sends entries unchanged, so one copy is enough.
  std::string header_lines_;
  curl_slist header_list_ = {nullptr, nullptr};
  // Follows it if there is no body: keeps libcurl from sending a Content-Type of its own.
  char no_content_type_[14] = "Content-Type:";
  curl_slist no_content_type_entry_ = {no_content_type_, nullptr};

  int requests_ = 0;                // sent for the attempt
  bool on_own_connection_ = false;  // PrepareAgain asked for a new connection
  HttpBody body_;
  char error_[CURL_ERROR_SIZE] = {};
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_HTTP_EXCHANGE_H_
