// The JSON of answers and errors, and the HTTP status of each gRPC code.
//
// Pure.

#ifndef COMMON_REST_ANSWER_WRITER_H_
#define COMMON_REST_ANSWER_WRITER_H_

#include <google/protobuf/message.h>

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/http/http_server.h"

namespace escapement::rest {

// The status of google/rpc/code.proto, as its comments name it. OK is 200.
int HttpStatusOf(absl::StatusCode code);

// {"error":{"code":404,"message":"…","status":"NOT_FOUND","details":[…]}} with the decoded
// google.rpc details of `status`, with Retry-After if a RetryInfo says when to try again (503 and
// 429).
//
// `condition_failed`: the request had If-Match, so a stale etag is answered with 412.
HttpResponse ErrorAnswer(const absl::Status& status, bool condition_failed = false);
// The same with an HTTP status that no gRPC code has, such as 405 or 413.
HttpResponse ErrorAnswerAs(int http_status, const absl::Status& status);

}  // namespace escapement::rest

#endif  // COMMON_REST_ANSWER_WRITER_H_
