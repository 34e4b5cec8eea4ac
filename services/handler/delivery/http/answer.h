// ResultOfAnswer: the result of an attempt, from its HTTP answer.
//
// Pure.

#ifndef SERVICES_HANDLER_DELIVERY_HTTP_ANSWER_H_
#define SERVICES_HANDLER_DELIVERY_HTTP_ANSWER_H_

#include <cstddef>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

inline constexpr size_t kHttpBodyHeadBytesMax = kDeliveryAnswerBytesMax;
// Bytes of the body in the message of a result.
inline constexpr size_t kHttpMessageBodyBytesMax = 256;
inline constexpr char kHttpOutcomeHeader[] = "Escapement-Outcome";

// The part of a body that is kept.
struct HttpBody {
  std::string head;  // its first kHttpBodyHeadBytesMax bytes
  size_t bytes = 0;  // bytes received so far

  void Add(absl::string_view more);
};

struct HttpAnswer {
  int status = 0;
  std::string body_head;  // the first kHttpBodyHeadBytesMax bytes of its body
  std::string outcome;    // the last Escapement-Outcome, if the attempt has a token
  absl::Duration retry_after = absl::ZeroDuration();
};

// The statuses with which Retry-After counts.
inline bool SaysWhenToRetry(int status) { return status == 429 || status == 503; }

// The result if the AddressRule refuses the target's addresses. Its name may get another address,
// so the attempt can be tried again.
DeliveryResult AddressRefused();

// A result that has what the target answered. Its status is kFailed until it is set.
DeliveryResult ResultWithAnswer(const HttpAnswer& answer);

// The beginning of the body as text for a message, after ": "; empty if there is no body.
std::string BodyInMessage(const HttpAnswer& answer);

// Follows the table in http_transport.h.
DeliveryResult ResultOfAnswer(const HttpAnswer& answer, bool has_token);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_HTTP_ANSWER_H_
