// HTTP deliveries: derives the result of an attempt from the target's answer (HttpAnswer,
// ResultOfAnswer), and builds the header lines of the request.

#ifndef SERVICES_HANDLER_DELIVERY_HTTP_ANSWER_H_
#define SERVICES_HANDLER_DELIVERY_HTTP_ANSWER_H_

#include <cstddef>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

// ResultOfAnswer: the result of an attempt, from its HTTP answer.
//
// Pure.

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

// The request headers of an HTTP delivery: CloudEvents 1.0 in binary mode, and the platform's own.
//
// They are built in parts, so that a sender builds the definition's part once per definition and
// the context's parts once per queue row. Each part consists of lines that end with CR LF, except
// the last line of the attempt's part, which the HTTP client ends.
//
// Pure functions.

// Content-Type. Empty if the event has no payload, because strict parsers refuse an empty body that
// claims to be JSON. It must be the first line: libcurl looks for it there, and otherwise sends a
// Content-Type of its own.
// INVALID_ARGUMENT if the type cannot stand in a header.
absl::StatusOr<std::string> ContentTypeLine(const DeliveryContext& context);

// The target's own headers, secret ones too, User-Agent, ce-specversion, ce-type.
// INVALID_ARGUMENT if a name or value cannot stand in a header.
absl::StatusOr<std::string> DefinitionHeaderLines(const storage::v1::DefinitionRecord& definition);

// ce-source, ce-time, Escapement-Launch-Time, Escapement-Count, traceparent (if there is one).
// INVALID_ARGUMENT if the source or occurrence cannot stand in a header.
absl::StatusOr<std::string> ContextHeaderLines(const DeliveryContext& context);

// ce-id, Idempotency-Key, ce-subject (occurrence/index; not for one-off events),
// Escapement-Attempt, Escapement-Index, Escapement-Token (if there is one).
void AppendAttemptHeaderLines(const DeliveryAttempt& attempt, std::string* lines);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_HTTP_ANSWER_H_
