// RestDoor: the public API as REST/JSON, made from the google.api.http annotations.
//
// A request becomes the message of its RPC (request_reader.h) and goes through the server's own
// in-process channel, so validation, deadlines, credentials and errors are those of the gRPC door.
//
// - Answers are application/json with status 200, packed by gzip if the client accepts it. No cache
//   may keep them (Cache-Control: no-store).
// - A message with an etag has a weak ETag: the etag, a dot, and a hash of the JSON, so it changes
//   whenever anything that is shown changes. A GET whose If-None-Match has it is answered with 304.
// - If-Match takes this ETag, the etag itself, a list of them, or "*". Only the etag counts.
// - Errors are those of request_reader.h. An unknown path is 404, another method of a known path is
//   405 with Allow.
// - The deadline is `call_timeout`, or fewer seconds by the header Request-Timeout.
// - The headers authorization, traceparent, tracestate and x-request-id go on as metadata.
//
// Threads: Handle from any thread; it does not block.

#ifndef COMMON_REST_REST_DOOR_H_
#define COMMON_REST_REST_DOOR_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "common/http/http_server.h"
#include "common/rest/route_table.h"

namespace grpc {
class Channel;
}  // namespace grpc

namespace escapement::rest {

class RestDoor {
 public:
  struct Options {
    absl::Duration call_timeout = absl::Seconds(60);
    // Origins whose pages may call ("https://ops.example.com"); "*" = any, without credentials.
    // Empty: no CORS headers, so browsers refuse.
    std::vector<std::string> cors_origins = {};
    // Asked before anything else reads the request; it may change the request's headers. An error
    // is the answer. Null: none.
    std::function<absl::Status(HttpRequest&)> admit = nullptr;
    size_t gzip_from_bytes = 1024;  // smaller answers are sent as they are
    // Bound of an unpacked body: 8 MiB of a batch of events, with its payloads in base64.
    size_t body_bytes_max = 12 << 20;
  };

  RestDoor(RouteTable routes, std::shared_ptr<grpc::Channel> in_process, Options options);
  // Waits for calls under way, which end when the gRPC server has shut down.
  ~RestDoor();
  RestDoor(const RestDoor&) = delete;
  RestDoor& operator=(const RestDoor&) = delete;

  // Routes /v1/ of the server here, with the errors that the server itself finds there.
  void AddTo(HttpServer& http);

  // Answers once.
  void Handle(HttpRequest request, HttpResponder respond);

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace escapement::rest

#endif  // COMMON_REST_REST_DOOR_H_
