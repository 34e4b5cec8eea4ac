// HttpExchange: one reusable libcurl handle that carries one attempt at a time, and what its end
// means.
//
// Threads: one at a time (the transport's).

#ifndef SERVICES_HANDLER_HTTP_TRANSPORT_EXCHANGE_H_
#define SERVICES_HANDLER_HTTP_TRANSPORT_EXCHANGE_H_

#include <curl/curl.h>

#include <cstddef>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "services/handler/delivery_transport.h"
#include "services/handler/http_transport.h"

namespace escapement::handler {

// Keeps the header lines of the last definition and the last row, which the next attempt often
// shares.
class HeaderCache {
 public:
  // Sets `*lines` to all header lines of the attempt. INVALID_ARGUMENT as the functions of
  // http_transport_headers.h.
  absl::Status SetLines(const DeliveryAttempt& attempt, std::string* lines);

 private:
  std::shared_ptr<const storage::v1::DefinitionRecord> definition_;
  std::string definition_lines_;
  std::shared_ptr<const DeliveryContext> context_;
  std::string context_lines_;
};

class HttpExchange {
 public:
  // `open` and `close` are libcurl's socket callbacks, given `owner`.
  HttpExchange(const HttpTransport::Options& options, curl_opensocket_callback open,
               curl_closesocket_callback close, void* owner);
  ~HttpExchange();
  HttpExchange(const HttpExchange&) = delete;
  HttpExchange& operator=(const HttpExchange&) = delete;

  // Of the handle's private pointer, which is the exchange.
  static HttpExchange* Of(CURL* easy);
  CURL* easy() const { return easy_; }

  // Takes the attempt and makes the handle ready to be added to a multi handle. On an error the
  // attempt stays with the exchange, to be answered.
  absl::Status Prepare(DeliveryAttempt attempt, std::shared_ptr<DeliverySink> sink,
                       HeaderCache* headers, long timeout_millis);

  // After the transfer has ended with `code`.
  DeliveryResult ResultOf(CURLcode code) const;

  // Answers the attempt and lets go of it.
  void Answer(DeliveryResult result);

 private:
  static int BeforeRequest(void* exchange, char*, char*, int, int);
  static size_t OnBody(char* data, size_t size, size_t count, void* exchange);
  DeliveryResult FromStatus(long status) const;
  DeliveryWork WorkOf() const;

  const size_t response_bytes_max_;
  CURL* const easy_;
  DeliveryAttempt attempt_;
  std::shared_ptr<DeliverySink> sink_;

  // What the handle was last told, so as not to tell it again.
  std::string uri_;
  std::string method_;

  // All header lines as one list entry: libcurl sends entries as they are, so one copy does for all
  // of them.
  std::string header_lines_;
  curl_slist header_list_ = {nullptr, nullptr};

  int requests_ = 0;  // of this attempt
  size_t body_bytes_ = 0;
  bool body_cut_ = false;
  std::string body_head_;  // the first bytes of the response's body, for the message
  char error_[CURL_ERROR_SIZE] = {};
};

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_HTTP_TRANSPORT_EXCHANGE_H_
