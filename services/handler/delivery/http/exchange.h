// HttpExchange: one reusable libcurl handle that carries one attempt at a time, and what its end
// means. For what is more than a plain request (HttpPlace::plain): https above all.
//
// Threads: one at a time (the transport's).

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
#include "services/handler/delivery/http/request.h"

namespace escapement::handler {

class HttpExchange {
 public:
  HttpExchange(const HttpTransport::Options& options, CurlMulti& multi);
  ~HttpExchange();
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;

  // Of the handle's private pointer, which is the exchange (or null).
  static HttpExchange* Of(CURL* easy);
  CURL* easy() const { return easy_; }

  // Takes the attempt and makes the handle ready to be added to a multi handle. `lines`: of
  // HeaderCache. On an error the attempt stays with the exchange, to be answered.
  absl::Status Prepare(HttpAttempt attempt, const std::string& lines, HttpMicros now);

  // After the transfer has ended with `code`.
  DeliveryResult ResultOf(CURLcode code) const;

  // Answers the attempt and lets go of it.
  void Answer(DeliveryResult result) { attempt_.Answer(std::move(result)); }
  void* owner() const { return attempt_.owner; }

 private:
  bool BodyCut() const { return body_.bytes > response_bytes_max_; }
  static int BeforeRequest(void* exchange, char*, char*, int, int);
  static size_t OnBody(char* data, size_t size, size_t count, void* exchange);
  HttpAnswer AnswerOf(long status, bool with_outcome) const;
  std::string Outcome() const;

  const size_t response_bytes_max_;
  CURL* const easy_;
  HttpAttempt attempt_;

  // What the handle was last told, so as not to tell it again.
  std::string uri_;
  std::string method_;

  // All header lines as one list entry: libcurl sends entries as they are, so one copy does for all
  // of them.
  std::string header_lines_;
  curl_slist header_list_ = {nullptr, nullptr};
  // Behind it where there is no body: keeps libcurl from sending a type of its own.
  char no_content_type_[14] = "Content-Type:";
  curl_slist no_content_type_entry_ = {no_content_type_, nullptr};

  int requests_ = 0;  // of this attempt
  HttpBody body_;
  char error_[CURL_ERROR_SIZE] = {};
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_HTTP_EXCHANGE_H_
