// The request headers of an HTTP delivery: CloudEvents 1.0 in binary mode, and the platform's own.
//
// They are built in parts, so that a sender builds the definition's part once per definition and
// the context's parts once per queue row. Each part consists of lines that end with CR LF, except
// the last line of the attempt's part, which the HTTP client ends.
//
// Pure functions.

#ifndef SERVICES_HANDLER_DELIVERY_HTTP_HEADERS_H_
#define SERVICES_HANDLER_DELIVERY_HTTP_HEADERS_H_

#include <string>

#include "absl/status/statusor.h"
#include "services/handler/delivery/delivery_transport.h"

namespace escapement::handler {

// Content-Type. Empty if the event has no payload, because strict parsers refuse an empty body that
// claims to be JSON. It must be the first line: libcurl looks for it there, and otherwise sends a
// Content-Type of its own.
// INVALID_ARGUMENT if the type cannot stand in a header.
absl::StatusOr<std::string> ContentTypeLine(const DeliveryContext& context);

// The target's own headers, secret ones too, User-Agent, ce-specversion, ce-type.
// INVALID_ARGUMENT if a name or value cannot stand in a header.
absl::StatusOr<std::string> DefinitionHeaderLines(const storage::v1::DefinitionRecord& definition);

// ce-source, ce-time, Escapement-Launch-Time, Escapement-Count.
// INVALID_ARGUMENT if the source or occurrence cannot stand in a header.
absl::StatusOr<std::string> ContextHeaderLines(const DeliveryContext& context);

// ce-id, Idempotency-Key, ce-subject (occurrence/index; not for one-off events),
// Escapement-Attempt, Escapement-Index, Escapement-Token (if there is one), traceparent (trace by
// event, span by attempt).
void AppendAttemptHeaderLines(const DeliveryAttempt& attempt, std::string* lines);

}  // namespace escapement::handler

#endif  // SERVICES_HANDLER_DELIVERY_HTTP_HEADERS_H_
