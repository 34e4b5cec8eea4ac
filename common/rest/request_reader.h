// ReadRequest: makes the request of an RPC from path, query and JSON body.
//
//   - A field that the path gives may stand in the body, too, but not with another value.
//   - The body is JSON as strict_json.h has it: lowerCamelCase or the proto's own names, unknown
//     fields refused, 64-bit integers as strings or numbers.
//   - With body "*" there is no query. Otherwise each query parameter names a field: "pageSize=10",
//     "schedule.labels" is not possible, a repeated field is given several times.
//   - Idempotency-Key fills `request_id`, If-Match fills `etag` (of the request, or of the field
//     that is the body). A value in the request that differs from the header's is refused.
//
// Pure.

#ifndef COMMON_REST_REQUEST_READER_H_
#define COMMON_REST_REQUEST_READER_H_

#include <google/protobuf/message.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/http/http_server.h"
#include "common/rest/route_table.h"

namespace escapement::rest {

struct RestRequest {
  std::vector<std::pair<std::string, std::string>> bindings;  // variables of the path, with values
  absl::string_view query = {};                               // still encoded
  absl::string_view body = {};
  absl::string_view idempotency_key = {};  // "" if there is none
  absl::string_view if_match = {};         // with its quotes; "" if there is none, or it is "*"
};

// The bytes of the request message. INVALID_ARGUMENT with the field's name. They may be bytes that
// no message takes (JsonToBytes): the method's own reader refuses those.
absl::StatusOr<std::string> ReadRequest(const RestRoute& route, const RestRequest& request);

// True if the body is packed. INVALID_ARGUMENT, reason UNSUPPORTED_ENCODING: by something else than
// gzip. The answer is 415.
absl::StatusOr<bool> BodyIsGzip(const HttpRequest& request);

// The JSON of answers and errors, and the HTTP status of each gRPC code.
//
// Pure.

// Headers of every answer: no cache keeps what a credential was needed for, and no browser takes
// the answer for anything but its Content-Type.
std::vector<std::pair<std::string, std::string>> AnswerHeaders();

// The status of google/rpc/code.proto, as its comments name it. OK is 200.
int HttpStatusOf(absl::StatusCode code);

// {"error":{"code":404,"message":"…","status":"NOT_FOUND","details":[…]}} with the decoded
// google.rpc details of `status`, of which one is an ErrorInfo, with Retry-After if a RetryInfo
// says when to try again (503 and 429).
//
// `condition_failed`: the request had If-Match, so a stale etag is answered with 412.
HttpResponse ErrorAnswer(const absl::Status& status, bool condition_failed = false);
// The same with an HTTP status that no gRPC code has, such as 405 or 413.
HttpResponse ErrorAnswerAs(int http_status, const absl::Status& status);

}  // namespace escapement::rest

#endif  // COMMON_REST_REQUEST_READER_H_
