// RestDoor: the public API as REST/JSON, made from the google.api.http annotations.
//
// A request becomes the message of its RPC (request_reader.h) and goes through the server's own
// in-process channel, so validation, deadlines, credentials and errors are those of the gRPC door.
//
//   answers      application/json, 200; ETag if the message has an etag; gzip if the client takes
//   it errors       answer_writer.h; 404 for an unknown path, 405 with Allow for another method
//   If-None-Match on GET: 304 if the etag is still the same
//   deadline     `call_timeout`, or less by the header Request-Timeout (seconds)
//   metadata     authorization and traceparent go on to the RPC, x-request-id too
//
// Threads: Handle from any thread; it does not block.

#ifndef COMMON_REST_REST_DOOR_H_
#define COMMON_REST_REST_DOOR_H_

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

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
    size_t gzip_from_bytes = 1024;    // smaller answers are sent as they are
    size_t body_bytes_max = 4 << 20;  // of an unpacked body
  };

  RestDoor(RouteTable routes, std::shared_ptr<grpc::Channel> in_process, Options options);
  ~RestDoor();
  RestDoor(const RestDoor&) = delete;
  RestDoor& operator=(const RestDoor&) = delete;

  // Answers once, perhaps after this object has gone.
  void Handle(HttpRequest request, HttpResponder respond);

 private:
  class Core;
  std::shared_ptr<Core> core_;
};

}  // namespace escapement::rest

#endif  // COMMON_REST_REST_DOOR_H_
